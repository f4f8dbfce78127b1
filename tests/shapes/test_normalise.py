"""Whatever a mesh's pose, size, winding and number of triangles, it comes out as the teapot's equal."""

import itertools

import numpy as np
import pytest
from shapes.stars import star

from ident3d.blender_scenes.teapot import SIDE
from ident3d.errors import UserError
from ident3d.shapes.normalise import MOST_TRIANGLES, merge, normalise_mesh, rotation, volume
from ident3d.shapes.parse import Triangles

AXES = [sign + axis for sign in "+-" for axis in "xyz"]
POSES = [(front, up) for front, up in itertools.product(AXES, AXES) if front[1] != up[1]]
STAR = Triangles(star(3)[0], star(3)[1].astype(np.int32))


def axis(name: str) -> np.ndarray:
    return np.eye(3)["xyz".index(name[1])] * (1 if name[0] == "+" else -1)


@pytest.mark.parametrize(("front", "up"), POSES)
def test_front_turns_to_x_and_up_to_z_without_a_mirror(front: str, up: str) -> None:
    turn = rotation(front, up)
    np.testing.assert_array_equal(turn @ axis(front), [1, 0, 0])
    np.testing.assert_array_equal(turn @ axis(up), [0, 0, 1])
    assert np.linalg.det(turn) == pytest.approx(1)


@pytest.mark.parametrize(("front", "up"), POSES)
def test_a_mesh_lying_in_any_pose_comes_out_the_same(front: str, up: str) -> None:
    lying = Triangles(7 * STAR.vertices @ rotation(front, up) - [5, 0, 90], STAR.faces)
    upright, again = normalise_mesh(STAR), normalise_mesh(lying, front=front, up=up)
    np.testing.assert_allclose(again.vertices, upright.vertices, atol=1e-5)
    np.testing.assert_array_equal(again.faces, upright.faces)


def test_it_is_centred_and_its_largest_side_is_the_teapots() -> None:
    vertices, _ = normalise_mesh(STAR)
    assert np.ptp(vertices, axis=0).max() == pytest.approx(SIDE, rel=1e-6)
    np.testing.assert_allclose(vertices.min(axis=0) + vertices.max(axis=0), 0, atol=1e-6)
    assert vertices.dtype == np.float32


def test_faces_that_look_inwards_are_turned() -> None:
    inward = Triangles(STAR.vertices, STAR.faces[:, ::-1])
    assert volume(STAR) > 0 > volume(inward)
    for mesh in (STAR, inward):
        normal = normalise_mesh(mesh)
        assert volume(Triangles(normal.vertices.astype(np.float64), normal.faces)) > 0


def test_points_given_twice_are_merged_and_lost_faces_dropped() -> None:
    apart = Triangles(
        STAR.vertices[STAR.faces].reshape(-1, 3), np.arange(STAR.faces.size, dtype=np.int32).reshape(-1, 3)
    )
    flat = Triangles(apart.vertices, np.concatenate([apart.faces, [[0, 0, 1]]]).astype(np.int32))
    merged = merge(flat)
    assert len(merged.vertices) == len(STAR.vertices)
    np.testing.assert_array_equal(merged.vertices[merged.faces], STAR.vertices[STAR.faces])


def test_many_triangles_become_few_without_a_change_of_shape() -> None:
    pytest.importorskip("fast_simplification", reason="decimation comes with the extra render")
    vertices, faces = STAR
    for _ in range(4):  # each triangle becomes four
        corners = vertices[faces]
        middles = (corners + np.roll(corners, -1, axis=1)) / 2
        a, b, c = corners.swapaxes(0, 1)
        ab, bc, ca = middles.swapaxes(0, 1)
        soup = np.stack([a, ab, ca, ab, b, bc, ca, bc, c, ab, bc, ca], axis=1).reshape(-1, 3)
        vertices, faces = merge(Triangles(soup, np.arange(len(soup), dtype=np.int32).reshape(-1, 3)))
    fine = Triangles(vertices, faces)
    assert len(faces) > 5 * MOST_TRIANGLES
    few = normalise_mesh(fine)
    assert MOST_TRIANGLES * 0.95 < len(few.faces) <= MOST_TRIANGLES
    expected = volume(Triangles(normalise_mesh(STAR).vertices.astype(np.float64), STAR.faces))
    assert volume(Triangles(few.vertices.astype(np.float64), few.faces)) == pytest.approx(expected, rel=1e-3)
    np.testing.assert_array_equal(normalise_mesh(fine).vertices, few.vertices)


def test_vertices_that_no_face_uses_do_not_count() -> None:
    more = Triangles(np.concatenate([[[900.0, 0, 0]], STAR.vertices, [[0, -900, 0]]]), STAR.faces + np.int32(1))
    expected, got = normalise_mesh(STAR), normalise_mesh(more)
    np.testing.assert_array_equal(got.vertices, expected.vertices)
    np.testing.assert_array_equal(got.faces, expected.faces)


@pytest.mark.parametrize("points", [np.ones((3, 3)), np.arange(9.0).reshape(3, 3)], ids=["a point", "a line"])
def test_a_mesh_without_area_is_refused(points: np.ndarray) -> None:
    with pytest.raises(UserError, match="area"):
        normalise_mesh(Triangles(points, np.array([[0, 1, 2]], np.int32)))
