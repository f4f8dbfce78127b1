"""The asked-for distribution of |z̃ - z| against draws and against formulas."""

import numpy as np
import pytest
from scipy import stats

from ident3d.latents.distributions.by_name import conditional, marginal, uniforms
from ident3d.latents.distributions.conditionals import Conditional
from ident3d.latents.distributions.differences import difference_cdf, expected_abs_difference
from ident3d.latents.distributions.spaces import Box, Product, Sphere, Unbounded


@pytest.mark.parametrize("name", ["normal", "laplace", "gennorm", "uniform"])
def test_box_against_draws(name: str) -> None:
    made = conditional(name, Box(3), sigma=[0.02, 0.3, 5.0])
    rng = np.random.default_rng(0)
    z = rng.uniform(-1, 1, (100_000, 3))
    drawn = np.abs(made.sample(z, uniforms(rng)) - z)
    levels = np.linspace(0.005, 0.995, 100)
    for k, delta in enumerate(np.quantile(drawn, levels, axis=0).T):  # Kolmogorov's bound for a chance of 1e-5
        assert np.abs(difference_cdf(made, delta)[:, k] - levels).max() < 2.47 / np.sqrt(100_000)
    np.testing.assert_allclose(expected_abs_difference(made), drawn.mean(axis=0), rtol=0.02)


def test_formulas() -> None:
    """E|x| = σ √(2/π) for the unbounded normal; two independent uniforms on [0, 1] differ by 1/3 on average."""
    normal = conditional("normal", Unbounded(2), sigma=[1.0, 3.0])
    np.testing.assert_allclose(expected_abs_difference(normal), np.sqrt(2 / np.pi) * np.array([1, 3]), rtol=1e-5)
    medians = stats.norm.ppf(0.75) * np.array([1, 3])
    np.testing.assert_allclose(difference_cdf(normal, medians).diagonal(), 0.5, rtol=1e-5)
    far = conditional("uniform", Box(1, 0, 1), sigma=10)
    np.testing.assert_allclose(expected_abs_difference(far), 1 / 3, rtol=1e-5)
    delta = np.array([0.1, 0.5, 0.9])
    np.testing.assert_allclose(difference_cdf(far, delta)[:, 0], 1 - (1 - delta) ** 2, atol=1e-6)


def test_content_does_not_differ() -> None:
    made = conditional("normal", Box(2), sigma=0.1, only=[1])
    assert expected_abs_difference(made)[0] == 0
    assert difference_cdf(made, [0.0])[0, 0] == 1


def test_given_anchors_count() -> None:
    """All anchors on the edge of the box: a half-normal, once more truncated by nothing."""
    made = conditional("normal", Box(1), sigma=0.1)
    edge = np.ones((50, 1))
    delta = np.array([0.05, 0.1, 0.3])
    np.testing.assert_allclose(difference_cdf(made, delta, edge)[:, 0], stats.halfnorm(scale=0.1).cdf(delta), atol=1e-9)


@pytest.mark.parametrize(
    "made",
    [
        conditional("vmf", Sphere(5), kappa=20),
        conditional("normal", Sphere(5), sigma=0.2),
        conditional("normal,vmf", Product((Box(2), Sphere(5))), sigma=0.2, kappa=20),
    ],
)
def test_counted_on_draws(made: Conditional) -> None:
    mean = expected_abs_difference(made)
    np.testing.assert_allclose(mean[-4:], mean[-5], rtol=0.02)  # no coordinate of the sphere is special
    uniform = uniforms(np.random.default_rng(0))
    z = marginal("uniform", made.space).sample(100_000, uniform)
    drawn = np.abs(made.sample(z, uniform) - z)
    np.testing.assert_allclose(mean, drawn.mean(axis=0), rtol=0.02)
    for k, column in enumerate(np.quantile(drawn, [0.1, 0.5, 0.9], axis=0).T):
        np.testing.assert_allclose(difference_cdf(made, column)[:, k], [0.1, 0.5, 0.9], atol=0.01)
