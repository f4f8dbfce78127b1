"""A recipe: everything that the pixels of a dataset depend on, but for where its latents come from."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from typing import Any

from ident3d.blender_scenes.scene_files import SceneFile
from ident3d.errors import UserError, check_known
from ident3d.farm.bpy_libraries import require_bpy
from ident3d.farm.scenes import EXAMPLE, OwnScene
from ident3d.latents.environments import Environment
from ident3d.latents.exact.causal import CausalModel
from ident3d.latents.sequence_draws import draw_images
from ident3d.latents.sequences import Sequences
from ident3d.latents.views import Views
from ident3d.latents.worlds import AnyWorld, World
from ident3d.loaders.format.files import sha256
from ident3d.loaders.format.latents_source import source_of_seed
from ident3d.shapes.rendering import mesh_hashes

PLAIN_WORLD = World()
# The material of a user's own scene.
OWN = "own"


def rendering_versions() -> dict[str, str]:
    """Return the versions of all that pixels depend on."""
    # bpy brings its denoiser along. `renderer` is raised with every change of our own code that changes pixels.
    from ident3d.blender_scenes.choices import RENDERER

    return {"renderer": str(RENDERER)} | {name: version(name) for name in ("ident3d", "bpy", "numpy")}


@dataclass(frozen=True)
class Recipe:
    """What to render. Every pixel of image i depends on these settings and on i alone, never on n.

    Args:
        world: The scene's latents: a `World`, or what `load_scene` returns.
        split: "train" or "test".
        seed: The dataset's seed.
        size: Pixels in a row, 16 to 4096.
        quality: "reference" (slow), "standard", "draft" or "truth".
        material: "rubber" or "metal", of object and ground; a scene of your own has its own.
        device: What Blender renders on: "cpu", "cuda", "optix", "hip", "metal" or "auto".
        sequence: How images follow one another in time; without it, each is drawn by itself.
        environments: Interventional settings, which images, sequences or instances take in turn.
        views: How several images are views of one z; without it, each image has a z of its own.

    Example:
        >>> from ident3d import Recipe, World
        >>> Recipe(World("3dident-periodic"), size=64).world.periodic
        True
    """

    world: AnyWorld = PLAIN_WORLD
    split: str = "train"
    seed: int = 0
    size: int = 224
    quality: str = "standard"
    material: str = "rubber"
    device: str = "cpu"
    sequence: Sequences | None = None
    environments: tuple[Environment, ...] = ()
    views: Views | None = None

    @property
    def scene_files(self) -> tuple[SceneFile, ...]:
        """The files that a worker needs besides the settings: those of a user's own scene."""
        return self.world.files if isinstance(self.world, OwnScene) else ()

    def settings(self, source: Mapping[str, Any]) -> dict[str, Any]:
        """Return the settings as the manifest keeps them, with every version that pixels depend on."""
        from ident3d.blender_scenes.quality import QUALITIES

        classes = self.world.drawn_classes
        settings = {
            "world": self.world.as_dict(),
            "source": dict(source),
            "size": self.size,
            "quality": {"name": self.quality, **asdict(QUALITIES[self.quality])},
            "material": OWN if isinstance(self.world, OwnScene) else self.material,
            "device": self.device,
            "versions": rendering_versions(),
        }
        own: dict[str, Any] = {"scene_text": self.world.text} if isinstance(self.world, OwnScene) else {}
        own |= {"scene_files": {file.use: file.sha256 for file in self.scene_files}} if self.scene_files else {}
        return settings | own | ({"meshes": mesh_hashes(classes)} if classes else {})

    def check(self) -> None:
        """Raise UserError on the first setting that cannot be rendered."""
        from ident3d.blender_scenes.choices import DEVICES, MATERIAL_NAMES
        from ident3d.blender_scenes.quality import QUALITIES

        check_known("quality", self.quality, QUALITIES)
        check_known("material", self.material, MATERIAL_NAMES)
        check_known("device", self.device, DEVICES)
        if not isinstance(self.world, World | OwnScene):
            raise UserError(
                f"Of declared factors alone nothing is rendered: load_scene({EXAMPLE!r}) loads their scene."
            )
        if isinstance(self.world, OwnScene) and self.material != Recipe.material:
            raise UserError(f"The scene {self.world.title} has materials of its own; leave --material away.")
        if not isinstance(self.sequence, Sequences | None):
            raise UserError(f"`sequence` is a Sequences, such as Sequences(2, sigma=0.1), not {self.sequence!r}.")
        if not isinstance(self.views, Views | None):
            raise UserError(f"`views` is a Views, such as Views(2, private=('hue',)), not {self.views!r}.")
        if self.views and self.views.cameras:
            check_cameras(self.world, self.views.cameras)
        # A draw of no images refuses seeds and splits that do not exist, and frames that cannot be drawn.
        environments = tuple(self.environments)
        if not all(isinstance(each, Environment) for each in environments):
            raise UserError("`environments` are several of Environment, such as Environment('right', {'y': 0.5}).")
        how = self.sequence, environments, self.views
        draw_images(self.world, *how, seed=self.seed, split=self.split, start=0, count=0)
        if not 16 <= self.size <= 4096:
            raise UserError(f"Images are 16 to 4096 pixels wide, not {self.size}.")
        require_bpy()
        # This refuses classes whose mesh is not in the cache.
        mesh_hashes(self.world.drawn_classes)

    def name(self, n: int, source: Mapping[str, Any]) -> str:
        """Return the default folder name: scene, split, n and all that differs from the defaults."""
        plain = Recipe()
        parts = [self.world.title, self.split, str(n)]
        parts += [f"latents{source['sha256'][:8]}"] if source["kind"] == "file" else []
        parts += [f"seed{self.seed}"] if self.seed != plain.seed else []
        parts += [f"{self.size}px"] if self.size != plain.size else []
        parts += [getattr(self, a) for a in ("quality", "material", "device") if getattr(self, a) != getattr(plain, a)]
        parts += [self.sequence.short_name] if self.sequence else []
        parts += [self.views.short_name] if self.views else []
        if self.environments:
            said = json.dumps([each.as_dict() for each in self.environments])
            parts.append(f"{len(self.environments)}environments-{sha256(said.encode())[:8]}")
        if not isinstance(self.world, World):
            # Another text of the file makes other images, and so does another .blend.
            digests = [self.world.own_scene.sha256] if self.world.own_scene else []
            digests += [file.sha256 for file in self.scene_files]
            whole = sha256(" ".join(digests).encode()) if self.scene_files else "".join(digests)
            parts += [f"scene{whole[:8]}"] if digests else []
            if isinstance(self.world.graph, CausalModel):
                parts.append(graph_name(self.world.graph.as_dict()))
            held = {**self.world.fixed, **self.world.do}
            return "-".join([*parts, *(held_name(factor, value) for factor, value in held.items())])
        # What a scene has by itself is no difference, so the world is compared with the plain world of its scene.
        own = World(self.world.scene).as_dict()
        for name, value in self.world.as_dict().items():
            if name == "fixed":
                parts += [held_name(latent, held) for latent, held in value.items()]
            elif name == "graph" and value != own[name]:
                parts.append(graph_name(value))
            elif name == "classes" and value != own[name]:
                parts.append("+".join(value))
            elif value != own[name]:
                parts.append(f"{name.replace('_', '')}{value:.4g}" if isinstance(value, float) else str(value))
        return "-".join(parts)


def check_cameras(world: AnyWorld, cameras: Sequence[str]) -> None:
    """Raise UserError for a camera that the scene does not offer."""
    from ident3d.blender_scenes.choices import CAMERAS

    offered = world.cameras if isinstance(world, OwnScene) else CAMERAS
    if not offered:
        raise UserError(
            f"The scene {world.title} offers no cameras: a Python file lists them as `cameras`; those of a .blend are "
            "offered unless a factor chooses among them."
        )
    for name in cameras:
        check_known(f"camera of {world.title}", name, offered)


def graph_name(graph: Mapping[str, Any]) -> str:
    """Return what a folder's name says of a graph."""
    return f"graph{sha256(json.dumps(graph, sort_keys=True).encode())[:8]}"


def held_name(latent: str, value: float | str) -> str:
    """Return what a folder's name says of a held latent: x=0.5, class=Hare, or x~normal_0.2_0.3 for one drawn anew."""
    if not isinstance(value, str):
        return f"{latent}={value:g}"
    # Formulas hold signs, such as / and *, that do not belong in a path.
    return f"class={value}" if latent == "class" else f"{latent}~{re.sub(r'[^a-z0-9.+-]+', '_', value).strip('_')}"


def source_of_recipe(recipe: Recipe) -> dict[str, Any]:
    """Return the source of the latents that the recipe draws."""
    return source_of_seed(recipe.seed, recipe.split, recipe.sequence, recipe.environments, recipe.views)


THREE_D_IDENT = Recipe()
