"""The scores agree with the public reference implementations (groups 1 to 3 of the golden data)."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ident3d import metrics
from ident3d.metrics.factors import bins_of

GOLDEN = Path(__file__).parent.parent / "data" / "golden"
CASES = {case["id"]: case for case in json.loads((GOLDEN / "expected_metrics.json").read_text())["cases"]}


def arrays(name: str) -> dict[str, Any]:
    with np.load(GOLDEN / name, allow_pickle=False) as file:
        return {key: file[key] for key in file.files}


def inputs(case: str) -> dict[str, Any]:
    return arrays(CASES[case]["inputs"]["file"])


def agrees(case: str, entry: str, got: object, columns: list[int] | None = None) -> None:
    """Elementwise |got - expected| <= atol + rtol |expected|, the golden data's own rule."""
    expected = CASES[case]["expected"][entry]
    if "array" in expected:
        wanted = arrays(expected["array"]["file"])[expected["array"]["key"]]
    else:
        wanted = np.asarray(expected["value"])
    if columns is not None:
        wanted = wanted[:, columns]
    found = np.asarray(got)
    assert found.shape == wanted.shape
    np.testing.assert_allclose(found, wanted, rtol=expected["rtol"], atol=expected["atol"], err_msg=f"{case} {entry}")


def cases(metric: str) -> list[str]:
    return [case for case, content in CASES.items() if content["metric"] == metric]


def test_every_case_is_checked() -> None:
    checked = {
        "linear_r2",
        "linear_r2_split",
        "linear_adjusted_r2",
        "mcc_pearson",
        "mcc_spearman",
        "kernel_ridge_r2",
        "kernel_ridge_r2_per_latent",
        "kernel_ridge_r2_split",
        "linear_r2_transfer",
        "mig",
        "dci",
        "sap",
        "sap_continuous",
        "modularity",
        "explicitness",
        "beta_vae_score",
        "factor_vae_score",
        "dci_aggregation",
    }
    assert {case["metric"] for case in CASES.values()} == checked


@pytest.mark.parametrize("case", cases("linear_r2"))
def test_linear_r2(case: str) -> None:
    data = inputs(case)
    agrees(case, "r2", metrics.linear_r2(data["z"], data["hz"]).score)


@pytest.mark.parametrize("case", cases("linear_r2_split"))
def test_linear_r2_split(case: str) -> None:
    data = inputs(case)
    agrees(case, "r2", metrics.linear_r2(data["z"], data["hz"], split=True).score)


@pytest.mark.parametrize("case", cases("linear_adjusted_r2"))
def test_adjusted_r2_counts_latents_on_request(case: str) -> None:
    data = inputs(case)
    result = metrics.linear_r2(data["z"], data["hz"])
    agrees(case, "adjusted_r2", result.adjusted("latents"))
    (n, d), k = data["z"].shape, data["hz"].shape[1]
    assert result.adjusted() == pytest.approx(1 - (1 - result.score) * (n - 1) / (n - k - 1))
    assert (result.adjusted() == result.adjusted("latents")) == (d == k)


@pytest.mark.parametrize("kind", ["pearson", "spearman"])
@pytest.mark.parametrize("name", sorted({case.split("/")[1] for case in cases("mcc_pearson")}))
def test_mcc(name: str, kind: Any) -> None:
    case = f"latents/{name}/mcc_{kind}"
    data = inputs(case)
    result = metrics.mcc(data["z"], data["hz"], correlation=kind)
    agrees(case, "mcc", result.score)
    agrees(case, "raw_corr", result.correlation)
    if "assignment" in CASES[case]["expected"]:
        agrees(case, "assignment", result.assignment)


def test_optimal_matching_beats_greedy() -> None:
    data = inputs("latents/b_rotation/mcc_pearson")
    result = metrics.mcc(data["z"], data["hz"])
    left = np.abs(result.correlation)
    greedy = []
    for _ in range(10):
        i, j = np.unravel_index(left.argmax(), left.shape)
        greedy.append(left[i, j])
        left[i, :] = left[:, j] = -1
    assert result.score > np.mean(greedy) + 0.005


def test_kernel_ridge_joint_search() -> None:
    data = inputs("kernel_ridge/joint")
    result = metrics.kernel_ridge_r2(
        data["z_train"], data["hz_train"], test=(data["z_test"], data["hz_test"]), per_latent=False
    )
    agrees("kernel_ridge/joint", "r2_test", result.score)
    agrees("kernel_ridge/joint", "r2_train", result.fit_score)
    agrees("kernel_ridge/joint", "cv_mean_r2", result.cv_r2.mean(axis=2).ravel())
    assert result.cv_r2.shape[:2] == (len(result.alphas), len(result.gammas))
    at = np.unravel_index(result.cv_r2.mean(axis=2).argmax(), result.cv_r2.shape[:2])
    assert result.best.tolist() == [[result.alphas[at[0]], result.gammas[at[1]]]] * len(result.per_latent)
    for alpha, gamma in result.best:
        agrees("kernel_ridge/joint", "best_alpha", alpha)
        agrees("kernel_ridge/joint", "best_gamma", gamma)


def test_kernel_ridge_per_latent_search() -> None:
    data = inputs("kernel_ridge/per_latent")
    result = metrics.kernel_ridge_r2(data["z_train"], data["hz_train"], test=(data["z_test"], data["hz_test"]))
    agrees("kernel_ridge/per_latent", "r2_test", result.per_latent)
    agrees("kernel_ridge/per_latent", "best_alpha_gamma", result.best)


def whitened(data: dict[str, Any], name: str) -> tuple[Any, Any]:
    """Train and test columns, standardised by the train rows."""
    mean, std = data[f"{name}_train"].mean(axis=0), data[f"{name}_train"].std(axis=0)
    return (data[f"{name}_train"] - mean) / std, (data[f"{name}_test"] - mean) / std


def test_kernel_ridge_split_variant_has_a_linear_kernel() -> None:
    data = inputs("kernel_ridge/split_linear_kernel")
    z, h = whitened(data, "z")[0], whitened(data, "hz")[0]
    linear = metrics.kernel_ridge_r2(z, h, kernel="linear", alphas=[1.0], standardize=False)
    agrees("kernel_ridge/split_linear_kernel", "r2", linear.score)
    assert metrics.kernel_ridge_r2(z, h).score > linear.score + 0.03


def test_linear_r2_carried_over_to_test_rows() -> None:
    data = inputs("kernel_ridge/linear_transfer")
    (z, z_test), (h, h_test) = whitened(data, "z"), whitened(data, "hz")
    agrees("kernel_ridge/linear_transfer", "r2_test", metrics.linear_r2(z, h, test=(z_test, h_test)).score)
    agrees("kernel_ridge/linear_transfer", "r2_split", metrics.linear_r2(z, h, split=True).score)


NAMES = ["disentangled", "mixed"]


def factor_arrays(name: str) -> tuple[Any, Any, tuple[Any, Any]]:
    data = arrays(f"factors_{name}.npz")
    return data["train_factors"], data["train_codes"], (data["test_factors"], data["test_codes"])


@pytest.mark.parametrize("name", NAMES)
def test_mig(name: str) -> None:
    z, h, _ = factor_arrays(name)
    result = metrics.mig(z, h)
    agrees(f"factors/{name}/mig", "mig", result.score)
    agrees(f"factors/{name}/mig", "mutual_information", result.mutual_information.T)
    agrees(f"factors/{name}/mig", "factor_entropy", result.entropy)
    agrees(f"factors/{name}/mig", "discretized_codes", bins_of(h.astype(np.float64), 20) + 1)


@pytest.mark.parametrize("name", NAMES)
def test_modularity(name: str) -> None:
    z, h, _ = factor_arrays(name)
    agrees(f"factors/{name}/modularity", "modularity", metrics.modularity(z, h).score)


def test_modularity_of_a_constant_code() -> None:
    z, h, _ = factor_arrays("mixed")
    dead = np.hstack([h, np.full((len(h), 1), 0.1)])
    alone = metrics.modularity(z, h).score
    assert metrics.modularity(z, dead).score == pytest.approx(alone)
    assert metrics.modularity(z, dead, count_constant=True).score == pytest.approx(alone * 5 / 6)


@pytest.mark.parametrize("name", NAMES)
def test_sap(name: str) -> None:
    z, h, test = factor_arrays(name)
    continuous, discrete = metrics.sap(z, h), metrics.sap_discrete(z, h, test=test)
    agrees(f"factors/{name}/sap_continuous", "sap", continuous.score)
    agrees(f"factors/{name}/sap_continuous", "score_matrix", continuous.matrix.T)
    agrees(f"factors/{name}/sap_discrete", "sap", discrete.score)
    agrees(f"factors/{name}/sap_discrete", "score_matrix", discrete.matrix.T)


def test_discrete_sap_depends_on_units_unless_standardized() -> None:
    z, h, test = factor_arrays("disentangled")
    small = (test[0], 0.1 * test[1])
    as_published = metrics.sap_discrete(z, h, test=test).score
    assert abs(metrics.sap_discrete(z, 0.1 * h, test=small).score - as_published) > 0.01
    standardized = metrics.sap_discrete(z, h, test=test, standardize=True).score
    assert metrics.sap_discrete(z, 0.1 * h, test=small, standardize=True).score == pytest.approx(standardized)


@pytest.mark.parametrize("name", NAMES)
def test_explicitness(name: str) -> None:
    z, h, test = factor_arrays(name)
    result = metrics.explicitness(z, h, test=test)
    agrees(f"factors/{name}/explicitness", "test", result.score)
    agrees(f"factors/{name}/explicitness", "train", result.fit_score)
    assert result.rescaled == pytest.approx(2 * result.score - 1)


def test_importances_of_the_reference_boosting() -> None:
    z, h, test = factor_arrays("mixed")
    few = [0, 2]  # 3 and 4 levels; a factor of many levels takes a tree of each in every step
    result = metrics.dci(z[:, few], h, test=(test[0][:, few], test[1]), importance="boosting")
    agrees("factors/mixed/dci", "importance_matrix", result.importance.T, columns=few)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_dci_with_the_reference_boosting(name: str) -> None:
    z, h, test = factor_arrays(name)
    result = metrics.dci(z, h, test=test, importance="boosting")
    agrees(f"factors/{name}/dci", "disentanglement", result.score)
    agrees(f"factors/{name}/dci", "completeness", result.completeness)
    agrees(f"factors/{name}/dci", "informativeness_test", result.informativeness)
    agrees(f"factors/{name}/dci", "informativeness_train", result.informativeness_fit)
    agrees(f"factors/{name}/dci", "importance_matrix", result.importance.T)


def test_dci_aggregation() -> None:
    importance = inputs("dci/aggregation")["importance_matrix"]
    disentanglement, per_code = metrics.concentration(importance)
    completeness, per_factor = metrics.concentration(importance.T)
    agrees("dci/aggregation", "disentanglement", disentanglement)
    agrees("dci/aggregation", "disentanglement_per_code", per_code)
    agrees("dci/aggregation", "completeness", completeness)
    agrees("dci/aggregation", "completeness_per_factor", per_factor)


@pytest.mark.parametrize("name", NAMES)
def test_beta_vae(name: str) -> None:
    case, data = f"betavae/{name}", arrays(f"betavae_{name}.npz")
    fit, evaluation = (
        (data[f"{part}_codes_1"], data[f"{part}_codes_2"], data[f"{part}_labels"]) for part in ("train", "eval")
    )
    result = metrics.beta_vae_from_pairs(fit, evaluation)
    agrees(case, "train_features", result.fit_features)
    agrees(case, "eval_features", result.features)
    agrees(case, "train_accuracy", result.fit_score)
    agrees(case, "eval_accuracy", result.score)


@pytest.mark.parametrize("threshold", ["0.05", "0.0"])
@pytest.mark.parametrize("name", NAMES)
def test_factor_vae(name: str, threshold: str) -> None:
    case, data = f"factorvae/{name}/thr_{threshold}", arrays(f"factorvae_{name}.npz")
    fit, evaluation = ((data[f"{part}_batches"], data[f"{part}_labels"]) for part in ("train", "eval"))
    result = metrics.factor_vae_from_batches(data["variance_codes"], fit, evaluation, threshold=float(threshold))
    agrees(case, "train_accuracy", result.fit_score)
    agrees(case, "eval_accuracy", result.score)
    agrees(case, "global_variance", result.global_variance)
    agrees(case, "voted_dimension", result.voted)
    agrees(case, "num_active_dims", result.active.sum())
    for entry, votes in (("train_votes", result.votes), ("eval_votes", result.evaluation_votes)):
        # the reference counts among the kept codes and leaves the last columns empty
        kept = np.zeros_like(votes)
        kept[:, : result.active.sum()] = votes[:, result.active]
        agrees(case, entry, kept)
