"""``dataset.json``, the description: what a dataset is, with every setting that its pixels depend on.

While a dataset is being written it says ``"complete": false``. At the end it gets totals, pixel mean and std, the
manifest's sha256, and a digest of itself.
"""

import json
import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ident3d.errors import UserError
from ident3d.latents.worlds import read_world
from ident3d.loaders.format.files import read_json, sha256, write_json
from ident3d.loaders.format.inside import NotPlain, check_plain, names_in
from ident3d.loaders.format.latents_source import check_source, environments_of, sequences_of, views_of
from ident3d.loaders.format.shard_layout import CHANNELS

DATASET_FILE = "dataset.json"
SHARDS = "shards"
DATASET_FORMAT = "ident3d-dataset"
DATASET_FORMAT_VERSION = 1
# What the file of this name in an export says instead.
EXPORT_FORMAT = "ident3d-export"
# The settings that every dataset records, and what kind of thing each is. Imported datasets have no quality.
SETTINGS: dict[str, type | tuple[type, ...]] = {
    "world": dict,
    "source": dict,
    "size": int,
    "quality": (dict, type(None)),
    "material": str,
    "device": str,
    "versions": dict,
}
# Pixels of an image's side. A description that claims more is refused.
LARGEST_SIDE = 8192
# Images in a shard if they have at most 448 pixels; at 224 they take about 1.8 MB.
SHARD_IMAGES = 64


class NotOurs(UserError):
    """A ``dataset.json`` that is as it was written and that this ident3d cannot use, as that of a later version."""


@dataclass(frozen=True)
class Description:
    """``dataset.json``. `settings` holds everything that pixels depend on; mean and std are per channel, in 0 … 1."""

    settings: dict[str, Any]
    n: int
    shard_size: int
    complete: bool = False
    bytes: int | None = None
    pixel_mean: tuple[float, ...] | None = None
    pixel_std: tuple[float, ...] | None = None
    shards_sha256: str | None = None
    all_latents: str | None = None  # sha256 of the table of all latents, if there is one

    @property
    def size(self) -> int:
        return int(self.settings["size"])

    @property
    def channels(self) -> int:
        """1 for grey images, 3 for coloured ones, which need not say so."""
        return self.settings.get("channels", 3)  # type: ignore[no-any-return]

    @property
    def shape(self) -> tuple[int, int, int]:
        """Height, width and channels of each image."""
        return self.size, self.size, self.channels

    @property
    def scene(self) -> str | None:
        """The name of the scene; None for images that no scene was rendered for."""
        world = self.settings["world"]
        return world.get("scene") or world.get("own_scene", {}).get("name")  # type: ignore[no-any-return]

    def as_incomplete(self) -> "Description":
        """Return the description of the same dataset before it was complete."""
        return Description(self.settings, self.n, self.shard_size)

    def as_dict(self) -> dict[str, object]:
        content: dict[str, object] = {"format": DATASET_FORMAT, "format_version": DATASET_FORMAT_VERSION} | asdict(self)
        return content | {"digest": digest(content)}


def default_shard_size(size: int) -> int:
    """Return 64 images, or fewer if they are large, for any n: the images of a shard take about 40 MB of memory."""
    return max(1, min(SHARD_IMAGES, SHARD_IMAGES * 448**2 // size**2))


def digest(content: dict[str, object]) -> str:
    """Return the sha256 of the canonical JSON."""
    return sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode())


def digest_mismatch(path: Path) -> str:
    return f"{path} was changed after it was written: its digest does not match; `ident3d verify --repair` rebuilds it."


def read_description(path: Path) -> Description:
    """Read ``dataset.json``, checking its format, its digest and every field."""
    if not path.is_dir():
        raise UserError(f"There is no folder {path}; check the path, or make a dataset there with `ident3d render`.")
    if not (path / DATASET_FILE).is_file():
        # A FIFO or a device of that name is said to be one.
        check_plain(path, DATASET_FILE)
        if not names_in(path, SHARDS):
            raise UserError(f"{path} is not a dataset folder: it has no {DATASET_FILE}.")
        raise UserError(f"{path} has lost its {DATASET_FILE}; `ident3d verify --repair` rebuilds it from the shards.")
    # What is wrong is said in this order: no JSON, another format, another version, changed, and only then its fields.
    try:
        content = read_json(path / DATASET_FILE)
        kind, version, found = content.pop("format"), content.pop("format_version"), content.pop("digest")
    except NotPlain:
        raise
    except (ValueError, KeyError) as error:
        raise UserError(f"{path / DATASET_FILE} cannot be read: {error!r}.") from None
    # The version is named before the digest, because another version may digest other fields.
    sound = found == digest({"format": kind, "format_version": version} | content)
    wrong = NotOurs if sound else UserError
    if kind == EXPORT_FORMAT:
        raise wrong(f"{path} is an export; `ident3d import` makes a dataset folder of it.")
    if kind != DATASET_FORMAT:
        raise wrong(f"{path / DATASET_FILE} does not describe an ident3d dataset.")
    if version != DATASET_FORMAT_VERSION:
        raise wrong(f"{path} has dataset format {version}; this ident3d reads format {DATASET_FORMAT_VERSION}.")
    if not sound:
        raise UserError(digest_mismatch(path / DATASET_FILE))
    try:
        return description_of(content)
    except (KeyError, TypeError, ValueError, OverflowError, RecursionError) as error:
        raise NotOurs(f"{path / DATASET_FILE} does not say what a dataset must: {error}.") from None


def description_of(content: dict[str, Any]) -> Description:
    """Return the description with these fields; raise an error that names the first one of a wrong type or value."""
    for name in ("pixel_mean", "pixel_std"):
        values = content[name]
        content[name] = None if values is None else tuple(map(float, values))
    description = Description(**content)
    for name in ("n", "shard_size"):
        number = getattr(description, name)
        if type(number) is not int or number < (1 if name == "shard_size" else 0):
            raise ValueError(f"{name} is {number!r}")
    if not isinstance(description.complete, bool):
        raise ValueError(f"complete is {description.complete!r}")
    if description.bytes is not None and (type(description.bytes) is not int or description.bytes < 0):
        raise ValueError(f"bytes is {description.bytes!r}")
    for name in ("shards_sha256", "all_latents"):
        if not isinstance(getattr(description, name), str | None):
            raise ValueError(f"{name} is {getattr(description, name)!r}")
    settings = description.settings
    for name, kinds in SETTINGS.items():
        if not isinstance(settings[name], kinds):
            raise ValueError(f"{name} is {settings[name]!r}")
    if not 1 <= settings["size"] <= LARGEST_SIDE:
        raise ValueError(f"size is {settings['size']}")
    if type(description.channels) is not int or description.channels not in CHANNELS:
        raise ValueError(f"channels is {description.channels!r}")
    read_world(settings["world"])
    if own := settings["world"].get("own_scene"):
        text = settings["scene_text"]
        if not isinstance(text, str) or sha256(text.encode()) != own["sha256"]:
            raise ValueError("the text of the scene does not match its sha256")
    files = settings.get("scene_files", {})
    # They are printed, on cards too.
    known = {use: re.fullmatch("[0-9a-f]{64}", str(digest)) for use, digest in dict(files).items()}
    if not all(known.values()) or not all(re.fullmatch(r"blend|mesh [^\r\n|]{1,64}", use) for use in known):
        raise ValueError(f"scene_files is {files!r}")
    check_source(settings["source"])
    sequences_of(settings)
    views_of(settings)
    environments_of(settings)
    # Readers normalise with them. A folder that is being written has none.
    for name in ("pixel_mean", "pixel_std"):
        values = getattr(description, name) or ()
        if description.complete and not (len(values) == description.channels and all(0 <= v <= 1 for v in values)):
            raise ValueError(f"{name} is {values!r}")
    return description


def write_description(path: Path, description: Description) -> None:
    write_json(path / DATASET_FILE, description.as_dict())


def differences(ours: dict[str, Any], theirs: dict[str, Any], above: str = "") -> list[str]:
    """Return the settings in which two datasets differ, as "size: 224 there, 64 asked for"."""
    found = []
    # The text of a user's own scene is told by its sha256, and would fill the message.
    for name in sorted({*ours, *theirs} - {"scene_text"}):
        a, b = ours.get(name), theirs.get(name)
        # Nested settings are compared by their fields: a whole world would fill the message.
        if isinstance(a, dict) and isinstance(b, dict):
            # Two presets differ in all that their names stand for.
            if name == "quality" and a.get("name") != b.get("name"):
                a, b = {"name": a.get("name")}, {"name": b.get("name")}
            found += differences(a, b, f"{above}{name}.")
        elif isinstance(a, list) and isinstance(b, list) and len(a) == len(b) and a != b and all(map(is_record, a + b)):
            records = enumerate(zip(a, b, strict=True))
            each = [one for k, (x, y) in records for one in differences(x, y, f"{above}{name}.{x.get('name', k)}.")]
            found += each or [f"{above}{name}: {shorten(a)} there, {shorten(b)} asked for"]
        elif a != b:
            found.append(f"{above}{name}: {shorten(a)} there, {shorten(b)} asked for")
    return found


def is_record(value: object) -> bool:
    return isinstance(value, dict)


def shorten(value: object) -> str:
    """Return a value as text of at most 60 signs; a digest by its beginning."""
    text = str(value)
    if isinstance(value, str) and re.fullmatch("[0-9a-f]{64}", text):
        return f"{text[:8]}…"
    return text if len(text) <= 60 else f"{text[:59]}…"
