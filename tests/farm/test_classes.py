"""The causal scene through the farm: classes in turn, each with its mesh, and the mesh among the settings."""

from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from farm.conftest import contents
from shapes.stars import obj_bytes, star

from ident3d.blender_scenes.studio import Studio
from ident3d.blender_scenes.three_d_ident import ThreeDIdent
from ident3d.cli import main
from ident3d.errors import UserError
from ident3d.farm.recipe import Recipe
from ident3d.farm.render import render
from ident3d.latents.draws import draw
from ident3d.latents.exact.causal import load_model
from ident3d.latents.exact.names import CLASSES
from ident3d.latents.exact.streams import noise_seed
from ident3d.latents.worlds import World
from ident3d.loaders.folders.folder import open_folder
from ident3d.loaders.folders.verify import verify
from ident3d.loaders.format.shard import Shard, read_shard
from ident3d.looking.pictures import preview, traverse
from ident3d.shapes.library import meshes
from ident3d.shapes.rendering import load_meshes, mesh_hashes

pytestmark = pytest.mark.bpy
TINY = Recipe(World("causal3dident"), size=32, quality="draft")


@pytest.fixture(scope="module")
def dataset21(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """21 images, three of each class, in shards of 8; to be read, not changed."""
    folder = tmp_path_factory.mktemp("causal") / "data"
    render(21, TINY, out=folder, workers=1, shard_size=8, show_progress=False)
    return folder


def all_classes() -> ThreeDIdent:
    return ThreeDIdent(TINY.world, meshes=load_meshes(mesh_hashes(CLASSES)))


def shards(folder: Path) -> list[Shard]:
    opened = open_folder(folder)
    return [read_shard(opened.shard_path(entry)) for entry in opened.entries]


def run(*words: str, code: int = 0) -> str:
    result = CliRunner().invoke(main, list(words))
    assert result.exit_code == code, result.output
    return result.stderr if code else result.stdout


def test_every_image_shows_its_class_with_the_noise_of_its_number(dataset21: Path) -> None:
    assert verify(dataset21, show_progress=False).sound
    with Studio(all_classes(), size=32, quality="draft") as studio:
        for shard in shards(dataset21):
            assert shard.classes is not None
            np.testing.assert_array_equal(shard.classes, shard.index % 7)
            for image, row, i in zip(shard.images, shard.scene_latents, shard.index.tolist(), strict=True):
                alone = studio.render(row, seed=noise_seed(0, "train", i), class_name=CLASSES[i % 7])
                np.testing.assert_array_equal(image, alone)


def test_the_classes_look_different() -> None:
    with Studio(all_classes(), size=32, quality="draft") as studio:
        images = [studio.render([0] * 7 + [0.3, 0.3, 0.9], seed=0, class_name=name) for name in CLASSES]
    assert len({image.tobytes() for image in images}) == 7


def test_workers_and_growth_do_not_change_bytes(dataset21: Path, tmp_path: Path) -> None:
    for n in (10, 21):
        render(n, TINY, out=tmp_path / "data", workers=2, shard_size=8, show_progress=False)
    assert contents(tmp_path / "data") == contents(dataset21)


def test_latents_from_a_file_take_the_classes_in_turn(dataset21: Path, tmp_path: Path) -> None:
    raw = np.concatenate([shard.raw_latents for shard in shards(dataset21)])
    np.save(tmp_path / "latents.npy", raw[:9])
    render(None, TINY, out=tmp_path / "data", latents=tmp_path / "latents.npy", workers=1, show_progress=False)
    images = np.concatenate([shard.images for shard in shards(tmp_path / "data")])
    np.testing.assert_array_equal(images, np.concatenate([shard.images for shard in shards(dataset21)])[:9])
    assert verify(tmp_path / "data", show_progress=False).sound


def test_a_folders_own_table_gives_the_same_images(dataset21: Path, tmp_path: Path) -> None:
    given = np.load(dataset21 / "all_latents.npy")[:5]
    given[:, -1] = [3, 1, 2, 3, 4]
    np.save(tmp_path / "z.npy", given)
    render(None, TINY, out=tmp_path / "data", latents=tmp_path / "z.npy", workers=1, shard_size=3, show_progress=False)
    found = np.concatenate([np.asarray(shard.images) for shard in shards(tmp_path / "data")])
    before = np.concatenate([np.asarray(shard.images) for shard in shards(dataset21)])[:5]
    same = (found == before).all((1, 2, 3))
    assert same.tolist() == [False, True, True, True, True]  # image 0 shows another class now
    assert np.load(tmp_path / "data/all_latents.npy").tolist() == given.tolist()
    assert verify(tmp_path / "data", show_progress=False).sound
    for number in (0.5, 7, -1, np.nan):
        given[2, -1] = number
        np.save(tmp_path / "z.npy", given)
        with pytest.raises(UserError, match="image 2"):
            render(None, TINY, out=tmp_path / "bad", latents=tmp_path / "z.npy", workers=1)
    assert not (tmp_path / "bad").exists()


def test_the_card_credits_the_meshes_that_are_shown(dataset21: Path, tmp_path: Path) -> None:
    card = (dataset21 / "README.md").read_text()
    assert "- Hare: the user's file Hare.obj. Terms: not known to ident3d" in card
    assert "0 Teapot, 1 Hare" in card
    render(2, Recipe(World("causal3dident", do={"class": "Teapot"}), size=32, quality="draft"), out=tmp_path / "t")
    assert "meshes made by others" not in (tmp_path / "t" / "README.md").read_text()


def test_do_classes_and_graph_on_the_command_line(tmp_path: Path) -> None:
    words = ["render", "--scene", "causal3dident", "--n", "6", "--size", "32", "--quality", "draft", "--workers", "1"]
    words += ["--root", str(tmp_path)]
    run(*words, "--do", "class=Hare", "--do", "spotlight_position=0.5")
    run(*words, "--classes", "Cow, Head")
    graph = 'classes = ["Teapot", "Dragon"]\n[x]\nmean = "0.5 * y"\nsd = 0.1\n[class]\nweight = "exp(x)"\n'
    (tmp_path / "own.toml").write_text(graph)
    run(*words, "--graph", str(tmp_path / "own.toml"))
    names = sorted(folder.name for folder in tmp_path.iterdir() if folder.is_dir())
    stem = "causal3dident-train-6-32px-draft"
    assert names[:2] == [f"{stem}-Cow+Head", f"{stem}-class=Hare-spotlight_position=0.5"]
    assert names[2].startswith(f"{stem}-graph")
    pairs, held, own = (shards(tmp_path / name)[0] for name in names)
    assert pairs.classes.tolist() == [3, 6, 3, 6, 3, 6]
    assert set(held.classes.tolist()) == {1}
    assert (held.raw_latents[:, 6] == 0.5).all()
    drawn = draw(
        World("causal3dident", graph=load_model(tmp_path / "own.toml")), seed=0, split="train", start=0, count=6
    )
    assert own.classes.tolist() == drawn.classes.tolist() != [0, 2, 0, 2, 0, 2]  # type: ignore[union-attr]
    assert verify(tmp_path / names[2], show_progress=False).sound
    assert "classes, drawn" in run("info", str(tmp_path / names[2]))
    assert open_folder(tmp_path / names[1]).description.settings["meshes"].keys() == {"Hare"}
    shown = run("info", str(tmp_path / names[1]))
    assert any(
        "intervention" in line and "class = Hare, spotlight_position = 0.5" in line for line in shown.splitlines()
    )
    assert "held fixed" not in shown + (tmp_path / names[1] / "README.md").read_text()


def test_what_is_drawn_anew_names_the_folder_and_comes_from_no_file(tmp_path: Path) -> None:
    recipe = Recipe(World("causal3dident", do={"x": "normal(0.2 * y, 0.3)"}), size=32, quality="draft")
    assert recipe.name(7, {"kind": "draw"}) == "causal3dident-train-7-32px-draft-x~normal_0.2_y_0.3"
    np.save(tmp_path / "z.npy", np.zeros((7, 10), np.float32))
    with pytest.raises(UserError, match="--do"):
        render(7, recipe, latents=tmp_path / "z.npy", out=tmp_path / "data")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--do", "class=Hase"], "There is no class 'Hase'"),
        (["--do", "x=2"], "from -1 to 1"),
        (["--do", "x"], "not of the form NAME=VALUE"),
        (["--classes", "Teapot,Hase"], "There is no class 'Hase'"),
        (["--graph", "absent.toml"], "cannot be read"),
        (["--scene", "3dident", "--classes", "Hare"], "has neither a causal graph nor classes"),
    ],
)
def test_mistakes_get_one_sentence(words: list[str], sentence: str, tmp_path: Path) -> None:
    out = str(tmp_path / "data")
    error = run("render", "--scene", "causal3dident", "--n", "7", "--out", out, *words, code=2)
    assert sentence in error
    assert error.count("\n") == 1
    assert not (tmp_path / "data").exists()


def test_a_class_without_its_mesh_says_which_command_brings_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "empty"))
    words = ["--scene", "causal3dident", "--size", "32", "--quality", "draft"]
    out = ["--n", "7", "--out", str(tmp_path / "data")]
    assert "`ident3d meshes` fetches it" in run("render", *words, *out, code=2)
    assert not (tmp_path / "data").exists()
    run("render", *words, *out, "--classes", "Teapot", "--workers", "1")


def test_a_folder_refuses_other_meshes(
    dataset21: Path, mesh_files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    meshes(directory=mesh_files, accept_terms=True)
    other = tmp_path / "other"
    other.mkdir()
    (other / "Cow.obj").write_bytes(obj_bytes(*star(9)))
    meshes(directory=other, accept_terms=True)
    with pytest.raises(UserError, match=r"meshes\.Cow"):
        render(28, TINY, out=dataset21, show_progress=False)
    with pytest.raises(UserError, match="mesh of Cow"):
        load_meshes(open_folder(dataset21).description.settings["meshes"])


def test_pictures_show_a_row_for_each_class(dataset21: Path) -> None:
    sheet = traverse(TINY, show_progress=False)
    assert sheet.width > 20 * 128  # ten latents at -1 and at +1
    assert 7 * 128 < sheet.height < 8 * 128 + 100
    assert preview(dataset21, count=7, with_latents=True).height > preview(dataset21, count=7).height
