"""Exact noise: SciPy's distributions, by arithmetic that agrees on every machine."""

import hashlib

import numpy as np
import pytest
from scipy import stats

from ident3d.latents.distributions import quantile_tables
from ident3d.latents.exact.families import CELLS, angle_table, noise, power_table, truncated

U = (np.arange(20_000) + 0.5) / 20_000
SCIPY = {
    ("normal", 3.0): stats.norm,
    ("laplace", 3.0): stats.laplace,
    ("uniform", 3.0): stats.uniform(-1, 2),
    ("gennorm", 1.0): stats.gennorm(1),
    ("gennorm", 3.0): stats.gennorm(3),
    ("gennorm", 40.0): stats.gennorm(40),
}


@pytest.mark.parametrize("case", SCIPY)
def test_noise_has_the_familys_quantiles(case: tuple[str, float]) -> None:
    found = noise(*case, U)
    np.testing.assert_allclose(SCIPY[case].cdf(found), U, atol=2e-6)
    assert (np.diff(found) > 0).all()


@pytest.mark.parametrize("centre", [-0.8, 0.1, 1.05])
@pytest.mark.parametrize("scale", [0.05, 0.3, 4.0])
@pytest.mark.parametrize("case", SCIPY)
def test_draws_are_truncated_to_the_range(case: tuple[str, float], centre: float, scale: float) -> None:
    if case[0] != "normal" and case[0] != "laplace" and centre > 0.9 - scale:
        centre = 0.9
    z = truncated(*case, -0.9, 0.9, np.asarray(centre), np.asarray(scale), U)
    cdf = SCIPY[case].cdf
    low, high = (cdf((end - centre) / scale) for end in (-0.9, 0.9))
    found = (cdf((z - centre) / scale) - low) / (high - low)
    # A normal below the middle counts from the other end.
    np.testing.assert_allclose(np.sort(found), U, atol=2e-5)
    assert np.abs(z).max() <= 0.9


def test_tables_are_those_of_the_maths_library() -> None:
    mass = power_table(3.0)
    x = np.linspace(-2, 2, 101)
    np.testing.assert_allclose(mass.mass(x) / mass.below[-1], 2 * stats.gennorm(3).cdf(x) - 1, atol=1e-7)
    np.testing.assert_allclose(mass.quantile(mass.mass(x)), x, atol=1e-6)
    for kappa in (0.5, 20.0, 5000.0):
        table, score = angle_table(8, kappa), np.linspace(-4, 4, 401)
        theirs = quantile_tables.look_up(quantile_tables.von_mises_fisher_angle(8, kappa), -8.5, score)
        np.testing.assert_allclose(table.mass(theirs) / table.below[-1], stats.norm.cdf(score), atol=1e-5)
        assert len(table.density) == CELLS + 1


def test_every_machine_gets_these_bytes() -> None:
    drawn = [truncated(*case, -0.9, 0.9, np.asarray(0.5), np.asarray(0.4), U) for case in SCIPY]
    drawn += [angle_table(8, kappa).quantile(U * angle_table(8, kappa).below[-1]) for kappa in (2.0, 900.0)]
    found = hashlib.sha256(np.stack(drawn).astype("<f8").tobytes()).hexdigest()
    assert found == "b9ecdbba8cc9e006cd823739a21e8eb38353a423f31eb54dc2fd8769f021210a"
