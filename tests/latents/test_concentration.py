"""The mass between a marginal and the uniform distribution, against integrals of one dimension."""

import numpy as np
import pytest
from scipy import integrate, special, stats

from ident3d.errors import UserError
from ident3d.latents.distributions.by_name import marginal, uniforms
from ident3d.latents.distributions.concentration import mass_to_move, relative_density
from ident3d.latents.distributions.spaces import Box, Sphere, Unbounded


@pytest.mark.parametrize("sigma", [0.03, 0.3, 3.0])
def test_one_dimensional_box(sigma: float) -> None:
    p = stats.truncnorm(-0.5 / sigma, 0.5 / sigma, 0.5, sigma)
    exact = integrate.quad(lambda z: abs(p.pdf(z) - 1) / 2, 0, 1, points=[0.4, 0.5, 0.6], limit=200)[0]
    assert mass_to_move(marginal("normal", Box(1, 0, 1), sigma=sigma)) == pytest.approx(
        exact, abs=4 * 0.5 / 200_000**0.5
    )


@pytest.mark.parametrize("kappa", [2.0**-6, 1, 10, 64])
def test_von_mises_fisher_on_the_sphere(kappa: float) -> None:
    """Through the density of cos θ: ∝ (1 - t²)^((d-3)/2) for uniform z, times e^(κt) for p."""
    base = special.beta(4.5, 0.5)
    total = integrate.quad(lambda t: np.exp(kappa * (t - 1)) * (1 - t * t) ** 3.5 / base, -1, 1)[0]
    exact = integrate.quad(lambda t: abs(np.exp(kappa * (t - 1)) / total - 1) / 2 * (1 - t * t) ** 3.5 / base, -1, 1)[0]
    assert mass_to_move(marginal("vmf", Sphere(10), kappa=kappa)) == pytest.approx(exact, abs=4 * 0.5 / 200_000**0.5)


@pytest.mark.parametrize(("name", "settings"), [("laplace", {"sigma": 0.2}), ("gennorm", {"sigma": 0.2, "p": 4})])
def test_densities_integrate_to_one(name: str, settings: dict[str, float]) -> None:
    box = Box(3, 0, 1)
    z = marginal("uniform", box).sample(200_000, uniforms(np.random.default_rng(1)))
    ratio = relative_density(marginal(name, box, **settings), z)
    assert ratio.mean() == pytest.approx(1, abs=5 * ratio.std() / 200_000**0.5)


def test_ends_of_the_scale() -> None:
    assert mass_to_move(marginal("uniform", Sphere(10))) == 0
    assert mass_to_move(marginal("vmf", Sphere(10), kappa=0)) == 0
    assert mass_to_move(marginal("normal", Box(10, 0, 1), sigma=2.0**-5)) > 0.999


def test_what_is_not_known() -> None:
    with pytest.raises(UserError, match="marginals on the box"):
        relative_density(marginal("normal", Unbounded(2), sigma=1), np.zeros((1, 2)))
    with pytest.raises(UserError, match="too small for 1000"):
        mass_to_move(marginal("vmf", Sphere(1000), kappa=1e-3), draws=10)
