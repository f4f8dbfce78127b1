"""``dataset.json`` of an export: which splits it holds, what their columns mean, and the settings of their images."""

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from ident3d.errors import UserError
from ident3d.loaders.cards.facts import NOT_SAID
from ident3d.loaders.exports.columns import LABELS, Column, columns_of
from ident3d.loaders.format.description import DATASET_FILE, EXPORT_FORMAT, Description, description_of, digest
from ident3d.loaders.format.files import read_json, write_json
from ident3d.loaders.format.inside import NotPlain, check_plain

EXPORT_FORMAT_VERSION: Final = 1
FORMATS: Final = ("huggingface", "webdataset", "png")
# What hubs take as the name of a split.
SPLIT_NAME: Final = re.compile(r"[a-zA-Z][a-zA-Z0-9]{0,31}", re.ASCII)
# What is recorded of where images come from.
ORIGIN_FIELDS: Final = {"name", "source", "licence", "citation"}


@dataclass(frozen=True)
class ExportedSplit:
    """One dataset folder in an export: its settings, where it comes from, and the files that hold its images.

    `labels` are the columns of its shards besides number and latents; `files` names each file with its bytes, in order
    of the images, of which `part_size` are in each.
    """

    n: int
    settings: dict[str, Any]
    shards_sha256: str | None
    origin: dict[str, str]
    labels: tuple[str, ...]
    part_size: int
    files: dict[str, int]

    @property
    def columns(self) -> tuple[Column, ...]:
        return columns_of(self.settings, self.labels)

    @property
    def description(self) -> Description:
        return Description(self.settings, self.n, shard_size=1)


def in_order(splits: Mapping[str, ExportedSplit]) -> dict[str, ExportedSplit]:
    """Return the splits as cards list them: train first, then by name, in whatever order they were exported."""
    return {name: splits[name] for name in sorted(splits, key=lambda name: (name != "train", name))}


def terms_of(splits: Mapping[str, ExportedSplit], field: str) -> dict[str, list[str]]:
    """Return each text that splits say of their "licence" or "citation", with the splits that say it."""
    found: dict[str, list[str]] = {}
    for name, split in splits.items():
        if (text := split.origin[field]) != NOT_SAID:
            found.setdefault(text, []).append(name)
    return found


def write_record(out: Path, to: str, splits: Mapping[str, ExportedSplit]) -> None:
    """Write ``dataset.json`` into an export."""
    described = {
        name: asdict(split) | {"columns": [column.described() for column in split.columns]}
        for name, split in splits.items()
    }
    content: dict[str, Any] = {"format": EXPORT_FORMAT, "format_version": EXPORT_FORMAT_VERSION, "to": to}
    content["splits"] = described
    write_json(out / DATASET_FILE, content | {"digest": digest(content)})


def is_export(path: Path) -> bool:
    """Return whether the folder says that it is an export, whatever else may be wrong with it."""
    try:
        return read_json(path / DATASET_FILE).get("format") == EXPORT_FORMAT
    except (OSError, ValueError):
        return False


def read_record(path: Path) -> tuple[str, dict[str, ExportedSplit]]:
    """Return in which format an export is, and its splits; raise UserError for what no export of ours says."""
    place = path / DATASET_FILE
    check_plain(path, DATASET_FILE)
    try:
        content = read_json(place)
        found = content.pop("digest", None)
        if content["format"] != EXPORT_FORMAT:
            raise ValueError(f"its format is {content['format']!r}")
        if content["format_version"] != EXPORT_FORMAT_VERSION:
            raise ValueError(f"its format has version {content['format_version']!r}, and not {EXPORT_FORMAT_VERSION}")
        if found != digest(content):
            raise ValueError("it was changed after it was written")
        if content["to"] not in FORMATS:
            raise ValueError(f"it is for {content['to']!r}")
        return content["to"], {name: split_of(name, each) for name, each in content["splits"].items()}
    except NotPlain:
        raise
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise UserError(f"{place} is not that of an export, or is damaged ({error}).") from None


def split_of(name: str, content: dict[str, Any]) -> ExportedSplit:
    """Return the split that write_record wrote; raise ValueError, KeyError or TypeError for what is not known."""
    content.pop("columns")
    split = ExportedSplit(**content | {"labels": tuple(content["labels"])})
    wrong = not SPLIT_NAME.fullmatch(name) or any(label not in LABELS for label in split.labels)
    wrong |= split.origin.keys() != ORIGIN_FIELDS or len(set(split.labels)) < len(split.labels)
    wrong |= not all(type(each) is str for each in [*split.origin, *split.origin.values(), *split.files])
    wrong |= not all(type(each) is int and each > 0 for each in [split.n, split.part_size, *split.files.values()])
    if wrong:
        raise ValueError(f"the split {name!r} has settings of a wrong kind")
    # What a dataset folder would refuse, an export may not say either.
    fields = asdict(split.description) | {"settings": split.settings}
    description_of(fields)
    return split
