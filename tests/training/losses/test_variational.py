"""The papers' losses on 64×64 images against plain transcriptions of their formulas in NumPy: values and gradients."""

from collections.abc import Callable
from functools import partial
from math import e, log, pi, sqrt
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.integrate import quad
from scipy.stats import laplace, norm
from torch import Tensor, nn

from ident3d.errors import UserError
from ident3d.losses import (
    PairRegression,
    ada_gvae,
    alignment_uniformity,
    beta_vae,
    cross_entropy_to_laplace,
    delta_contrastive,
    permutation_contrast,
    reconstruction_error,
    share_latents,
    slow_vae,
)
from ident3d.training.losses.autoencoder import Autoencoder

Array = NDArray[np.float64]
B, D = 6, 4


def given(*shapes: tuple[int, ...], seed: int = 0) -> list[Array]:
    rng = np.random.default_rng(seed)
    return [rng.normal(size=shape) for shape in shapes]


def check(ours: Callable[..., Tensor], plain: Callable[..., float], *inputs: Array) -> None:
    """The mean of our values, and its gradients against differences of the plain formula."""
    leaves = [torch.from_numpy(x).requires_grad_() for x in inputs]
    value = ours(*leaves).mean()
    assert value.item() == pytest.approx(plain(*inputs), rel=1e-12)
    value.backward()
    for k, (x, leaf) in enumerate(zip(inputs, leaves, strict=True)):
        differences = np.empty_like(x)
        for place in np.ndindex(x.shape):
            ends = []
            for step in (1e-6, -1e-6):
                moved = [each.copy() for each in inputs]
                moved[k][place] += step
                ends.append(plain(*moved))
            differences[place] = (ends[0] - ends[1]) / 2e-6
        assert leaf.grad is not None
        np.testing.assert_allclose(leaf.grad, differences, rtol=1e-6, atol=1e-7, err_msg=f"input {k}")


# ---- Section 1.1: contrastive losses


def plain_l_au(z: Array, z_tilde: Array, alpha: float, p: float) -> float:
    align = np.mean([np.sum(np.abs(z_tilde[i] - z[i]) ** p) for i in range(len(z))])
    negatives = np.roll(z, 1, axis=0)
    crowd = [np.mean([np.exp(-np.sum(np.abs(a - b) ** p)) for b in negatives]) for a in z]
    return float(alpha * np.mean(np.log(crowd)) + (1 - alpha) * align)


def plain_l_delta(z: Array, z_tilde: Array, p: float) -> float:
    found = []
    for a, b in zip(z, z_tilde, strict=True):
        pos = np.sum(np.abs(a - b) ** p)
        neg = [np.sum(np.abs(a - c) ** p) for c in z]
        found.append(pos + np.log(np.sum(np.exp(-np.array(neg))) + np.exp(-pos)))
    return float(np.mean(found))


@pytest.mark.parametrize("p", [1, 2])
@pytest.mark.parametrize("alpha", [0.9999, 0.9, 0.5])
def test_l_au_with_and_without_the_public_slice(alpha: float, p: int) -> None:
    z, z_tilde = given((B, D), (B, D))
    check(partial(alignment_uniformity, alpha=alpha, p=p), partial(plain_l_au, alpha=alpha, p=p), z, z_tilde)
    check(
        partial(alignment_uniformity, alpha=alpha, p=p, drop_last=True),
        lambda a, b: plain_l_au(a[:, 0:-1], b[:, 0:-1], alpha, p),
        z,
        z_tilde,
    )


@pytest.mark.parametrize("p", [1, 2])
def test_l_delta_with_the_anchor_among_its_negatives(p: int) -> None:
    z, z_tilde = given((B, D), (B, D), seed=1)
    check(partial(delta_contrastive, p=p), partial(plain_l_delta, p=p), z, z_tilde)

    def box(u: Any, b: Any, sigmoid: Callable[[Any], Any]) -> Any:
        return b * sigmoid(u)

    # On the box as well: b sigmoid(u), with gradients for a b that is negative, too.
    bound = np.array([1.0, -2.0, 0.5, 3.0])
    check(
        lambda u, v, b: delta_contrastive(box(u, b, torch.sigmoid), box(v, b, torch.sigmoid), p=p),
        lambda u, v, b: plain_l_delta(box(u, b, logistic), box(v, b, logistic), p),
        z,
        z_tilde,
        bound,
    )


def test_pcl_tells_pairs_from_random_ones() -> None:
    inputs = [*given((B, D), (B, D), *[(D,)] * 5, seed=4), np.array(0.3)]

    def ours(z: Tensor, z_tilde: Tensor, *coefficients: Tensor) -> Tensor:
        model = PairRegression(D).double()
        names = ["here", "there", "offset", "alone", "alone_offset", "constant"]
        regression = partial(torch.func.functional_call, model, dict(zip(names, coefficients, strict=True)))
        return permutation_contrast(z, z_tilde, lambda y, other: regression((y, other)), shift=2)

    def plain(z: Array, z_tilde: Array, *coefficients: Array) -> float:
        a, a_other, b, a_bar, b_bar, c = coefficients
        found = []
        for i in range(B):
            odds = []
            for other in (z[i], z[(i - 2) % B]):
                y = z_tilde[i]
                odds.append(c + np.sum(-np.abs(a * y + a_other * other + b) + (a_bar * y + b_bar) ** 2))
            found.append(-np.log(logistic(odds[0])) - np.log(1 - logistic(odds[1])))
        return float(np.mean(found))

    check(ours, plain, *inputs)
    with pytest.raises(UserError, match="shift of 6 among 6"):
        permutation_contrast(torch.zeros(6, 2), torch.zeros(6, 2), PairRegression(2), shift=6)


def logistic(u: Array) -> Array:
    return 1 / (1 + np.exp(-u))


# ---- Sections 1.2 and 1.3: autoencoders


def plain_terms(mean: Array, log_variance: Array) -> tuple[float, float]:
    """CE_N and H, means over images."""
    count, variance = len(mean), np.exp(log_variance)
    entropy = np.sum(0.5 * (np.log(variance) + log(2 * pi * e))) / count
    return float(np.sum(0.5 * (mean**2 + variance) + 0.5 * log(2 * pi)) / count), float(entropy)


def plain_ce_l(m: Array, sigma: Array, rate: float) -> Array:
    inside = sigma * sqrt(2 / pi) * np.exp(-(m**2) / (2 * sigma**2)) - m * (1 - 2 * norm.cdf(m / sigma))
    return np.asarray(-np.log(rate / 2) + rate * inside)


def plain_slow_vae(
    m0: Array, v0: Array, m1: Array, v1: Array, e0: Array, e1: Array, beta: float, gamma: float, rate: float
) -> float:
    rec = np.sum(np.concatenate([e0, e1])) / (2 * len(m0))
    ce_n, entropy = plain_terms(np.concatenate([m0, m1]), np.concatenate([v0, v1]))
    both = plain_ce_l(m0 - m1, np.exp(v0 / 2), rate) + plain_ce_l(m1 - m0, np.exp(v1 / 2), rate)
    ce_l = np.sum(both) / len(m0)
    return float(2 * rec + beta * (ce_n - entropy) + gamma * (ce_l - entropy))


def plain_shared(m0: Array, v0: Array, m1: Array, v1: Array) -> list[Array]:
    found = [x.copy() for x in (m0, v0, m1, v1)]
    for i in range(len(m0)):
        s0, s1 = np.exp(v0[i]), np.exp(v1[i])
        k = s0 / s1 + (m1[i] - m0[i]) ** 2 / s1 - 1 + np.log(s1) - np.log(s0)
        for j in np.flatnonzero(k < (k.min() + k.max()) / 2):
            found[0][i, j] = found[2][i, j] = (m0[i, j] + m1[i, j]) / 2
            found[1][i, j] = found[3][i, j] = np.log((s0[j] + s1[j]) / 2)
    return found


def plain_ada_gvae(m0: Array, v0: Array, m1: Array, v1: Array, e0: Array, e1: Array, beta: float) -> float:
    a, b, c, d = plain_shared(m0, v0, m1, v1)
    divergences = [ce - h for ce, h in (plain_terms(a, b), plain_terms(c, d))]
    return float(0.5 * np.mean(e0 + e1) + beta * 0.5 * sum(divergences))


PAIR = [(B, D)] * 4 + [(B,)] * 2


@pytest.mark.parametrize(("beta", "gamma", "rate"), [(1, 10, 6), (3, 0, 6), (0, 2, 0.5)])
def test_slow_vae_is_its_formula(beta: float, gamma: float, rate: float) -> None:
    inputs, weights = given(*PAIR), {"beta": beta, "gamma": gamma, "rate": rate}
    check(
        lambda m0, v0, m1, v1, e0, e1: slow_vae((m0, v0), (m1, v1), (e0, e1), **weights),
        partial(plain_slow_vae, **weights),
        *inputs,
    )


def test_beta_vae_is_slow_vae_without_a_transition() -> None:
    inputs = given(*PAIR, seed=1)
    check(
        lambda m0, v0, m1, v1, e0, e1: beta_vae((torch.cat([m0, m1]), torch.cat([v0, v1])), torch.cat([e0, e1])),
        partial(plain_slow_vae, beta=8, gamma=0, rate=6),
        *inputs,
    )


def test_ada_gvae_averages_what_a_pair_shares() -> None:
    inputs = given(*PAIR, seed=2)
    shared = plain_shared(*inputs[:4])
    equal = (shared[0] == shared[2]).sum(1)
    assert (equal > 0).all()
    assert (equal < D).all(), "the latent that differs most is never shared"

    def ours(*leaves: Tensor) -> Tensor:
        first, second = share_latents((leaves[0], leaves[1]), (leaves[2], leaves[3]))
        return ada_gvae(first, second, (leaves[4], leaves[5]), beta=4)

    check(ours, partial(plain_ada_gvae, beta=4), *inputs)


def test_the_cross_entropy_to_laplace_is_the_integral() -> None:
    for m, sigma, rate in ((0.3, 0.7, 6.0), (-2.0, 0.1, 1.0)):
        whole, _ = quad(
            lambda x, m=m, sigma=sigma, rate=rate: -norm.pdf(x, m, sigma) * laplace.logpdf(x, scale=1 / rate),
            m - 12 * sigma,
            m + 12 * sigma,
            points=[0.0] if abs(m) < 12 * sigma else None,
        )
        args = torch.tensor([[m]], dtype=torch.float64), torch.tensor([[2 * log(sigma)]], dtype=torch.float64)
        assert cross_entropy_to_laplace(*args, rate).item() == pytest.approx(whole, rel=1e-7)


def test_the_reconstruction_error_is_the_binary_cross_entropy_of_all_pixels() -> None:
    (logits,), images = given((2, 3, 2, 2)), np.random.default_rng(0).uniform(size=(2, 3, 2, 2))
    s = logistic(logits)
    plain = -(images * np.log(s) + (1 - images) * np.log(1 - s)).sum((1, 2, 3))
    found = reconstruction_error(torch.from_numpy(logits), torch.from_numpy(images))
    np.testing.assert_allclose(found, plain, rtol=1e-12)


def test_an_autoencoder_decodes_samples_of_its_posteriors() -> None:
    """Each loss of a pair of images and a linear decoder, from raw posteriors, with the noise that it drew."""
    raw, images = (torch.from_numpy(x) for x in given((2 * B, 2 * D), (2 * B, 1, 2, 2), seed=3))
    images = images.sigmoid()
    decoder = nn.Sequential(nn.Linear(D, 4, dtype=torch.float64), nn.Unflatten(1, (1, 2, 2)))
    m, v = raw[:, :D].numpy(), raw[:, D:].numpy()
    halves = [m[:B], v[:B], m[B:], v[B:]]
    for name, weights in (
        ("slowvae", {"beta": 1.0, "gamma": 10.0, "rate": 6.0}),
        ("betavae", {"beta": 8.0}),
        ("adagvae", {"beta": 2.0}),
    ):
        objective = Autoencoder(name, decoder, **weights)
        torch.manual_seed(5)
        value = objective(raw, images)
        torch.manual_seed(5)
        noise = torch.randn(2 * B, D, dtype=torch.float64).numpy()
        a, b, c, d = plain_shared(*halves) if name == "adagvae" else halves
        z = np.concatenate([a, c]) + np.exp(np.concatenate([b, d]) / 2) * noise
        with torch.no_grad():
            errors = reconstruction_error(decoder(torch.from_numpy(z)), images).numpy()
        split = (errors[:B], errors[B:])
        if name == "adagvae":
            expected = plain_ada_gvae(*halves, *split, **weights)
        else:
            expected = plain_slow_vae(*halves, *split, **({"gamma": 0.0, "rate": 6.0} | weights))
        assert value.item() == pytest.approx(expected, rel=1e-10), name
        assert objective.figures()["reconstruction"] == pytest.approx(errors.mean(), abs=1e-5)
        value.backward()
        assert all(weight.grad is not None for weight in decoder.parameters())


def test_what_the_losses_refuse() -> None:
    means, errors = torch.zeros(3, 2), torch.zeros(3)
    with pytest.raises(UserError, match="log variances"):
        beta_vae((means, torch.zeros(3, 1)), errors)
    with pytest.raises(UserError, match=r"second means .*\(3, 2\), not \(2, 2\)"):
        slow_vae((means, means), (means[:2], means[:2]), (errors, errors))
    with pytest.raises(UserError, match="errors"):
        ada_gvae((means, means), (means, means), (errors, errors[:, None]))
    with pytest.raises(UserError, match="above 0, not 0"):
        cross_entropy_to_laplace(means, means, rate=0)
    with pytest.raises(UserError, match="images"):
        reconstruction_error(torch.zeros(2, 1, 4, 4), torch.zeros(2, 3, 4, 4))
