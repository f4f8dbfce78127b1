"""A warm Blender scene that turns rows of values into images."""

from contextlib import AbstractContextManager
from typing import ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ident3d.blender_scenes.blend_scene import BlendScene
from ident3d.blender_scenes.blender import bpy, current_scene, drop_scratch_folder
from ident3d.blender_scenes.cycles import aim, choose_device, configure, frame, sample
from ident3d.blender_scenes.denoise import Denoiser
from ident3d.blender_scenes.focus import Rectangle, check_focus, focus_boxes
from ident3d.blender_scenes.meshes import settle_meshes
from ident3d.blender_scenes.own_file import blamed
from ident3d.blender_scenes.quality import QUALITIES, Quality
from ident3d.blender_scenes.readback import render_linear
from ident3d.blender_scenes.scene import Focus, Scene
from ident3d.blender_scenes.silence import silent
from ident3d.blender_scenes.srgb import to_srgb8
from ident3d.blender_scenes.three_d_ident import ThreeDIdent
from ident3d.errors import UserError, check_known

_SMALLEST, _LARGEST = 8, 8192


class Studio:
    """A scene, 3DIdent by default, built once in an empty Blender; an image takes no loading.

    Blender holds one scene per process, so the newest studio owns it and older ones refuse to render.
    """

    _owner: ClassVar["Studio | None"] = None

    def __init__(
        self,
        scene: Scene | None = None,
        *,
        size: int = 224,
        quality: str | Quality = "standard",
        device: str = "cpu",
        gpu_index: int = 0,
        threads: int = 1,
    ) -> None:
        if isinstance(quality, str):
            check_known("quality", quality, QUALITIES)
        if not _SMALLEST <= size <= _LARGEST:
            raise UserError(f"An image size of {size} is not possible; take {_SMALLEST} to {_LARGEST} pixels.")
        if threads < 1:
            raise UserError(f"A studio needs at least one thread, not {threads}.")
        self.size = size
        self.threads = threads
        self.quality = QUALITIES[quality] if isinstance(quality, str) else quality
        self.scene = scene or ThreeDIdent()
        # Of what ours changes Blender hears in time. What another scene may change, it may not hear of.
        self._ours = type(self.scene) is ThreeDIdent
        self.scene.light_parts = self.quality.spots
        self._denoiser: Denoiser | None = None
        # From here on an older studio refuses to render: its scene is gone.
        Studio._owner = self
        with silent():
            bpy.ops.wm.read_factory_settings(use_empty=True)
            drop_scratch_folder()
            configure(self.quality)
            with self._blamed():
                self.scene.build()
            # A .blend brings settings of its own, and its meshes as they were saved.
            if isinstance(self.scene, BlendScene):
                sample(self.quality)
            elif not self._ours:
                settle_meshes()
            self._camera, self._looked = current_scene().camera, False
            self.device = choose_device(device, gpu_index)
            self._frame()
            if self.quality.denoising not in ("none", "cycles"):
                self._denoiser = Denoiser(size, precision=self.quality.denoising)

    def render(
        self, values: ArrayLike, *, seed: int, class_name: str | None = None, camera: str | None = None
    ) -> NDArray[np.uint8]:
        """Return the image, (size, size, 3), of one value for each factor of the scene, in scene units.

        A value of a factor with a list of names is the number of a name. In a scene with classes, `class_name` is one.
        `camera` is one of the scene's `cameras`; None is the camera that it was built with, or that its pose chooses.
        Equal values, seed, class and studio settings give equal bytes, whatever was rendered before and with any number
        of threads.
        """
        return to_srgb8(self.render_linear(values, seed=seed, class_name=class_name, camera=camera))

    def render_linear(
        self, values: ArrayLike, *, seed: int, class_name: str | None = None, camera: str | None = None
    ) -> NDArray[np.float32]:
        """Return the same image before it is coded as sRGB and rounded."""
        self._own()
        if not 0 <= seed < 2**31:
            raise UserError(f"A noise seed lies in [0, 2^31), which {seed} does not.")
        quality, whole = self.quality, Rectangle(0, 0, self.size, self.size)
        with silent():
            focus = self._posed(values, class_name, camera)
            aim(whole, self.size, first=0, last=quality.samples, seed=seed)
            everywhere = render_linear()
            image = everywhere.copy()
            around_object, around_shadow = focus_boxes(focus, self.size)
            # The pixels keep the samples that they have. The object comes last: where the boxes overlap, it counts.
            for box, samples in ((around_shadow, quality.shadow_samples), (around_object, quality.object_samples)):
                if samples > quality.samples and not box.empty:
                    aim(box, self.size, first=quality.samples, last=samples, seed=seed)
                    share = quality.samples / samples
                    image[box.window] = share * everywhere[box.window] + (1 - share) * render_linear()
            return image if self._denoiser is None else self._denoiser(image)

    def pose(self, values: ArrayLike, *, class_name: str | None = None, camera: str | None = None) -> None:
        """Pose the scene as it is for an image, and render nothing."""
        self._own()
        with silent():
            self._posed(values, class_name, camera)

    def _posed(self, values: ArrayLike, class_name: str | None, camera: str | None) -> Focus | None:
        row, factors = np.asarray(values, dtype=np.float32), self.scene.factors
        if row.shape != (len(factors),) or not np.isfinite(row).all():
            raise UserError(f"A scene needs {len(factors)} finite latents, not {row.tolist()}.")
        shown = {factor.name: factor.shown(value) for factor, value in zip(factors, row.tolist(), strict=True)}
        if self._looked:
            # A pose that moves the scene's camera shall move the one that it was built with.
            current_scene().camera = self._camera
        with self._blamed():
            self.scene.pose(shown if class_name is None else shown | {"class": class_name})
            if camera is not None:
                check_known(f"camera of {type(self.scene).__name__}", camera, self.scene.cameras)
                self.scene.look(camera)
                self._looked = True
            if not self._ours:
                self._check_places()
            focus = self.scene.focus()
            if not self._ours:
                check_focus(focus)
        if not self._ours:
            self._frame()
            for thing in bpy.data.objects:
                thing.update_tag()
        return focus

    def _check_places(self) -> None:
        """Raise UserError for an object that the pose puts nowhere, which Blender takes without a word."""
        # All objects are asked at once: of a thousand that takes 0.2 ms.
        places = np.empty((len(bpy.data.objects), 16), np.float32)
        bpy.data.objects.foreach_get("matrix_basis", places.reshape(-1))
        for k in np.flatnonzero(~np.isfinite(places).all(axis=1))[:1]:
            raise UserError(
                f"The scene {type(self.scene).__name__} gives {bpy.data.objects[int(k)].name} a location, rotation or "
                "scale that is no finite number."
            )

    def _blamed(self) -> AbstractContextManager[None]:
        kind = type(self.scene)
        return blamed(kind.__name__, kind.__module__)

    def _frame(self) -> None:
        frame(self.size, device=self.device, threads=self.threads, keep=self._ours)

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
