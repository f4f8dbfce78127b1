"""The published dSprites as an archive: files of the same form are imported, and nothing else is."""

import io
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from numpy.typing import NDArray

import ident3d
from ident3d.cli import main
from ident3d.errors import UserError
from ident3d.sprites.dsprites import FACTORS, grid_values, images

N = 100
QUIET: dict[str, Any] = {"show_progress": False, "workers": 1}
Arrays = dict[str, NDArray[Any]]


class Explosive:
    """An object whose pickle fails when it is loaded."""

    def __reduce__(self) -> tuple[Any, ...]:
        return exec, ("raise SystemExit('a pickle was loaded')",)


def published(values: NDArray[np.float64]) -> Arrays:
    """The arrays of the published file at these images."""
    classes = np.column_stack([np.zeros(len(values), np.int64), FACTORS.indices(FACTORS.to_raw(values))])
    table = np.column_stack([np.ones(len(values)), values])
    table[:, 1] += 1
    return {"imgs": images(values), "latents_values": table, "latents_classes": classes}


def save(path: Path, arrays: Arrays) -> Path:
    metadata = np.array({"title": Explosive()}, dtype=object)
    np.savez_compressed(path, metadata=metadata, **arrays)  # type: ignore[arg-type]
    return path


def values() -> NDArray[np.float64]:
    return np.concatenate([grid_values(FACTORS, first, N // 4) for first in (0, 5000, 300_000, 737_255)])


def test_factors_and_images_are_those_that_are_generated(tmp_path: Path) -> None:
    source = save(tmp_path / "some.npz", published(values()))
    made = ident3d.import_(source, tmp_path / "out", **QUIET)
    assert (made.n, made.imported) == (N, N)
    ident3d.dsprites(tmp_path / "ours", latents=values(), **QUIET)
    theirs, ours = (ident3d.ImageDataset(tmp_path / name) for name in ("out", "ours"))
    assert theirs.factors == ours.factors == FACTORS
    np.testing.assert_array_equal(theirs.latents(range(N)), ours.latents(range(N)))
    np.testing.assert_array_equal(theirs.images(range(N)), ours.images(range(N)))
    assert ident3d.verify(tmp_path / "out", **{"show_progress": False}).sound
    card = (tmp_path / "out" / "README.md").read_text()
    assert all(fact in card for fact in ("some.npz", "Apache-2.0", "Matthey"))


def test_an_interrupted_import_goes_on(tmp_path: Path) -> None:
    source = save(tmp_path / "some.npz", published(values()))
    words = ["import", str(source), str(tmp_path / "out"), "--shard-size", "30", "--workers", "1", "--json"]
    assert CliRunner().invoke(main, words).exit_code == 0
    before = {path.name: path.read_bytes() for path in (tmp_path / "out" / "shards").iterdir()}
    (tmp_path / "out" / "shards" / "00002.h5").unlink()
    assert ident3d.import_(source, tmp_path / "out", **QUIET).imported == 30
    assert {path.name: path.read_bytes() for path in (tmp_path / "out" / "shards").iterdir()} == before


def off_by_a_row(arrays: Arrays) -> None:
    arrays["imgs"] = np.roll(arrays["imgs"], 1, 0)


def another_class(arrays: Arrays) -> None:
    arrays["latents_classes"][7, 4] += 1


def another_value(arrays: Arrays) -> None:
    arrays["latents_values"][8, 2] = 0.55


def another_colour(arrays: Arrays) -> None:
    arrays["latents_values"][9, 0] = 2


def grey_pixels(arrays: Arrays) -> None:
    arrays["imgs"][11, 3, 3] = 2


def other_size(arrays: Arrays) -> None:
    arrays["imgs"] = arrays["imgs"][:, :32, :32]


def other_type(arrays: Arrays) -> None:
    arrays["imgs"] = arrays["imgs"].astype(np.int64)


def too_few_images(arrays: Arrays) -> None:
    arrays["imgs"] = arrays["imgs"][:-1]


def columns_left_out(arrays: Arrays) -> None:
    arrays["latents_values"] = arrays["latents_values"][:, 1:]


def no_classes(arrays: Arrays) -> None:
    del arrays["latents_classes"]


def objects(arrays: Arrays) -> None:
    arrays["latents_values"] = np.array([[Explosive()] * 6] * N)


def object_images(arrays: Arrays) -> None:
    arrays["imgs"] = np.array([Explosive()] * N)


@pytest.mark.parametrize(
    ("change", "facts"),
    [
        (off_by_a_row, "image .* pixels"),
        (another_class, "latents_classes of image 7"),
        (another_value, "scale of image 8 is 0.55"),
        (another_colour, "image 9"),
        (grey_pixels, "image 11"),
        (other_size, r"\(100, 32, 32\)"),
        (other_type, "int64"),
        (too_few_images, r"\(99, 64, 64\)"),
        (columns_left_out, r"\(100, 5\)"),
        (no_classes, "latents_classes"),
        (objects, "allow_pickle"),
        (object_images, "object"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_other_archives_are_refused(change: Any, facts: str, tmp_path: Path) -> None:
    arrays = published(values())
    change(arrays)
    source = save(tmp_path / "other.npz", arrays)
    with pytest.raises(UserError, match=facts) as caught:
        ident3d.import_(source, tmp_path / "out", **QUIET)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "out").exists()


def test_damaged_archives_are_refused(tmp_path: Path) -> None:
    whole = save(tmp_path / "some.npz", published(values())).read_bytes()
    with zipfile.ZipFile(tmp_path / "some.npz") as archive:
        within = archive.getinfo("imgs.npy").header_offset + 500
    claims = io.BytesIO()
    with zipfile.ZipFile(claims, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in ("imgs", "latents_values", "latents_classes"):
            archive.writestr(f"{name}.npy", bytes(2**26))
    flipped = whole[:within] + bytes([whole[within] ^ 255]) + whole[within + 1 :]
    for number, data in enumerate([whole[:-1000], whole[: within + 10], flipped, claims.getvalue(), b"PK\x03\x04"]):
        (tmp_path / "bad.npz").write_bytes(data)
        with pytest.raises(UserError, match=r"bad\.npz"):
            ident3d.import_(tmp_path / "bad.npz", tmp_path / "out", **QUIET)
        assert not (tmp_path / "out").exists(), number
