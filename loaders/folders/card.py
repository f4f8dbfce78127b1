"""The dataset card: a README.md and a sample picture, for people who find the folder."""

from collections.abc import Mapping, Sequence
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

TERMS = "Made with ident3d (MIT) and Blender; images rendered with Blender belong to whoever rendered them."


def write_card(
    folder: Path, description: Description, entries: Sequence[ShardEntry], mesh_credits: Sequence[str] = ()
) -> None:
    """Write README.md and sample.png into a complete dataset folder, with the credits of the meshes that it shows."""
    first = read_shard(folder / SHARDS / entries[0].name)
    sheet = contact_sheet(list(first.images[:12]), columns=min(6, len(first.images)))
    save_picture(sheet, folder / "sample.png")
    write_atomically(folder / "README.md", card(folder.resolve().name, description, mesh_credits).encode())


def card(name: str, description: Description, mesh_credits: Sequence[str] = ()) -> str:
    """The card's Markdown."""
    settings = description.settings
    rows = "\n".join(f"| {label} | {value} |" for label, value in facts(description))
    return f"""# {name}

{description.n:,} images of the {description.scene} scene, {description.size}×{description.size} pixels, with the latent
factors that each was rendered from. {origin(settings)}

![sample](sample.png)

| | |
|---|---|
{rows}

## Latents

Raw latents are float32 in [-1, 1] in this order; `scene_latents` are what the scene was set to.
The attainable R² is what a perfect reader of the pictures would reach: parts of a hue's range may look alike.

| latent | attainable R² |
|---|---|
{latent_rows(settings)}

## Reading it

    from ident3d import ImageDataset
    image, latents = ImageDataset("{name}")[0]

Each file in `shards/` is plain HDF5 (gzip chunks) and can be read alone by any HDF5 library: `images` (uint8, N×H×W×3),
`raw_latents`, `scene_latents` (float32), `index` (int64). {class_dataset(settings)}`ident3d verify` checks every byte.

## Terms

{terms(settings)}
{terms_of_meshes(mesh_credits)}"""


def terms_of_meshes(mesh_credits: Sequence[str]) -> str:
    """The paragraph on other people's meshes; none where there are none."""
    if not mesh_credits:
        return ""
    rows = "\n".join(f"- {credit}" for credit in mesh_credits)
    return f"\nThe images show meshes made by others, who have terms of their own:\n\n{rows}\n"


def facts(description: Description) -> list[tuple[str, str]]:
    """What the card and `ident3d info` state of a dataset, label by label."""
    settings = description.settings
    quality = settings["quality"]
    world = world_of(settings)
    classes = world.drawn_classes
    rows = [
        ("scene", description.scene),
        ("images", f"{description.n:,} of {description.size}×{description.size} pixels"),
        ("source of the latents", source_of_latents(settings["source"])),
        ("held fixed", held(settings["world"]["fixed"]) or "nothing"),
        *([("graph", "its own, in dataset.json")] if world.graph != World(world.scene).graph else []),
        ("ranges", ranges(settings["world"])),
        ("hues", settings["world"]["hues"]),
        ("material", settings["material"]),
        ("quality", quality["name"] if quality else "unknown"),
        ("versions", ", ".join(f"{k} {v}" for k, v in settings["versions"].items())),
    ]
    if classes:
        rows.insert(3, ("classes, image by image in turn", ", ".join(classes)))
    if description.complete:
        rows += [
            ("pixel mean", three(description.pixel_mean)),
            ("pixel std", three(description.pixel_std)),
            ("disk", f"{(description.bytes or 0) / 1e6:,.1f} MB"),
        ]
    return rows


def held(fixed: Mapping[str, float | str]) -> str:
    return ", ".join(f"{name} = {value if isinstance(value, str) else f'{value:g}'}" for name, value in fixed.items())


def source_of_latents(source: dict[str, Any]) -> str:
    if source["kind"] == "import":
        return f"imported from {source['from']}" + (f", {source['split']}" if source["split"] else "")
    return ", ".join(f"{k} {v}" for k, v in source.items())


def ranges(world: dict[str, Any]) -> str:
    """The half widths of the latents in scene units."""
    return ", ".join(f"{name} ±{world[f'{name}_range']:.4g}" for name in ("position", "angle", "hue"))


def three(values: tuple[float, ...] | None) -> str:
    return ", ".join(f"{value:.4f}" for value in values or ())


def class_dataset(settings: dict[str, Any]) -> str:
    """What the shards hold besides, in scenes with classes."""
    names = ", ".join(f"{number} {name}" for number, name in enumerate(CLASSES))
    return f"`class` (int8) numbers the classes:\n{names}.\n" if world_of(settings).drawn_classes else ""


def terms(settings: dict[str, Any]) -> str:
    """Whose the images are: ours to say where we rendered them, else what is known of where they come from."""
    if settings["source"]["kind"] != "import":
        return TERMS
    origin = settings["origin"]
    return f"""Imported data, if these are the published files of {origin["name"]}:

- source: {origin["source"]}
- licence: {origin["licence"]}
- citation: {origin["citation"]}"""


def latent_rows(settings: dict[str, Any]) -> str:
    rows = attainable_r2(world_of(settings)).items()
    return "\n".join(f"| {name} | {'held fixed' if r2 is None else f'{r2:.4f}'} |" for name, r2 in rows)


def origin(settings: dict[str, Any]) -> str:
    """One sentence on how the dataset came to be."""
    source = settings["source"]
    if source["kind"] == "draw":
        return f"The latents are drawn with seed {source['seed']}, split {source['split']}; image i never depends on n."
    if source["kind"] == "import":
        return f"They were imported from `{source['from']}`, the published layout of {settings['origin']['name']}."
    return "The latents are those of `latents.npy` in this folder."
