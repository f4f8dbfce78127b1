"""The teapot against the figures of the published scene."""

from collections import Counter

import numpy as np

from ident3d.blender_scenes.teapot import SIDE, patches, teapot, tessellate


def test_newells_patches_span_his_teapot() -> None:
    control = patches()
    assert control.shape == (32, 4, 4, 3)
    assert len(np.unique(control.reshape(-1, 3), axis=0)) == 290
    vertices = tessellate(control, 10).vertices
    np.testing.assert_allclose(vertices.min(axis=0), (-3.0, -2.0, 0.0), atol=1e-6)
    np.testing.assert_allclose(vertices.max(axis=0), (3.43400, 2.0, 3.15), atol=1e-4)


def test_placed_teapot_has_the_published_vertices_and_box() -> None:
    vertices, faces = teapot()
    box = vertices.max(axis=0) - vertices.min(axis=0)
    assert len(vertices) == 3241
    np.testing.assert_allclose(1.5 * box, (4.442117, 4.442117, 2.998891), atol=2e-6)
    np.testing.assert_allclose(box.max(), SIDE, atol=1e-6)
    assert set(np.unique(faces)) == set(range(3241))
    spout = vertices[vertices[:, 0].argmax()]
    assert spout[1] < 0


def test_faces_are_turned_alike_and_outwards() -> None:
    vertices, faces = teapot()
    corners = [list(dict.fromkeys(face)) for face in faces.tolist()]
    edges = Counter(edge for face in corners for edge in zip(face, face[1:] + face[:1], strict=True))
    assert max(edges.values()) == 1  # two faces that are turned alike run along their edge in opposite directions
    a, b, c = (vertices[faces[:, k]] for k in range(3))
    outwards = np.einsum("fi,fi->f", np.cross(b - a, c - a), a - vertices.mean(axis=0)) > 0
    assert outwards.mean() > 0.7  # the inner sides of handle and spout turn back


def test_finer_tessellation_has_more_vertices_on_the_same_teapot() -> None:
    coarse, fine = teapot(4).vertices, teapot(8).vertices
    nearest = np.linalg.norm(coarse[:, None] - fine[None], axis=-1).min(axis=1)
    assert len(fine) > 3 * len(coarse)
    assert nearest.max() < 1e-6
