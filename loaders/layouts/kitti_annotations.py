"""The annotations behind KITTI Masks, and how sequences of silhouettes are cut out of them.

KITTI-MOTS has one text file for each video: frame, object, class, height, width and a run-length code on each line.
MOTSChallenge has one picture for each frame, whose pixels are the numbers of the objects: class · 1000 + instance.
"""

import re
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray
from PIL import Image, UnidentifiedImageError

from ident3d.errors import UserError
from ident3d.progress import progress_bar

Masks: TypeAlias = NDArray[np.bool_]
Ids: TypeAlias = NDArray[np.int32]

SIZE: Final = 64
WINDOWS: Final = 6
CAR: Final = 1
OBJECTS_A_CLASS: Final = 1000
# A frame with fewer pixels ends a sequence. One that is ended so has more than two frames, the last one more than one.
FEWEST_PIXELS, FEWEST_CUT, FEWEST_LAST = 30, 3, 2
# What is read at all: pixels of a frame's side, frames of a video, bytes of a text file. Published videos have 1,100
# frames at most.
LARGEST_SIDE, MOST_FRAMES, LARGEST_TEXT = 8192, 10_000, 2**28
TEXTS, PICTURES = "instances_txt", "instances"
VIDEO: Final = re.compile(r"\d{4}", re.ASCII)


def masks_in(places: Sequence[Path], show_progress: bool = True) -> list[Masks]:
    """Return all sequences (n, 64, 64) of the annotations below these folders: first KITTI-MOTS, then MOTSChallenge."""
    texts = [file for place in places for file in text_files(place)]
    videos = [video for place in places if not text_files(place) for video in picture_folders(place)]
    if not texts and not videos:
        named = " or ".join(map(str, places))
        raise UserError(
            f"{named} holds no KITTI Masks: neither {TEXTS}/0000.txt, … of KITTI-MOTS, nor {PICTURES}/0002/*.png, … of "
            "MOTSChallenge, nor is it the published pickle."
        )
    found: list[Masks] = []
    with progress_bar(len(texts) + len(videos), "videos", show=show_progress) as bar:
        for video in (*texts, *videos):
            ids = frames_of_text(video) if video.is_file() else frames_of_pictures(video)
            found += sequences(ids)
            bar.update(1)
    if not found:
        raise UserError(f"The annotations in {texts[0].parent if texts else videos[0].parent} show no pedestrian.")
    return found


def text_files(place: Path) -> list[Path]:
    folder = place / TEXTS if (place / TEXTS).is_dir() else place
    return sorted(file for file in folder.glob("*.txt") if VIDEO.fullmatch(file.stem) and file.is_file())


def picture_folders(place: Path) -> list[Path]:
    folder = place / PICTURES if (place / PICTURES).is_dir() else place
    return sorted(video for video in folder.glob("*") if VIDEO.fullmatch(video.name) and any(video.glob("*.png")))


def frames_of_text(path: Path) -> Ids:
    """Return the numbers of the objects in each frame (n, 64, width) of a text file. A frame may have no line."""
    if path.stat().st_size > LARGEST_TEXT:
        raise UserError(f"{path} has more than {LARGEST_TEXT:,} bytes.")
    lines, sides = [], set()
    for number, line in enumerate(path.read_text("ascii", "replace").splitlines(), 1):
        parts = line.split()
        try:
            frame, object_id, _, height, width = map(int, parts[:5])
            code = parts[5].encode("ascii")
        except (ValueError, IndexError):
            raise UserError(
                f"{path}: line {number} is not frame, object, class, height, width and run lengths."
            ) from None
        is_size = min(height, width) >= 1 and max(height, width) <= LARGEST_SIDE
        if not (0 <= frame < MOST_FRAMES and 0 <= object_id < 2**15 and is_size):
            raise UserError(f"{path}: line {number} has frame {frame}, object {object_id} or size {height}×{width}.")
        lines.append((frame, object_id, code))
        sides.add((height, width))
    if len(sides) != 1:
        raise UserError(f"{path} has {'frames of several sizes' if sides else 'no lines'}.")
    height, width = sides.pop()
    rows, columns = small_places(height, width)
    ids = np.zeros((max(frame for frame, _, _ in lines) + 1, SIZE, len(columns)), np.int32)
    for frame, object_id, code in lines:
        try:
            mask = decode(code, height, width)
        except ValueError as error:
            raise UserError(f"{path}: the run lengths of object {object_id} in frame {frame} {error}.") from None
        ids[frame][mask[rows][:, columns]] = object_id
    return ids


def decode(code: bytes, height: int, width: int) -> Masks:
    """Return the mask (height, width) of a run-length code in COCO's letters.

    Each letter less 48 holds five bits, the lowest first, and a sixth that says whether more follow; the highest bit of
    the last one is the sign. From the fourth run on, a number is the difference to the run two places before.
    Runs go down the columns and begin with background.
    """
    runs: list[int] = []
    value = shift = 0
    for letter in code:
        bits = letter - 48
        if not 0 <= bits < 64 or shift > 60:
            raise ValueError("hold a letter that is none")
        value |= (bits & 31) << shift
        shift += 5
        if bits & 32:
            continue
        if bits & 16:
            value -= 1 << shift
        runs.append(value + runs[-2] if len(runs) > 2 else value)
        value = shift = 0
    if shift or min(runs, default=0) < 0 or sum(runs) != height * width:
        raise ValueError(f"do not add up to {height}×{width} pixels")
    lit = np.arange(len(runs)) % 2 == 1
    return np.repeat(lit, runs).reshape(width, height).T


def frames_of_pictures(folder: Path) -> Ids:
    """Return the numbers of the objects in each frame (n, 64, width) of a folder of pictures, in the order of names."""
    small: list[Ids] = []
    for path in sorted(folder.glob("*.png")):
        ids = read_picture(path)
        height, width = ids.shape
        if not small:
            first = height, width
        if (height, width) != first:
            raise UserError(f"{path} is {height}×{width}, and the frames before it {first[0]}×{first[1]}.")
        rows, columns = small_places(height, width)
        small.append(ids[rows][:, columns])
    return np.stack(small)


def read_picture(path: Path) -> Ids:
    """Return the numbers in a grey PNG picture of 16 bits."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with Image.open(path, formats=("PNG",)) as picture:
                if not picture.mode.startswith("I") or max(picture.size) > LARGEST_SIDE:
                    raise UserError(f"{path} is {picture.size} {picture.mode}, and not a grey picture of 16 bits.")
                return np.asarray(picture).astype(np.int32)
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise UserError(f"{path} is larger than Pillow's limit allows: {error}") from None
    except MemoryError:
        raise UserError(f"{path}: there is not enough memory for this picture.") from None
    except (UnidentifiedImageError, OSError, SyntaxError, ValueError, EOFError) as error:
        if isinstance(error, UserError):
            raise
        raise UserError(f"{path} cannot be read ({error}).") from None


def small_places(height: int, width: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the rows and columns that are left at a height of 64: place ⌊i · scale⌋ for i, in single precision."""
    small = int(width / (height / SIZE))
    # A lower frame would be drawn out to thousands of columns.
    if small < SIZE or height < SIZE:
        raise UserError(
            f"Frames of {height}×{width} pixels are too {'low' if height < SIZE else 'narrow'}: at a height of {SIZE} "
            f"they have {small} columns."
        )
    sides = (
        np.floor(np.arange(many, dtype=np.float32) * np.float32(side / many)).astype(np.int64)
        for side, many in ((height, SIZE), (width, small))
    )
    rows, columns = (np.minimum(found, side - 1) for found, side in zip(sides, (height, width), strict=True))
    return rows, columns


def sequences(ids: Ids) -> Iterator[Masks]:
    """Yield the sequences of a video: window by window, object by object, run by run."""
    stride = (ids.shape[2] - SIZE) // (WINDOWS - 1)
    for window in range(WINDOWS):
        part = ids[:, :, window * stride : window * stride + SIZE]
        # As published: the first number is the background, and the last is taken for regions to ignore, also in windows
        # that have none, where it is a pedestrian.
        for object_id in np.unique(part)[1:-1]:
            if object_id // OBJECTS_A_CLASS != CAR:
                yield from runs_of(part == object_id)


def runs_of(masks: Masks) -> Iterator[Masks]:
    """Yield the runs of frames in which an object is large enough."""
    there = np.flatnonzero(masks.any((1, 2)))
    start = first = int(there[0])
    stop = int(there[-1]) + 1
    small = masks[first:stop].sum((1, 2)) < FEWEST_PIXELS
    for frame in (*(np.flatnonzero(small) + first).tolist(), stop):
        if frame - start >= (FEWEST_CUT if frame < stop else FEWEST_LAST):
            yield masks[start:frame]
        start = frame + 1
