"""Pictures of a dataset and of what its latents do."""

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from ident3d.errors import UserError
from ident3d.farm.recipe import THREE_D_IDENT, Recipe
from ident3d.farm.scenes import scene_of
from ident3d.latents.exact.names import CLASSES, short_name
from ident3d.latents.exact.streams import noise_seed
from ident3d.latents.factors import Factors
from ident3d.latents.worlds import AnyWorld, World
from ident3d.loaders.cards.contact_sheet import contact_sheet
from ident3d.loaders.datasets.frames import frames_by_sequence
from ident3d.loaders.datasets.image_dataset import ImageDataset
from ident3d.loaders.folders.folder import Folder, checked_shards, open_folder
from ident3d.loaders.format.latents_source import world_of
from ident3d.progress import progress_bar

# Images in a row of a contact sheet, and of a sequence, if nothing else is asked for.
COLUMNS: Final = 6
LONGEST_ROW: Final = 12


def preview(
    path: Path | str,
    *,
    count: int = 24,
    columns: int | None = None,
    with_latents: bool = False,
    by_sequence: bool = False,
) -> Image.Image:
    """Return a contact sheet of the first `count` finished images; with their latents below on request.

    Args:
        path: The dataset folder, or its address in a store.
        count: The number of images.
        columns: Images in a row; by default 6, and of sequences and views all, up to 12.
        with_latents: Write the raw latents below each image, and categorical factors by name.
        by_sequence: One row for each sequence, with at most `columns` of its frames from left to right, or for each z
            and its views.

    Returns:
        A Pillow image.

    Example:
        >>> import ident3d
        >>> sheet = ident3d.preview(dataset, count=4, columns=2)
        >>> sheet.width > 0
        True
    """
    if (least := min(count, 1 if columns is None else columns)) < 1:
        raise UserError(f"A contact sheet needs at least one image and one column, not {least}.")
    columns = columns or (LONGEST_ROW if by_sequence else COLUMNS)
    if by_sequence:
        return sequence_sheet(ImageDataset(path), count, columns, with_latents=with_latents)
    folder = open_folder(path)
    if not folder.entries:
        raise UserError(f"{path} has no finished images yet.")
    # Shards are read one by one until there are enough images: a dataset may have thousands.
    images, captions = zip(*islice(with_captions(folder), count), strict=True)
    return contact_sheet(images, min(columns, len(images)), captions=captions if with_latents else ())


def sequence_sheet(images: ImageDataset, count: int, columns: int, *, with_latents: bool) -> Image.Image:
    """Return a contact sheet of the first `count` images, with a row for each sequence."""
    rows = [frames[:columns] for frames in frames_by_sequence(images)]
    columns = min(columns, max(map(len, rows)))
    shown, captions, titles = list[NDArray[np.uint8]](), list[str](), list[str]()
    for number, frames in enumerate(rows[: -(-count // columns)]):
        titles.append(str(number))
        pixels, raw = images.images(frames), images.all_latents()[0][frames]
        # A shorter sequence leaves the rest of its row white.
        short = columns - len(frames)
        shown += [*pixels, *[np.full_like(pixels[0], 255)] * short]
        captions += [*(caption(images.world, row) for row in raw), *[""] * short]
    return contact_sheet(shown, columns, captions=captions if with_latents else (), row_titles=titles)


def with_captions(folder: Folder) -> Iterator[tuple[NDArray[np.uint8], str]]:
    """Yield each finished image with its class, if it has one, and its latents."""
    world = world_of(folder.description.settings)
    names = CLASSES if isinstance(world, World) else world.classes
    for shard in checked_shards(folder):
        classes = [""] * len(shard.images)
        if shard.classes is not None:
            classes = [f"{class_name(names, number)}\n" for number in shard.classes]
        for image, row, shown in zip(shard.images, shard.raw_latents, classes, strict=True):
            yield image, shown + caption(world, row)


def class_name(names: Sequence[str], number: int) -> str:
    """Return the name of a class, or its number if it has none."""
    return names[number] if 0 <= number < len(names) else f"class {number}"


def caption(world: AnyWorld, row: NDArray[np.float32]) -> str:
    """Return a row of latents in lines of two; a category by its name."""
    cells = [f"{short_name(name)} {value:+.2f}" for name, value in zip(world.names, row.tolist(), strict=True)]
    for k, factor in enumerate(world.factors if isinstance(world, Factors) else ()):
        if factor.kind == "categorical":
            cells[k] = f"{short_name(factor.name)} {factor.shown(factor.to_scene(row[k : k + 1]).item())}"
    return "\n".join("   ".join(cells[i : i + 2]) for i in range(0, len(cells), 2))


def traverse(
    recipe: Recipe = THREE_D_IDENT,
    *,
    steps: int | None = None,
    base: Sequence[float] | None = None,
    show_progress: bool = True,
) -> Image.Image:
    """Return a picture of what each latent does as it runs from -1 to 1 while the others stay at `base` (0 by default).

    One column per latent and one row per step, of which there are 7. In a scene with classes one row per class, and
    the steps, of which there are 2, side by side.

    Args:
        recipe: What to render.
        steps: Values of each latent.
        base: Raw values of the latents that do not move (n_raw,).
        show_progress: Show a progress bar.

    Returns:
        A Pillow image.
    """
    recipe.check()
    world = recipe.world
    if isinstance(world, World) and world.periodic:
        raise UserError("The periodic world's angles lie on a sphere together; traverse 3dident --angle-range 3.14.")
    classes = world.drawn_classes
    steps = (2 if classes else 7) if steps is None else steps
    if steps < 2:
        raise UserError(f"A traversal needs at least 2 steps, not {steps}.")
    values = np.linspace(-1, 1, steps, dtype=np.float32)
    cells = traversal(start_of(recipe, base), values)  # (latents, steps, n_raw)
    if isinstance(world, Factors):
        cells = world.nearest(cells.reshape(-1, world.n_raw)).reshape(cells.shape)
    titles = [name.replace("_", " ") for name in world.names]
    if classes:
        # With classes every row is one class: the cells are the same in each, and the steps stand side by side.
        flat = np.tile(cells.reshape(-1, world.n_raw), (len(classes), 1))
        shown = [name for name in classes for _ in range(len(flat) // len(classes))]
        images = render_rows(recipe, flat, shown, show_progress=show_progress)
        titles = [f"{short_name(name)} {value:+.2g}" for name in world.names for value in values]
        return contact_sheet(images, len(titles), column_titles=titles, row_titles=classes)
    flat = cells.swapaxes(0, 1).reshape(-1, world.n_raw)
    images = render_rows(recipe, flat, [None] * len(flat), show_progress=show_progress)
    return contact_sheet(images, world.n_raw, column_titles=titles, row_titles=[f"{value:+.2f}" for value in values])


def start_of(recipe: Recipe, base: Sequence[float] | None) -> NDArray[np.float32]:
    """Return the raw latents of a traversal's start: those given, else 0 and what the world holds fixed."""
    world = recipe.world
    start = np.zeros(world.n_raw, np.float32)
    for name, value in world.held.items():
        start[world.names.index(name)] = value
    if base is None and isinstance(world, Factors):
        return np.asarray(world.nearest(start[None])[0])
    (checked,) = world.check_raw(np.asarray([start if base is None else base], np.float32))
    return np.asarray(checked)


def traversal(start: NDArray[np.float32], values: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return copies of `start`, (latents, values, latents). In copy (k, j) latent k has value j."""
    k = np.arange(len(start))
    cells = np.tile(start, (len(start), len(values), 1))
    cells[k, :, k] = values
    return cells


def render_rows(
    recipe: Recipe, raw: NDArray[np.float32], classes: Sequence[str | None], *, show_progress: bool
) -> list[NDArray[np.uint8]]:
    """Render the images of these raw latents and classes in a new studio."""
    from ident3d.blender_scenes.studio import Studio

    # Each image has the noise that image i of the dataset would have, so that a picture is the same every time.
    look = {name: getattr(recipe, name) for name in ("size", "quality", "device")}
    scene, images = scene_of(recipe.settings({})), []
    with Studio(scene, **look) as studio, progress_bar(len(raw), "images", show=show_progress) as bar:
        for i, row in enumerate(recipe.world.to_scene(raw)):
            seed = noise_seed(recipe.seed, recipe.split, i)
            images.append(studio.render(row, seed=seed, class_name=classes[i]))
            bar.update(1)
    return images
