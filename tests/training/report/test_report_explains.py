"""The report explains itself: chance levels, what a run shows and what to try next, the paper's figures, links."""

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from ident3d.cli import main
from ident3d.errors import UserError
from ident3d.latents.worlds import World
from ident3d.metrics import score
from ident3d.metrics.catalogue import CATALOGUE
from ident3d.training.images.best_box import BestBox
from ident3d.training.images.defaults import with_defaults
from ident3d.training.images.settings import TrainSettings
from ident3d.training.mixing.settings import MixingSettings
from ident3d.training.mixing.settings import with_defaults as mixing_with_defaults
from ident3d.training.report import explained
from ident3d.training.report.advice import what_next
from ident3d.training.report.charts import latent_charts
from ident3d.training.report.explained import chance, docs_link, meaning
from ident3d.training.report.mixing_report import what_next as what_next_of_mixing
from ident3d.training.report.mixing_report import write_mixing_report
from ident3d.training.report.paper import mixing_rows, other_than_paper_mixing, paper_row
from ident3d.training.report.tables import duration, sentences

NAMES = ["x", "y", "hue"]
SETTINGS = with_defaults(TrainSettings(batch=128, steps=100), World(), 64, 10_000)
ATTAINABLE = {"x": 1.0, "y": 1.0, "hue": 0.96}


def log_of(*r2: float, loss: float = 1.0) -> list[dict[str, float]]:
    """A log that ends at step 100, with these R² at even distances."""
    return [{"step": 100 * (i + 1) // len(r2), "r2": value, "loss": loss} for i, value in enumerate(r2)]


def scores_of(per_latent: list[float], mcc: float) -> dict[str, object]:
    r2 = {"score": float(np.mean(per_latent)), "per_latent": per_latent}
    return {"latents": NAMES, "count": 4096, "scores": {"linear_r2_held_out": r2, "mcc_pearson": {"score": mcc}}}


FLAT, LOW = log_of(*[0.9] * 12), log_of(*[0.68] * 12)


def test_curves_of_single_latents_are_drawn_from_what_the_log_holds() -> None:
    """Five latents are two charts; values that no chart can hold are left out, and old logs have none."""
    values = [[0.1, 0.2, None, 0.4, 10**400], [0.5, 0.6, 0.7, 0.8], "no list"]
    log = [{"step": k, "r2_by_latent": value} for k, value in enumerate(values)] + [{"step": 9}]
    charts = latent_charts(log, ["x", "y", "<hue>", "spot", "ground"])
    assert [len(re.findall("<polyline", chart)) for chart in charts] == [4, 0]
    assert "&lt;hue&gt;" in charts[0]
    assert set(latent_charts([{"step": 9}], ["x", "y"])) == {""}


@pytest.mark.parametrize(
    ("settings", "log", "scores", "ratios", "facts"),
    [
        (SETTINGS, LOW, scores_of([0.98, 0.97, 0.02], 0.65), {}, ["hue (0.96)", "--supervised"]),
        (replace(SETTINGS, only=("x", "y")), LOW, scores_of([0.98, 0.97, 0.02], 0.65), {}, ["--only"]),
        (SETTINGS, FLAT, scores_of([0.95, 0.95, 0.9], 0.5), {}, ["MCC", "0.50", "0.97", "--bound"]),
        (replace(SETTINGS, space="unbounded"), FLAT, scores_of([0.95, 0.95, 0.9], 0.5), {}, ["--space box"]),
        (replace(SETTINGS, loss="slowvae"), FLAT, scores_of([0.95, 0.95, 0.9], 0.5), {}, ["0.50", "--cond laplace"]),
        (SETTINGS, log_of(*np.linspace(0, 0.8, 12)), None, {}, ["still rose", "100"]),
        (replace(SETTINGS, steps=400), FLAT, None, {}, ["100 of 400", "--resume"]),
        (SETTINGS, log_of(*[1.0] * 12), scores_of([0.91, 0.91, 0.87], 0.93), {}, ["by heart", "0.90"]),
        (SETTINGS, FLAT, scores_of([0.98, 0.97, 0.7], 0.93), {}, ["hue (0.70 of 0.96)"]),
        (SETTINGS, FLAT, None, {"x": 2.0, "y": 3.1}, ["2.0 to 3.1 times", "--sigma"]),
        (SETTINGS, FLAT, scores_of([0.99, 0.98, 0.95], 0.97), {}, ["Every latent", "attainable"]),
    ],
)
def test_what_a_run_shows(settings, log, scores, ratios, facts) -> None:  # type: ignore[no-untyped-def]
    said = what_next(settings, log, scores, ATTAINABLE, ratios, None)
    assert len(said) == 1
    assert all(fact in said[0] for fact in facts), said


def test_scores_that_hold_no_numbers_say_nothing() -> None:
    for values in ([None, 0.1, 0.2], [[0.1], [0.2], [0.3]]):
        scores = {
            "latents": NAMES,
            "count": 99,
            "scores": {"linear_r2_held_out": {"score": None, "per_latent": values}},
        }
        assert "Nothing is amiss" in what_next(SETTINGS, FLAT, scores, ATTAINABLE, {}, None)[0]


def test_nothing_is_said_that_nothing_measured() -> None:
    near_zero = log_of(*[0.09] * 12)
    said = what_next(SETTINGS, near_zero, scores_of([0.02, -0.05, 0.01], 0.05), {}, {}, None, ["hue"])
    assert len(said) == 1
    assert "x, y" in said[0]
    assert not [word for word in ("hue", "1.00", "by heart", "Not yet") if word in said[0]]
    # A high R² where nothing is known of what is attainable is no finding either.
    assert "Nothing is amiss" in what_next(SETTINGS, FLAT, scores_of([0.9, 0.9, 0.9], 0.95), {}, {}, None)[0]


def test_what_views_do_not_share_is_not_missed() -> None:
    views = replace(SETTINGS, rule="view")
    said = what_next(views, LOW, scores_of([0.99, 0.99, 0.02], 0.65), ATTAINABLE, {}, None, private=["hue"])
    assert len(said) == 2
    assert "Private in the views" in said[0]
    assert "hue" in said[0]
    assert "Every shared latent" in said[1]
    said = what_next(views, FLAT, scores_of([0.95, 0.95, 0.9], 0.5), ATTAINABLE, {}, None)
    assert "block R²" in said[0]
    assert "--bound" not in said[0]


def test_few_rows_for_many_codes_are_named() -> None:
    scores = scores_of([0.1, 0.9, 0.2], 0.5) | {"count": 32}
    (said,) = what_next(replace(SETTINGS, dim=8), LOW, scores, ATTAINABLE, {}, None)
    assert "16 rows for 8 coefficients" in said


def test_a_plateau_is_told_from_the_log() -> None:
    best = BestBox(width=5.0, loss=0.5, pair_width=0.2, start=5.77)
    log = [{"step": 20 * (i + 1), "r2": 0.83, "loss": 1.0} for i in range(100)]
    said = what_next(replace(SETTINGS, steps=2_000), log, None, {}, {}, best)
    assert "plateau" in said[0]
    assert "0.83" in said[0]


def test_chance_levels_are_those_of_unrelated_codes() -> None:
    rng = np.random.default_rng(5)
    z, h = rng.normal(size=(400, 3)), rng.normal(size=(400, 3))
    report = score(z, h, ["linear_r2", "linear_r2_held_out", "affine_residual", "mcc_pearson", "mcc_spearman", "sap"])
    for name, found in report.scores.items():
        assert float(found) == pytest.approx(float(chance(name, 400, 3, 3)), abs=0.03), name
        assert meaning(name)
    assert all(meaning(name) for name in CATALOGUE)
    # InfoM compares shares, so that chance is far from 0: it is drawn, unless that takes long.
    assert 0.3 < float(chance("infomec", 400, 3, 3)) < 1
    assert chance("infomec", 10_000, 10, 10) == "–"
    # Modularity compares shares of noise too, and kernel MCC has noise above 0: drawn, of few rows.
    for name in ("modularity", "mcc_kernel"):
        found = [
            float(score(rng.uniform(size=(400, 3)), rng.normal(size=(400, 3)), [name]).scores[name]) for _ in range(8)
        ]
        assert float(chance(name, 400, 3, 3)) == pytest.approx(np.mean(found), abs=0.15), name
        assert chance(name, 1_000_000, 3, 3) == chance(name, 1000, 3, 3)
    # What random codes get in IRS hangs on how they are spread.
    uniform, normal = (
        score(z, h, ["irs"]).scores["irs"] for h in (rng.uniform(size=(400, 3)), rng.normal(size=(400, 3)))
    )
    assert float(normal) - float(uniform) > 0.1
    assert chance("irs", 400, 3, 3) == "–"
    # Counts of a file that somebody wrote draw no gigabytes, and too few rows have no chance level.
    assert chance("mcc_pearson", 10**12, 3, 3) == chance("mcc_pearson", 3, 3, 3) == chance("beta_vae", 9, 0, 3) == "–"


def test_a_paper_s_row_is_of_its_own_scene() -> None:
    assert paper_row(SETTINGS, World()) is not None
    causal = World("causal3dident")
    assert paper_row(with_defaults(TrainSettings(batch=8), causal, 64, 100), causal) is None


def test_rows_of_the_papers_tables_on_mixed_latents() -> None:
    s = mixing_with_defaults(MixingSettings(latent_space="box", cond="normal", space="box", steps=500))
    ((table, row),) = mixing_rows(s)
    assert (table.name, row.name) == ("table2", "normal-p2-box")
    assert other_than_paper_mixing(s, table, row) == ["steps 500 (paper 300,000)"]
    assert mixing_rows(mixing_with_defaults(MixingSettings(lambdas=((5.0, 25.0),)))) == []


def test_links_lead_to_the_docs_or_name_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = re.fullmatch(
        r'<a href="(.*)">words</a> \(docs/explanation/which-score\.md\)', docs_link("which-score", "words", tmp_path)
    )
    assert found
    assert (tmp_path / found[1]).resolve() == (explained.DOCS / "explanation/which-score.md").resolve()
    for page in explained.PAGES.values():
        assert (explained.DOCS / page).is_file()
    # An installed package has no docs beside it.
    monkeypatch.setattr(explained, "DOCS", tmp_path / "none")
    assert docs_link("which-score", "a & b", tmp_path) == "a &amp; b (docs/explanation/which-score.md)"


def test_words_of_a_page() -> None:
    assert [duration(seconds) for seconds in (17.2, 90, 5400)] == ["17 s", "1.5 min", "1.5 h"]
    assert sentences(["more --steps <b>"]) == "<ul><li>more <code>--steps</code> &lt;b&gt;</li></ul>"


def test_mixing_writes_a_report(tmp_path: Path) -> None:
    words = ["--lambda", "5,25", "--dim", "4", "--encoder", "16x1", "--whiten", "--batch", "64", "--steps", "30"]
    done = CliRunner().invoke(main, ["mixing", *words, "--log-every", "2", "--out", str(tmp_path / "run")])
    assert done.exit_code == 0, done.output
    assert str(tmp_path / "run/report.html") in done.stdout
    page = (tmp_path / "run/report.html").read_text()
    for part in ("What this run shows", "loss at f = g⁻¹", "<svg", "R² content", "Λ̂ here", "Per latent", "by chance"):
        assert part in page, part
    assert "<script" not in page
    assert write_mixing_report(tmp_path / "run").read_text() == page  # from the folder alone
    scores = json.loads((tmp_path / "run/evaluation.json").read_text())
    for broken in ({}, scores | {"facts": {"per_latent": ["a"]}}, scores | {"facts": {"minimum": {"loss": []}}}):
        (tmp_path / "run/evaluation.json").write_text(json.dumps(broken))
        with pytest.raises(UserError, match=r"evaluation\.json"):
            write_mixing_report(tmp_path / "run")
    (tmp_path / "run/evaluation.json").unlink()
    with pytest.raises(UserError, match=r"--resume"):
        write_mixing_report(tmp_path / "run")


def test_what_a_run_on_mixed_latents_shows() -> None:
    s = mixing_with_defaults(MixingSettings(dim=3, steps=100))
    facts = {"per_latent": [0.99, 0.1, 0.99], "loss": 2.0, "minimum": {"loss": 1.0}}
    said = what_next_of_mixing(s, FLAT, {"R²": 0.69, "MCC": 0.68, "identity R²": 0.6}, facts)
    assert "z1" in said[0]
    assert "is 2," in said[1]
    assert len(said) == 2
    facts = {"per_latent": [0.7] * 3, "loss": 0.9, "minimum": {"loss": 1.0}}
    said = what_next_of_mixing(s, FLAT, {"R²": 0.7, "MCC": 0.7, "identity R²": 0.6}, facts)
    assert "below that" in said[0]
    # A loss near zero: 0.045 is far above 0.003, whose error is a tenth of that, and no more so if both are noisy.
    facts = {"per_latent": [0.7] * 3, "loss": 0.0453, "minimum": {"loss": 0.0028, "error": 0.0004}}
    for error, word in ((0.002, "not at the minimum"), (0.05, "standard errors")):
        said_of_loss, *_ = what_next_of_mixing(s, FLAT, {"R²": 0.7, "MCC": 0.7}, facts | {"loss_error": error})
        assert word in said_of_loss
        assert "0.0453" in said_of_loss
    # Found, and near enough for where it began.
    begun = [{"step": 1, "loss": 3.0, "r2": 0.1}]
    (found,) = what_next_of_mixing(s, begun, {"R²": 0.98, "MCC": 0.98}, facts | {"per_latent": [0.98] * 3})
    assert "identified" in found
