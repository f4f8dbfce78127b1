"""A studio's promises: equal bytes for equal scenes, no traces, clear refusals."""

import hashlib
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from pictures import psnr, reference_scenes

from ident3d.blender_scenes.quality import QUALITIES, Quality
from ident3d.errors import UserError
from ident3d.latents.worlds import World

pytestmark = pytest.mark.bpy

SCENES = reference_scenes()
SIZE = 64
QUAD = ([(-1, -1, 0), (1, -1, 0), (1, 1, 0), (-1, 1, 0)], [(0, 1, 2, 3)])


def digest(image: NDArray[np.uint8]) -> str:
    return hashlib.sha256(image.tobytes()).hexdigest()


@pytest.fixture
def studio() -> Iterator[Any]:
    from ident3d.blender_scenes.studio import Studio

    with Studio(size=SIZE) as made:
        yield made


def test_image_is_uint8_of_the_asked_size(studio: Any) -> None:
    image = studio.render(SCENES[0], seed=1)
    assert (image.shape, image.dtype) == ((SIZE, SIZE, 3), np.uint8)
    assert image.flags.c_contiguous
    assert len(np.unique(image.reshape(-1, 3), axis=0)) > 500


def test_image_does_not_depend_on_what_was_rendered_before(studio: Any) -> None:
    first = studio.render(SCENES[3], seed=7)
    for i in range(5):
        studio.render(SCENES[i], seed=i)
    assert np.array_equal(studio.render(SCENES[3], seed=7), first)


@pytest.mark.parametrize("quality", ["standard", "draft"])
def test_image_is_the_same_in_any_process_and_on_any_number_of_threads(quality: str) -> None:
    script = f"""
import sys, hashlib
sys.path.insert(0, {str(Path(__file__).parent)!r})
from pictures import reference_scenes
from ident3d.blender_scenes.studio import Studio
with Studio(size={SIZE}, quality={quality!r}, threads=int(sys.argv[1])) as studio:
    for i in map(int, sys.argv[2:]):
        print(i, hashlib.sha256(studio.render(reference_scenes()[i], seed=i).tobytes()).hexdigest())
"""
    said = [
        subprocess.run([sys.executable, "-c", script, *words], capture_output=True, text=True, check=True).stdout
        for words in (("1", "0", "1", "2"), ("2", "2", "1", "0"), ("3", "1", "2", "0"))
    ]
    lines = [sorted(text.splitlines()) for text in said]
    assert len(set(lines[0])) == 3
    assert lines[0] == lines[1] == lines[2]


def test_seed_changes_the_noise_and_nothing_else(studio: Any) -> None:
    one, other = studio.render(SCENES[1], seed=1), studio.render(SCENES[1], seed=2)
    assert not np.array_equal(one, other)
    assert psnr(one, other) > 30


def test_every_latent_moves_the_image(studio: Any) -> None:
    scene = np.zeros(10, dtype=np.float32)
    still = studio.render(scene, seed=0)
    for latent in range(10):
        moved = scene.copy()
        moved[latent] = 0.7
        assert psnr(studio.render(moved, seed=0), still) < 40, latent


def test_hues_are_the_published_ones_unless_wrapped() -> None:
    from ident3d.blender_scenes.studio import Studio
    from ident3d.blender_scenes.three_d_ident import ThreeDIdent

    scene = np.zeros((2, 10), dtype=np.float32)
    scene[0, 7], scene[1, 7] = -0.2, -0.9  # published: the same red
    images = {}
    for hues in ("published", "wrapped"):
        with Studio(ThreeDIdent(World(hues=hues)), size=SIZE) as studio:
            images[hues] = [studio.render(latents, seed=0) for latents in scene]
    assert np.array_equal(*images["published"])
    assert psnr(*images["wrapped"]) < 35


def test_metal_is_another_material(studio: Any) -> None:
    from ident3d.blender_scenes.studio import Studio
    from ident3d.blender_scenes.three_d_ident import ThreeDIdent

    rubber = studio.render(SCENES[2], seed=0)
    with Studio(ThreeDIdent(material="metal"), size=SIZE) as shop:
        assert psnr(shop.render(SCENES[2], seed=0), rubber) < 30


def test_meshes_switch_back_and_forth_and_triangles_equal_padded_quads(studio: Any) -> None:
    from ident3d.blender_scenes.studio import Studio
    from ident3d.blender_scenes.three_d_ident import ThreeDIdent

    teapot = studio.render(SCENES[0], seed=0)
    meshes = {"Sheet": QUAD, "half": (QUAD[0], [(0, 1, 2)]), "padded": (QUAD[0], [(0, 1, 2, 2)])}
    with Studio(ThreeDIdent(meshes=meshes), size=SIZE) as other:
        images = {name: other.render(SCENES[0], seed=0, class_name=name) for name in (*meshes, "Teapot")}
        assert np.array_equal(other.render(SCENES[0], seed=0, class_name="Sheet"), images["Sheet"])
    assert psnr(images["Sheet"], teapot) < 35
    assert np.array_equal(images["Teapot"], teapot)
    assert not np.array_equal(images["half"], images["Sheet"])
    assert np.array_equal(images["half"], images["padded"])


def test_rendering_leaves_no_file_and_says_nothing(tmp_path: Path) -> None:
    script = f"""
import numpy as np
from ident3d.blender_scenes.studio import Studio
with Studio(size={SIZE}) as studio:
    studio.render(np.zeros(10), seed=0)
"""
    home = tmp_path / "home"
    home.mkdir()
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        cwd=tmp_path,
        env={"HOME": str(home), "TMPDIR": str(tmp_path), "PATH": ""},
        check=True,
    )
    assert (done.stdout, done.stderr) == (b"", b"")
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


@pytest.mark.parametrize("run", ["work()", "thread = Thread(target=work); thread.start(); thread.join()"])
def test_one_thread_burns_one_cpu_even_after_many_studios(run: str) -> None:
    script = f"""
import os
import time
from threading import Thread
import numpy as np
def work():
    from ident3d.blender_scenes.studio import Studio
    for _ in range(5):
        with Studio(size=128) as studio:
            studio.render(np.zeros(10), seed=0)
            cpu, wall = time.process_time(), time.perf_counter()
            for i in range(3):
                studio.render(np.zeros(10), seed=i)
            print((time.process_time() - cpu) / (time.perf_counter() - wall), flush=True)
{run}
os._exit(0)  # Blender cannot end where a thread loaded it
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    ratios = [float(line) for line in done.stdout.split()]
    assert len(ratios) == 5
    assert max(ratios) < 1.2


def test_rendering_works_in_another_thread(studio: Any) -> None:
    here = studio.render(SCENES[4], seed=4)
    with ThreadPoolExecutor(1) as pool:
        assert np.array_equal(pool.submit(studio.render, SCENES[4], seed=4).result(), here)


def test_the_newest_studio_owns_the_scene(studio: Any) -> None:
    from ident3d.blender_scenes.studio import Studio

    with Studio(size=SIZE), pytest.raises(RuntimeError, match="newer one"):
        studio.render(SCENES[0], seed=0)


def test_more_samples_come_closer_to_the_truth() -> None:
    from ident3d.blender_scenes.studio import Studio

    images = {}
    many = Quality(256, 256, 256, spots=1, pattern="AUTOMATIC", denoising="none")
    for seed, name in enumerate(("draft", "standard", many)):
        with Studio(size=SIZE, quality=name) as studio:
            images[name] = studio.render(SCENES[4], seed=seed)
    draft, standard = psnr(images["draft"], images[many]), psnr(images["standard"], images[many])
    assert 30 < draft < standard


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"quality": "standart"}, "Did you mean 'standard'"),
        ({"size": 0}, "size of 0"),
        ({"threads": 0}, "at least one thread"),
        ({"device": "gpu"}, "no device 'gpu'"),
        ({"device": "metal"}, "no metal GPU"),
        ({"device": "cuda", "gpu_index": 99}, "no number 99"),
    ],
)
def test_settings_that_cannot_be_are_refused_in_one_sentence(settings: dict[str, Any], words: str) -> None:
    from ident3d.blender_scenes.studio import Studio

    with pytest.raises(UserError, match=words):
        Studio(**{"size": SIZE, **settings})


def test_auto_takes_the_cpu_where_no_gpu_is(studio: Any) -> None:
    from ident3d.blender_scenes.studio import Studio

    with Studio(size=SIZE, device="auto") as found:
        assert found.device in ("cpu", "optix", "cuda", "hip", "metal")
        assert found.render(SCENES[0], seed=0).any()


@pytest.mark.parametrize("latents", [np.zeros(11), np.zeros((1, 10)), np.full(10, np.nan)])
def test_latents_of_another_shape_or_not_finite_are_refused(studio: Any, latents: NDArray[np.float64]) -> None:
    with pytest.raises(UserError, match="10 finite latents"):
        studio.render(latents, seed=0)


def test_unknown_mesh_and_bad_seed_are_refused(studio: Any) -> None:
    with pytest.raises(UserError, match="Teapot"):
        studio.render(SCENES[0], seed=0, class_name="Teepot")
    with pytest.raises(UserError, match="seed"):
        studio.render(SCENES[0], seed=-1)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"meshes": {"Sheet": (QUAD[0], [(0, 1, 4)])}}, "below 4"),
        ({"meshes": {"Sheet": ([(0, 1)], [(0, 0, 0)])}}, r"\(V, 3\)"),
        ({"material": "wood"}, "rubber, metal"),
    ],
)
def test_bad_meshes_and_materials_are_refused(settings: dict[str, Any], words: str) -> None:
    from ident3d.blender_scenes.studio import Studio
    from ident3d.blender_scenes.three_d_ident import ThreeDIdent

    with pytest.raises(UserError, match=words):
        Studio(ThreeDIdent(**settings), size=SIZE)


def test_presets_are_those_of_the_documentation() -> None:
    assert list(QUALITIES) == ["reference", "standard", "draft", "truth"]
    assert QUALITIES["reference"].samples == 512
    assert QUALITIES["truth"].samples == 1024
    assert QUALITIES["truth"].denoising == "none"


def test_a_killed_process_leaves_no_files_behind(tmp_path: Path) -> None:
    code = """
import os
import numpy as np
from ident3d.blender_scenes.studio import Studio
Studio(size=16, quality="draft").render(np.zeros(10), seed=0)
os.kill(os.getpid(), 9)
"""
    environment = os.environ | {"TMPDIR": str(tmp_path), "HOME": str(tmp_path)}
    assert subprocess.run([sys.executable, "-c", code], env=environment, check=False).returncode == -9
    assert not [file for file in tmp_path.rglob("*") if file.is_file()]
    assert not list(tmp_path.glob("blender_*"))
