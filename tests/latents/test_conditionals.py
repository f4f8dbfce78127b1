"""Conditionals: golden statistics, closed-form moments, NumPy against torch, edges and extreme widths."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import special, stats
from torch.overrides import TorchFunctionMode

from ident3d.errors import UserError
from ident3d.latents.distributions import quantile_tables as tables
from ident3d.latents.distributions.by_name import conditional, marginal, uniforms
from ident3d.latents.distributions.conditionals import Conditional
from ident3d.latents.distributions.families import Family, GeneralizedNormal, Laplace, Normal, Window
from ident3d.latents.distributions.spaces import Box, Product, Space, Sphere, Unbounded

GOLDEN = np.load(Path(__file__).parent.parent / "data/golden/expected_samplers.npz", allow_pickle=False)
BIMODAL, LINEAR = [25.0] * 5 + [5.0] * 5, np.linspace(5, 25, 10).tolist()
CASES: dict[str, Conditional] = {
    "box_normal": conditional("normal", Box(10, 0, 1), sigma=0.05),
    "box_laplace": conditional("laplace", Box(10, 0, 1), sigma=0.05),
    "box_generalized_normal_p3": conditional("gennorm", Box(10, 0, 1), sigma=0.05, p=3),
    "vmf_kappa1": conditional("vmf", Sphere(10), kappa=1),
    "vmf_kappa10": conditional("vmf", Sphere(10), kappa=10),
    "vmf_kappa100": conditional("vmf", Sphere(10), kappa=100),
    "sphere_projected_normal": conditional("normal", Sphere(10), sigma=0.2),
    "rejected_projected_normal_bimodal": conditional("rejected_normal", Sphere(10), precision=BIMODAL),
    "rejected_projected_normal_linear": conditional("rejected_normal", Sphere(10), precision=LINEAR),
    "rejected_projected_normal_scalar": conditional("rejected_normal", Sphere(10), precision=15),
    "rejected_projected_normal_bimodal_wide": conditional(
        "rejected_normal", Sphere(10), precision=BIMODAL, threshold=0.4
    ),
}


def statistics(z: np.ndarray, drawn: np.ndarray) -> dict[str, np.ndarray]:
    """What group 5 of the golden data records."""
    found, levels = {}, [5, 25, 50, 75, 95]
    for name, values in (("coord", drawn), ("absdiff", np.abs(drawn - z))):
        found[f"{name}_mean"] = values.mean(axis=0)
        found[f"{name}_std"] = values.std(axis=0, ddof=1)
        found[f"{name}_quantiles"] = np.percentile(values, levels, axis=0)
    found["coord_offdiag_corr"] = np.corrcoef(drawn.T)[np.triu_indices(10, 1)]
    inner = drawn @ z
    found["inner_mean"], found["inner_std"] = np.array([inner.mean()]), np.array([inner.std(ddof=1)])
    found["inner_quantiles"] = np.percentile(inner, levels)
    found["sq_mean"] = (drawn**2).mean(axis=0)
    return found


@pytest.mark.parametrize("kind", ["numpy", "torch"])
@pytest.mark.parametrize("case", CASES)
def test_golden(case: str, kind: str) -> None:
    z = GOLDEN[f"{case}__z"].astype(np.float64)
    anchors = np.tile(z, (20_000, 1))
    if kind == "numpy":
        drawn = CASES[case].sample(anchors, uniforms(np.random.default_rng(0)))
    else:
        like = torch.tensor(anchors, dtype=torch.float32)
        drawn = CASES[case].sample(like, uniforms(torch.Generator().manual_seed(0), like)).double().numpy()
    checked = 0
    for name, value in statistics(z, drawn).items():
        key = f"{case}__{name}"
        if f"{key}__mean" in GOLDEN:
            checked += 1
            assert (np.abs(value - GOLDEN[f"{key}__mean"]) <= GOLDEN[f"{key}__tol"]).all(), name
    assert checked in (7, 11)


@pytest.mark.parametrize("case", CASES)
def test_numpy_and_torch_agree_on_the_same_variates(case: str) -> None:
    rng, made = np.random.default_rng(3), CASES[case]
    z = marginal("uniform", made.space).sample(500, uniforms(rng))
    calls: list[np.ndarray] = []

    def record(shape: tuple[int, ...]) -> np.ndarray:
        calls.append(rng.random(shape))
        return calls[-1]

    expected = made.sample(z, record)
    replay = iter(calls)
    got = made.sample(torch.from_numpy(z), lambda shape: torch.from_numpy(next(replay)))
    assert isinstance(got, torch.Tensor)
    np.testing.assert_allclose(got.numpy(), expected, rtol=0, atol=1e-9)
    replay = iter(calls)
    if "rejected" not in case:  # there rounding may turn a candidate on the threshold
        single = made.sample(z.astype(np.float32), lambda shape: next(replay).astype(np.float32))
        assert single.dtype == np.float32
        np.testing.assert_allclose(single, expected, rtol=0, atol=2e-3)
        assert np.abs(single - expected).mean() < 1e-5


FAMILIES: list[tuple[Family, Any]] = [
    (Normal(), stats.norm),
    (Laplace(), stats.laplace),
    (Window(), stats.uniform(-1, 2)),
    *[(GeneralizedNormal(p), stats.gennorm(p)) for p in (0.5, 1.0, 1.5, 2.0, 3.0, 8.0, 50.0)],
]


@pytest.mark.parametrize(("family", "reference"), FAMILIES)
def test_families_against_scipy(family: Family, reference: Any) -> None:
    t = np.linspace(-0.999999, 0.999999, 2001)
    x = reference.ppf((t + 1) / 2)
    np.testing.assert_allclose(family.mass(x), t, rtol=0, atol=1e-9)
    np.testing.assert_allclose(family.density(x), reference.pdf(x), rtol=1e-12)
    cusp = isinstance(family, GeneralizedNormal) and family.p < 1
    np.testing.assert_allclose(reference.cdf(family.quantile(t)), (t + 1) / 2, rtol=0, atol=2e-5 if cusp else 1e-9)
    np.testing.assert_array_equal(family.quantile(-t), -family.quantile(t))
    np.testing.assert_allclose(family.mass(np.float32(x)), t, rtol=0, atol=2e-6)


@pytest.mark.parametrize("p", [3.0, 20.0, 200.0])
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_tiny_arguments_of_steep_generalized_normals(p: float, kind: type) -> None:
    """|x|^p underflows, the distribution function must not."""
    x = np.array([1e-12, 1e-6, 1e-3, 0.1], kind)
    expected = 2 * stats.gennorm(p).pdf(0) * x.astype(np.float64)
    np.testing.assert_allclose(GeneralizedNormal(p).mass(x), expected, rtol=1e-3)


@pytest.mark.parametrize("name", ["normal", "laplace", "gennorm", "uniform"])
@pytest.mark.parametrize("width", [1e-12, 1e-3, 0.3, 50.0, 1e6])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_truncation_on_the_box(name: str, width: float, dtype: type) -> None:
    """Against SciPy's distribution of the truncated variable, from the edge, next to it and within, at any width."""
    family = {"normal": stats.norm, "laplace": stats.laplace, "uniform": stats.uniform(-1, 2)}
    base: Any = family.get(name, stats.gennorm(3))
    made = conditional(name, Box(3), sigma=width)
    z = np.tile(np.array([-1.0, 0.999, 0.25], dtype), (20_000, 1))
    drawn = made.sample(z, uniforms(np.random.default_rng(1), z))
    assert drawn.dtype == dtype
    assert np.abs(drawn).max() <= 1
    for column, centre in zip(drawn.T.astype(np.float64), z[0].astype(np.float64), strict=True):
        low, high = base.cdf((-1 - centre) / width), base.cdf((1 - centre) / width)

        def cdf(x: np.ndarray, centre: float = centre, low: float = low, high: float = high) -> np.ndarray:
            result: np.ndarray = np.clip((base.cdf((x - centre) / width) - low) / (high - low), 0, 1)
            return result

        if width > 1e-6:
            assert stats.kstest(column, cdf).pvalue > 1e-5
        else:
            assert np.abs(column - centre).max() <= 40 * width + np.finfo(dtype).eps


@given(
    u=st.sampled_from([0.0, 2.0**-24, 0.5, 1 - 2.0**-24]),
    z=st.sampled_from([-1.0, -0.5, 0.0, 1.0]),
    name=st.sampled_from(["normal", "laplace", "gennorm", "uniform"]),
    width=st.sampled_from([1e-20, 1e-3, 1.0, 1e20]),
    library=st.sampled_from(["numpy", "torch"]),
)
def test_extreme_variates_stay_finite_and_near(u: float, z: float, name: str, width: float, library: str) -> None:
    made = conditional(name, Box(2), sigma=width)
    anchor, variate = np.full((1, 2), z, np.float32), np.full((1, 2), u, np.float32)
    if library == "torch":
        drawn = made.sample(torch.from_numpy(anchor), lambda shape: torch.from_numpy(variate)).numpy()
    else:
        drawn = made.sample(anchor, lambda shape: variate)
    assert np.abs(drawn).max() <= 1
    assert np.abs(drawn - anchor).max() <= 40 * width  # an infinity clipped to the edge would be far off


@pytest.mark.parametrize(
    ("dim", "kappa"), [(2, 0.5), (2, 50), (3, 1), (10, 0), (10, 2.0**-6), (10, 64), (10, 1e5), (50, 30)]
)
def test_von_mises_fisher_moments(dim: int, kappa: float) -> None:
    """E z̃ᵀz = A = I_{d/2}(κ)/I_{d/2-1}(κ), Var z̃ᵀz = 1 - A² - (d-1) A/κ, and no direction around z is preferred."""
    n = 100_000
    z = np.zeros((n, dim))
    z[: n // 2, 0], z[n // 2 :, -1] = -1, 1
    drawn = conditional("vmf", Sphere(dim), kappa=kappa).sample(z, uniforms(np.random.default_rng(0)))
    np.testing.assert_allclose(np.linalg.norm(drawn, axis=1), 1, atol=1e-12)
    inner = (drawn * z).sum(axis=1)
    a = special.ive(dim / 2, kappa) / special.ive(dim / 2 - 1, kappa) if kappa else 0.0
    variance = 1 - a * a - (dim - 1) * a / kappa if kappa else 1 / dim
    assert abs(inner.mean() - a) < 5 * np.sqrt(variance / n)
    assert inner.var() == pytest.approx(variance, rel=0.05 if variance < 1e-8 else 0.03)
    around = drawn - inner[:, None] * z
    assert np.abs(around.mean(axis=0)).max() < 5 * np.sqrt((around**2).mean() / n * 2)


@pytest.mark.parametrize("dim", [2, 10])
@pytest.mark.parametrize("u", [0.0, 0.5, 1 - 2.0**-24])
def test_extreme_variates_stay_on_the_sphere(dim: int, u: float) -> None:
    z = np.eye(dim, dtype=np.float32)[:1]
    for made in (
        conditional("vmf", Sphere(dim), kappa=3),
        conditional("uniform", Sphere(dim)),
        conditional("normal", Sphere(dim), sigma=0.1),
    ):
        drawn = made.sample(z, lambda shape: np.full(shape, u, np.float32))
        np.testing.assert_allclose(np.linalg.norm(drawn, axis=1), 1, rtol=1e-6)


def test_von_mises_fisher_in_three_dimensions_has_a_formula() -> None:
    """On S² the cosine's quantile is 1 + log(u + (1 - u) e^(-2κ)) / κ."""
    u = np.linspace(0.001, 0.999, 999)
    theta = tables.look_up(tables.von_mises_fisher_angle(3, 7.0), -tables.LAST_SCORE, special.ndtri(u))
    expected = 1 + np.log(1 - u + u * np.exp(-14)) / 7
    np.testing.assert_allclose(np.cos(theta), expected, rtol=0, atol=1e-9)


def test_uniform_on_box_and_sphere() -> None:
    z = np.full((20_000, 4), 0.5)
    drawn = conditional("uniform", Box(4, 0, 2)).sample(z, uniforms(np.random.default_rng(0)))
    assert stats.kstest(drawn.ravel(), "uniform", args=(0, 2)).pvalue > 1e-5
    drawn = conditional("uniform", Sphere(4)).sample(z, uniforms(np.random.default_rng(0)))
    assert stats.kstest((drawn[:, 2] + 1) / 2, stats.beta(1.5, 1.5).cdf).pvalue > 1e-5


def test_widths_per_dimension_and_content_that_stays() -> None:
    z = np.random.default_rng(0).uniform(-1, 1, (50_000, 3))
    made = conditional("normal", Unbounded(3), sigma=[0.1, 1.0, 5.0], only=[0, 2])
    drawn = made.sample(z, uniforms(np.random.default_rng(1)))
    np.testing.assert_array_equal(drawn[:, 1], z[:, 1])
    np.testing.assert_allclose((drawn - z).std(axis=0), [0.1, 0, 5.0], rtol=0.02)
    redrawn = conditional("uniform", Box(3), only=[1]).sample(z, uniforms(np.random.default_rng(1)))
    np.testing.assert_array_equal(redrawn[:, [0, 2]], z[:, [0, 2]])
    assert stats.kstest(redrawn[:, 1], "uniform", args=(-1, 2)).pvalue > 1e-5
    assert abs(np.corrcoef(redrawn[:, 1], z[:, 1])[0, 1]) < 0.03


def test_products() -> None:
    both = Product((Box(3), Sphere(8)))
    z = marginal("uniform", both).sample(4000, uniforms(np.random.default_rng(0)))
    assert z.shape == (4000, 11)
    drawn = conditional("normal,vmf", both, sigma=0.1, kappa=50).sample(z, uniforms(np.random.default_rng(1)))
    assert (drawn[:, :3] - z[:, :3]).std() == pytest.approx(0.1, rel=0.1)
    a = special.ive(4, 50) / special.ive(3, 50)
    assert (drawn[:, 3:] * z[:, 3:]).sum(axis=1).mean() == pytest.approx(a, abs=0.005)
    content = conditional("normal", both, sigma=0.1, only=[0, 1]).sample(z, uniforms(np.random.default_rng(1)))
    np.testing.assert_array_equal(content[:, 2:], z[:, 2:])
    assert (content[:, :2] != z[:, :2]).all()


@pytest.mark.parametrize(
    ("name", "where", "settings", "mean", "std"),
    [
        ("normal", Box(2, 0, 1), {"sigma": 0.05}, [0.5, 0.5], [0.05, 0.05]),
        ("laplace", Unbounded(2), {"sigma": 1}, [0, 0], [2**0.5, 2**0.5]),
        ("gennorm", Unbounded(2), {"sigma": 2, "p": 2}, [0, 0], [2**0.5, 2**0.5]),
        ("vmf", Sphere(3), {"kappa": 4}, [1 / np.tanh(4) - 0.25, 0, 0], None),
    ],
)
def test_marginals(
    name: str, where: Space, settings: dict[str, float], mean: list[float], std: list[float] | None
) -> None:
    like = torch.empty(0)
    drawn = marginal(name, where, **settings).sample(50_000, uniforms(torch.Generator().manual_seed(0), like)).numpy()
    assert drawn.dtype == np.float32
    spread = drawn.std(axis=0)
    assert (np.abs(drawn.mean(axis=0) - mean) < 5 * spread / np.sqrt(50_000)).all()
    if std is not None:
        np.testing.assert_allclose(spread, std, rtol=0.03)


def test_same_generator_same_draws() -> None:
    z = np.zeros((5, 10)) + np.eye(10)[0]
    for made in CASES.values():
        first, second = (made.sample(z, uniforms(np.random.default_rng(9))) for _ in range(2))
        np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"name": "norml", "space": Box(2), "sigma": 1}, "Did you mean 'normal'"),
        ({"name": "normal", "space": Box(2)}, "needs its width sigma"),
        ({"name": "normal", "space": Box(2), "sigma": 0}, "sigma must be positive, .* not 0"),
        ({"name": "normal", "space": Box(2), "sigma": float("nan")}, "not nan"),
        ({"name": "normal", "space": Box(2), "sigma": [1, 1, 1]}, "one number or 2, not 3"),
        ({"name": "gennorm", "space": Box(2), "sigma": 1, "p": 0}, "exponent p"),
        ({"name": "vmf", "space": Box(2), "kappa": 1}, "choose normal, laplace"),
        ({"name": "vmf", "space": Sphere(2)}, "concentration kappa"),
        ({"name": "rejected_normal", "space": Sphere(2)}, "precision Λ"),
        ({"name": "rejected_normal", "space": Sphere(2), "precision": [1, -1]}, "precision must be positive"),
        ({"name": "uniform", "space": Unbounded(2)}, "needs its width"),
        ({"name": "normal", "space": Sphere(2), "sigma": 1, "only": [0]}, "no latent can stay"),
        ({"name": "normal", "space": Box(2), "sigma": 1, "only": [2]}, "no latent number 2"),
        ({"name": "normal,vmf", "space": Product((Box(1), Sphere(2), Box(1))), "sigma": 1}, "as many conditionals"),
    ],
)
def test_bad_conditionals(arguments: dict[str, Any], says: str) -> None:
    with pytest.raises(UserError, match=says):
        conditional(**arguments)


def test_bad_spaces_and_marginals() -> None:
    for call, says in (
        (lambda: Sphere(1), "at least 2 dimensions, not 1"),
        (lambda: Box(2, 1, 1), "lower to its higher"),
        (lambda: marginal("uniform", Unbounded(2)), "no uniform marginal"),
        (lambda: marginal("rejected_normal", Sphere(2)), "choose one of uniform, normal"),
    ):
        with pytest.raises(UserError, match=says):
            call()
    with pytest.raises(UserError, match="shows which type"):
        uniforms(torch.Generator())


def test_hopeless_rejection_ends_with_a_sentence() -> None:
    made = conditional("rejected_normal", Sphere(50), precision=1e-6)
    z = np.eye(50)[:1]
    with pytest.raises(UserError, match="Hardly any draw"):
        made.sample(z, uniforms(np.random.default_rng(0)))


class NamedDevices(TorchFunctionMode):
    """Refuses what is made without naming a device: beside anchors on a GPU it would lie on the CPU."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in (torch.arange, torch.zeros, torch.ones, torch.empty, torch.full):
            assert (kwargs or {}).get("device") is not None, func
        return func(*args, **(kwargs or {}))


def test_the_rejecting_sampler_names_the_device_of_its_anchors() -> None:
    anchors = torch.eye(3, dtype=torch.float64)
    with NamedDevices():
        drawn = conditional("rejected_normal", Sphere(3), precision=15).sample(anchors, torch.rand)
    np.testing.assert_allclose(drawn.norm(dim=1), 1, atol=1e-6)
