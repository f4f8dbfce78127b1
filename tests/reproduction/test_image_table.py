"""What a table on images takes from scores, its R² by latent, and the order of its figures beside the paper's."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from ident3d import score
from ident3d.reproduction.cells import Result
from ident3d.reproduction.image_table import SCORE_BY_LATENT, by_latent, figures_of, latent_grid, order_grid
from ident3d.reproduction.table import table_of
from ident3d.training.experiments.icml2021 import TABLE4
from ident3d.training.experiments.neurips2021 import CAUSAL3DIDENT

ROWS, COLUMNS = CAUSAL3DIDENT.rows, CAUSAL3DIDENT.columns
PAPER = np.array([[row.paper[column][0] / 100 for column in COLUMNS] for row in ROWS])


def results_with(figures: np.ndarray, seed: int = 0) -> list[Result]:
    return [
        Result("causal", row.name, seed, dict(zip(COLUMNS, map(float, line), strict=True)), 1.0, "run", {})
        for row, line in zip(ROWS, figures, strict=True)
    ]


def correlations(results: list[Result]) -> dict[str, tuple[int, float]]:
    grid = order_grid(CAUSAL3DIDENT, "causal", results)
    return {name: (int(number), float(rho)) for name, number, rho in grid.rows}


def test_any_rising_map_of_the_papers_figures_keeps_their_order() -> None:
    found = correlations(results_with(np.tanh(PAPER)))
    assert found["all cells"] == (84, 1.0)
    assert found["class, over rows"] == (12, 1.0)
    assert {number for name, (number, _) in found.items() if name.endswith("over columns")} == {7}
    assert all(rho == 1.0 for _, rho in found.values())


def test_one_column_upside_down_is_seen_there_alone() -> None:
    figures = PAPER.copy()
    figures[:, 1] *= -1
    found = correlations(results_with(figures))
    assert found["pos obj, over rows"][1] == -1.0
    assert found["class, over rows"][1] == 1.0
    assert found["all cells"][1] < 0.9


def test_equal_figures_share_a_rank_and_the_mean_over_seeds_counts() -> None:
    noise = np.random.default_rng(0).normal(0, 0.3, PAPER.shape)
    both = results_with(PAPER + noise) + results_with(PAPER - noise + 0.01 * noise, seed=1)

    def midranks(values: np.ndarray) -> np.ndarray:
        return (values[:, None] > values).sum(1) + ((values[:, None] == values).sum(1) + 1) / 2

    ours = (PAPER + 0.005 * noise).ravel()
    expected = np.corrcoef(midranks(PAPER.ravel()), midranks(ours))[0, 1]
    assert correlations(both)["all cells"][1] == pytest.approx(expected, abs=0.005)
    assert expected < 1


def test_few_or_equal_figures_have_no_order() -> None:
    few = results_with(PAPER)[:3]
    assert all(name == "all cells" or "over columns" in name for name in correlations(few))
    flat = results_with(np.full_like(PAPER, 0.5))
    assert correlations(flat) == {}


def test_a_table_shows_it_where_its_experiment_asks() -> None:
    assert any("order" in grid.title for grid in table_of(CAUSAL3DIDENT, "mini", results_with(PAPER)).more)
    assert not TABLE4.ordered


def test_figures_of_scores_that_are_left_out_or_hold_a_matrix() -> None:
    z = np.random.default_rng(0).uniform(-1, 1, (16, 10))
    few = score(z, z, "default")
    # Half of 16 rows are too few for ten latents.
    assert SCORE_BY_LATENT in few.left_out
    assert by_latent(few, SCORE_BY_LATENT) == {}
    assert figures_of(TABLE4, few).keys() == {"MCC"}
    z = np.random.default_rng(0).uniform(-1, 1, (64, 3))
    many = score(
        z,
        z,
        [SCORE_BY_LATENT, "block_r2", "periodic_r2"],
        kinds=["continuous", "continuous", 2.0],
        blocks={"one": [0], "two": [1, 2]},
    )
    scores = {"blocks": ("block_r2", ()), "second": (SCORE_BY_LATENT, ("z1",))}
    found = figures_of(replace(TABLE4, scores=scores), many)
    assert found["second"] == pytest.approx(1)
    assert found["blocks"] == many.scores["block_r2"].score
    assert list(by_latent(many, "periodic_r2")) == [many.latent_names[2]]


def test_r2_by_latent_is_the_mean_over_seeds_of_rows_that_have_it() -> None:
    (variant, *_) = TABLE4.profiles["mini"]
    each: list[dict[str, Any]] = [{"r2_by_latent": {"x": 0.5, "y": 1.0}}, {"r2_by_latent": {"x": 0.7}}, {}]
    results = [Result(variant.name, "sphere", seed, {}, 1.0, "run", facts) for seed, facts in enumerate(each)]
    grid = latent_grid(variant, results)
    assert grid.rows == [["attainable", "1.000", "1.000", ""], ["sphere", "0.600", "1.000", "0, 1"]]
    assert latent_grid(variant, results[2:]).rows == []
