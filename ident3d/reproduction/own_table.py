"""A table of a user's own, read from a TOML file: rows, seeds and data, as an experiment like those of the papers."""

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import isfinite
from pathlib import Path
from typing import Any, Final

from ident3d.errors import UserError, check_known
from ident3d.latents.exact.causal import UNPARSED, load_model, toml_text
from ident3d.latents.worlds import World
from ident3d.loaders.folders.folder import local_copy
from ident3d.loaders.format.description import read_description
from ident3d.loaders.format.latents_source import world_of
from ident3d.metrics.scoring import choose_scores
from ident3d.training.experiments.experiment import Experiment, ImageVariant, Row, Variant
from ident3d.training.experiments.own_settings import changes
from ident3d.training.images.settings import TrainSettings
from ident3d.training.images.which_dataset import is_trained_on
from ident3d.training.losses.choice import check_seeds
from ident3d.training.mixing.settings import MixingSettings
from ident3d.training.report.mixing_report import MEANINGS

# The one profile of such a table.
OWN: Final = "own"
KEYS: Final = ("name", "title", "notes", "seeds", "columns", "data", "settings", "rows")
DATA_KEYS: Final = ("train", "test", "validation")
WORLD_KEYS: Final = (
    "scene", "position_range", "angle_range", "hue_range", "fixed", "hues", "graph", "classes", "do",
)  # fmt: skip
# Short names of columns on images.
SHORT: Final = {"R²": "linear_r2_held_out", "MCC": "mcc_pearson"}


def own_experiment(path: Path | str) -> Experiment:
    """Return the experiment that a TOML file describes, with the one profile "own"."""
    path = Path(path)
    text = toml_text(path, "table")
    try:
        content = tomllib.loads(text)
    except UNPARSED as error:
        raise UserError(f"{path} is not TOML: {error}.") from None
    try:
        return experiment_of(content, path)
    except UserError as error:
        raise UserError(f"{path.name}: {error}") from None


def experiment_of(content: Mapping[str, Any], path: Path) -> Experiment:
    """Return the experiment of the file's content. Raise UserError for the first thing that does not fit."""
    check_keys("key of the file", content, KEYS)
    name, title = (text_at(content, key, path.stem) for key in ("name", "title"))
    seeds = content.get("seeds", [0])
    if not isinstance(seeds, list) or not all(type(seed) is int for seed in seeds):
        raise UserError("`seeds` is a list of whole numbers, such as [0, 1, 2].")
    if not seeds:
        raise UserError("`seeds` names no seed; without it, the seed is 0.")
    check_seeds(seeds)
    is_images = "data" in content
    kind: type[TrainSettings] | type[MixingSettings] = TrainSettings if is_images else MixingSettings
    shared = changes(kind, table_at(content, "settings"), "settings")
    rows = [row_of(kind, each, table_at(table_at(content, "rows"), each), shared) for each in table_at(content, "rows")]
    if not rows:
        raise UserError("There are no rows: [rows.NAME] holds the settings of a row that differ from [settings].")
    columns = content.get("columns", ["R²", "MCC"] if is_images else ["R²", "MCC", "identity R²"])
    if not isinstance(columns, list) or not columns or not all(isinstance(column, str) for column in columns):
        raise UserError('`columns` is a list of names of scores, such as ["R²", "MCC"].')
    if len(set(columns)) < len(columns):
        raise UserError("`columns` names a score twice.")
    for row in rows:
        for column in row.paper:
            check_known(f"column in `paper` of row {row.name}", column, columns)
    scores: dict[str, tuple[str, tuple[str, ...]]] = {}
    variants: tuple[Variant[Any], ...]
    # A column that does not exist would stay empty, after hours of training.
    if is_images:
        scores = {column: (SHORT.get(column) or column, ()) for column in columns}
        choose_scores([score for score, _ in scores.values()])
        variants = image_variants(table_at(content, "data"), [row.name for row in rows])
    else:
        for column in columns:
            check_known("figure of mixed latents", column, MEANINGS)
        if identity := [row.name for row in rows if row.change is None]:
            raise UserError(f"Row {identity[0]}: `identity` is for tables on images; here it is a column, identity R².")
        variants = (Variant(name="mixing", settings=MixingSettings()),)
    return Experiment(
        name=folder_name("name", name),
        title=title,
        kind="images" if is_images else "mixing",
        columns=tuple(columns),
        rows=tuple(rows),
        profiles={OWN: variants},
        scores=scores,
        notes=text_at(content, "notes", ""),
        seeds=tuple(seeds),
        file=str(path),
    )


def row_of(
    kind: type[TrainSettings] | type[MixingSettings], name: str, content: Mapping[str, Any], shared: Mapping[str, Any]
) -> Row:
    """Return a row: the shared settings and its own, or no training at all if it is the identity."""
    where, rest = f"row {name}", {key: value for key, value in content.items() if key not in ("paper", "identity")}
    paper = {column: published_figure(where, column, value) for column, value in table_at(content, "paper").items()}
    folder_name("row", name, marks="_-+=.^")
    identity = content.get("identity", False)
    if type(identity) is not bool:
        raise UserError(f"`identity` of {where} is true or false, not {identity!r}.")
    if identity:
        if rest:
            raise UserError(f"The {where} is the identity, which has no encoder: it takes no {', '.join(rest)}.")
        return Row(name, None, paper)
    return Row(name, {**shared, **changes(kind, rest, where)}, paper)


def image_variants(data: Mapping[str, Any], known: Sequence[str]) -> tuple[ImageVariant, ...]:
    """Return what a table on images is run on: [data] itself, or each [data.NAME], with the rows that it may name."""
    parts = [name for name, content in data.items() if isinstance(content, dict)]
    if not parts or data.keys() & DATA_KEYS:
        return (image_variant("[data]", "images", data),)
    if beside := [key for key in data if key not in parts]:
        raise UserError(f"[data] holds `{beside[0]}` beside [data.{parts[0]}]; each part names its own.")
    found = [part_of(name, data[name], known) for name in parts]
    run = {row for part in found for row in part.rows or known}
    if left := [row for row in known if row not in run]:
        raise UserError(f"No part of [data] names the row {left[0]} among its `rows`.")
    return tuple(found)


def part_of(name: str, data: Mapping[str, Any], known: Sequence[str]) -> ImageVariant:
    """Return a part of a table, [data.NAME]: its images, and those of the known rows that are run on them."""
    folder_name("data", name, marks="_-+=^")
    where, rows = f"[data.{name}]", data.get("rows", list(known))
    if not isinstance(rows, list) or not rows:
        raise UserError(f"`rows` of {where} is a list of names of rows, not {rows!r}.")
    for row in rows:
        check_known("row", row, known)
    if len(set(rows)) < len(rows):
        raise UserError(f"`rows` of {where} names a row twice.")
    images = image_variant(where, name, {key: value for key, value in data.items() if key != "rows"})
    return replace(images, rows=tuple(rows), only_rows=True) if "rows" in data else images


def image_variant(where: str, name: str, data: Mapping[str, Any]) -> ImageVariant:
    """Return images that a table is run on: folders that exist, or a world to be rendered."""
    if not {"train", "test"} <= data.keys():
        raise UserError(f"{where} names `train` and `test`: two dataset folders, or two numbers of images to render.")
    given = {split: data[split] for split in DATA_KEYS if split in data}
    if all(isinstance(value, str) for value in given.values()):
        check_keys(f"key of {where}", data, DATA_KEYS)
        folders = {split: local_copy(value) for split, value in given.items()}
        found = {split: read_description(folder) for split, folder in folders.items()}
        if unfinished := [folders[split] for split, each in found.items() if not each.complete]:
            raise UserError(f"{unfinished[0]} is not finished yet; the command that began it goes on where it stopped.")
        train = found["train"]
        for split, of in (("test", "train"), ("validation", "train"), ("validation", "test")):
            if {split, of} <= found.keys() and is_trained_on(found[of].settings, found[split]):
                raise UserError(f"`{split}` of {where} holds images of `{of}`: no score of them is held out.")
        return ImageVariant(
            name=name, settings=TrainSettings(), world=world_of(train.settings), size=train.size, train=train.n,
            test=found["test"].n, channels=int(train.settings.get("channels", 3)), folders=folders,
        )  # fmt: skip
    check_keys(f"key of {where}", data, ("train", "test", "size", *WORLD_KEYS))
    numbers = {key: data.get(key, 64) for key in ("train", "test", "size")}
    if not all(type(value) is int and value > 0 for value in numbers.values()):
        raise UserError(f"`train`, `test` and `size` of {where} are whole numbers if images are to be rendered.")
    own = {key: data[key] for key in WORLD_KEYS if key in data}
    for key in ("fixed", "do"):
        table_at(own, key)
    if "graph" in own:
        own["graph"] = load_model(text_at(own, "graph", ""))
    try:
        world = World(**own)
    except (TypeError, ValueError, AttributeError, OverflowError) as error:
        raise error if isinstance(error, UserError) else UserError(f"{where} is no world: {error}.") from None
    return ImageVariant(name=name, settings=TrainSettings(), world=world, **numbers)


def published_figure(where: str, column: str, value: Any) -> tuple[float, float]:
    """Return a published figure: its mean and spread in percent, or the mean alone."""
    given = value if isinstance(value, list) else [value, 0.0]
    if len(given) != 2 or not all(type(each) in (int, float) and isfinite(each) for each in given):
        raise UserError(f"`paper` of {where} holds a mean and a spread in percent, such as [96.7, 0.1], for {column}.")
    return float(given[0]), float(given[1])


def check_keys(kind: str, content: Mapping[str, Any], known: tuple[str, ...]) -> None:
    for key in content:
        check_known(kind, key, known)


def table_at(content: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """Return a table of the file, empty if there is none."""
    found = content.get(key, {})
    if not isinstance(found, dict):
        raise UserError(f"`{key}` is a table, not {found!r}.")
    return found


def text_at(content: Mapping[str, Any], key: str, default: str) -> str:
    found = content.get(key, default)
    if not isinstance(found, str):
        raise UserError(f"`{key}` is text, not {found!r}.")
    return found


def folder_name(what: str, name: str, marks: str = "_-+=,.^") -> str:
    """Return a name that becomes part of a folder's; raise UserError for one that cannot."""
    if not re.fullmatch(rf"[\w{re.escape(marks)}]+", name) or name[0] in "-." or len(name) > 100:
        shown = " ".join(marks)
        raise UserError(f"The {what} {name!r} names a folder: take letters, digits and {shown} in it.")
    return name
