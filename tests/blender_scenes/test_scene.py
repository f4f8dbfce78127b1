"""What any scene may have: focus on several objects, light that bounces, values by name; and what it may not change."""

from typing import Any

import numpy as np
import pytest

from ident3d import Factor, Focus, Scene
from ident3d.blender_scenes.quality import Quality

pytestmark = pytest.mark.bpy
NOISY = Quality(4, 8, 16, spots=1, pattern="TABULATED_SOBOL", denoising="none")
SIZE = 32


class Balls(Scene):
    """Two balls, of which one hangs on the other and has a modifier, and a light over a plane."""

    factors = (Factor("x", range=(-1, 1)), Factor("size", "categorical", values=("small", "large")))

    def __init__(self, *, focused: bool = True, changes: bool = False) -> None:
        self.focused, self.changes = focused, changes
        self.seen: list[Any] = []

    def build(self) -> None:
        import bpy

        bpy.ops.object.camera_add(location=(0, 0, 12))
        bpy.context.scene.camera = bpy.context.object
        bpy.ops.object.light_add(type="POINT", location=(3, 0, 6))
        self.light: Any = bpy.context.object
        self.light.data.energy = 500
        bpy.ops.mesh.primitive_plane_add(size=40)
        bpy.ops.mesh.primitive_uv_sphere_add(radius=0.5, location=(0, 0, 1))
        self.ball: Any = bpy.context.object
        bpy.ops.mesh.primitive_uv_sphere_add(radius=0.3, location=(1, 1, 0))
        self.child: Any = bpy.context.object
        self.child.parent = self.ball
        self.child.modifiers.new("thick", "SOLIDIFY").thickness = -0.2
        if self.changes:
            bpy.context.scene.cycles.max_bounces = 3
            bpy.context.scene.render.resolution_x = 99

    def pose(self, values: Any) -> None:
        self.seen.append(values)
        self.ball.location.x = values["x"]
        self.ball.scale = [1.5 if values["size"] == "large" else 1.0] * 3

    def focus(self) -> Focus | None:
        return Focus([self.ball, self.child], light=self.light) if self.focused else None


@pytest.fixture(scope="module")
def images() -> dict[str, np.ndarray]:
    from ident3d.blender_scenes.focus import focus_boxes
    from ident3d.blender_scenes.studio import Studio

    found = {}
    for name in ("none", "balls"):
        with Studio(Balls(focused=name == "balls"), size=SIZE, quality=NOISY) as studio:
            found[name] = studio.render_linear([0.5, 1], seed=3)
            if name == "balls":
                found["boxes"] = np.array(focus_boxes(studio.scene.focus(), SIZE))
    return found


def test_the_box_of_the_objects_has_the_samples_of_all_pixels_without_focus(images: dict[str, np.ndarray]) -> None:
    (left, top, right, bottom), _ = images["boxes"]
    inside = np.zeros((SIZE, SIZE), bool)
    inside[top:bottom, left:right] = True
    # Seen from above, the ball is at x = 0.5 and its child 1.5 further; the child's radius is 1.5 (0.3 + 0.2).
    assert 0 < inside.mean() < 0.5
    same = np.abs(images["balls"] - images["none"]).max(-1) < 1e-6  # float32 sums of parts of the samples
    assert same[inside].all()
    assert not same[~inside].all()
    middle = SIZE / 2
    per_unit = SIZE * 50 / 36 / 11  # pixels, of Blender's usual lens
    assert right >= middle + (0.5 + 1.5 * 1.5) * per_unit
    assert right <= middle + (0.5 + 1.5 * 1.8) * per_unit


def test_values_come_by_name() -> None:
    from ident3d.blender_scenes.studio import Studio

    scene = Balls()
    with Studio(scene, size=16, quality="draft") as studio:
        studio.pose([-0.25, 0])
    assert scene.seen == [{"x": -0.25, "size": "small"}]


def test_a_scene_may_let_light_bounce_and_not_change_the_image_size() -> None:
    from ident3d.blender_scenes.studio import Studio

    brightness = []
    for changes in (False, True):
        with Studio(Balls(changes=changes), size=16, quality=NOISY) as studio:
            image = studio.render_linear([0, 0], seed=0)
            assert image.shape == (16, 16, 3)
            brightness.append(image.mean())
    assert brightness[1] > 1.001 * brightness[0]


class Meddler(Balls):
    """A pose that sets what no scene may change, and a sun that stands anywhere."""

    def pose(self, values: Any) -> None:
        import bpy

        super().pose(values)
        self.light.data.type, self.light.location = "SUN", (100, 3, 1)
        render, cycles = bpy.context.scene.render, bpy.context.scene.cycles
        render.resolution_x, render.threads, cycles.time_limit, cycles.use_guiding = 6, 2, 0.01, True


def test_pose_changes_no_image_size_threads_or_time() -> None:
    import bpy

    from ident3d.blender_scenes.studio import Studio

    with Studio(Meddler(), size=16, quality="draft") as studio:
        assert studio.render([0, 0], seed=0).shape == (16, 16, 3)
        scene: Any = bpy.context.scene
        assert (scene.render.threads, scene.cycles.time_limit, scene.cycles.use_guiding) == (1, 0, False)


def test_the_shadow_of_a_sun_falls_along_its_light() -> None:
    from ident3d.blender_scenes.focus import focus_boxes
    from ident3d.blender_scenes.studio import Studio

    scene = Meddler()
    with Studio(scene, size=SIZE, quality="draft") as studio:
        studio.pose([0.5, 0])
        # straight down: the shadow of the balls, on the ground 12 below the camera
        _, (left, top, right, bottom) = focus_boxes(Focus([scene.ball], scene.light), SIZE)
    middle, per_unit = SIZE / 2, SIZE * 50 / 36 / 12
    assert np.abs(np.array([left, right]) - (middle + per_unit * np.array([0, 1]))).max() < 2.5
    assert np.abs(np.array([top, bottom]) - (middle + per_unit * np.array([-0.5, 0.5]))).max() < 2.5
