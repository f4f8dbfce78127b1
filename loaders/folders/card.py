"""The dataset card: a README.md and a sample picture, for people who find the folder."""

from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from ident3d.latents.attainable import attainable_r2
from ident3d.latents.exact.names import CLASSES
from ident3d.latents.worlds import World
from ident3d.loaders.folders.contact_sheet import contact_sheet, save_picture
from ident3d.loaders.folders.folder import SHARDS, Description
from ident3d.loaders.format.files import write_atomically
from ident3d.loaders.format.latents_source import world_of
from ident3d.loaders.format.manifest import ShardEntry
from ident3d.loaders.format.shard import read_shard

TERMS = "Made with ident3d (MIT) and Blender; images rendered with Blender belong to the person who rendered them."


def write_card(
    folder: Path, description: Description, entries: Sequence[ShardEntry], mesh_credits: Sequence[str] = ()
) -> None:
    """Write README.md and sample.png into a complete dataset folder, with the credits of the meshes that it shows."""
    # The pictures are those of the first shard: one shard is quickly read, however large the dataset is.
    first = read_shard(folder / SHARDS / entries[0].name)
    sheet = contact_sheet(list(islice(first.images, 12)), columns=min(6, len(first.images)))
    save_picture(sheet, folder / "sample.png")
    write_atomically(folder / "README.md", card(folder.resolve().name, description, mesh_credits).encode())


def card(name: str, description: Description, mesh_credits: Sequence[str] = ()) -> str:
    """Return the card's Markdown."""
    settings = description.settings
    rows = "\n".join(f"| {label} | {value} |" for label, value in facts(description))
    # The card is the same for the same dataset on every machine: it holds no date, host or path.
    names = ", ".join(f"{number} {name}" for number, name in enumerate(CLASSES))
    classes = f"`class` (int8) is the number of the class:\n{names}.\n" if world_of(settings).drawn_classes else ""
    meshes = "\n".join(f"- {credit}" for credit in mesh_credits)
    if meshes:
        meshes = f"\nThe images show meshes made by others, which have their own terms:\n\n{meshes}\n"
    return f"""# {name}

{description.n:,} images of the {description.scene} scene, {description.size}×{description.size} pixels, each with the
latent factors that it was rendered from. {origin(settings)}

![sample](sample.png)

| | |
|---|---|
{rows}

## Latents

Raw latents are float32 in [-1, 1], in this order. `scene_latents` are the values that the scene was set to.
The attainable R² is the highest that the pictures allow: parts of a hue's range may look alike.

| latent | attainable R² |
|---|---|
{latent_rows(settings)}

## Reading it

    from ident3d import ImageDataset
    latents, image = ImageDataset("{name}")[0]

Any HDF5 library can read each file in `shards/` by itself (gzip chunks): `images` (uint8, N×H×W×3), `raw_latents`,
`scene_latents` (float32), `index` (int64). {classes}`ident3d verify` checks every byte.

## Terms

{terms(settings)}
{meshes}"""


def facts(description: Description) -> list[tuple[str, str]]:
    """Return what the card and `ident3d info` show of a dataset, label by label."""
    settings = description.settings
    quality = settings["quality"]
    world = world_of(settings)
    classes = world.drawn_classes
    held = [statement(name, value) for name, value in (world.do if world.causal else world.fixed).items()]
    ranges = [f"{name} ±{settings['world'][f'{name}_range']:.4g}" for name in ("position", "angle", "hue")]
    rows = [
        ("scene", description.scene),
        ("images", f"{description.n:,} of {description.size}×{description.size} pixels"),
        ("source of the latents", source_of_latents(settings["source"])),
        ("intervention" if world.causal else "held fixed", ", ".join(held) or "nothing"),
        *([("graph", "its own, in dataset.json")] if world.graph != World(world.scene).graph else []),
        ("ranges", ", ".join(ranges)),
        ("hues", settings["world"]["hues"]),
        ("material", settings["material"]),
        ("quality", quality["name"] if quality else "unknown"),
        ("versions", ", ".join(f"{k} {v}" for k, v in settings["versions"].items())),
    ]
    if classes:
        # Unless the graph draws classes, image i has class i modulo their number.
        is_drawn = world.graph is not None and world.graph.weights and len(classes) > 1
        rows.insert(3, (f"classes, {'drawn' if is_drawn else 'image by image in turn'}", ", ".join(classes)))
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


def source_of_latents(source: dict[str, Any]) -> str:
    if source["kind"] == "import":
        return f"imported from {source['from']}" + (f", {source['split']}" if source["split"] else "")
    return ", ".join(f"{k} {v}" for k, v in source.items())


def terms(settings: dict[str, Any]) -> str:
    """Return the terms of the images; for imported data, what is known of the files that they come from."""
    if settings["source"]["kind"] != "import":
        return TERMS
    origin = settings["origin"]
    return f"""Imported data, if these are the published files of {origin["name"]}:

- source: {origin["source"]}
- licence: {origin["licence"]}
- citation: {origin["citation"]}"""


def latent_rows(settings: dict[str, Any]) -> str:
    world = world_of(settings)
    rows = attainable_r2(world).items()
    return "\n".join(f"| {name} | {held_word(world) if r2 is None else f'{r2:.4f}'} |" for name, r2 in rows)


def held_word(world: World) -> str:
    """Return what is said of a latent with one value only."""
    return "set by an intervention" if world.causal else "held fixed"


def origin(settings: dict[str, Any]) -> str:
    """Return one sentence on how the dataset was made."""
    source = settings["source"]
    if source["kind"] == "draw":
        return f"The latents are drawn with seed {source['seed']}, split {source['split']}; image i never depends on n."
    if source["kind"] == "import":
        return f"They were imported from `{source['from']}`, the published layout of {settings['origin']['name']}."
    return "The latents are those of `latents.npy` in this folder."
