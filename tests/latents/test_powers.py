"""exp, tanh and powers of a graph's formulas: the last digit, the order of results, and the same bits everywhere."""

import hashlib
from collections.abc import Callable
from decimal import Decimal, localcontext

import numpy as np
import pytest
from numpy.typing import NDArray

from ident3d.latents.exact.powers import exponential, power, tanh

Float64 = NDArray[np.float64]
GRID = np.arange(-20_000, 20_001) / 20_000
# No power of NumPy's among the numbers that are hashed: its last digit depends on the machine.
ABOVE_0 = np.concatenate([np.abs(GRID), 1 + GRID / 1e6, np.ldexp(1 + np.abs(GRID), np.arange(GRID.size) % 120 - 60)])


@pytest.mark.parametrize(
    ("ours", "numpys", "x"),
    [
        (exponential, np.exp, np.concatenate([GRID, 690 * GRID, GRID / 1e5])),
        (tanh, np.tanh, np.concatenate([GRID, 30 * GRID, GRID / 1e5, 10.0 ** (-300 * np.abs(GRID))])),
        *[(lambda x, e=e: power(x, e), lambda x, e=e: x**e, ABOVE_0) for e in (0.5, 1 / 3, 2, 2.5, 7)],
        (lambda x: power(x, -1.7), lambda x: x**-1.7, ABOVE_0[ABOVE_0 > 0]),
        (lambda x: power(x, 3), lambda x: x**3, -ABOVE_0),
    ],
)
def test_within_a_unit_in_the_last_place_of_numpy(
    ours: Callable[[Float64], Float64], numpys: Callable[[Float64], Float64], x: Float64
) -> None:
    expected = numpys(x)
    assert (np.abs(ours(x) - expected) <= np.spacing(np.abs(expected))).all()


def units_off(found: Float64, true: list[Decimal]) -> float:
    """The largest error in units of the last place; 0.5 is what rounding alone leaves."""
    places = [Decimal(float(place)) for place in np.spacing(np.abs(found))]
    errors = [abs(Decimal(float(f)) - t) / place for f, t, place in zip(found, true, places, strict=True)]
    return float(max(errors))


def test_rounded_as_the_true_value_is() -> None:
    x = np.random.default_rng(0).uniform(-4, 4, 300)
    with localcontext() as context:
        context.prec = 60
        numbers = [Decimal(value) for value in x.tolist()]
        twice = [(2 * number).exp() for number in numbers]
        assert units_off(exponential(x), [number.exp() for number in numbers]) < 0.5001
        assert units_off(tanh(x), [(t - 1) / (t + 1) for t in twice]) < 0.5001
        roots = [(abs(number).ln() * Decimal.from_float(-2.3)).exp() for number in numbers]
        assert units_off(power(np.abs(x), -2.3), roots) < 0.5001


@pytest.mark.parametrize("function", [exponential, tanh, lambda x: power(x, 3), lambda x: power(np.abs(x), 0.7)])
def test_a_larger_number_never_gives_less(function: Callable[[Float64], Float64]) -> None:
    for start in (1e-9, 0.01, 0.3465735, 0.6931471, 1.0, 5.5):
        steps = start + np.spacing(start) * np.arange(4000)
        assert (np.diff(function(steps)) >= 0).all(), start
    assert (np.diff(function(np.abs(GRID[20_000:]) * 8)) >= 0).all()


def test_special_values() -> None:
    assert exponential([0, -1000, 1]).tolist() == [1, 0, np.e]
    assert tanh([0, -0.0, 1000, -1000]).tobytes() == np.array([0, 0, 1, -1.0]).tobytes()
    assert power([0, -2, 3], 2).tolist() == [0, 4, 9]
    assert power([0, -2, 3], 0).tolist() == [1, 1, 1]
    assert power([-2, 2], -3).tolist() == [-0.125, 0.125]
    assert power([0, 0.25, 2], 0.5).tolist() == [0, 0.5, np.sqrt(2)]


def test_every_machine_gets_these_bytes() -> None:
    """Recorded once; a machine on which this fails would break the promise that latents agree everywhere."""
    parts = [exponential(300 * GRID), tanh(5 * GRID), *(power(ABOVE_0[1:], e) for e in (0.5, 2.5, 3)), power(GRID, 5)]
    digest = hashlib.sha256(b"".join(np.ascontiguousarray(part, "<f8").tobytes() for part in parts)).hexdigest()
    assert digest == "44874e9af37578518be1cd9ccbb1472a680c7eaed4db044b3acab670405130fc"
