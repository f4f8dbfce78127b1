"""The words of a dataset's card, the README.md of its folder."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ident3d.latents.exact.names import CLASSES
from ident3d.latents.factors import Factors
from ident3d.latents.worlds import World
from ident3d.loaders.cards.facts import ARRAYS, NOT_SAID, facts, latent_table, size_in_words
from ident3d.loaders.format.description import Description
from ident3d.loaders.format.latents_source import GENERATED, environments_of, sequences_of, views_of, world_of
from ident3d.loaders.format.latents_table import class_type

TERMS = "Made with ident3d (MIT) and Blender; images rendered with Blender belong to the person who rendered them."
LATENTS = """`scene_latents` are the values that the scene was set to.
The attainable R² is the highest that the pictures allow: parts of a hue's range may look alike."""
FACTORS = """`scene_latents` are the values in units of their own.
A categorical value is the number of its name in the list, from 0."""
# The layout of images that `export --to` wrote.
EXPORT = "export"


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
