"""Discrete and periodic latents, blocks, classes and augmentations."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ident3d import metrics
from ident3d.errors import UserError
from ident3d.metrics.factors import bins_of, kinds_of, levels_of

law = settings(max_examples=25, deadline=None)
seeds = st.integers(0, 2**32 - 1)


def test_kinds_are_seen_in_the_values() -> None:
    n = np.arange(100)
    z = np.column_stack([n % 3, n, n / 7, np.full(100, 0.5)]).astype(float)
    assert kinds_of(z) == ("discrete", "continuous", "continuous", "continuous")


def test_levels_keep_values_bin_ranges_and_wrap_periods() -> None:
    z = np.array([[-5.0, 0.0, 0.1], [7.0, 0.5, 6.1], [7.0, 1.0, 12.1], [900.0, 0.24, 3.1]])
    levels = levels_of(z, ["discrete", "continuous", 6.0], bins=4)
    assert levels[:, 0].tolist() == [0, 1, 1, 2]
    assert levels[:, 1].tolist() == [0, 2, 3, 0]
    assert levels[:3, 2].tolist() == [0, 0, 0]
    assert levels[3, 2] != 0


def test_equal_mass_bins_are_even_and_keep_ties_together() -> None:
    skewed = np.exp(np.random.default_rng(0).normal(size=(1000, 1)) * 3)
    assert np.bincount(bins_of(skewed, 10, "mass")[:, 0]).tolist() == [100] * 10
    tied = np.repeat([0.0, 1.0, 2.0], [70, 20, 10])[:, None]
    assert len(np.unique(np.hstack([tied, bins_of(tied, 4, "mass")]), axis=0)) == 3


@law
@given(seeds)
def test_circular_correlation_sees_no_turn_reflection_or_wrap(seed: int) -> None:
    rng = np.random.default_rng(seed)
    z = rng.uniform(0, 360, size=(60, 2))
    h = z[:, ::-1] / 90 + rng.normal(scale=0.3, size=(60, 2))
    before = metrics.circular_correlation(z, h, period=360, code_period=4)
    moved = (h * [1, -1] + [0.7, -1.3]) + 4 * rng.integers(-3, 4, size=(60, 2))
    after = metrics.circular_correlation(z, moved, period=360, code_period=4)
    np.testing.assert_allclose(np.abs(after.correlation), np.abs(before.correlation), atol=1e-9)
    assert before.assignment.tolist() == [1, 0]
    assert 0 <= before.score <= 1


@law
@given(seeds)
def test_fisher_lee_is_its_definition_over_pairs(seed: int) -> None:
    a, b = np.random.default_rng(seed).uniform(0, 2 * np.pi, size=(2, 30))
    left, right = np.sin(a[:, None] - a), np.sin(b[:, None] - b)
    expected = (left * right).sum() / np.sqrt((left**2).sum() * (right**2).sum())
    found = metrics.circular_correlation(a, b, period=2 * np.pi)
    assert found.correlation[0, 0] == pytest.approx(expected, abs=1e-9)


def test_the_two_circular_conventions() -> None:
    rng = np.random.default_rng(1)
    narrow = rng.normal(scale=0.3, size=(500, 1))
    noisy = narrow + rng.normal(scale=0.1, size=(500, 1))
    for convention in ("fisher-lee", "jammalamadaka"):
        kind: Any = convention
        turned = metrics.circular_correlation(narrow, 2 - narrow, period=2 * np.pi, convention=kind)
        assert turned.correlation[0, 0] == pytest.approx(-1)
        close = metrics.circular_correlation(narrow, noisy, period=2 * np.pi, convention=kind).score
        assert close == pytest.approx(metrics.mcc(narrow, noisy).score, abs=0.02)


def test_periodic_r2_joins_the_ends_of_the_period() -> None:
    z = np.random.default_rng(2).uniform(-1, 1, size=(400, 2))
    h = np.hstack([np.cos(np.pi * z + 1), np.sin(np.pi * z + 1)])
    assert metrics.linear_r2(z, h).score < 0.9
    assert metrics.periodic_r2(z, h, period=2).score == pytest.approx(1)
    turned = np.mod(z + 0.4, 2)  # a jump somewhere on the circle
    assert metrics.periodic_r2(z, turned, period=2).score < 0.9
    assert metrics.periodic_r2(z, turned, period=2, code_period=2, split=True).score == pytest.approx(1)


def test_sap_of_a_periodic_latent_is_the_multiple_correlation() -> None:
    rng = np.random.default_rng(3)
    z, h = rng.uniform(0, 1, size=(300, 1)), rng.normal(size=(300, 2))
    h[:, 0] += np.cos(2 * np.pi * z[:, 0])
    c, s = np.cos(2 * np.pi * z[:, 0]), np.sin(2 * np.pi * z[:, 0])
    rc, rs, rcs = (np.corrcoef(*both)[0, 1] for both in ((c, h[:, 0]), (s, h[:, 0]), (c, s)))
    found = metrics.sap(z, h, kinds=[1.0]).matrix
    assert found[0, 0] == pytest.approx((rc**2 + rs**2 - 2 * rc * rs * rcs) / (1 - rcs**2))
    assert metrics.sap(z, h).matrix[0, 0] < found[0, 0]


def test_dci_predicts_a_periodic_latent_on_the_circle() -> None:
    z = np.random.default_rng(4).uniform(0, 2, size=(800, 2))
    h = np.mod(z + 0.9, 2)
    for importance in ("permutation", "boosting"):
        kind: Any = importance
        result = metrics.dci(z, h, kinds=[2.0, 2.0], importance=kind)
        assert result.informativeness > 0.97
        assert result.score > 0.9


@pytest.mark.parametrize("regressor", ["kernel", "linear"])
def test_content_is_identified_and_style_is_not(regressor: Any) -> None:
    rng = np.random.default_rng(5)
    z = rng.uniform(-1, 1, size=(500, 4))
    h = np.hstack([z[:, :2] @ rng.normal(size=(2, 2)), rng.normal(size=(500, 1)), z[:, 3:]])
    result = metrics.block_identifiability(
        z,
        h,
        blocks={"content": [0, 1], "style": [2]},
        code_blocks={"first": [0, 1, 2], "last": [3]},
        regressor=regressor,
    )
    assert result.score == result.matrix[0, 0] > 0.97
    assert np.abs(result.matrix.ravel()[1:]).max() < 0.1
    assert np.isnan(result.per_latent[3]).all()
    other = metrics.block_identifiability(
        z[:250], h[:250], blocks={"content": [0, 1]}, regressor=regressor, test=(z[250:], h[250:])
    )
    assert other.score > 0.9
    assert other.code_blocks == ("codes",)


@pytest.mark.parametrize("regressor", ["kernel", "linear"])
def test_sorted_rows_do_no_harm_to_blocks(regressor: Any) -> None:
    z = np.sort(np.random.default_rng(8).uniform(-1, 1, size=(300, 1)), axis=0)
    result = metrics.block_identifiability(z, np.abs(z) * z, blocks={"content": [0]}, regressor=regressor)
    assert result.score > 0.9


def test_beta_vae_of_drawn_pairs_takes_the_names_of_factors() -> None:
    rng = np.random.default_rng(9)
    factors = rng.integers(3, size=200)
    pairs = rng.normal(size=(2, 200, 16, 3))
    pairs[1, np.arange(200), :, factors] = pairs[0, np.arange(200), :, factors]
    for labels in (factors, np.array(["hue", "position", "turn"])[factors], factors / 2):
        fit, evaluation = ((*pairs[:, rows], labels[rows]) for rows in (slice(100), slice(100, None)))
        result = metrics.beta_vae_from_pairs(fit, evaluation)
        assert result.score == result.fit_score == 1
        assert result.chance == pytest.approx(1 / 3)


def test_class_accuracy_per_class_and_chance() -> None:
    rng = np.random.default_rng(6)
    classes = np.array(["apple", "bear", "cone"])[rng.choice(3, p=[0.6, 0.2, 0.2], size=900)]
    h = rng.normal(size=(900, 2)) * 0.2
    h[classes == "bear", 0] += 5
    result = metrics.class_accuracy(classes, h)
    assert result.classes.tolist() == ["apple", "bear", "cone"]
    assert result.per_class[1] == 1
    assert result.chance == pytest.approx(0.6, abs=0.05)
    assert result.score == pytest.approx((result.classes[result.predicted] == result.classes[result.true]).mean())


def test_a_class_that_was_not_fitted_is_missed() -> None:
    h = np.array([[0.0], [1.0], [0.0], [1.0]])
    result = metrics.class_accuracy([0, 1, 0, 1], h, test=([0, 1, 2, 2], h))
    assert result.score == 0.5
    assert result.per_class.tolist() == [1, 1, 0]


def test_sorted_classes_do_no_harm() -> None:
    classes = np.repeat([0, 1, 2], 100)
    assert metrics.class_accuracy(classes, classes[:, None].astype(float)).score == 1


def test_augmentation_readout_is_zero_for_invariant_codes() -> None:
    rng = np.random.default_rng(7)
    views = {
        "flipped": rng.integers(2, size=1000).astype(bool),
        "corner": rng.uniform(size=(1000, 2)),
        "turn": np.array([0, 90, 180, 270])[rng.integers(4, size=1000)],
    }
    views["pixel"] = (views["corner"][:, 0] * 200).astype(int)
    blind = rng.normal(size=(1000, 3))
    assert metrics.augmentation_readout(views, blind).score < 0.06
    seeing = np.column_stack([blind, views["flipped"], views["corner"] @ [[1, 2], [3, 1]]])
    result = metrics.augmentation_readout(views, seeing)
    assert result.parameters == ("flipped", "corner", "turn", "pixel")
    assert result.raw[3] > 0.99
    assert result.skill[:2] == pytest.approx([1, 1], abs=0.01)
    assert result.skill[2] < 0.1
    assert result.raw[2] == pytest.approx(result.chance[2], abs=0.1)
    with pytest.raises(UserError, match=r"flipped.*class"):
        metrics.augmentation_readout({"flipped": np.zeros(1000, dtype=bool)}, seeing)
