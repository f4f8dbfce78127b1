"""Tables on published data: found below the data root, generated, or asked for, and scored by the papers' protocol."""

import json
import re
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ident3d.errors import UserError
from ident3d.latents.factors import Factors
from ident3d.loaders.datasets.image_dataset import ImageDataset
from ident3d.loaders.layouts import kitti_masks
from ident3d.loaders.layouts.arrays import from_arrays
from ident3d.metrics.protocols import SLOWVAE
from ident3d.reproduction.reproduce import plan_cells, reproduce
from ident3d.reproduction.stored_data import DATA, stored_folder
from ident3d.sprites import natural
from ident3d.sprites.dsprites import FACTORS, subset
from ident3d.sprites.generate import dsprites
from ident3d.sprites.generate_natural import natural_sprites
from ident3d.training.experiments import workshop2021
from ident3d.training.experiments.by_name import EXPERIMENTS
from ident3d.training.experiments.experiment import Experiment, StoredVariant
from ident3d.training.experiments.workshop2021 import DSPRITES, KITTI, NATURAL
from ident3d.training.images.by_protocol import evaluate_by_protocol
from ident3d.training.images.defaults import with_defaults

SEQUENCES, FRAMES = 6, 8
WORLDS: dict[str, Factors] = {"kitti": kitti_masks.FACTORS, "dsprites": FACTORS, "natural": natural.FACTORS}


def videos(folder: Path, late: int = 0) -> Path:
    """Squares that move and grow, as KITTI Masks are laid out; `late` ones are larger."""
    masks = np.zeros((SEQUENCES, FRAMES, 64, 64), np.bool_)
    for k, t in np.ndindex(SEQUENCES, FRAMES):
        side = 6 + 2 * k + t + late
        masks[k, t, 3 * t : 3 * t + side, 5 * k : 5 * k + side] = True
    frames = masks.reshape(-1, 64, 64)
    columns = {
        "sequence": np.repeat(np.arange(SEQUENCES), FRAMES),
        "frame": np.tile(np.arange(FRAMES), SEQUENCES),
    }
    latents, factors = kitti_masks.latents_of(frames), kitti_masks.FACTORS
    from_arrays(
        frames[..., None] * np.uint8(255), latents, folder, factors=factors, columns=columns, name="KITTI Masks",
        workers=1, show_progress=False,
    )  # fmt: skip
    return folder


def short(experiment: Experiment, **change: Any) -> Experiment:
    """The experiment with runs of two steps."""
    (mini,) = experiment.profiles["mini"]
    few = replace(mini, settings=replace(mini.settings, steps=2, batch=8), **change)
    return replace(experiment, profiles={**experiment.profiles, "tiny": (few,)})


def run(root: Path, experiment: Experiment, **more: Any) -> tuple[Path, str]:
    return reproduce(
        "", profile="tiny", root=root, experiment=experiment, device="cpu", show_progress=False,
        **{"say": lambda _: None} | more,
    )  # fmt: skip


def test_rows_on_kitti_masks_are_scored_by_the_protocol(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    videos(tmp_path / "kitti")
    monkeypatch.setitem(DATA, "kitti", replace(DATA["kitti"], images=SEQUENCES * FRAMES))
    rows = ["laplace-1", "normal-box-5", "slowvae-5"]
    folder, markdown = run(tmp_path, short(KITTI), rows=rows)
    assert "| 0.7710 ± 0.0100 | " in markdown
    assert "trained on" in markdown
    assert "held-out" not in markdown
    settings = markdown[markdown.index("## Settings") :]
    assert re.search(r"\| steps +\| 300,000 +\| 2 +\|", settings)
    assert re.search(r"\| lr +\| 0\.0001 +\| 0\.001 +\|", settings)
    assert "share of" not in settings
    results = {each["row"]: each for each in json.loads((folder / "table.json").read_text())["results"]}
    assert set(results) == set(rows)
    assert results["slowvae-5"]["facts"]["settings"]["max_lag"] == 5
    # Each row has its report: the protocol's scores and codes, and of an autoencoder the images that it makes.
    for row, made in (("slowvae-5", True), ("laplace-1", False)):
        page = (folder / f"masks/{row}-seed0/report.html").read_text()
        assert "Not scored" not in page
        assert f"{results[row]['figures']['MCC']:.4f}" in page
        assert "Correlation of latents and codes" in page
        assert ("Latent traversals" in page and "Reconstructions" in page) == made
    again = evaluate_by_protocol(folder / "masks/normal-box-5-seed0", "slowvae", show_progress=False)
    assert results["normal-box-5"]["figures"] == {"MCC": float(again.found.scores["mcc"])}
    # Figures of fewer samples do not stand beside those of the protocol's own count.
    with pytest.raises(UserError, match=r"fraction"):
        run(tmp_path, short(KITTI, fraction=0.5), rows=rows)


def test_a_finished_table_needs_no_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = videos(tmp_path / "kitti")
    monkeypatch.setitem(DATA, "kitti", replace(DATA["kitti"], images=SEQUENCES * FRAMES))
    _, markdown = run(tmp_path, short(KITTI), rows=["laplace-1"])
    data.rename(tmp_path / "away")
    said: list[str] = []
    assert run(tmp_path, short(KITTI), rows=["laplace-1"], say=said.append)[1] == markdown
    assert said == ["All rows asked for are finished."]
    with pytest.raises(UserError, match=r"import kitti-masks"):
        run(tmp_path, short(KITTI), rows=["laplace-1", "normal-1"])


def test_dsprites_are_generated_and_the_row_scored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = {"scale": 1, "orientation": 0, "posY": [0.0, 1.0]}
    few = replace(
        DATA["dsprites"], images=3 * 32 * 2, factors=subset(kept), generate=partial(dsprites, where=kept, workers=1)
    )
    monkeypatch.setitem(DATA, "dsprites", few)
    # Boosting of this many classes takes too long for a test.
    columns = {name: score for name, score in DSPRITES.scores.items() if name != "DCI"}
    experiment = replace(short(DSPRITES, fraction=0.02), columns=tuple(columns), scores=columns)
    said: list[str] = []
    with pytest.raises(UserError, match=r"au-0\.9-lap"):
        run(tmp_path, experiment, rows=["au-0.9-lop"])
    assert not (tmp_path / "dsprites").exists()
    folder, markdown = run(tmp_path, experiment, rows=["au-0.9-lap"], say=said.append)
    # What it takes is said before anything is made.
    assert re.search(r"^1 row to do; about .*training", said[0])
    assert "192 images, as by `ident3d sprites dsprites" in said[1]
    assert len([sentence for sentence in said if "to do" in sentence]) == 1
    assert " 0.8950 ± 0.0170 " in markdown
    assert re.search(r"share of the protocol's samples +\| 1 +\| 0\.02 +\|", markdown)
    (result,) = json.loads((folder / "table.json").read_text())["results"]
    assert set(result["figures"]) == set(columns)
    assert result["facts"]["images"]["fraction"] == 0.02
    said.clear()
    run(tmp_path, experiment, rows=["au-0.9-lap"], say=said.append)
    assert said == ["All rows asked for are finished."]


def few_natural_sprites(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the tables be on squares that are not turned, at the transitions of `videos`."""
    kept = {"angle": 0.0, "shape": "square"}
    monkeypatch.setitem(DATA, "kitti", replace(DATA["kitti"], images=SEQUENCES * FRAMES))
    for images, count in (("discrete", None), ("grid", 32 * 32 * 6)):
        few = replace(
            DATA[f"natural-kitti-{images}"],
            images=count,
            factors=subset(kept, natural.FACTORS),
            generate=partial(natural_sprites, images=images, where=kept, workers=1),
        )
        monkeypatch.setitem(DATA, f"natural-kitti-{images}", few)


def test_natural_sprites_are_made_of_kitti_masks_and_scored_on_their_grid(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    few_natural_sprites(monkeypatch)
    discrete, continuous = NATURAL.profiles["mini"]
    assert (discrete.rows[0][:2], continuous.rows[0][:2]) == ("nd", "nc")
    few = short(replace(NATURAL, profiles={"mini": (discrete,)}), fraction=0.02)
    said: list[str] = []
    with pytest.raises(UserError, match=r"import kitti-masks"):
        run(tmp_path, few, rows=["nd-au-p1"], say=said.append)
    # Nobody is told how long it takes with data that are not to be had.
    assert not said
    videos(tmp_path / "kitti")
    columns = {name: NATURAL.scores[name] for name in ("BetaVAE", "MCC")}
    folder, markdown = run(tmp_path, replace(few, columns=tuple(columns), scores=columns), rows=["nd-au-p1"])
    assert "KITTI transitions" in markdown
    (result,) = json.loads((folder / "table.json").read_text())["results"]
    assert set(result["figures"]) == set(columns)
    assert result["facts"]["images"]["test"] == 32 * 32 * 6


@pytest.mark.parametrize(
    ("name", "made", "says"),
    [
        # Transitions of another source, pairs of another kind, drawn images, and some of the values.
        ("natural-discrete-drawn", {"images": "discrete", "n": 8}, "Natural Sprites with KITTI transitions"),
        ("natural-kitti-discrete", {"images": "continuous"}, "continuous pairs"),
        ("natural-kitti-grid", {"images": "grid", "n": 200}, "drawn from the grid"),
        ("natural-kitti-grid", {"images": "grid", "where": {"shape": "square", "angle": 0}}, "983,040"),
        ("natural-kitti-discrete", {"images": "discrete", "where": {"shape": "square"}}, "1 values of shape"),
    ],
)
def test_other_images_than_the_tables_are_refused(
    name: str, made: dict[str, Any], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = DATA[name]
    if "grid" not in name:
        monkeypatch.setitem(DATA, name, replace(data, images=None))
    natural_sprites(tmp_path / name, videos(tmp_path / "videos"), workers=1, show_progress=False, **made)
    with pytest.raises(UserError, match=says):
        stored_folder(name, tmp_path, lambda _: None, False)


def test_a_grid_of_other_transitions_is_refused_before_anything_is_trained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    few_natural_sprites(monkeypatch)
    videos(tmp_path / "kitti")
    made: dict[str, Any] = {"where": {"angle": 0, "shape": "square"}, "workers": 1, "show_progress": False}
    natural_sprites(tmp_path / "natural-kitti-grid", videos(tmp_path / "other", late=1), images="grid", **made)
    (discrete, _) = NATURAL.profiles["mini"]
    with pytest.raises(UserError, match=r"natural-kitti-grid .*different transitions"):
        run(tmp_path, short(replace(NATURAL, profiles={"mini": (discrete,)})), rows=["nd-au-p1"])
    assert not list(tmp_path.rglob("metrics.jsonl"))


def test_rows_of_one_kind_of_sprites_are_not_run_on_the_other() -> None:
    """Continuous pairs have no factors with listed values, and discrete ones are another column of the paper."""
    for profile in NATURAL.profiles:
        plan = partial(plan_cells, NATURAL, profile, Path())
        rows = ("nd-au-p1", "nc-au-p1", "nc-slowvae")
        found = {(cell.variant.name.rpartition("-")[2], cell.row.name) for cell in plan(rows)}
        assert found == {("discrete", "nd-au-p1"), ("continuous", "nc-au-p1"), ("continuous", "nc-slowvae")}
        assert len(plan()) == len(NATURAL.rows)
        (discrete, _) = (variant.name for variant in NATURAL.profiles[profile])
        with pytest.raises(UserError, match=f"nc-au-p1 .*{discrete}"):
            plan(rows, variants=[discrete])


def test_a_wrong_folder_is_refused_before_others_are_generated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    few_natural_sprites(monkeypatch)
    kitti = videos(tmp_path / "kitti")
    natural_sprites(tmp_path / "natural-kitti-grid", kitti, images="grid", n=20, workers=1, show_progress=False)
    (discrete, _) = NATURAL.profiles["mini"]
    with pytest.raises(UserError, match=r"natural-kitti-grid .*drawn from the grid"):
        run(tmp_path, short(replace(NATURAL, profiles={"mini": (discrete,)})), rows=["nd-au-p1"])
    assert not (tmp_path / "natural-kitti-discrete").exists()


def test_data_that_are_not_there_are_asked_for_by_their_command(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"ident3d import kitti-masks .*kitti --from"):
        run(tmp_path, short(KITTI))
    videos(tmp_path / "kitti")
    with pytest.raises(UserError, match=r"holds 48 images .* 84,626 .*--root"):
        run(tmp_path, short(KITTI))
    assert not list(tmp_path.rglob("reproduce"))


def test_there_are_no_validation_images(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="--validation"):
        run(tmp_path, short(KITTI), validation=True)


def test_the_papers_size_of_natural_sprites_draws_angle_and_shape_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A transition is seen with several angles and shapes, as often as the paper's data set draws them."""
    for variant, images in zip(NATURAL.profiles["paper"], ("discrete", "continuous"), strict=True):
        assert isinstance(variant, StoredVariant)
        data = DATA[variant.data]
        assert f" --images {images} --n 4000000 --out " in data.command
        # Of 300,000 steps of 32 pairs, none is seen more than five times on average.
        assert data.images == 4_000_000 > 2 * 300_000 * 32 / 5
        assert "grid" in (variant.scored_on or "grid")
        # Of the transitions at hand, one of each is refused, and drawn ones are what is wanted.
        few = replace(data, name="Natural Sprites with KITTI transitions", images=400)
        monkeypatch.setitem(DATA, variant.data, few)
        made: dict[str, Any] = {"images": images, "workers": 1, "show_progress": False}
        kitti = tmp_path / "kitti" if (tmp_path / "kitti").exists() else videos(tmp_path / "kitti")
        natural_sprites(tmp_path / "each" / variant.data, kitti, **made)
        with pytest.raises(UserError, match=f"{images} pairs, one of each transition, and .* of drawn transitions"):
            stored_folder(variant.data, tmp_path / "each", lambda _: None, False)
        natural_sprites(tmp_path / variant.data, kitti, n=400, **made)
        folder = stored_folder(variant.data, tmp_path, lambda _: None, False)
        drawn = ImageDataset(folder).latents(range(0, 400, 2))
        looks = {tuple(row) for row in drawn}
        assert len(looks) > 2 * len({tuple(row) for row in drawn[:, :3]})


@pytest.mark.parametrize("experiment", workshop2021.EXPERIMENTS, ids=lambda experiment: experiment.name)
def test_every_row_is_accepted_in_every_profile(experiment: Experiment) -> None:
    assert EXPERIMENTS[experiment.name] is experiment
    assert set(experiment.scores) == set(experiment.columns)
    assert {name for name, _ in experiment.scores.values()} <= set(SLOWVAE)
    assert set(experiment.profiles) == {"paper", "mini"}
    for profile in experiment.profiles:
        for variant in experiment.variants(profile):
            assert isinstance(variant, StoredVariant)
            for row in experiment.rows_of(variant, [row.name for row in experiment.rows]):
                images = DATA[variant.data].images or 100_000
                s = with_defaults(variant.settings_of(row, 0), WORLDS[variant.data.split("-")[0]], 64, images)
                assert (s.dim, s.dtype, s.space) == (10, "fp32", "box" if "box" in row.name else "unbounded")
                assert s.rule == ("grid" if variant.data == "dsprites" else "time")
                assert set(row.paper) <= set(experiment.columns)
                assert profile == "mini" or (s.steps, s.lr, s.schedule) == (300_000, 1e-4, "constant")
