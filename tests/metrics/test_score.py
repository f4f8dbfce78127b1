"""The report: which scores it holds and leaves out, and its table, JSON and picture."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.image import imread
from matplotlib.patches import Rectangle

from ident3d import metrics
from ident3d.errors import UserError
from ident3d.metrics.picture import correlation_figure


def arrays(n: int = 300) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    z = rng.uniform(-1, 1, size=(n, 4))
    return z, z[:, [2, 0, 1]] * [1, -2, 3] + 0.05 * rng.normal(size=(n, 3))


def test_defaults_say_what_was_left_out() -> None:
    z, h = arrays()
    report = metrics.score(z, h)
    assert list(report.scores) == [
        *("linear_r2", "linear_r2_held_out", "affine_residual", "orthogonal_residual"),
        *("mcc_pearson", "mcc_spearman", "kernel_ridge_r2", "mig", "modularity", "sap"),
    ]
    assert set(report.scores) | set(report.left_out) == set(metrics.CATALOGUE)
    assert report.left_out["class_accuracy"] == "no classes were given"
    assert "not a default" in report.left_out["dci"]
    assert float(report.scores["mcc_pearson"]) == float(metrics.mcc(z, h))
    assert float(report.scores["linear_r2"]) == float(metrics.linear_r2(z, h))


def test_all_scores_of_every_kind_of_latent() -> None:
    rng = np.random.default_rng(1)
    z = np.column_stack([rng.uniform(size=(400, 2)), rng.integers(3, size=400), rng.uniform(0, 6, size=400)])
    h = np.column_stack([z[:, :3], np.mod(z[:, 3] + 1, 6)]) + 0.01 * rng.normal(size=(400, 4))
    report = metrics.score(
        z,
        h,
        "all",
        kinds=["continuous", "continuous", "discrete", 6.0],
        classes=z[:, 2].astype(int),
        blocks={"content": [0, 1], "style": [2]},
        augmentations={"flip": z[:, 0] > 0.5},
        code_period=6,
    )
    assert list(report.scores) == list(metrics.CATALOGUE)
    assert report.left_out == {}
    assert float(report.scores["circular_correlation"]) > 0.99
    assert float(report.scores["class_accuracy"]) == 1
    rows = {
        line.split()[0]: line.split()[1:] for line in report.table().splitlines() if line[:3] == "per" or "_" in line
    }
    assert rows["circular_correlation"][:3] == ["-", "-", "-"]
    # Its values per latent are another score than its headline.
    rows = [line for line in report.table().splitlines() if line.startswith("infomec")]
    assert "InfoM" in rows[0]
    assert "InfoE" in rows[1]


def test_fewer_rows_than_columns() -> None:
    z, h = arrays(5)
    report = metrics.score(z, h, "all")
    assert report.scores == {}
    assert "it needs more than 5 rows for 4 columns" in report.table()
    with pytest.raises(UserError, match=r"mcc_pearson.*5 rows"):
        metrics.score(z, h, "mcc_pearson")


def test_named_scores_and_wrong_names() -> None:
    z, h = arrays()
    report = metrics.score(z, h, ["sap", "linear_r2"])
    assert list(report.scores) == ["linear_r2", "sap"]
    assert report.left_out == {}
    assert list(metrics.score(z, h, "mig").scores) == ["mig"]
    with pytest.raises(UserError, match=r"mcc_person.*mcc_pearson"):
        metrics.score(z, h, ["mcc_person"])
    with pytest.raises(UserError, match=r"class_accuracy.*classes"):
        metrics.score(z, h, ["class_accuracy"])
    with pytest.raises(UserError, match="code_period is 0"):
        metrics.score(z, h, code_period=0)
    with pytest.raises(UserError, match="seed must be"):
        metrics.score(z, h, seed=-1)
    with pytest.raises(UserError, match="names no score"):
        metrics.score(z, h, [])
    with pytest.raises(UserError, match="each of the 4 latents"):
        metrics.score(z, h, latent_names=["x"])


def test_intervals_hold_the_values() -> None:
    z, h = arrays()
    report = metrics.score(z, h, resamples=200, classes=(z[:, 0] > 0).astype(int))
    expected = {"linear_r2", "linear_r2_held_out", "affine_residual", "orthogonal_residual", "mcc_pearson"}
    assert set(report.intervals) == expected | {"mcc_spearman", "kernel_ridge_r2", "class_accuracy"}
    for name, interval in report.intervals.items():
        assert interval.low - 0.01 <= float(report.scores[name]) <= interval.high + 0.01, name
        assert interval.low < interval.high
    assert "95 % interval" in report.table()
    with pytest.raises(UserError, match="0 < level < 1"):
        metrics.score(z, h, resamples=100, level=2)


def test_the_same_seed_gives_the_same_report() -> None:
    z, h = arrays()
    names = ["linear_r2_held_out", "kernel_ridge_r2", "dci", "beta_vae", "factor_vae", "explicitness"]
    first, second, other = (metrics.score(z, h, names, seed=seed, resamples=20).as_dict() for seed in (1, 1, 2))
    assert first["scores"] == second["scores"]
    assert first["intervals"] == second["intervals"]
    for name in ("linear_r2_held_out", "kernel_ridge_r2", "dci", "explicitness"):
        assert first["scores"][name] != other["scores"][name]


def test_table_and_json_agree() -> None:
    z, h = arrays()
    z[:, 3] = 0.5
    report = metrics.score(z, h, latent_names=["x", "y", "hue", "fixed"])
    content = json.loads(report.to_json())
    assert content == report.as_dict()
    assert content["scores"]["linear_r2"]["per_latent"][3] is None
    assert content["settings"]["seed"] == 0
    assert content["matching"]["assignment"] == [1, 2, 0, -1]
    lines = report.table().splitlines()
    assert any(line.startswith("- ") and "constant" in line for line in lines)
    assert any(line.split()[:2] == ["mcc_pearson", f"{report.scores['mcc_pearson'].score:.4f}"] for line in lines)
    assert next(line for line in lines if line.startswith("per latent")).split() == [
        "per",
        "latent",
        "x",
        "y",
        "hue",
        "fixed",
    ]
    assert all(len(line) < 120 for line in lines)


def test_picture_marks_the_assignment(tmp_path: Path) -> None:
    z, h = arrays()
    result = metrics.mcc(z, h)
    axes = correlation_figure(result).axes[0]
    frames = {
        (round(patch.get_y() + 0.47), round(patch.get_x() + 0.47))
        for patch in axes.patches
        if isinstance(patch, Rectangle)
    }
    assert frames == {(0, 1), (1, 2), (2, 0)}
    assert axes.images[0].get_array().shape == (4, 3)
    assert [text.get_text() for text in axes.texts][1] == f"{result.correlation[0, 1]:.2f}".replace("-", "−")
    picture = imread(metrics.score(z, h, "mcc_pearson").plot(tmp_path / "m.png"))
    assert min(picture.shape[:2]) > 300
    assert picture[..., :3].std() > 0.1


def test_pictures_that_cannot_be_written(tmp_path: Path) -> None:
    result = metrics.mcc(*arrays())
    with pytest.raises(UserError, match=r"\.png, \.pdf, \.svg"):
        metrics.correlation_picture(result, tmp_path / "m.gif")
    with pytest.raises(UserError, match="no folder"):
        metrics.correlation_picture(result, tmp_path / "missing" / "m.png")
    with pytest.raises(UserError, match="4 latent names"):
        metrics.correlation_picture(result, tmp_path / "m.png", latent_names=["x"])
    (tmp_path / "folder.png").mkdir()
    with pytest.raises(UserError, match="cannot be written"):
        metrics.correlation_picture(result, tmp_path / "folder.png")


def test_the_page_lists_every_score() -> None:
    page = (Path(__file__).parents[2] / "docs/reference/metrics.md").read_text()
    # name, function, formula, range, up to, cost
    rows = [line.split(" | ")[0] for line in page.splitlines() if line.startswith("| `") and line.count("|") == 7]
    assert sorted(rows) == sorted(f"| `{name}`" for name in metrics.CATALOGUE)


def test_mistakes_in_what_was_given_are_not_left_out() -> None:
    z, h = arrays()
    with pytest.raises(UserError, match="classes has 299 rows"):
        metrics.score(z, h, classes=np.arange(299))
    with pytest.raises(UserError, match="between 0 and 3"):
        metrics.score(z, h, blocks={"content": [4]})
    with pytest.raises(UserError, match="'flip'"):
        metrics.score(z, h, augmentations={"flip": [True]})


def test_many_latents_are_shown_in_lines_that_fit() -> None:
    rng = np.random.default_rng(2)
    z = rng.uniform(size=(100, 30))
    report = metrics.score(z, z, ["mcc_pearson", "sap"], latent_names=[f"rotation_{i}" for i in range(30)])
    lines = report.table().splitlines()
    assert max(map(len, lines)) <= 110
    shown = [word for line in lines if line.startswith("per latent") for word in line.split()[2:]]
    assert shown == list(report.latent_names)
