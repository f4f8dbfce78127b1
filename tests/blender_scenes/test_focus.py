"""Where the samples go: projection, shadow and box."""

import numpy as np
import pytest

from ident3d.blender_scenes.focus import boxes, project, shadow

HALF = 0.5**0.5
CAMERA = np.array([(0, -HALF, HALF, 8), (1, 0, 0, 0), (0, HALF, HALF, 8), (0, 0, 0, 1)])
FOCAL = 0.7
GROUND = -4.442117
SPOT = np.array([0.0, 4.0, 10.442117])


def test_origin_is_the_middle_of_the_image_and_right_is_world_y() -> None:
    pixels = project(np.array([(0.0, 0, 0), (0, 1, 0), (0, 0, 1)]), CAMERA, FOCAL, 224)
    np.testing.assert_allclose(pixels[0], (112, 112), atol=1e-9)
    assert pixels[1, 0] > 112
    assert pixels[2, 1] < 112


def test_shadow_lies_on_the_ground_in_line_with_light_and_point() -> None:
    points = np.array([(1.0, 2.0, 3.0), (-1.0, 0.5, 0.0)])
    cast = shadow(points, SPOT, GROUND)
    assert cast is not None
    np.testing.assert_allclose(cast[:, 2], GROUND)
    np.testing.assert_allclose(np.cross(cast - SPOT, points - SPOT), 0.0, atol=1e-9)


@pytest.mark.parametrize("size", [64, 224])
def test_boxes_hold_object_and_shadow(size: int) -> None:
    points = np.random.default_rng(3).uniform((-1, -1, 1), (1, 1, 3), (50, 3))
    cast = shadow(points, SPOT, GROUND)
    assert cast is not None
    for held, box in zip((points, cast), boxes(points, SPOT, GROUND, CAMERA, FOCAL, size), strict=True):
        pixels = project(held, CAMERA, FOCAL, size)
        assert (pixels > (box.left, box.top)).all()
        assert (pixels < (box.right, box.bottom)).all()
        assert (box.right - box.left) * (box.bottom - box.top) < 0.4 * size**2


def test_shadow_box_is_the_whole_image_when_the_object_reaches_above_the_light() -> None:
    points = np.array([(0.0, 0, 0), (0, 0, 11)])
    around_object, around_shadow = boxes(points, SPOT, GROUND, CAMERA, FOCAL, 64)
    assert around_shadow == (0, 0, 64, 64)
    assert around_object != around_shadow


def test_object_behind_the_camera_gets_the_whole_image() -> None:
    around_object, _ = boxes(np.array([(0.0, 0, 0), (9, 0, 9)]), SPOT, GROUND, CAMERA, FOCAL, 64)
    assert around_object == (0, 0, 64, 64)


def test_box_outside_the_image_is_empty() -> None:
    around_object, _ = boxes(np.array([(0.0, 30, 0), (0, 31, 1)]), SPOT, GROUND, CAMERA, FOCAL, 64)
    assert around_object.empty
