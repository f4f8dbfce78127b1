"""TriCL's loss against loops over its definition, in the paper's form and as released."""

import math

import pytest
import torch

from ident3d.errors import UserError
from ident3d.training.losses.aninfonce import decorrelation, tri_factor_nce
from ident3d.training.losses.objective import Objective


def codes() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    z, z_tilde = torch.randn(2, 5, 3, generator=generator, dtype=torch.float64)
    return z, z_tilde, torch.tensor([0.5, 1.0, 3.0], dtype=torch.float64)


@pytest.mark.parametrize("released", [False, True])
def test_the_loss_is_that_of_a_loop(released: bool) -> None:
    z, z_tilde, scale = codes()
    both = [row / row.norm() for row in (*z, *z_tilde)]
    found = tri_factor_nce(z, z_tilde, scale, tau=0.2, released=released)
    for i, u in enumerate(both):
        weighed = u * scale if i < 5 or not released else u
        partner = (i + 5) % 10
        positive = math.exp(float(weighed @ both[partner]) / 0.2)
        others = sum(math.exp(float(weighed @ both[j]) / 0.2) for j in range(10) if j not in (i, partner))
        assert float(found[i]) == pytest.approx(-math.log(positive / (positive + others)))


def test_decorrelation_can_vanish_only_if_codes_are_stretched() -> None:
    z, z_tilde, _ = codes()
    both = torch.nn.functional.normalize(torch.cat([z, z_tilde]), dim=1)
    for stretched, factor in ((True, 3.0), (False, 1.0)):
        c = factor * both.T @ both / 10
        wanted = sum((float(c[k, m]) - (k == m)) ** 2 for k in range(3) for m in range(3)) / 9
        assert float(decorrelation(z, z_tilde, stretched=stretched)) == pytest.approx(wanted)
    axes = torch.eye(3)
    assert float(decorrelation(axes, -axes)) == pytest.approx(0, abs=1e-12)
    assert float(decorrelation(axes, -axes, stretched=False)) == pytest.approx((1 - 1 / 3) ** 2 / 3)


@pytest.mark.parametrize("name", ["tricl", "tricl-released"])
def test_the_objective_is_the_sum_of_both_terms_and_learns_the_diagonal(name: str) -> None:
    z, z_tilde, _ = codes()
    released = name == "tricl-released"
    objective = Objective(name, 3, space="sphere", p=None, tau=0.2, alpha=0.5, negatives="batch", seed=0)
    (scale,) = objective.diagonals()
    value = objective(torch.cat([z, z_tilde]), ())
    wanted = tri_factor_nce(z, z_tilde, scale, tau=0.2, released=released).mean()
    torch.testing.assert_close(value, wanted + decorrelation(z, z_tilde, stretched=not released))
    value.backward()
    (weights,) = objective.parameters()
    assert weights.grad is not None
    assert (weights.grad != 0).all()


def test_wrong_shapes_and_temperatures_are_refused() -> None:
    z, z_tilde, scale = codes()
    with pytest.raises(UserError, match=r"scale.*\(3\)"):
        tri_factor_nce(z, z_tilde, scale[:2])
    with pytest.raises(UserError, match="tau is above 0"):
        tri_factor_nce(z, z_tilde, scale, tau=0)
    with pytest.raises(UserError, match="positives"):
        decorrelation(z, z_tilde[:2])
