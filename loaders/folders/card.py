"""The dataset card: a README.md and a sample picture, for people who find the folder."""

import warnings
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from ident3d.latents.attainable import attainable_r2
from ident3d.latents.exact.names import CLASSES
from ident3d.latents.factor import Factor
from ident3d.latents.factors import Factors, SceneSource
from ident3d.latents.worlds import World
from ident3d.loaders.folders.contact_sheet import contact_sheet, save_picture
from ident3d.loaders.folders.provenance import (
    CARD_FILES,
    PICTURE_FILE,
    PROVENANCE_FILE,
    README_FILE,
    record_card,
    record_run,
)
from ident3d.loaders.format.description import SHARDS, Description
from ident3d.loaders.format.files import write_atomically
from ident3d.loaders.format.inside import read_plain
from ident3d.loaders.format.latents_source import (
    GENERATED,
    TOGETHER,
    environments_of,
    sequences_of,
    views_of,
    world_of,
)
from ident3d.loaders.format.latents_table import class_type
from ident3d.loaders.format.manifest import ShardEntry
from ident3d.loaders.format.shard import read_shard

TERMS = "Made with ident3d (MIT) and Blender; images rendered with Blender belong to the person who rendered them."
LATENTS = """`scene_latents` are the values that the scene was set to.
The attainable R² is the highest that the pictures allow: parts of a hue's range may look alike."""
FACTORS = """`scene_latents` are the values in units of their own.
A categorical value is the number of its name in the list, from 0."""
# The layout of images that were given as arrays, and of those that `export --to` wrote.
ARRAYS, EXPORT = "arrays", "export"
SHOWN_VALUES = 12
NOT_SAID = "not said"


def write_card(
    folder: Path,
    description: Description,
    entries: Sequence[ShardEntry],
    mesh_credits: Sequence[str] = (),
    names: Sequence[str] = CARD_FILES,
) -> None:
    """Write README.md and sample.png into a complete dataset folder, with the credits of the meshes that it shows."""
    # The pictures are those of the first shard: one shard is quickly read, however large the dataset is.
    if PICTURE_FILE in names:
        data = read_plain(folder, f"{SHARDS}/{entries[0].name}", entries[0].bytes)
        first = read_shard(folder / SHARDS / entries[0].name, data)
        sheet = contact_sheet(list(islice(first.images, 12)), columns=min(6, len(first.images)))
        save_picture(sheet, folder / PICTURE_FILE)
    if README_FILE in names:
        write_atomically(folder / README_FILE, card(folder.resolve().name, description, mesh_credits).encode())
    record_card(folder, names)


def remake_lost(
    folder: Path,
    description: Description,
    entries: Sequence[ShardEntry],
    mesh_credits: Sequence[str],
    lost: Sequence[str],
) -> None:
    """Write those of the card's files and the provenance anew that a complete folder has lost, and say so."""
    # A README that is there may be a user's own by now, and is left alone.
    write_card(folder, description, entries, mesh_credits, [name for name in CARD_FILES if name in lost])
    if PROVENANCE_FILE in lost:
        record_run(folder, datetime.now(UTC), images=0)
    warnings.warn(f"Lost in {folder}, and made anew: {', '.join(lost)}.", stacklevel=2)


def card(name: str, description: Description, mesh_credits: Sequence[str] = ()) -> str:
    """Return the card's Markdown."""
    settings = description.settings
    rows = "\n".join(f"| {label} | {value} |" for label, value in facts(description))
    # The card is the same for the same dataset on every machine: it holds no date, host or path.
    world = world_of(settings)
    known = world.classes if isinstance(world, Factors) else CLASSES if world.drawn_classes else ()
    names = ", ".join(f"{number} {name}" for number, name in enumerate(known))
    classes = f"`class` ({np.dtype(class_type(len(known)))}) is the number of the class:\n{names}.\n" if known else ""
    columns = ""
    if sequence := sequences_of(settings):
        columns = "`sequence` and `frame` (int64) say which frame of which sequence an image is.\n"
        columns += f"Image i is frame i mod {sequence.length} of sequence i // {sequence.length}.\n"
    if views := views_of(settings):
        columns = "`instance` and `view` (int64) say which view of which z an image is.\n"
        columns += f"Image i is view i mod {views.number} of instance i // {views.number}.\n"
    if environments := environments_of(settings):
        what = "Sequence" if sequences_of(settings) else "Instance" if views else "Image"
        columns += f"`environment` (int64) is its environment. {what} i is of environment i mod {len(environments)}.\n"
    head, *latents = ("| " + " | ".join(row) + " |" for row in latent_table(settings))
    table = "\n".join([head, "|---" * (head.count("|") - 1) + "|", *latents])
    of_what = f" of the {description.scene} scene" if description.scene else ""
    layout = f"uint8, N×H×W×{description.channels}"
    meshes = "\n".join(f"- {credit}" for credit in mesh_credits)
    if meshes:
        meshes = f"\nThe images show meshes made by others, which have their own terms:\n\n{meshes}\n"
    return f"""# {name}

{description.n:,} images{of_what}, {size_in_words(description)}, each with the
latent factors that it {"was rendered from" if description.scene else "shows"}. {how_made(settings)}

![sample](sample.png)

| | |
|---|---|
{rows}

## Latents

Raw latents are float32 in [-1, 1], in this order. {LATENTS if isinstance(world, World) else FACTORS}

{table}

## Reading it

    from ident3d import ImageDataset
    latents, image = ImageDataset("{name}")[0]

Any HDF5 library can read each file in `shards/` by itself (gzip chunks): `images` ({layout}), `raw_latents`,
`scene_latents` (float32), `index` (int64). {classes}{columns}`ident3d verify` checks every byte.

## Terms

{terms(settings)}
{meshes}"""


def facts(description: Description) -> list[tuple[str, str]]:
    """Return what the card and `ident3d info` show of a dataset, label by label."""
    settings, world = description.settings, world_of(description.settings)
    rows = scene_facts(settings, world) if isinstance(world, World) else factor_facts(settings, world)
    rows.insert(1, ("images", f"{description.n:,} of {size_in_words(description)}"))
    if sequence := sequences_of(settings):
        rows.append(("sequences", f"{description.n // sequence.length:,} of {sequence.length} frames"))
        rows.append(("each next frame", sequence.words))
    if views := views_of(settings):
        blocks = views.blocks(world)
        rows.append(("instances", f"{description.n // views.number:,} of {views.number} views"))
        rows.append(("shared", ", ".join([*(["class"] if world.drawn_classes else []), *blocks.get("shared", ())])))
        if private := blocks.get("private"):
            rows.append(("private", f"{', '.join(private)}: {views.words}"))
        if views.cameras:
            rows.append(("cameras", ", ".join(views.cameras)))
    for number, environment in enumerate(environments_of(settings)):
        rows.append((f"environment {number}, {environment.name}", environment.words))
    rows += [("versions", ", ".join(f"{k} {v}" for k, v in settings["versions"].items()))]
    if description.complete:
        rows += [
            ("pixel mean", ", ".join(f"{value:.4f}" for value in description.pixel_mean or ())),
            ("pixel std", ", ".join(f"{value:.4f}" for value in description.pixel_std or ())),
            ("disk", f"{(description.bytes or 0) / 1e6:,.1f} MB"),
        ]
    return rows


def statement(name: str, value: float | str) -> str:
    """Return x = 0.5, class = Hare, or x ~ normal(0.2, 0.3)."""
    if isinstance(value, str):
        return f"{name} {'=' if name == 'class' else '~'} {value}"
    return f"{name} = {value:g}"


def scene_facts(settings: dict[str, Any], world: World) -> list[tuple[str, str]]:
    """Return the facts of a scene's images."""
    classes = world.drawn_classes
    held = [statement(name, value) for name, value in (world.do if world.causal else world.fixed).items()]
    ranges = [f"{name} ±{getattr(world, f'{name}_range'):.4g}" for name in ("position", "angle", "hue")]
    # Unless the graph draws classes, image i has class i modulo their number.
    is_drawn = world.graph is not None and world.graph.weights and len(classes) > 1
    return [
        ("scene", world.scene),
        ("source of the latents", source_of_latents(settings["source"])),
        *([(f"classes, {'drawn' if is_drawn else 'image by image in turn'}", ", ".join(classes))] if classes else []),
        ("intervention" if world.causal else "held fixed", ", ".join(held) or "nothing"),
        *([("graph", "its own, in dataset.json")] if world.graph != World(world.scene).graph else []),
        ("ranges", ", ".join(ranges)),
        ("hues", world.hues),
        ("material", settings["material"]),
        ("quality", quality_name(settings)),
    ]


def factor_facts(settings: dict[str, Any], world: Factors) -> list[tuple[str, str]]:
    """Return the facts of images with declared factors."""
    if world.own_scene:
        return own_scene_facts(settings, world, world.own_scene)
    # Nothing read from disk is trusted to be there.
    origin = settings.get("origin", {})
    return [
        ("name", origin.get("name", NOT_SAID)),
        ("source", source_of_images(settings["source"], origin)),
        *([("classes", ", ".join(world.classes))] if world.classes else []),
        ("licence", origin.get("licence", NOT_SAID)),
    ]


def own_scene_facts(settings: dict[str, Any], world: Factors, own: SceneSource) -> list[tuple[str, str]]:
    """Return the facts of images that a user's own scene was rendered for."""
    return [
        ("scene", f"{own.name}, a file with the sha256 {own.sha256}"),
        *[
            (f"its {use}", f"a file with the sha256 {digest}")
            for use, digest in settings.get("scene_files", {}).items()
        ],
        ("source of the latents", source_of_latents(settings["source"])),
        ("held fixed", ", ".join(statement(name, value) for name, value in world.fixed.items()) or "nothing"),
        *([("intervention", ", ".join(statement(*each) for each in world.do.items()))] if world.do else []),
        *([("graph", "its own, in dataset.json")] if world.graph else []),
        ("quality", quality_name(settings)),
    ]


def quality_name(settings: dict[str, Any]) -> str:
    quality = settings["quality"]
    return str(quality.get("name", "unknown")) if quality else "unknown"


def size_in_words(description: Description) -> str:
    """Return the size of the images in words."""
    grey = " in grey" if description.channels == 1 else ""
    return f"{description.size}×{description.size} pixels{grey}"


def source_of_images(source: dict[str, Any], origin: dict[str, Any]) -> str:
    """Return where images with declared factors come from: of arrays, what is said of them, if anything is."""
    said = origin.get("source", NOT_SAID) if source.get("layout") == ARRAYS else NOT_SAID
    return source_of_latents(source if said == NOT_SAID else source | {"from": said})


def source_of_latents(source: dict[str, Any]) -> str:
    if source["kind"] == "import":
        return f"imported from {source['from']}" + (f", {source['split']}" if source["split"] else "")
    if source["kind"] == GENERATED:
        seed = f" with seed {source['seed']}" if "seed" in source else ""
        return f"generated: {source['from']}, {source.get('images', NOT_SAID)}{seed}, {source['split']}"
    return ", ".join(f"{k} {v}" for k, v in source.items() if k not in TOGETHER)


def terms(settings: dict[str, Any]) -> str:
    """Return the terms of the images; for imported data, what is known of the files that they come from."""
    kind = settings["source"]["kind"]
    if kind not in ("import", GENERATED):
        return TERMS
    origin = settings["origin"]
    known = f"""- source: {origin["source"]}
- licence: {origin["licence"]}
- citation: {origin["citation"]}"""
    if kind == GENERATED:
        return f"Pictures after {origin['name']}, not those that were published:\n\n{known}"
    if settings["source"].get("layout") == ARRAYS:
        return f"Imported data, as the person who imported them says:\n\n{known}"
    if settings["source"].get("layout") == EXPORT:
        return f"Imported data, as their export says:\n\n{known}"
    return f"""Imported data, if these are the published files of {origin["name"]}:

{known}"""


def latent_table(settings: dict[str, Any]) -> list[tuple[str, ...]]:
    """Return the table of the latents, its head first: attainable R², or kind and values of declared factors."""
    world = world_of(settings)
    if isinstance(world, World):
        held = "set by an intervention" if world.causal else "held fixed"
        known = attainable_r2(world).items()
        return [("latent", "attainable R²"), *((k, held if r2 is None else f"{r2:.4f}") for k, r2 in known)]
    how = dict.fromkeys(world.do, ", set by an intervention") | dict.fromkeys(world.fixed, ", held fixed")
    shown = {f.name: values_of(f) + how.get(f.name, "") for f in world.factors}
    return [("latent", "kind", "values"), *((f.name, f.kind, shown[f.name]) for f in world.factors)]


def values_of(factor: Factor) -> str:
    """Return the values of a factor in words: all if they are few, or the first, the last and how many."""
    low, high = factor.bounds
    if not factor.values:
        return f"{low:g} to {high:g}"
    shown = [value if isinstance(value, str) else f"{value:.6g}" for value in factor.values]
    return ", ".join(shown) if len(shown) <= SHOWN_VALUES else f"{len(shown)} from {shown[0]} to {shown[-1]}"


def how_made(settings: dict[str, Any]) -> str:
    """Return one sentence on how the dataset was made."""
    source = settings["source"]
    if source["kind"] == "draw":
        return f"The latents are drawn with seed {source['seed']}, split {source['split']}; image i never depends on n."
    if source["kind"] == "import" and source.get("layout") == ARRAYS:
        return f"They were made of the arrays `{source['from']}`."
    if source["kind"] == "import" and source.get("layout") == EXPORT:
        return f"They were imported from `{source['from']}`, an export of ident3d for {source.get('to', NOT_SAID)}."
    if source["kind"] == "import":
        return f"They were imported from `{source['from']}`, the published layout of {settings['origin']['name']}."
    if source["kind"] == GENERATED:
        return f"ident3d generated them: {source['from']}, {source.get('images', NOT_SAID)}."
    return "The latents are those of `latents.npy` in this folder."
