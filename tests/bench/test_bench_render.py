"""The benchmark of the presets, on few small images."""

import json
from dataclasses import asdict

import numpy as np
import pytest

from ident3d.bench.render import Preset, RenderBench, bench_render, fixed_scenes, psnr
from ident3d.errors import UserError


def test_psnr_of_one_step_everywhere() -> None:
    image = np.full((4, 4, 3), 7, np.uint8)
    assert psnr(image, image + np.uint8(1)) == pytest.approx(20 * np.log10(255))
    assert psnr(image, image) == float("inf")


def test_fixed_scenes_are_fixed_and_in_range() -> None:
    np.testing.assert_array_equal(fixed_scenes(3), fixed_scenes(5)[:3])
    assert abs(fixed_scenes(20)[:, :3]).max() <= 3


def test_table_and_json_hold_every_preset() -> None:
    result = RenderBench(
        64, 2, "4.5", (Preset("reference", 20.0, 54.0, 53.0, 1.0), Preset("draft", 0.2, 41.0, 40.0, 100.0))
    )
    assert "100.0" in result.table()
    assert json.loads(json.dumps(asdict(result)))["presets"][1]["quality"] == "draft"


@pytest.mark.bpy
def test_cheaper_presets_are_further_from_the_truth() -> None:
    result = bench_render(scenes=3, size=32)
    reference, standard, draft = result.presets
    assert reference.ratio == 1
    assert standard.ratio is not None
    assert standard.ratio > 5
    assert reference.psnr_mean > standard.psnr_mean > draft.psnr_mean > 30
    assert all(preset.psnr_min <= preset.psnr_mean for preset in result.presets)


@pytest.mark.bpy
def test_a_truth_at_hand_is_used() -> None:
    black = np.zeros((2, 32, 32, 3), np.uint8)
    (draft,) = bench_render(scenes=2, qualities=("draft",), size=32, truth=black).presets
    assert draft.ratio is None
    assert draft.psnr_mean < 20


@pytest.mark.bpy
def test_what_cannot_be_measured_is_refused() -> None:
    with pytest.raises(UserError, match="at least two"):
        bench_render(scenes=1)
    with pytest.raises(UserError, match="no quality 'best'"):
        bench_render(qualities=("best",))
    with pytest.raises(UserError, match=r"\(2, 16, 16, 3\)"):
        bench_render(scenes=2, size=16, truth=np.zeros((2, 8, 8, 3), np.uint8))
