"""TriCL, overlap and mismatched marginals on mixed latents."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from ident3d.errors import UserError
from ident3d.training.experiments import gap2024
from ident3d.training.experiments.by_name import EXPERIMENTS
from ident3d.training.experiments.experiment import Experiment
from ident3d.training.mixing.by_lambda import as_lambda, beside_lambda
from ident3d.training.mixing.scores import evaluate_mixing, mismatch_figures, overlap_of_pairs, shown_figures
from ident3d.training.mixing.settings import MixingSettings, with_defaults
from ident3d.training.mixing.train import build, mixing

TINY = MixingSettings(dim=4, encoder="16x2", batch=64, steps=3, lambdas=((25.0,),))
CPU = torch.device("cpu")


def test_tricl_trains_and_is_scored(tmp_path: object) -> None:
    settings = replace(TINY, loss="tricl-released", tau=0.2, lambdas=((5.0, 50.0),))
    work = mixing(settings, out=f"{tmp_path}/run", device="cpu", show_progress=False)
    found = evaluate_mixing(work)
    assert {"R²", "R² content", "overlap"} <= found["figures"].keys()
    (s,) = found["facts"]["precision"]
    assert len(s) == 4
    # ⟨s u, v⟩/τ: what stands beside Λ is s/τ.
    (*_, shown) = beside_lambda(work.settings.lambdas, found["facts"], as_lambda("tricl-released", 0.2))[0]
    halves = sum(sorted(s)[:2]) / 2, sum(sorted(s)[2:]) / 2
    assert shown == ", ".join(f"{half / 0.2:.4g}" for half in halves)
    assert f"here {shown}" in shown_figures(found, work.settings)


def test_overlap_falls_with_lambda_and_rises_with_the_batch() -> None:
    def share(precision: float, batch: int) -> float:
        return overlap_of_pairs(build(replace(TINY, lambdas=((precision,),), batch=batch), CPU))["overlap"]

    assert share(400, 64) < share(25, 64) < share(25, 1024)
    assert share(25, 64) == share(25, 64)


def test_domains_are_told_apart_the_better_the_more_they_are_concentrated() -> None:
    found = []
    for kappa in (0.0, 2.0, 20.0):
        work = build(replace(TINY, marginal="vmf", marginal_kappa=kappa), CPU)
        z = work.sampler.draw(4000, torch.Generator().manual_seed(0))[0]
        found.append(mismatch_figures(work, z))
    accuracies = [figures["domain accuracy"] for figures in found]
    assert accuracies[0] == pytest.approx(0.5, abs=0.05)
    assert accuracies == sorted(accuracies)
    assert accuracies[-1] > 0.99
    assert all(np.isfinite(figures["R² other pole"]) for figures in found)


def test_what_tricl_cannot_take_is_one_sentence() -> None:
    with pytest.raises(UserError, match=r"tricl.*--space sphere"):
        with_defaults(replace(TINY, loss="tricl", space="unbounded"))
    with pytest.raises(UserError, match=r"lambda"):
        with_defaults(replace(TINY, loss="tricl", lambdas=((1.0, 2.0, 3.0),)))


@pytest.mark.parametrize("experiment", gap2024.EXPERIMENTS, ids=lambda experiment: experiment.name)
def test_every_row_is_accepted_in_every_profile(experiment: Experiment) -> None:
    assert EXPERIMENTS[experiment.name] is experiment
    names = {row.name for row in experiment.rows}
    assert all(set(places) <= names for plot in experiment.plots for _, places in plot.curves.values())
    for profile in experiment.profiles:
        for variant in experiment.variants(profile):
            for row in experiment.rows_of(variant):
                s = with_defaults(variant.settings_of(row, 0))
                assert s.latent_space == "sphere"
                assert s.supervised == row.name.startswith("supervised")
