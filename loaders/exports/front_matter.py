"""The front matter of a card: what Hugging Face reads between the two lines --- at the head of a README.md, as YAML."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from ident3d.loaders.exports.columns import INT, NAMED
from ident3d.loaders.exports.record import ExportedSplit, terms_of
from ident3d.loaders.format.latents_source import GENERATED

# Licences by the names that Hugging Face knows. A creative commons licence has its kind and version in its name.
LICENCES: Final = re.compile(
    r"mit|apache-2\.0|bsd|bsd-2-clause|bsd-3-clause|cc|cc0-1\.0|cc-by(-nc)?(-sa|-nd)?-[234]\.[05]|odbl|odc-by|pddl|"
    r"gpl-3\.0|unlicense|other|unknown"
)
# A plain word needs no quotation marks in YAML, unless it is one of those that mean something.
PLAIN: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_. -]*[A-Za-z0-9_]|[A-Za-z_]", re.ASCII)
MEANS_SOMETHING: Final = {"y", "n", "yes", "no", "on", "off", "true", "false", "null", "none"}


def front_matter(to: str, splits: Mapping[str, ExportedSplit]) -> str:
    """Return the front matter of an export: its licence, size and files, and what is in them."""
    first = next(iter(splits.values()))
    images = sum(split.n for split in splits.values())
    content: dict[str, Any] = {"pretty_name": first.origin["name"], **licences_of(list(terms_of(splits, "licence")))}
    content |= {"size_categories": [size_category(images)], "tags": tags_of(first)}
    if citations := terms_of(splits, "citation"):
        content["citation"] = "\n".join(citations)
    files = [{"split": name, "path": pattern(to, name)} for name in splits]
    # The viewer of a folder of pictures shows its table.
    content["configs"] = [{"config_name": "default", "data_files": files}]
    if to != "png":
        content["dataset_info"] = dataset_info(to, splits)
    return f"---\n{yaml_lines(content)}---\n"


def dataset_info(to: str, splits: Mapping[str, ExportedSplit]) -> dict[str, Any]:
    """Return the types of the columns and the sizes of the splits, as `datasets` writes them into a card."""
    first, columns = next(iter(splits.values())), []
    for column in first.columns:
        named = {"class_label": {"names": {str(k): name for k, name in enumerate(column.names)}}}
        columns.append({"name": column.name, "dtype": named if column.kind == NAMED else column.kind})
    features = [{"name": "image", "dtype": "image"}, *columns]
    if to == "webdataset":
        # A row has the name of its files besides, and all columns in the one of its JSON file; names are words there.
        types = {
            c.name: "string" if c.kind == NAMED else "int64" if c.kind == INT else "float64" for c in first.columns
        }
        struct = [{"name": name, "dtype": kind} for name, kind in types.items()]
        features = [{"name": "png", "dtype": "image"}, {"name": "json", "struct": struct}]
        features += [{"name": "__key__", "dtype": "string"}, {"name": "__url__", "dtype": "string"}]
    sizes = {name: sum(split.files.values()) for name, split in splits.items()}
    listed = [{"name": name, "num_bytes": sizes[name], "num_examples": split.n} for name, split in splits.items()]
    total = sum(sizes.values())
    return {"features": features, "splits": listed, "download_size": total, "dataset_size": total}


def pattern(to: str, split: str) -> str:
    """Return which files of an export hold a split, in the words of `datasets`."""
    return {"huggingface": f"data/{split}-*", "webdataset": f"{split}-*.tar", "png": "latents.csv"}[to]


def licences_of(texts: list[str]) -> dict[str, Any]:
    """Return the splits' licences as Hugging Face names them; those that it does not know are `other`, in words."""
    named = {text: text.strip().lower().replace(" ", "-") for text in texts}
    other = [text for text, name in named.items() if not LICENCES.fullmatch(name)]
    known = list(dict.fromkeys("other" if text in other else name for text, name in named.items())) or ["unknown"]
    return {"license": known[0] if len(known) == 1 else known} | ({"license_name": ", ".join(other)} if other else {})


def size_category(n: int) -> str:
    """Return in which of the hub's classes a number of images falls, such as 1K<n<10K."""
    edges = ("1K", "10K", "100K", "1M", "10M", "100M", "1B", "10B", "100B", "1T")
    k = sum(n >= 1000 * 10**i for i in range(len(edges)))
    if k == 0:
        return "n<1K"
    return f"n>{edges[-1]}" if k == len(edges) else f"{edges[k - 1]}<n<{edges[k]}"


def tags_of(split: ExportedSplit) -> list[str]:
    """Return words that people search for."""
    scene, kind = split.description.scene, split.settings["source"]["kind"]
    made = ["synthetic"] if scene or kind == GENERATED else []
    return [
        "identifiability",
        "disentanglement",
        "representation-learning",
        *made,
        "ident3d",
        *([scene] if scene else []),
    ]


def yaml_lines(value: Mapping[str, Any] | Sequence[Any], indent: str = "") -> str:
    """Return a mapping or list as YAML: nested blocks, with every text that could be read as anything else quoted."""
    lines = ""
    items = value.items() if isinstance(value, Mapping) else [(None, item) for item in value]
    for key, item in items:
        head = f"{indent}- " if key is None else f"{indent}{yaml_scalar(key)}:"
        if isinstance(item, Mapping | list):
            below = yaml_lines(item, indent + "  ")
            # The first line of a list's item stands next to its dash.
            lines += head + below.removeprefix(indent + "  ") if key is None else f"{head}\n{below}"
        else:
            lines += f"{head}{'' if key is None else ' '}{yaml_scalar(item)}\n"
    return lines


def yaml_scalar(value: str | int) -> str:
    """Return a number or a text; a text is quoted as JSON does it, which YAML reads, unless it is a plain word."""
    if not isinstance(value, str):
        return str(value)
    if PLAIN.fullmatch(value) and value.lower() not in MEANS_SOMETHING:
        return value
    quoted = json.dumps(value, ensure_ascii=False)
    return "".join(c if c.isprintable() else f"\\U{ord(c):08x}" for c in quoted)
