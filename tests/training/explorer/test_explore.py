"""The page to look around in: which images it holds, what they are beside, how large it is, and what it never says."""

import base64
import io
import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from lookable import FACTORS, FRAMES, NASTY, SIZE, N, make_lookable, picture_of_number
from numpy.typing import NDArray
from PIL import Image
from synthetic import make_dataset

import ident3d
from ident3d.cli import main
from ident3d.training.explorer import explore as module
from ident3d.training.explorer.choose import stratified
from ident3d.training.explorer.codes import MOST_CODES, shown_codes, strengths
from ident3d.training.explorer.coordinates import axis_of
from ident3d.training.explorer.sheets import LOSSLESS, make_sheets

OLD = Path(__file__).parents[2] / "data/v0.1"


def content_of(page: Path) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page.read_text("utf-8"), re.DOTALL)
    assert found
    content: dict[str, Any] = json.loads(found[1])
    return content


def unpacked(text: str, kind: str) -> NDArray[Any]:
    return np.frombuffer(base64.b64decode(text), kind)


def tiles(content: dict[str, Any]) -> NDArray[np.uint8]:
    """The images that a page holds (n, size, size, 3)."""
    found, size = [], content["size"]
    for address in content["sheets"]:
        sheet = np.asarray(Image.open(io.BytesIO(base64.b64decode(address.partition(",")[2]))).convert("RGB"))
        rows, columns = sheet.shape[0] // size, sheet.shape[1] // size
        assert columns == content["side"]
        found.append(sheet.reshape(rows, size, columns, size, 3).swapaxes(1, 2).reshape(-1, size, size, 3))
    return np.concatenate(found)[: content["count"]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_lookable(tmp_path_factory.mktemp("look") / "folder")


@pytest.fixture
def old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of small folders, and of runs, that version 0.1 wrote; a run names its data relative to them."""
    copy = shutil.copytree(OLD, tmp_path / "old")
    monkeypatch.chdir(copy)
    return copy


def test_a_page_holds_each_image_with_its_own_latents(folder: Path, tmp_path: Path) -> None:
    made = ident3d.explore(folder, tmp_path / "a.html", show_progress=False)
    content = content_of(made.path)
    images = ident3d.ImageDataset(folder)
    numbers = unpacked(content["numbers"], "<i4")
    assert (made.images, made.total, made.size, made.codes) == (N, N, SIZE, 0)
    assert made.latents == tuple(factor.name for factor in FACTORS if factor.name != "held")
    assert made.bytes == made.path.stat().st_size
    assert numbers.tolist() == list(range(N))
    assert np.array_equal(tiles(content), picture_of_number(numbers))
    assert np.array_equal(unpacked(content["latents"], "<f4").reshape(N, -1), images.all_latents()[0])
    for name in ("sequence", "frame", "environment"):
        assert np.array_equal(unpacked(content["columns"][name], "<f8"), images.column(name))
    assert [axis["held"] for axis in content["axes"]] == [False] * 5 + [True]


def test_equal_input_gives_equal_bytes(folder: Path, tmp_path: Path) -> None:
    first, second = (
        ident3d.explore(folder, tmp_path / f"{name}.html", count=60, show_progress=False).path for name in "ab"
    )
    assert first.read_bytes() == second.read_bytes()
    assert str(folder.parent) not in first.read_text("utf-8")


def test_names_from_data_are_never_html(folder: Path, tmp_path: Path) -> None:
    text = ident3d.explore(folder, tmp_path / "a.html", show_progress=False).path.read_text("utf-8")
    assert text.count("<script") == text.count("</script>") == 2
    assert "<img" not in text
    assert content_of(tmp_path / "a.html")["axes"][0]["name"] == NASTY
    # Nothing is loaded: no address but data, and a policy that allows none and this script alone.
    assert not re.search(r"https?:|//[a-z]+\.|@import|url\(", re.sub(r'"data:[^"]*"', "", text))
    assert "default-src 'none'; img-src data:" in text
    assert "unsafe-inline'; script-src 'sha256-" in text


def test_a_sample_of_sequences_is_whole_sequences(folder: Path, tmp_path: Path) -> None:
    made = ident3d.explore(folder, tmp_path / "a.html", count=43, show_progress=False)
    numbers = unpacked(content_of(made.path)["numbers"], "<i4")
    assert len(numbers) == 40
    assert np.array_equal(
        numbers.reshape(-1, FRAMES) // FRAMES, np.repeat(numbers[::FRAMES] // FRAMES, FRAMES).reshape(-1, 4)
    )


def test_a_sample_of_views_is_whole_instances(tmp_path: Path) -> None:
    instance = np.random.default_rng(0).permutation(np.arange(60) // 2)
    images, z = picture_of_number(np.arange(60)), instance[:, None]
    ident3d.from_arrays(images, z, tmp_path / "views", columns={"instance": instance}, show_progress=False)
    made = ident3d.explore(tmp_path / "views", count=21, show_progress=False)
    numbers = unpacked(content_of(made.path)["numbers"], "<i4")
    assert len(numbers) == 20
    assert np.unique(instance[numbers], return_counts=True)[1].tolist() == [2] * 10


def test_a_sample_is_even_and_keeps_the_distribution() -> None:
    z = np.random.default_rng(0).beta(2, 5, (20_000, 3)).astype(np.float32) * 2 - 1
    rows = stratified(z, 512)
    assert len(np.unique(rows)) == 512
    assert np.array_equal(rows, stratified(z, 512))
    quantiles = np.linspace(0.05, 0.95, 10)
    # The k-th of 512 independent draws is off by .02 on average; 3 standard errors of it.
    ranks = np.searchsorted(np.sort(z[:, 0]), np.quantile(z[rows, 0], quantiles)) / len(z)
    assert np.abs(ranks - quantiles).max() < 0.066
    # Halved nine times along the widest latent, each octant of medians has as many rows as any other, nearly.
    octants = (z[rows] > np.median(z, 0)) @ [1, 2, 4]
    assert np.bincount(octants, minlength=8).std() < 4  # 7.5 for independent draws
    assert stratified(np.zeros((100, 0), np.float32), 7).size == 7


def test_how_well_a_latent_explains_a_code() -> None:
    rng = np.random.default_rng(1)
    kinds = [axis_of(factor) for factor in (FACTORS[0], FACTORS[1], FACTORS[3])]
    z = np.stack([rng.uniform(-1, 1, 400), rng.uniform(-1, 1, 400), rng.integers(0, 3, 400) - 1.0], 1)
    noisy = z[:, 0] + rng.normal(size=400)
    # A code of a category is its square here, which no line finds.
    codes = np.stack([np.cos(np.pi * z[:, 1] + 1), z[:, 2] ** 2, noisy, np.full(400, 0.1)], 1)
    found = strengths(tuple(kinds), z, codes)
    assert found[1, 0] == pytest.approx(1)
    assert found[2, 1] == pytest.approx(1)
    assert found[0, 2] == pytest.approx(abs(np.corrcoef(z[:, 0], noisy)[0, 1]))
    assert (found[:, 3] == 0).all()
    shown = shown_codes(tuple(kinds), z.astype(np.float32), codes.astype(np.float32))
    assert shown.matched == (2, 0, 1)


def test_of_many_codes_those_that_say_most_are_shown() -> None:
    rng = np.random.default_rng(2)
    z, codes = rng.uniform(-1, 1, (300, 1)), rng.normal(size=(300, 200))
    codes[:, 170] = z[:, 0]
    shown = shown_codes((axis_of(FACTORS[0]),), z.astype(np.float32), codes.astype(np.float32))
    assert shown.values.shape == (300, MOST_CODES)
    assert shown.numbers[shown.matched[0]] == 170
    assert shown.total == 200


def test_sheets_fit_the_budget_or_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (96, 32, 32, 1), np.uint8)
    found = [make_sheets(noise, budget) for budget in (300_000, 80_000, 100)]
    assert found[0] is not None
    assert found[0].quality == LOSSLESS
    assert found[1] is not None
    assert found[1].quality < LOSSLESS
    assert sum(map(len, found[1].pictures)) <= 80_000
    assert found[2] is None
    ident3d.from_arrays(noise, np.arange(96)[:, None], tmp_path / "noise", show_progress=False)
    monkeypatch.setattr(module, "LARGEST", 100_000)
    monkeypatch.setattr(module, "ROOM", 60_000)
    made = ident3d.explore(tmp_path / "noise", show_progress=False)
    # Nobody asked for a number, so that it falls until the page fits.
    assert made.bytes < 100_000
    assert made.images in (24, 48)
    made.path.unlink()
    with pytest.raises(ident3d.UserError, match="--size"):
        ident3d.explore(tmp_path / "noise", count=96, show_progress=False)
    assert not made.path.exists()


def test_the_periodic_scene_has_angles_on_its_sliders(tmp_path: Path) -> None:
    make_dataset(tmp_path / "round", 30, scene="3dident-periodic")
    content = content_of(ident3d.explore(tmp_path / "round", show_progress=False).path)
    kinds = [axis["kind"] for axis in content["axes"]]
    images = ident3d.ImageDataset(tmp_path / "round")
    z = unpacked(content["latents"], "<f4").reshape(30, 10)
    assert kinds == ["box"] * 3 + ["periodic"] * 7
    scene = images.world.to_scene(images.all_latents()[0])
    shown = [axis["low"] + (z[:, k] + 1) / 2 * (axis["high"] - axis["low"]) for k, axis in enumerate(content["axes"])]
    assert np.allclose(np.stack(shown, 1), scene, atol=1e-5)


def test_classes_have_a_choice_of_their_own(tmp_path: Path) -> None:
    images = picture_of_number(np.arange(12))
    named = [("hare", "dog", "cat")[k % 3] for k in range(12)]
    ident3d.from_arrays(images, None, tmp_path / "classes", classes=named, show_progress=False)
    made = ident3d.explore(tmp_path / "classes", show_progress=False)
    (axis,) = content_of(made.path)["axes"]
    assert (axis["name"], axis["kind"], made.latents) == ("class", "categorical", ())
    place = np.searchsorted(axis["at"], unpacked(content_of(made.path)["latents"], "<f4") - 1e-4)
    assert [axis["values"][k] for k in place] == named


def test_grey_images_and_smaller_ones(tmp_path: Path) -> None:
    grey = np.repeat(np.arange(0, 200, 10, np.uint8), 32 * 32).reshape(20, 32, 32)
    ident3d.from_arrays(grey, np.arange(20)[:, None], tmp_path / "grey", show_progress=False)
    content = content_of(ident3d.explore(tmp_path / "grey", size=8, show_progress=False).path)
    assert np.array_equal(tiles(content)[:, 4, 4], np.repeat(np.arange(0, 200, 10)[:, None], 3, 1))


def test_a_runs_page_holds_its_codes_of_held_out_images(old: Path) -> None:
    given: dict[str, Any] = {"encoder": "tiny:smallest", "device": "cpu", "show_progress": False}
    made = ident3d.explore(old / "run", **given)
    content = content_of(made.path)
    codes = np.load(ident3d.encode(old / "run", old / "test", **given))
    assert made.path == old / "run" / "explore.html"
    assert (made.images, made.codes) == codes.shape
    assert "was not trained on" in made.path.read_text("utf-8")
    assert np.allclose(unpacked(content["codes"]["values"], "<f4").reshape(codes.shape), codes, atol=1e-5)
    same = ident3d.explore(old / "run", old / "b.html", data=old / "train", **given)
    assert same.images == 16
    assert "that it was trained on" in same.path.read_text("utf-8")


def test_mistakes_are_one_sentence_and_leave_nothing(old: Path, tmp_path: Path) -> None:
    wrong = {
        ("--n", "0"): "1 to",
        ("--size", "4"): "8 to",
        ("--out", str(tmp_path / "no" / "a.html")): "no folder",
        ("--out", str(tmp_path / "a.pdf")): "ending",
        ("--data", str(old / "test")): "--data",
        ("--device", "cpu", str(tmp_path / "none")): "",
    }
    for given, says in wrong.items():
        done = CliRunner().invoke(main, ["explore", *([] if len(given) > 2 else [str(old / "train")]), *given])
        assert done.exit_code == 2, given
        assert done.stderr.startswith("Error: ")
        assert done.stderr.count("\n") == 1
        assert says in done.stderr
    for name, says in {"run": "tiny:smallest", ".": "neither", "mixing": "mixed latents"}.items():
        done = CliRunner().invoke(main, ["explore", str(old / name)])
        assert (done.exit_code, says in done.stderr) == (2, True), done.stderr
    ident3d.from_arrays(picture_of_number(np.arange(3)), None, tmp_path / "plain", show_progress=False)
    with pytest.raises(ident3d.UserError, match="no latents"):
        ident3d.explore(tmp_path / "plain", show_progress=False)
    assert not [*tmp_path.rglob("*.html"), *tmp_path.rglob("*.pdf")]


def test_the_command_says_what_it_wrote(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "a.html"
    done = CliRunner().invoke(main, ["explore", str(folder), "--n", "20", "--out", str(out), "--json"])
    assert json.loads(done.stdout)["bytes"] == out.stat().st_size
    assert not done.stderr
    done = CliRunner().invoke(main, ["explore", str(folder), "--n", "20", "--out", str(out)])
    assert done.stdout.startswith(f"{out}: 20 of {N} images of {SIZE}x{SIZE} pixels")
