"""Hard negatives on mixed latents: next to the negatives that all share, after ordinary training, and the best Λ̂."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from ident3d.errors import UserError
from ident3d.losses import Precision, an_info_nce
from ident3d.training.loop.log_file import read_log
from ident3d.training.mixing.ground_truth import loss_by_lambda
from ident3d.training.mixing.loss import MixingLoss
from ident3d.training.mixing.sampling import sampler
from ident3d.training.mixing.scores import evaluate_mixing
from ident3d.training.mixing.settings import MixingSettings, with_defaults
from ident3d.training.mixing.train import build, mixing

HARD = MixingSettings(
    dim=4, encoder="16x2", batch=16, steps=6, lambdas=((150.0,),), hard=(100.0,), hard_count=3, hard_beside=True
)
CPU = torch.device("cpu")


@pytest.mark.parametrize("space", ["sphere", "unbounded"])
def test_hard_negatives_stand_beside_those_that_all_share(space: str) -> None:
    """Against a sum over every term, written out."""
    s = with_defaults(replace(HARD, space=space, batch=3))
    loss = MixingLoss(s)
    views = [2 * torch.randn(n, 4, generator=torch.Generator().manual_seed(n)).double() for n in (3, 6, 9)]
    codes = [views[0], views[1][:3], views[2]]
    assert isinstance(loss.first.precision, Precision)
    weights = loss.first.precision().detach().double().numpy()
    z, z_tilde, own = (x.numpy() for x in codes)
    if space == "sphere":
        z, z_tilde, own = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in (z, z_tilde, own))

    def likeness(a: np.ndarray, b: np.ndarray) -> float:
        return float(-(weights * (a - b) ** 2).sum() / 2)

    found = []
    across = [np.exp([likeness(z[i], other) for other in z_tilde]).sum() for i in range(3)]
    for view, others in ((z, own), (z_tilde, None)):
        for i in range(3):
            total = across[i] + sum(np.exp(likeness(view[i], view[j])) for j in range(3) if j != i)
            if others is not None:
                total += sum(np.exp(likeness(view[i], others[3 * i + m])) for m in range(3))
            found.append(np.log(total) - likeness(z[i], z_tilde[i]))
    beside = float(loss(codes, codes).detach())
    assert beside == pytest.approx(np.mean(found), rel=1e-4)
    # Without the codes of hard negatives it is the ordinary loss.
    plain = an_info_nce(codes[0], codes[1], loss.first.precision(), normalize=space == "sphere").mean()
    assert float(loss(codes[:2], codes[:2]).detach()) == pytest.approx(float(plain.detach()), rel=1e-5)
    assert beside > float(plain.detach())


def test_infonce_has_them_beside_its_own_negatives() -> None:
    s = with_defaults(replace(HARD, loss="infonce", negatives="batch"))
    loss, draws = MixingLoss(s), sampler(s).draw(16, torch.Generator().manual_seed(0))
    beside, ordinary = float(loss(draws, draws)), float(loss(draws[:2], draws[:2]))
    alone = float(MixingLoss(replace(s, hard_beside=False))(draws, draws))
    assert beside > max(ordinary, alone)


def test_until_they_come_a_run_is_the_ordinary_one(tmp_path: Path) -> None:
    plain = replace(HARD, hard=(), hard_count=8, hard_beside=False)
    both = {
        name: mixing(s, out=tmp_path / name, device="cpu", log_every=1, show_progress=False)
        for name, s in (("plain", plain), ("then", replace(HARD, hard_after=4)))
    }
    losses = {name: [line["loss"] for line in read_log(tmp_path / name)] for name in both}
    assert losses["plain"][:4] == losses["then"][:4]
    assert losses["plain"][4] < losses["then"][4]


def test_the_loss_over_lambda_is_least_at_the_difference() -> None:
    s = with_defaults(replace(HARD, dim=10, hard_count=8, hard_beside=False, batch=256))
    points = dict(loss_by_lambda(s))
    assert min(points, key=points.__getitem__) == pytest.approx(50, rel=0.1)
    assert points[150] > points[50] < points[10]
    facts = evaluate_mixing(build(s, CPU))["facts"]
    assert dict(facts["loss_by_lambda"]) == points


@pytest.mark.parametrize("change", [{"hard_beside": True}, {"hard_after": 2}])
def test_what_belongs_to_hard_negatives_needs_them(change: dict[str, int]) -> None:
    with pytest.raises(UserError, match=f"--{next(iter(change)).replace('_', '-')} is for --hard-lambda"):
        with_defaults(MixingSettings(lambdas=((150.0,),), **change))
    with pytest.raises(UserError, match="--hard-after"):
        with_defaults(replace(HARD, hard_after=-1))
    with pytest.raises(UserError, match=f"--hard-after {HARD.steps}"):
        with_defaults(replace(HARD, hard_after=HARD.steps or 0))
