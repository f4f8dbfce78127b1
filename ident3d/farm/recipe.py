"""A recipe: everything that the pixels of a dataset depend on, but for where its latents come from."""

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from importlib.metadata import version
from typing import Any

from ident3d.errors import UserError, check_known
from ident3d.farm.bpy_libraries import require_bpy
from ident3d.latents.draws import draw
from ident3d.latents.worlds import World
from ident3d.loaders.format.files import sha256
from ident3d.shapes.rendering import mesh_hashes

PLAIN_WORLD = World()


def rendering_versions() -> dict[str, str]:
    """Return the versions of all that pixels depend on."""
    # bpy brings its denoiser along. `renderer` is raised with every change of our own code that changes pixels.
    from ident3d.blender_scenes.choices import RENDERER

    return {"renderer": str(RENDERER)} | {name: version(name) for name in ("ident3d", "bpy", "numpy")}


@dataclass(frozen=True)
class Recipe:
    """What to render. Every pixel of image i depends on these settings and on i alone, never on n.

    Args:
        world: The scene's latents.
        split: "train" or "test".
        seed: The dataset's seed.
        size: Pixels in a row.
        quality: How long a pixel is rendered.
        material: What the object is made of.
        device: "cpu" or "gpu".

    Example:
        >>> from ident3d import Recipe, World
        >>> Recipe(World("3dident-periodic"), size=64).world.periodic
        True
    """

    world: World = PLAIN_WORLD
    split: str = "train"
    seed: int = 0
    size: int = 224
    quality: str = "standard"
    material: str = "rubber"
    device: str = "cpu"

    def settings(self, source: Mapping[str, Any]) -> dict[str, Any]:
        """Return the settings as the manifest keeps them, with every version that pixels depend on."""
        from ident3d.blender_scenes.quality import QUALITIES

        classes = self.world.drawn_classes
        return {
            "world": self.world.as_dict(),
            "source": dict(source),
            "size": self.size,
            "quality": {"name": self.quality, **asdict(QUALITIES[self.quality])},
            "material": self.material,
            "device": self.device,
            "versions": rendering_versions(),
        } | ({"meshes": mesh_hashes(classes)} if classes else {})

    def check(self) -> None:
        """Raise UserError on the first setting that cannot be rendered."""
        from ident3d.blender_scenes.choices import DEVICES, MATERIAL_NAMES
        from ident3d.blender_scenes.quality import QUALITIES

        check_known("quality", self.quality, QUALITIES)
        check_known("material", self.material, MATERIAL_NAMES)
        check_known("device", self.device, DEVICES)
        # A draw of no images refuses seeds and splits that do not exist.
        draw(self.world, seed=self.seed, split=self.split, start=0, count=0)
        if not 16 <= self.size <= 4096:
            raise UserError(f"Images are 16 to 4096 pixels wide, not {self.size}.")
        require_bpy()
        # This refuses classes whose mesh is not in the cache.
        mesh_hashes(self.world.drawn_classes)

    def name(self, n: int, source: Mapping[str, Any]) -> str:
        """Return the default folder name: scene, split, n and all that differs from the defaults."""
        plain = Recipe()
        parts = [self.world.scene, self.split, str(n)]
        parts += [f"latents{source['sha256'][:8]}"] if source["kind"] == "file" else []
        parts += [f"seed{self.seed}"] if self.seed != plain.seed else []
        parts += [f"{self.size}px"] if self.size != plain.size else []
        parts += [getattr(self, a) for a in ("quality", "material", "device") if getattr(self, a) != getattr(plain, a)]
        # What a scene has by itself is no difference, so the world is compared with the plain world of its scene.
        own = World(self.world.scene).as_dict()
        for name, value in self.world.as_dict().items():
            if name == "fixed":
                parts += [held_name(latent, held) for latent, held in value.items()]
            elif name == "graph" and value != own[name]:
                parts.append(f"graph{sha256(json.dumps(value, sort_keys=True).encode())[:8]}")
            elif name == "classes" and value != own[name]:
                parts.append("+".join(value))
            elif value != own[name]:
                parts.append(f"{name.replace('_', '')}{value:.4g}" if isinstance(value, float) else str(value))
        return "-".join(parts)


def held_name(latent: str, value: float | str) -> str:
    """Return what a folder's name says of a held latent: x=0.5, class=Hare, or x~normal_0.2_0.3 for one drawn anew."""
    if not isinstance(value, str):
        return f"{latent}={value:g}"
    # Formulas hold signs, such as / and *, that do not belong in a path.
    return f"class={value}" if latent == "class" else f"{latent}~{re.sub(r'[^a-z0-9.+-]+', '_', value).strip('_')}"


THREE_D_IDENT = Recipe()
