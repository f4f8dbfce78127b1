"""``check_scene``: what each factor of a scene does to the picture, and what leaves it."""

from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from tabulate import tabulate

from ident3d.errors import UserError
from ident3d.farm.recipe import THREE_D_IDENT, Recipe
from ident3d.farm.scenes import scene_of
from ident3d.latents.exact.streams import noise_seed
from ident3d.latents.factor import Factor
from ident3d.latents.worlds import World
from ident3d.loaders.cards.contact_sheet import contact_sheet
from ident3d.looking.pictures import start_of
from ident3d.progress import progress_bar

# Of a factor with listed values at most so many are shown.
MOST_VALUES: Final = 8
# Images and their captions.
Row: TypeAlias = tuple[list[NDArray[np.uint8]], list[str]]
# A pixel that changes by less than this, of 255, looks the same.
VISIBLE: Final = 3


@dataclass(frozen=True)
class Effect:
    """What one factor does while the others stay: mean change of the pixels, of 255, and the share that changes.

    `notes` say what is out of frame, hidden, or without effect.
    """

    factor: str
    change: float
    pixels: float
    notes: tuple[str, ...]


@dataclass(frozen=True)
class SceneCheck:
    """The effects of all factors that are not held, and a picture with a row of images for each."""

    effects: tuple[Effect, ...]
    sheet: Image.Image

    def table(self) -> str:
        rows = [
            (effect.factor, f"{effect.change:.1f}", f"{100 * effect.pixels:.0f} %", "; ".join(effect.notes) or "-")
            for effect in self.effects
        ]
        headers = ("factor", "mean change of 255", "pixels that change", "look at")
        return tabulate(rows, headers=headers, maxcolwidths=[None, None, None, 60], disable_numparse=True)


def check_scene(recipe: Recipe = THREE_D_IDENT, *, show_progress: bool = True) -> SceneCheck:
    """Pose a scene at the extremes of every factor, the others in the middle, and say what the pictures show of it.

    A range is shown at its ends and middle, a circle at four places, a list at its values. All pictures have the same
    noise, so that a factor without effect leaves every pixel as it is. What is out of frame or hidden is said of the
    objects that `Scene.focus` names.

    Args:
        recipe: What to render.
        show_progress: Show a progress bar.

    Returns:
        A `SceneCheck`, whose `table` shows the effects.
    """
    from ident3d.blender_scenes.sight import sights
    from ident3d.blender_scenes.studio import Studio

    recipe.check()
    world = recipe.world
    if isinstance(world, World) and world.periodic:
        raise UserError("The periodic world's angles lie on a sphere together; check 3dident --angle-range 3.14.")
    declared = world.factors.factors if isinstance(world, World) else world.factors
    start, class_name = start_of(recipe, None), next(iter(world.drawn_classes), None)
    moving = {k: shown_values(factor) for k, factor in enumerate(declared) if factor.name not in world.held}
    if not moving:
        raise UserError("All factors are held, so there is nothing to check; leave a --fix away.")
    look = {name: getattr(recipe, name) for name in ("size", "quality", "device")}
    graph = world.mechanisms
    causes = frozenset[str]().union(*graph.parents.values()) if graph else frozenset[str]()
    scene, total = scene_of(recipe.settings({})), sum(map(len, moving.values()))
    seed = noise_seed(recipe.seed, recipe.split, 0)
    effects, rows = list[Effect](), list[Row]()
    with Studio(scene, **look) as studio, progress_bar(total, "images", show=show_progress) as bar:
        for k, values in moving.items():
            images, notes = list[NDArray[np.uint8]](), list[str]()
            raw = np.tile(start, (len(values), 1))
            raw[:, k] = values
            scene_values = world.to_scene(raw)
            captions = [caption(declared[k], value) for value in scene_values[:, k].tolist()]
            for row, said in zip(scene_values, captions, strict=True):
                images.append(studio.render(row, seed=seed, class_name=class_name))
                for sight in sights(scene.focus()):
                    if sight.in_frame < 1:
                        share = f"{min(99, 100 * (1 - sight.in_frame)):.2g} % " if sight.in_frame else ""
                        notes.append(f"{sight.name} is {share}out of frame at {said}")
                    if sight.hidden:
                        notes.append(f"{sight.name} is hidden at {said}")
                bar.update(1)
            effects.append(effect(declared[k].name, np.stack(images), notes, is_cause=declared[k].name in causes))
            rows.append((images, captions))
    return SceneCheck(tuple(effects), sheet_of(rows, [effect.factor for effect in effects]))


def shown_values(factor: Factor) -> NDArray[np.float32]:
    """Return the raw latents that a factor is shown at."""
    if factor.values:
        known = factor.to_raw(factor.listed)
        return np.asarray(known[np.unique(np.linspace(0, len(known) - 1, MOST_VALUES).round().astype(int))])
    # Fifths of a period: a cube that is turned looks the same after each quarter.
    return np.array([-1, -0.6, -0.2, 0.2, 0.6] if factor.kind == "periodic" else [-1, 0, 1], np.float32)


def caption(factor: Factor, value: float) -> str:
    shown = factor.shown(value)
    return shown if isinstance(shown, str) else f"{shown:.4g}"


def effect(name: str, images: NDArray[np.uint8], notes: list[str], *, is_cause: bool) -> Effect:
    """Return what the images, in which one factor moves, say of it; `is_cause`: others depend on it in the graph."""
    reach = np.ptp(images.astype(int), axis=0)
    if not reach.any():
        notes = [*notes, "hidden cause" if is_cause else "no effect on the image"]
    return Effect(name, float(reach.mean()), float((reach.max(axis=-1) >= VISIBLE).mean()), tuple(notes))


def sheet_of(rows: list[Row], titles: list[str]) -> Image.Image:
    """Return a row of captioned images for each factor; shorter rows end with white."""
    columns = max(len(images) for images, _ in rows)
    images, captions = list[NDArray[np.uint8]](), list[str]()
    for shown, said in rows:
        white = [np.full_like(shown[0], 255)] * (columns - len(shown))
        images += [*shown, *white]
        captions += [*said, *[""] * len(white)]
    return contact_sheet(images, columns, captions=captions, row_titles=titles)
