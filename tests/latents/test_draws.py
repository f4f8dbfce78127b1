"""Drawing: any range at once, any cutting, disjoint splits, the right distribution, the same bytes everywhere."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from ident3d.errors import UserError
from ident3d.latents import NAMES, World, draw, noise_seed
from ident3d.latents.exact.streams import uniform_float32, uniform_float64

SCENES = ["3dident", "3dident-periodic"]


@given(
    scene=st.sampled_from(SCENES),
    seed=st.integers(0, 2**64 - 1),
    split=st.sampled_from(["train", "test"]),
    start=st.integers(0, 2**50),
    cuts=st.lists(st.integers(0, 9), max_size=5),
)
def test_any_cutting_gives_the_same_bytes(scene: str, seed: int, split: str, start: int, cuts: list[int]) -> None:
    world = World(scene)
    whole = draw(world, seed=seed, split=split, start=start, count=sum(cuts)).raw
    parts = [np.empty((0, world.n_raw), np.float32)]
    for count in cuts:
        parts.append(draw(world, seed=seed, split=split, start=start, count=count).raw)
        start += count
    assert whole.dtype == np.float32
    assert np.concatenate(parts).tobytes() == whole.tobytes()


@pytest.mark.parametrize(
    ("scene", "digest"),
    [
        ("3dident", "dd33133fed9edb6cb0f20acc2ea3876b20f7aab085f9ebb582fd268984574fa7"),
        ("3dident-periodic", "72966b180f8d42bf9f1cb467704f1aa874acd7ed61fc2ce582bb0788328af781"),
    ],
)
def test_every_machine_gets_these_bytes(scene: str, digest: str) -> None:
    world = World(scene)
    raw = draw(world, seed=7, split="test", start=123_456, count=5000).raw
    content = raw.astype("<f4").tobytes() + world.to_scene(raw).astype("<f4").tobytes()
    assert hashlib.sha256(content).hexdigest() == digest


def test_processors_without_vector_instructions_get_these_bytes() -> None:
    """The recorded bytes of this folder's tests once more, with NumPy's vector loops switched off."""
    features = np.show_config(mode="dicts")["SIMD Extensions"].get("found", [])
    options = ["-q", "-p", "no:cacheprovider", "-W", "ignore", "-k", "every_machine"]
    plain = subprocess.run(
        [sys.executable, "-m", "pytest", *options, str(Path(__file__).parent)],
        env=os.environ | {"NPY_DISABLE_CPU_FEATURES": " ".join(features)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert plain.returncode == 0, plain.stdout + plain.stderr
    assert "7 passed" in plain.stdout


@pytest.mark.parametrize("scene", SCENES)
def test_streams_are_disjoint(scene: str) -> None:
    keys = [(seed, split) for seed in (0, 1, 2**63) for split in ("train", "test")]
    raws = [draw(World(scene), seed=seed, split=split, start=0, count=2000).raw[:, 0] for seed, split in keys]
    assert len(np.unique(np.concatenate(raws))) > 0.998 * 12_000  # 24 bits: a few meet by chance
    matrix = np.corrcoef(raws)
    assert np.abs(matrix - np.eye(6)).max() < 5 / np.sqrt(2000)


def test_box_is_uniform_and_independent() -> None:
    raw = draw(World(), seed=0, split="train", start=0, count=100_000).raw
    for column in raw.T:
        assert stats.kstest(column, "uniform", args=(-1, 2)).pvalue > 1e-5
    assert np.abs(np.corrcoef(raw.T) - np.eye(10)).max() < 5 / np.sqrt(100_000)


def test_sphere_is_uniform() -> None:
    raw = draw(World("3dident-periodic"), seed=0, split="train", start=0, count=50_000).raw
    point = raw[:, 3:].astype(np.float64)
    np.testing.assert_allclose(np.linalg.norm(point, axis=1), 1, atol=3e-7)
    for column in point.T:  # (x + 1)/2 ~ Beta(7/2, 7/2) for a coordinate on S⁷
        assert stats.kstest((column + 1) / 2, stats.beta(3.5, 3.5).cdf).pvalue > 1e-5
    assert np.abs(np.corrcoef(raw.T) - np.eye(11)).max() < 5 / np.sqrt(50_000)


def test_uniforms_are_exact_and_open() -> None:
    ends = np.array([0, 2**64 - 1], np.uint64)
    np.testing.assert_array_equal(uniform_float32(ends), np.float32([-1 + 2.0**-24, 1 - 2.0**-24]))
    np.testing.assert_array_equal(uniform_float64(ends), [2.0**-53, 1 - 2.0**-53])


def test_fixed_leaves_the_others_as_they_were() -> None:
    free = draw(World(), seed=3, split="train", start=5, count=50).raw
    held = draw(World(fixed={"rotation": 0, "rotation_phi": 0.5}), seed=3, split="train", start=5, count=50).raw
    assert (held[:, 3] == 0.5).all()
    assert (held[:, 4:6] == 0).all()
    others = [i for i in range(10) if i not in (3, 4, 5)]
    np.testing.assert_array_equal(held[:, others], free[:, others])


def test_classes_are_absent_without_classes() -> None:
    assert draw(World(), seed=0, split="train", start=0, count=1).classes is None


def test_noise_seeds_are_mixed_31_bit_numbers() -> None:
    seeds = np.array([noise_seed(s, split, i) for s in (0, 1) for split in ("train", "test") for i in range(1000)])
    assert seeds.min() >= 0
    assert seeds.max() < 2**31
    assert len(np.unique(seeds)) == len(seeds)
    bits = (seeds[:, None] >> np.arange(31)) & 1
    assert np.abs(bits.mean(axis=0) - 0.5).max() < 5 * 0.5 / np.sqrt(len(seeds))
    flips = (bits[1:] ^ bits[:-1]).mean(axis=0)  # neighbouring images share no bit more than by chance
    assert np.abs(flips - 0.5).max() < 5 * 0.5 / np.sqrt(len(seeds))


@pytest.mark.parametrize(
    ("seed", "split", "start", "count", "says"),
    [
        (0, "valid", 0, 1, "train and test"),
        (-1, "train", 0, 1, "seed must be a whole number"),
        (2**64, "train", 0, 1, "seed must be a whole number"),
        (0, "train", -1, 1, "numbered from 0"),
        (0, "train", 0, -1, "numbered from 0"),
    ],
)
def test_bad_addresses(seed: int, split: str, start: int, count: int, says: str) -> None:
    with pytest.raises(UserError, match=says):
        draw(World(), seed=seed, split=split, start=start, count=count)


def test_noise_seed_refuses_negative_images() -> None:
    with pytest.raises(UserError, match="no image -1"):
        noise_seed(0, "train", -1)


def test_names_are_the_published_order() -> None:
    assert NAMES[:3] == ("x", "y", "z")
    assert NAMES[-1] == "ground_hue"
