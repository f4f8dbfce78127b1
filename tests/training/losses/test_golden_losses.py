"""Losses and their gradients against values of the papers' public code (golden data, group 4), in float64."""

import json
from collections.abc import Callable
from functools import partial
from math import log
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn.functional import softplus

from ident3d.training.losses.alignment import alignment, alignment_uniformity, uniformity
from ident3d.training.losses.aninfonce import an_info_nce
from ident3d.training.losses.contrastive import delta_contrastive, info_nce, two_view_info_nce

GOLDEN = Path(__file__).parents[2] / "data/golden"
MEANS: dict[str, float] = json.loads((GOLDEN / "expected_losses.json").read_text())
Loss = Callable[..., Tensor]

ONE_SIDED: dict[str, Loss] = {
    f"simclr_norm{norm}_tau{tau}": partial(info_nce, tau=tau, normalize=bool(norm))
    for norm in (0, 1)
    for tau in (0.5, 1.0)
}
ONE_SIDED |= {f"lp{p}": partial(delta_contrastive, p=p) for p in (1, 2, 3)}
ONE_SIDED |= {
    "lp2_tau0.5": partial(delta_contrastive, p=2, tau=0.5),
    # without the positive in the denominator, a mean of exponentials is alignment and uniformity
    "lp2_logmeanexp": lambda z, z_tilde, negatives=None: alignment(z, z_tilde) + uniformity(z, negatives),
}
INDEPENDENT = ONE_SIDED | {
    # a mean over the negatives and the positive, where ours is a sum
    "sslid_lp2_default": lambda z, z_tilde, negatives: (
        delta_contrastive(z, z_tilde, negatives) - log(len(negatives) + 1)
    ),
}


def arrays(file: str, *names: str) -> list[Tensor]:
    with np.load(GOLDEN / file, allow_pickle=False) as stored:
        return [torch.from_numpy(stored[name]).requires_grad_() for name in names]


def check(case: str, items: Tensor, **leaves: Tensor) -> None:
    """Mean, values per item and gradients of the mean."""
    assert items.mean().item() == pytest.approx(MEANS[case], rel=1e-5, abs=1e-9)
    with np.load(GOLDEN / "expected_losses.npz", allow_pickle=False) as expected:
        np.testing.assert_allclose(items.detach(), expected[f"{case}__per_item"], rtol=1e-5, atol=1e-9)
        gradients = torch.autograd.grad(items.mean(), list(leaves.values()))
        for name, gradient in zip(leaves, gradients, strict=True):
            np.testing.assert_allclose(gradient, expected[f"{case}__grad_{name}"], rtol=1e-5, atol=1e-9, err_msg=name)


@pytest.mark.parametrize("name", ONE_SIDED)
def test_negatives_are_the_batch_rolled_by_one(name: str) -> None:
    z1, z2 = arrays("losses_inputs.npz", "z1_rec", "z2_rec")
    check(f"{name}_roll", ONE_SIDED[name](z1, z2), z1=z1, z2=z2)
    check(f"{name}_roll", ONE_SIDED[name](z1, z2, z1.roll(1, 0)), z1=z1, z2=z2)


@pytest.mark.parametrize("name", INDEPENDENT)
def test_negatives_of_their_own(name: str) -> None:
    z1, z2, z3 = arrays("losses_inputs.npz", "z1_rec", "z2_rec", "z3_rec")
    check(f"{name}_indep", INDEPENDENT[name](z1, z2, z3), z1=z1, z2=z2, z3=z3)


@pytest.mark.parametrize("p", [1, 2, 3])
def test_identical_pair(p: int) -> None:
    (z1,) = arrays("losses_inputs.npz", "z1_rec")
    z2 = z1.detach().clone().requires_grad_()
    check(f"lp{p}_identical_pair_roll", delta_contrastive(z1, z2, p=p), z1=z1, z2=z2)


def test_alignment_and_uniformity() -> None:
    z1, z2, z3 = arrays("losses_inputs.npz", "z1_rec", "z2_rec", "z3_rec")
    check("alignment_p2", alignment(z1, z2), z1=z1)
    # the public code averages over z1 inside the logarithm: its items are those of z3
    check("uniformity_p2", uniformity(z3, z1), z1=z1)
    for case, dims in (("all_dims", slice(None)), ("as_sliced", slice(-1))):
        a, b, c = z1[:, dims], z2[:, dims], z3[:, dims]
        value = 0.7 * alignment(a, b).mean() + 0.3 * uniformity(c, a).mean()
        assert value.item() == pytest.approx(MEANS[f"alignment_uniformity_alpha0.3_{case}"], rel=1e-5)
    ours = alignment_uniformity(z1, z2, z3, alpha=0.3)
    torch.testing.assert_close(ours, 0.7 * alignment(z1, z2) + 0.3 * uniformity(z1, z3))


@pytest.mark.parametrize("tau", [0.5, 1.0])
def test_two_views(tau: float) -> None:
    z1, z2 = arrays("losses_inputs.npz", "z1_rec", "z2_rec")
    check(f"sslid_ntxent_tau{tau}", two_view_info_nce(z1, z2, tau=tau), z1=z1, z2=z2)


def test_anisotropic() -> None:
    z1, z2, precision, logits = arrays("losses_inputs.npz", "z1_rec", "z2_rec", "lambda_vec", "lambda_logits")
    check("aninfonce_identity", an_info_nce(z1, z2, precision), z1=z1, z2=z2, **{"lambda": precision})
    check("aninfonce_softplus", an_info_nce(z1, z2, softplus(logits)), z1=z1, z2=z2, **{"lambda": logits})
    isotropic = torch.full_like(precision, 3.0)
    check("aninfonce_isotropic3", an_info_nce(z1, z2, isotropic), z1=z1, z2=z2)


def test_every_case_is_used() -> None:
    used = {f"{name}_roll" for name in ONE_SIDED} | {f"{name}_indep" for name in INDEPENDENT}
    used |= {f"lp{p}_identical_pair_roll" for p in (1, 2, 3)} | {f"sslid_ntxent_tau{tau}" for tau in (0.5, 1.0)}
    used |= {f"aninfonce_{name}" for name in ("identity", "softplus", "isotropic3")}
    used |= {"alignment_p2", "uniformity_p2"}
    used |= {f"alignment_uniformity_alpha0.3_{case}" for case in ("all_dims", "as_sliced")}
    assert used | {"lp2_nopow_indep"} == set(MEANS)  # Lp norms, which no experiment takes, are not computed here
