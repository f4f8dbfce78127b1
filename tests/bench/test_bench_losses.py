"""The benchmark compares two forms of the same loss, and its memory is that of the loss."""

import pytest
from click.testing import CliRunner

from ident3d.bench.losses import LOSSES, cost_of
from ident3d.bench.measure import in_own_process
from ident3d.cli import main


@pytest.mark.parametrize("name", LOSSES)
def test_both_forms_agree(name: str) -> None:
    plain, ours = (cost_of(form, name == "InfoNCE", 200, 10) for form in LOSSES[name])
    assert ours.loss == pytest.approx(plain.loss, rel=1e-5)
    assert ours.gradient_norm == pytest.approx(plain.gradient_norm, rel=1e-4)


def test_five_times_less_memory() -> None:
    plain, ours = (in_own_process(cost_of, form, False, 1500, 10, 1, 1) for form in LOSSES["L_δ, p = 1"])
    differences = 1500 * 1500 * 10 * 4 / 2**20
    assert plain.peak_mib > 2 * differences
    assert plain.peak_mib > 5 * ours.peak_mib
    assert ours.loss == pytest.approx(plain.loss, rel=1e-5)


def test_bad_input_gets_one_sentence() -> None:
    result = CliRunner().invoke(main, ["bench", "losses", "--batch", "0"])
    assert result.exit_code == 2
    assert "at least one pair" in result.stderr
