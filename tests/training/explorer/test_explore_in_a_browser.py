"""The page to look around in, in a real browser: sliders, keys, pointer; wide and narrow, light and dark."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from browser import CHROMIUM, Browser, browser
from lookable import FACTORS, FRAMES, NASTY, SIZE, make_lookable, nearest, picture_of_number
from numpy.typing import NDArray

import ident3d

OLD = Path(__file__).parents[2] / "data/v0.1"
PICTURE = "document.getElementById('picture')"
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here: apt-get install chromium")


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with browser() as opened:
        yield opened


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = make_lookable(tmp_path_factory.mktemp("look") / "folder")
    ident3d.explore(folder, folder.parent / "page.html", show_progress=False)
    return folder


@pytest.fixture(scope="module")
def of_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a run of version 0.1, on 40 held-out images."""
    old = shutil.copytree(OLD, tmp_path_factory.mktemp("old") / "old")
    given = {"data": old / "test", "encoder": "tiny:smallest", "device": "cpu"}
    return ident3d.explore(old / "run", show_progress=False, **given).path  # type: ignore[arg-type]


@pytest.fixture
def page(chromium: Browser, folder: Path) -> Iterator[Browser]:
    """The open page of the folder; afterwards nothing was written to the console, and nothing loaded."""
    chromium.problems.clear()
    chromium.open(folder.parent / "page.html")
    chromium.until(f"{PICTURE}.dataset.painted !== undefined")
    yield chromium
    assert not chromium.problems


def shown(page: Browser) -> int:
    """The number of the image that is shown, by its colour too."""
    page.until(f"{PICTURE}.dataset.painted === {PICTURE}.dataset.image")
    number = int(page.ask(f"{PICTURE}.dataset.image"))
    # Read from a copy: a browser warns of a canvas that is read.
    colour = page.ask(f"""(() => {{
        const pen = new OffscreenCanvas(1, 1).getContext('2d', {{willReadFrequently: true}});
        pen.drawImage({PICTURE}, {SIZE // 2}, {SIZE // 2}, 1, 1, 0, 0, 1, 1);
        return [...pen.getImageData(0, 0, 1, 1).data]; }})()""")
    assert colour[:3] == picture_of_number(np.array([number]))[0, 0, 0].tolist()
    return number


def slide(page: Browser, k: int, value: float) -> None:
    page.ask(f"(() => {{ const one = document.getElementById('latent-{k}'); one.value = {value}; "
             "one.dispatchEvent(new Event(one.type === 'range' ? 'input' : 'change')); })()")  # fmt: skip


def focus(page: Browser, name: str) -> None:
    page.ask(f"document.getElementById('{name}').focus({{focusVisible: true}})")


def raw_of(folder: Path) -> NDArray[np.float32]:
    return ident3d.ImageDataset(folder).all_latents()[0]


def test_a_slider_shows_the_nearest_image(page: Browser, folder: Path) -> None:
    raw, rng = raw_of(folder), np.random.default_rng(0)
    at = [factor.to_raw(factor.listed).tolist() if factor.values else [] for factor in FACTORS]
    for _ in range(25):
        target = [0.0] * 6
        for k in range(5):
            place = int(rng.integers(len(at[k]))) if at[k] else round(float(rng.uniform(-1, 1)), 2)
            slide(page, k, place)
            target[k] = at[k][int(place)] if at[k] else place
        target[5] = float(raw[0, 5])
        assert shown(page) == nearest(raw, target)
    # The ends of a circle are one place.
    slide(page, 1, -1)
    first = shown(page)
    slide(page, 1, 1)
    assert shown(page) == first


def test_keys_move_sliders_and_go_round(page: Browser, folder: Path) -> None:
    raw = raw_of(folder)
    start = [float(z) for z in page.ask("[...document.querySelectorAll('#sliders input')].map((one) => one.value)")]
    focus(page, "latent-0")
    page.press("ArrowRight", 30)
    assert float(page.ask("document.activeElement.value")) == pytest.approx(start[0] + 0.3)
    quarter, kind = FACTORS[4].to_raw([1.0])[0], -1.0
    steps = FACTORS[2].to_raw(FACTORS[2].listed)[int(start[2])]
    assert shown(page) == nearest(raw, [0.3, 0, steps, kind, quarter, raw[0, 5]])
    focus(page, "latent-1")
    page.press("End")
    page.press("ArrowRight")
    assert float(page.ask("document.activeElement.value")) == pytest.approx(-0.99)
    focus(page, "latent-4")
    page.press("Home")
    page.press("ArrowLeft")
    assert page.ask("document.activeElement.value") == "3"
    assert "image" in page.ask("document.activeElement.getAttribute('aria-valuetext')") or shown(page) >= 0


def test_every_control_has_a_name_and_a_visible_focus(page: Browser) -> None:
    names, styles = [], []
    page.ask("document.activeElement.blur()")
    for _ in range(60):
        page.press("Tab")
        name = page.ask("""(() => { const one = document.activeElement;
            if (one === document.body) return null;
            return one.getAttribute('aria-label') || (one.labels && one.labels[0] && one.labels[0].textContent)
                || one.textContent; })()""")
        if name is None:
            break
        names.append(name.strip())
        styles.append(page.ask("getComputedStyle(document.activeElement).outlineStyle"))
    # five latents, four buttons, a choice of environments, two strips, three choices and the cloud, the walk's choice
    assert len(names) == 5 + 4 + 1 + 2 + 3 + 1 + 1
    assert all(names)
    assert NASTY in names
    assert set(styles) == {"solid"}


def test_the_cloud_shows_the_image_of_a_dot(page: Browser) -> None:
    page.until("!!document.getElementById('over').getAttribute('aria-label')")
    focus(page, "over")
    tip = "document.querySelector('#tip canvas')"
    page.until("!document.getElementById('tip').hidden")
    before = shown(page)
    assert page.ask(f"{tip}.dataset.image") == str(before)
    page.press("ArrowRight")
    there = page.ask(f"{tip}.dataset.image")
    assert there != str(before)
    assert there in page.ask("document.getElementById('said').textContent")
    page.press("Enter")
    assert shown(page) == int(there)
    # The sliders went there too.
    assert "at these latents" in page.ask("document.getElementById('caption').textContent")
    assert page.ask("document.querySelectorAll('#sliders output span').length") == 0
    page.press("Escape")
    # The pointer: everywhere in the cloud, the image that is shown is the one whose dot is nearest.
    page.ask("document.getElementById('over').scrollIntoView()")
    left, top, wide, tall = page.ask("(() => { const box = document.getElementById('over').getBoundingClientRect();"
                                     "return [box.left, box.top, box.width, box.height]; })()")  # fmt: skip
    found = set()
    for part in (0.3, 0.45, 0.6, 0.75):
        page.point(left + part * wide, top + part * tall)
        if not page.ask("document.getElementById('tip').hidden"):
            found.add(page.ask(f"{tip}.dataset.image"))
    assert len(found) > 1
    page.point(left + 0.75 * wide, top + 0.75 * tall, click=True)
    if page.ask("!document.getElementById('tip').hidden"):
        assert page.ask(f"{tip}.dataset.image") == str(shown(page))


def test_frames_follow_one_another_and_environments_are_kept_apart(page: Browser, folder: Path) -> None:
    strip = "[...document.querySelectorAll('#walk canvas')].map((one) => Number(one.dataset.image))"
    number = shown(page)
    first = number // FRAMES * FRAMES
    page.until("document.querySelectorAll('#walk button').length > 0")
    assert page.ask(strip) == list(range(first, first + FRAMES))
    page.ask("document.querySelector('#walk button').focus({focusVisible: true})")
    page.press("End")
    page.press("Enter")
    assert shown(page) == first + FRAMES - 1
    page.ask("document.getElementById('after').click()")
    assert shown(page) == first + FRAMES
    environment = ident3d.ImageDataset(folder).column("environment")
    for asked in (0, 1):
        page.ask(f"(() => {{ const one = document.getElementById('environment'); one.value = {asked}; "
                 "one.dispatchEvent(new Event('change')); })()")  # fmt: skip
        for value in (-0.8, 0.1, 0.9):
            slide(page, 0, value)
            assert environment[shown(page)] == asked
    # Strips follow in the screen's next frame.
    page.ask("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    assert set(environment[page.ask(strip.replace("#walk", "#nearest"))]) == {1}


def test_a_runs_page(chromium: Browser, of_run: Path) -> None:
    chromium.problems.clear()
    chromium.open(of_run)
    chromium.until("document.querySelectorAll('#walk button').length > 2")
    words = chromium.ask("[...document.querySelectorAll('#walk span')].map((one) => one.textContent)")
    walked = [float(text.split()[1].replace("−", "-").replace(",", "")) for text in words]
    assert walked == sorted(walked)
    cells = "document.querySelectorAll('#table button')"
    assert chromium.ask(f"{cells}.length") == 100
    assert chromium.ask(f"[...{cells}].filter((one) => one.tabIndex === 0).length") == 1
    chromium.ask(f"{cells}[0].focus()")
    for key in ("ArrowDown", "ArrowDown", "ArrowRight", "ArrowRight", "ArrowRight", "Enter"):
        chromium.press(key)
    assert chromium.ask("['x', 'y'].map((id) => document.getElementById(id).selectedOptions[0].text)") == ["z", "h3"]
    assert chromium.ask("document.activeElement.getAttribute('aria-pressed')") == "true"
    assert not chromium.problems


@pytest.mark.parametrize("which", ["folder", "run"])
def test_it_is_painted_at_every_width_in_both_schemes(
    which: str, chromium: Browser, folder: Path, of_run: Path, tmp_path: Path
) -> None:
    chromium.problems.clear()
    for width in (1200, 360):
        for dark in (False, True):
            chromium.open(of_run if which == "run" else folder.parent / "page.html", width, dark=dark)
            chromium.until(f"{PICTURE}.dataset.painted !== undefined")
            assert chromium.ask("document.documentElement.scrollWidth") == width
            picture = chromium.picture(tmp_path / f"{width}-{dark}.png", whole=True)
            corner = picture[0, 0]
            assert corner.max() < 60 if dark else corner.min() > 230
            changes = np.abs(np.diff(picture.astype(int), axis=1)).max((1, 2)) > 30
            assert changes.mean() > 0.3  # something is painted in a good part of the lines
    assert not chromium.problems
    print(f"Screenshots: {tmp_path}")
