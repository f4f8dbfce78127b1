"""What the losses promise beyond the golden values: gradients, invariances, minima, precision, bad input."""

import re
from collections.abc import Callable
from functools import partial

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.functional import normalize as unit

from ident3d.errors import UserError
from ident3d.training.losses import log_sum as logsum
from ident3d.training.losses.alignment import alignment, alignment_uniformity
from ident3d.training.losses.aninfonce import Precision, an_info_nce
from ident3d.training.losses.contrastive import (
    delta_contrastive,
    ensemble,
    hard_negatives,
    info_nce,
    two_view_info_nce,
)
from ident3d.training.losses.log_sum import log_sum_dot, log_sum_power
from ident3d.training.losses.regression import mean_squared_error, r2
from ident3d.training.losses.similarities import minus_quadratic

POWERS = [1.0, 1.5, 2.0, 3.0, 4.5]
law = settings(max_examples=25, deadline=None)  # deadline off: the machine may be busy with other work
seeds = st.integers(0, 2**31 - 1)


def codes(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("p", POWERS)
def test_log_sum_is_the_naive_one_in_blocks_of_any_size(p: float, monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = codes(7, 3).requires_grad_(), codes(5, 3, seed=1).requires_grad_()
    skip = torch.tensor([0, 4, 2, 2, 1, 0, 3])
    weights = codes(7, seed=2)
    naive = -(a[:, None] - b).abs().pow(p).sum(2)
    expected = naive.scatter(1, skip[:, None], -torch.inf).logsumexp(1)
    gradients = torch.autograd.grad(expected @ weights, (a, b))
    for block in (1, 10, 1000):
        monkeypatch.setattr(logsum, "CPU_BLOCK", block)
        result = log_sum_power(a, b, p, skip=skip)
        torch.testing.assert_close(result, expected)
        torch.testing.assert_close(torch.autograd.grad(result @ weights, (a, b)), gradients)


def test_an_anchor_may_leave_itself_out() -> None:
    """Against each anchor's loss with the others as negatives, one by one."""
    z, z_tilde, more = codes(4, 3), codes(4, 3, seed=1), codes(2, 3, seed=2)
    negatives = torch.cat([more, z])
    for loss in (info_nce, partial(delta_contrastive, p=3.0)):
        alone = [loss(z[i : i + 1], z_tilde[i : i + 1], negatives[torch.arange(6) != 2 + i]) for i in range(4)]
        torch.testing.assert_close(loss(z, z_tilde, negatives, first_row=2), torch.cat(alone))


@pytest.mark.parametrize("p", POWERS)
def test_gradcheck_of_powers(p: float) -> None:
    inputs = [codes(5, 3, seed=seed).requires_grad_() for seed in (0, 1, 2)]
    assert torch.autograd.gradcheck(lambda a, b, c: delta_contrastive(a, b, c, p=p, tau=0.7), inputs)
    assert torch.autograd.gradcheck(lambda a, b, c: alignment_uniformity(a, b, c, p=p, alpha=0.3), inputs)


def test_gradcheck_of_products() -> None:
    a, b, c = (codes(5, 3, seed=seed).requires_grad_() for seed in (0, 1, 2))
    tau = torch.tensor(0.7, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda a, b, c, tau: info_nce(a, b, c, tau=tau, normalize=True), (a, b, c, tau))
    assert torch.autograd.gradcheck(lambda a, b, tau: two_view_info_nce(a, b, tau=tau), (a, b, tau))
    precision = torch.tensor([0.5, 3.0, 20.0], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(an_info_nce, (a, b, precision))
    own = codes(5, 4, 3, seed=3).requires_grad_()
    assert torch.autograd.gradcheck(
        lambda a, b, own, la, c: hard_negatives(
            a, b, own, lambda x, y: minus_quadratic(x, y, la), others=log_sum_dot(a, c)
        ),
        (a, b, own, precision, c),
    )


@pytest.mark.parametrize("p", POWERS)
def test_gradients_are_finite_where_all_codes_coincide(p: float) -> None:
    z = torch.full((6, 4), 0.3, requires_grad=True)
    z_tilde = torch.full((6, 4), 0.3, requires_grad=True)
    delta_contrastive(z, z_tilde, p=p).mean().backward()
    for leaf in (z, z_tilde):
        assert leaf.grad is not None
        assert torch.equal(leaf.grad, torch.zeros(6, 4))


@pytest.mark.parametrize("p", [1.0, 2.0, 3.0])
def test_float32_is_exact_enough_in_wide_boxes_far_from_the_origin(p: float) -> None:
    """Codes as a box of bound 14 gives them, and the same ones moved away by ten times its width."""
    z = 14 * codes(200, 10).sigmoid()
    z_tilde = z + 0.5 * codes(200, 10, seed=1)
    for shift in (0.0, 140.0):
        leaf = (z + shift).requires_grad_()
        expected = delta_contrastive(leaf, z_tilde + shift, p=p)
        (gradient,) = torch.autograd.grad(expected.mean(), leaf)
        narrow = (z + shift).float().requires_grad_()
        value = delta_contrastive(narrow, (z_tilde + shift).float(), p=p)
        torch.testing.assert_close(value.double(), expected, rtol=1e-4, atol=1e-3)
        ours = torch.autograd.grad(value.mean(), narrow)[0]
        torch.testing.assert_close(ours.double(), gradient, rtol=1e-3, atol=1e-5)


def test_a_batch_of_one_has_finite_gradients() -> None:
    z, z_tilde = codes(1, 3).requires_grad_(), codes(1, 3, seed=1)
    for value in (an_info_nce(z, z_tilde, torch.ones(3)), two_view_info_nce(z, z_tilde)):
        torch.testing.assert_close(value, torch.zeros(2, dtype=torch.float64), rtol=0, atol=1e-12)
        assert torch.autograd.grad(value.sum(), z)[0].abs().max() < 1e-12


@law
@given(seeds)
def test_products_do_not_see_rotations_and_reflections(seed: int) -> None:
    z, z_tilde = unit(codes(8, 5, seed=seed), dim=1), unit(codes(8, 5, seed=seed + 1), dim=1)
    turn = torch.linalg.qr(codes(5, 5, seed=seed + 2))[0]
    for loss in (info_nce, two_view_info_nce):
        torch.testing.assert_close(loss(z @ turn, z_tilde @ turn), loss(z, z_tilde))


@law
@given(seeds, st.sampled_from(POWERS))
def test_powers_do_not_see_permutations_signs_and_shifts(seed: int, p: float) -> None:
    z, z_tilde, c = codes(8, 5, seed=seed), codes(8, 5, seed=seed + 1), codes(4, 5, seed=seed + 2)
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(5, generator=generator)
    signs = torch.randint(0, 2, (5,), generator=generator) * 2.0 - 1
    shift = 3 * codes(5, seed=seed + 3)
    moved = [x[:, order] * signs + shift for x in (z, z_tilde, c)]
    torch.testing.assert_close(delta_contrastive(*moved, p=p), delta_contrastive(z, z_tilde, c, p=p))


@law
@given(seeds)
def test_rotations_change_every_power_but_the_second(seed: int) -> None:
    z, z_tilde = codes(8, 5, seed=seed), codes(8, 5, seed=seed + 1)
    turn = torch.linalg.qr(codes(5, 5, seed=seed + 2))[0]
    for p in POWERS:
        same = torch.allclose(delta_contrastive(z @ turn, z_tilde @ turn, p=p), delta_contrastive(z, z_tilde, p=p))
        assert same == (p == 2)


@law
@given(seeds)
def test_equal_precisions_are_info_nce_with_that_concentration(seed: int) -> None:
    """On the unit sphere -λ/2 |a-b|² = λ ⟨a, b⟩ - λ, and the constant cancels. First views alone: see an_info_nce."""
    z, z_tilde = codes(8, 5, seed=seed), codes(8, 5, seed=seed + 1)
    anisotropic = an_info_nce(z, z_tilde, torch.full((5,), 4.0, dtype=torch.float64))
    torch.testing.assert_close(anisotropic[:8], two_view_info_nce(z, z_tilde, tau=1 / 4)[:8])


@pytest.mark.parametrize("p", [1.0, 2.0, 3.0])
def test_minimum_lies_at_the_width_of_the_conditional(p: float) -> None:
    """z uniform on a long interval, z̃ ~ exp -(|z̃-z|/σ)^p: among codes s·z the loss is least at s = 1/σ."""
    sigma, n = 0.05, 1500
    generator = torch.Generator().manual_seed(0)
    z = torch.rand(n, 1, generator=generator, dtype=torch.float64)
    size = torch._standard_gamma(torch.full((n, 1), 1 / p, dtype=torch.float64), generator=generator).pow(1 / p)
    z_tilde = z + sigma * size * (2.0 * torch.randint(0, 2, (n, 1), generator=generator) - 1)
    scales = torch.tensor([0.5, 0.8, 1.0, 1.25, 2.0]) / sigma
    values = torch.stack([delta_contrastive(s * z, s * z_tilde, p=p).mean() for s in scales])
    assert values.argmin() == 2


def test_info_nce_is_least_where_concentrations_agree() -> None:
    """z uniform on the circle, z̃ ~ von Mises of κ = 20 around it: the best temperature is 1/κ."""
    n, kappa = 1500, 20.0
    generator = torch.Generator().manual_seed(0)
    angle = 2 * torch.pi * torch.rand(n, generator=generator, dtype=torch.float64)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        angle_tilde = angle + torch.distributions.VonMises(torch.zeros(n, dtype=torch.float64), kappa).sample()
    z, z_tilde = (torch.stack([x.cos(), x.sin()], 1) for x in (angle, angle_tilde))
    values = torch.stack([info_nce(z, z_tilde, tau=tau).mean() for tau in (1 / 40, 1 / 28, 1 / 20, 1 / 14, 1 / 10)])
    assert values.argmin() == 2


def test_hard_negatives_teach_the_difference_of_precisions() -> None:
    """Positives of precision 150, negatives of 100 around the same anchor: Λ̂ = 50."""
    anchors = torch.zeros(20_000, 1)
    generator = torch.Generator().manual_seed(0)
    positives = torch.randn(20_000, 1, generator=generator) / 150**0.5
    negatives = torch.randn(20_000, 4, 1, generator=generator) / 100**0.5

    def value(precision: float) -> float:
        own = hard_negatives(
            anchors, positives, negatives, lambda a, b: minus_quadratic(a, b, torch.tensor([precision]))
        )
        return own.mean().item()

    grid = [20.0, 35.0, 50.0, 65.0, 80.0]
    assert min(grid, key=value) == 50


def test_ensemble_weighs_its_members() -> None:
    pairs = [(codes(6, 3, seed=s), codes(6, 3, seed=s + 10)) for s in (0, 1)]
    values = [info_nce(*pairs[0]).mean(), delta_contrastive(*pairs[1]).mean()]
    losses: list[Callable[[Tensor, Tensor], Tensor]] = [info_nce, delta_contrastive]
    torch.testing.assert_close(ensemble(losses, pairs), (values[0] + values[1]) / 2)
    torch.testing.assert_close(ensemble(losses, pairs, [1, 3]), 0.25 * values[0] + 0.75 * values[1])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("loss", [info_nce, delta_contrastive, two_view_info_nce])
def test_logits_are_float32_under_autocast(loss: Callable[..., Tensor], dtype: torch.dtype) -> None:
    z, z_tilde = codes(64, 5).to(dtype).requires_grad_(), codes(64, 5, seed=1).to(dtype)
    wide = z.detach().float().requires_grad_()
    expected = loss(wide, z_tilde.float())
    (gradient,) = torch.autograd.grad(expected.mean(), wide)
    with torch.autocast("cpu", dtype=dtype):
        value = loss(z, z_tilde)
        (narrow,) = torch.autograd.grad(value.mean(), z)  # backward inside autocast as well
    assert value.dtype == torch.float32
    torch.testing.assert_close(value, expected)
    torch.testing.assert_close(narrow, gradient.to(dtype), rtol=1e-2, atol=1e-4)


def test_precision_starts_small_and_positive_and_draws_from_its_generator() -> None:
    first, second = (Precision(500, generator=torch.Generator().manual_seed(3)) for _ in range(2))
    assert torch.equal(first.free, second.free)
    assert 0.08 < first.free.std() < 0.12
    assert (first() > 0).all()


def test_supervised() -> None:
    latents = codes(100, 3)
    wrong = latents + torch.tensor([0.0, 0.5, 1.0])
    torch.testing.assert_close(mean_squared_error(wrong, latents), torch.full((100,), 1.25 / 3, dtype=torch.float64))
    spread = latents.var(0, correction=0)
    torch.testing.assert_close(r2(wrong, latents), 1 - torch.tensor([0.0, 0.25, 1.0]) / spread)


def test_bad_input_gets_one_sentence() -> None:
    z = codes(4, 2)
    for p in (0.5, float("inf")):
        for loss in (delta_contrastive, alignment, alignment_uniformity):
            with pytest.raises(UserError, match=rf"\bp\b.*{p}"):
                loss(z, z, p=p)
    for bad, shown in ((0.0, "0"), (torch.ones(2), r"\(2,\)"), (torch.ones(4, 1), r"\(4, 1\)")):
        for with_tau in (info_nce, delta_contrastive, two_view_info_nce):
            with pytest.raises(UserError, match=f"tau.*{shown}"):
                with_tau(z, z, tau=bad)
    with pytest.raises(UserError, match=r"alpha.*\b2\b"):
        alignment_uniformity(z, z, alpha=2)
    with pytest.raises(UserError, match="2 losses, 1 views and 2 weights"):
        ensemble([info_nce, info_nce], [(z, z)])
    with pytest.raises(UserError, match="weights"):
        ensemble([info_nce], [(z, z)], [0.0])


def anisotropic(anchors: Tensor, positives: Tensor, negatives: Tensor | None = None) -> Tensor:
    return an_info_nce(anchors, positives, torch.ones(2), None if negatives is None else (negatives, negatives))


def two_views(anchors: Tensor, positives: Tensor, negatives: Tensor | None = None) -> Tensor:
    return two_view_info_nce(anchors, positives, None if negatives is None else (negatives, negatives))


PAIRS: list[Callable[..., Tensor]] = [
    info_nce, delta_contrastive, alignment_uniformity, anisotropic, two_views, alignment, mean_squared_error, r2,
]  # fmt: skip


@pytest.mark.parametrize("loss", PAIRS)
def test_shapes_that_would_broadcast_are_refused(loss: Callable[..., Tensor]) -> None:
    z = codes(4, 2)
    assert loss(z, codes(4, 2, seed=1)).isfinite().all()
    for bad in (z[:1], z[:, :1], z[0], z[:3], codes(4, 3), z[None]):
        with pytest.raises(UserError, match=rf"(positives|latents).*\(4, 2\).*{re.escape(str(tuple(bad.shape)))}"):
            loss(z, bad)
    with pytest.raises(UserError, match=r"(anchors|codes).*\(2,\)"):
        loss(z[0], z[0])
    for array in (z.numpy(), z.tolist()):
        with pytest.raises(UserError, match=r"(anchors|codes).*" + type(array).__name__):
            loss(array, z)
        with pytest.raises(UserError, match=r"(positives|latents).*" + type(array).__name__):
            loss(z, array)


@pytest.mark.parametrize("loss", PAIRS[:5])
def test_negatives_have_the_anchors_dimensions(loss: Callable[..., Tensor]) -> None:
    z = codes(4, 2)
    assert loss(z, z, codes(7, 2)).isfinite().all()
    for bad in (codes(4, 1), codes(4, 3), z[0], codes(4, 5, 2)):
        with pytest.raises(UserError, match=rf"negatives.*\(N, 2\).*{re.escape(str(tuple(bad.shape)))}"):
            loss(z, z, bad)
    with pytest.raises(UserError, match=r"negatives.*ndarray"):
        loss(z, z, z.numpy())


def test_shapes_of_the_other_arguments() -> None:
    z, own = codes(4, 2), codes(4, 3, 2)
    for bad in (own[:1], own[:, :, :1], z):
        with pytest.raises(UserError, match=r"negatives.*\(4, M, 2\)"):
            hard_negatives(z, z, bad)
    with pytest.raises(UserError, match=r"others.*\(1,\)"):
        hard_negatives(z, z, own, others=torch.zeros(1))
    for precision in (torch.ones(1), torch.ones(2, 2), torch.tensor(1.0)):
        with pytest.raises(UserError, match="precision"):
            an_info_nce(z, z, precision)
        with pytest.raises(UserError, match="precision"):
            minus_quadratic(z, z, precision)
    with pytest.raises(UserError, match=r"second view.*\(5, 2\)"):
        two_view_info_nce(z, z, (codes(6, 2), codes(5, 2)))
    with pytest.raises(UserError, match=r"\bb\b.*\(3, 1\)"):
        log_sum_power(z, codes(3, 1), 2)
    with pytest.raises(UserError, match=r"skip.*\(4, 1\)"):
        log_sum_dot(z, z, skip=torch.zeros(4, 1, dtype=torch.int64))
    for first_row in (-1, 3):
        with pytest.raises(UserError, match=f"first_row={first_row}"):
            info_nce(z, z, codes(6, 2), first_row=first_row)
