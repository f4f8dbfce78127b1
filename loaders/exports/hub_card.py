"""The card of an export, for people and hubs: the folder's own README.md under a front matter, with other columns."""

import io
import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path

from ident3d.loaders.cards.contact_sheet import contact_sheet
from ident3d.loaders.cards.facts import NOT_SAID
from ident3d.loaders.cards.text import card
from ident3d.loaders.exports.columns import SCENE
from ident3d.loaders.exports.front_matter import front_matter
from ident3d.loaders.exports.record import ExportedSplit, terms_of
from ident3d.loaders.folders.folder import Folder, checked_shard
from ident3d.loaders.folders.provenance import PICTURE_FILE, README_FILE
from ident3d.loaders.format.inside import read_plain

# A card is words; of anything larger, a new one is made.
LARGEST_CARD = 2**20
# Images of the sample, if it has to be made.
SHOWN = 12
FRONT_MATTER = re.compile(r"\A---\n.*?\n---\n", re.DOTALL)
# What of the folder's card is said of an export in other words.
REPLACED = ("Columns\n", "Reading it\n", "Licence and citation\n")

READING = {
    "huggingface": """    from datasets import load_dataset

    images = load_dataset("{name}", split="{split}")  # the path of this folder, or OWNER/NAME on the hub
    images[0]["image"], images[0][{column}]""",
    "webdataset": """    import webdataset

    for sample in webdataset.WebDataset("{files}", shardshuffle=False).decode("pil"):
        sample["png"], sample["json"][{column}]""",
    "png": """    import pandas

    table = pandas.read_csv("latents.csv")  # a row for each image; `file` is where its picture is
    table[{column}]""",
}
NAMES = {
    "huggingface": "A column of names is a ClassLabel: the number of the name.",
    "webdataset": "The columns of an image are in its .json file; a column of names has the name.",
    "png": "The columns are those of `latents.csv`; a column of names has the name.",
}


def hub_card(folder: Folder, out: Path, to: str, splits: Mapping[str, ExportedSplit]) -> str:
    """Return the README.md of an export: the one that it has, or else the folder's, with front matter and new sections.

    What a user has written into either of them stays.
    """
    text = FRONT_MATTER.sub("", card_text(folder, out))
    head, *sections = re.split(r"^## ", text, flags=re.MULTILINE)
    kept = [section.strip() for section in sections if not section.startswith(REPLACED)]
    new = [columns_section(to, splits), reading_section(to, splits, out.resolve().name)]
    # Latents, then the columns that hold them and how to read them, then the terms.
    place = next((k + 1 for k, section in enumerate(kept) if section.startswith("Latents\n")), 0)
    sections = [*kept[:place], *new, *kept[place:], terms_section(splits)]
    return "\n\n".join([front_matter(to, splits) + head.strip(), *(f"## {section}" for section in sections)]) + "\n"


def card_text(folder: Folder, out: Path) -> str:
    """Return the card to start from: that of the export, or else the folder's; of a lost one, it is made anew."""
    name = folder.store.name if folder.store else folder.path.resolve().name
    for data in (there(out, README_FILE), beside(folder, README_FILE)):
        if data is not None and len(data) <= LARGEST_CARD:
            with suppress(UnicodeDecodeError):
                return data.decode().replace(f"# {name}\n", f"# {out.resolve().name}\n", 1)
    return card(out.resolve().name, folder.description)


def there(path: Path, name: str) -> bytes | None:
    """Return a file of a folder, if it is there."""
    try:
        return read_plain(path, name)
    except FileNotFoundError:
        return None


def beside(folder: Folder, name: str) -> bytes | None:
    """Return a file that lies beside the shards of a dataset, if it is there; of a store, the cache has no card."""
    return folder.store.get(name) if folder.store else there(folder.path, name)


def terms_section(splits: Mapping[str, ExportedSplit]) -> str:
    """Return what is known of licence and citation."""
    lines = []
    for field in ("licence", "citation"):
        found = terms_of(splits, field)
        # Of all splits alike; what not all say, or say otherwise, is followed by the splits that it is said of.
        alike = len(found) == 1 and len(next(iter(found.values()))) == len(splits)
        texts = [text if alike else f"{text} ({', '.join(names)})" for text, names in found.items()]
        lines += [f"- {field}: {text}" for text in texts or [NOT_SAID]]
    return "\n".join(["Licence and citation\n", *lines])


def sample_picture(folder: Folder) -> bytes:
    """Return the picture of the folder's card; one that is lost is made anew."""
    if (found := beside(folder, PICTURE_FILE)) is not None:
        return found
    buffer, shard = io.BytesIO(), checked_shard(folder, folder.entries[0])
    contact_sheet(list(islice(shard.images, SHOWN)), columns=min(6, len(shard.images))).save(buffer, "png")
    return buffer.getvalue()


def columns_section(to: str, splits: Mapping[str, ExportedSplit]) -> str:
    """Return the table of the columns, and how many images each split has."""
    images = ", ".join(f"{name} {split.n:,}" for name, split in splits.items())
    rows = [
        f"| `{column.name}` | {column.kind} | {column.about}{': ' if column.names else ''}{in_a_cell(column.names)} |"
        for column in next(iter(splits.values())).columns
    ]
    table = "\n".join(["| column | kind | |", "|---|---|---|", *rows])
    return f"Columns\n\nImages: {images}. {NAMES[to]}\nEvery picture is a PNG file, without loss.\n\n{table}"


def in_a_cell(names: Sequence[str]) -> str:
    """Return names as one line of a table's cell: they may hold anything."""
    return " ".join(", ".join(names).split()).replace("|", "\\|")


def reading_section(to: str, splits: Mapping[str, ExportedSplit], name: str) -> str:
    """Return the lines of Python that read the export, and the command that makes a dataset folder of it again."""
    split, first = next(iter(splits.items()))
    column = next((each.name for each in first.columns if each.part == SCENE), first.columns[-1].name)
    last = len(first.files) - 1
    files = f"{split}-{{00000..{last:05d}}}.tar" if last else f"{split}-00000.tar"
    code = READING[to].format(name=name, split=split, files=files, column=json.dumps(column, ensure_ascii=False))
    again = "`ident3d import` makes a dataset folder of it again, for pairs, training and scores."
    return f"Reading it\n\n{code}\n\n{again} The settings and ranges are in `dataset.json`."
