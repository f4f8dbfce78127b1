"""A warm Blender scene that turns scene latents into images."""

from typing import ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ident3d.blender_scenes.blender import bpy, current_scene, drop_scratch_folder
from ident3d.blender_scenes.cycles import aim, choose_device, configure
from ident3d.blender_scenes.denoise import Denoiser
from ident3d.blender_scenes.focus import Rectangle, boxes, transform
from ident3d.blender_scenes.materials import MATERIALS
from ident3d.blender_scenes.quality import QUALITIES, Quality
from ident3d.blender_scenes.readback import render_linear
from ident3d.blender_scenes.silence import silent
from ident3d.blender_scenes.srgb import to_srgb8
from ident3d.blender_scenes.stage import FOCAL, HEIGHT, build_stage, pose
from ident3d.blender_scenes.teapot import teapot
from ident3d.errors import UserError, check_known

LATENTS = 10
_SMALLEST, _LARGEST = 8, 8192


class Studio:
    """The 3DIdent scene, built once in code from Blender's factory settings; an image takes no loading.

    Blender holds one scene per process, so the newest studio owns it and older ones refuse to render.
    """

    _owner: ClassVar["Studio | None"] = None

    def __init__(
        self,
        *,
        size: int = 224,
        quality: str | Quality = "standard",
        material: str = "rubber",
        hues: str = "published",
        device: str = "cpu",
        gpu_index: int = 0,
        threads: int = 1,
    ) -> None:
        if isinstance(quality, str):
            check_known("quality", quality, QUALITIES)
        check_known("material", material, MATERIALS)
        check_known("hue rule", hues, ("published", "wrapped"))
        if not _SMALLEST <= size <= _LARGEST:
            raise UserError(f"An image size of {size} is not possible; take {_SMALLEST} to {_LARGEST} pixels.")
        if threads < 1:
            raise UserError(f"A studio needs at least one thread, not {threads}.")
        self.size = size
        self.quality = QUALITIES[quality] if isinstance(quality, str) else quality
        self.hues = hues
        self._points: dict[str, NDArray[np.float64]] = {}
        self._denoiser: Denoiser | None = None
        # From here on an older studio refuses to render: its scene is gone.
        Studio._owner = self
        with silent():
            bpy.ops.wm.read_factory_settings(use_empty=True)
            drop_scratch_folder()
            configure(self.quality, size, threads=threads)
            self.device = choose_device(device, gpu_index)
            self._material = MATERIALS[material]()
            self._stage = build_stage(self._material, spots=self.quality.spots)
            if self.quality.denoising not in ("none", "cycles"):
                self._denoiser = Denoiser(size, precision=self.quality.denoising)
        self.add_mesh("Teapot", *teapot())

    def add_mesh(self, name: str, vertices: ArrayLike, faces: ArrayLike) -> None:
        """Register a mesh, (V, 3) vertices before the object's scale of 1.5 and (F, 3 or 4) corners.

        A face of four corners whose last two are equal is a triangle. Shading is smooth.
        """
        self._own()
        points, corners = np.asarray(vertices, dtype=np.float32), np.asarray(faces, dtype=np.int32)
        if points.ndim != 2 or points.shape[1] != 3 or not np.isfinite(points).all():
            raise UserError(f"The vertices of mesh {name!r} must be finite and of shape (V, 3), not {points.shape}.")
        if corners.ndim != 2 or corners.shape[1] not in (3, 4) or corners.min() < 0 or corners.max() >= len(points):
            raise UserError(f"The faces of mesh {name!r} must be (F, 3) or (F, 4) indices below {len(points)}.")
        used = np.ones(corners.shape, dtype=bool)
        if corners.shape[1] == 4:
            used[:, 3] = corners[:, 3] != corners[:, 2]
        lengths = used.sum(axis=1)
        # A mesh of the same name is filled anew, because Blender would rename a second one.
        mesh = bpy.data.meshes.get(name) or bpy.data.meshes.new(name)
        mesh.clear_geometry()
        mesh.vertices.add(len(points))
        mesh.vertices.foreach_set("co", points.reshape(-1))
        mesh.loops.add(int(lengths.sum()))
        mesh.loops.foreach_set("vertex_index", corners[used])
        mesh.polygons.add(len(corners))
        mesh.polygons.foreach_set("loop_start", np.cumsum(lengths) - lengths)
        mesh.materials.clear()
        mesh.materials.append(self._material)
        mesh.update(calc_edges=True)
        mesh.shade_smooth()
        self._points[name] = points.astype(np.float64)

    def render(self, scene_latents: ArrayLike, *, seed: int, mesh: str = "Teapot") -> NDArray[np.uint8]:
        """Return the image, (size, size, 3), of the scene's ten latents.

        These are x, y, z, phi, theta, psi, the spotlight's position and the hues of object, spotlight and ground. The
        object is at (x, y, z + H / 2). Equal latents, seed, mesh and studio settings give equal bytes, whatever was
        rendered before and with any number of threads.
        """
        return to_srgb8(self.render_linear(scene_latents, seed=seed, mesh=mesh))

    def render_linear(self, scene_latents: ArrayLike, *, seed: int, mesh: str = "Teapot") -> NDArray[np.float32]:
        """Return the same image before it is coded as sRGB and rounded."""
        self._own()
        latents = np.asarray(scene_latents, dtype=np.float32)
        if latents.shape != (LATENTS,) or not np.isfinite(latents).all():
            raise UserError(f"A scene needs {LATENTS} finite latents, not {latents.tolist()}.")
        check_known("mesh", mesh, self._points)
        if not 0 <= seed < 2**31:
            raise UserError(f"A noise seed lies in [0, 2^31), which {seed} does not.")
        quality, whole = self.quality, Rectangle(0, 0, self.size, self.size)
        with silent():
            self._stage.actor.data = bpy.data.meshes[mesh]
            pose(self._stage, latents, wrapped_hues=self.hues == "wrapped")
            aim(whole, self.size, first=0, last=quality.samples, seed=seed)
            everywhere = render_linear()
            image = everywhere.copy()
            around_object, around_shadow = self._boxes(mesh)
            # The pixels keep the samples that they have. The object comes last: where the boxes overlap, it counts.
            for box, samples in ((around_shadow, quality.shadow_samples), (around_object, quality.object_samples)):
                if samples > quality.samples and not box.empty:
                    aim(box, self.size, first=quality.samples, last=samples, seed=seed)
                    share = quality.samples / samples
                    image[box.window] = share * everywhere[box.window] + (1 - share) * render_linear()
            return image if self._denoiser is None else self._denoiser(image)

    def _boxes(self, mesh: str) -> tuple[Rectangle, Rectangle]:
        actor, spot = self._stage.actor, self._stage.spots[0]
        placed = np.array(actor.matrix_basis, dtype=np.float64)
        points = transform(self._points[mesh], placed[:3, :3].T) + placed[:3, 3]
        camera = np.array(current_scene().camera.matrix_basis, dtype=np.float64)
        return boxes(points, np.array(spot.location, dtype=np.float64), -HEIGHT, camera, FOCAL, self.size)

    def _own(self) -> None:
        if Studio._owner is not self:
            raise RuntimeError("This studio was closed, or a newer one took Blender's scene over.")

    def close(self) -> None:
        """Empty the scene and free the denoiser."""
        if self._denoiser is not None:
            self._denoiser.close()
        if Studio._owner is self:
            Studio._owner = None
            with silent():
                bpy.ops.wm.read_factory_settings(use_empty=True)
                drop_scratch_folder()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
