"""Import and export: the published layouts there and back, as folders and archives, honest and hostile."""

import io
import json
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image
from synthetic import make_dataset

from ident3d.cli import main
from ident3d.errors import UserError
from ident3d.latents.exact.names import NAMES
from ident3d.latents.worlds import World
from ident3d.loaders.datasets.image_dataset import ImageDataset
from ident3d.loaders.exports.exporting import MARK, export
from ident3d.loaders.folders import make
from ident3d.loaders.folders.folder import open_folder
from ident3d.loaders.folders.verify import verify
from ident3d.loaders.format.description import read_description
from ident3d.loaders.format.files import TEMPORARY
from ident3d.loaders.format.shard import read_shard
from ident3d.loaders.layouts.importing import import_
from ident3d.loaders.stores import tar_members

QUIET = {"show_progress": False}


def bring(source: Path, out: Path, **options: object) -> Path:
    import_(source, out, workers=1, show_progress=False, **options)  # type: ignore[arg-type]
    return out


def everything(path: Path) -> dict[str, np.ndarray]:
    """All arrays of a dataset, its shards joined."""
    folder = open_folder(path)
    shards = [read_shard(folder.shard_path(entry)) for entry in folder.entries]
    arrays = {name: np.concatenate([shard.arrays()[name] for shard in shards]) for name in shards[0].arrays()}
    return arrays | {"images": np.concatenate([shard.images for shard in shards])}


def same(a: Path, b: Path) -> None:
    ours, theirs = everything(a), everything(b)
    assert ours.keys() == theirs.keys()
    for name in ours:
        np.testing.assert_array_equal(ours[name], theirs[name])


def tar_of(folder: Path, path: Path, mode: str) -> Path:
    with tarfile.open(path, mode) as archive:
        archive.add(folder, arcname=f"./{folder.name}")
    return path


@pytest.fixture(scope="module", params=["3dident", "3dident-periodic", "causal3dident"])
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A dataset of ours and its export."""
    base = tmp_path_factory.mktemp("published")
    classes = 7 if request.param == "causal3dident" else 0
    ours = make_dataset(base / "ours", 101 if not classes else 105, scene=request.param, classes=classes, shard_size=32)
    export(ours, base / "out/trainset", **QUIET)
    return ours, base / "out/trainset"


def test_export_writes_exactly_the_published_layout(pair: tuple[Path, Path]) -> None:
    ours, exported = pair
    data = everything(ours)
    if "class" in data:
        names = {f"images_{c}/{i:02d}.png" for c in range(7) for i in range(15)}
        names |= {f"{kind}_{c}.npy" for c in range(7) for kind in ("latents", "raw_latents")}
        picture, suffix, rows = "images_3/04.png", "_3", slice(3, None, 7)
        number = 4 * 7 + 3
    else:
        names = {f"images/{i:03d}.png" for i in range(101)} | {"latents.npy", "raw_latents.npy"}
        picture, suffix, rows, number = "images/100.png", "", slice(None), 100
    found = {p.relative_to(exported).as_posix() for p in exported.rglob("*") if p.is_file()}
    assert found == names
    np.testing.assert_array_equal(np.asarray(Image.open(exported / picture)), data["images"][number])
    for name, ours_name in ((f"raw_latents{suffix}.npy", "raw_latents"), (f"latents{suffix}.npy", "scene_latents")):
        array = np.load(exported / name, allow_pickle=False)
        assert array.dtype == np.float32
        np.testing.assert_array_equal(array, data[ours_name][rows])


@pytest.mark.parametrize(
    ("n", "classes", "says"),
    [(15, 7, "2 to 3 images"), (14, 5, "no image of Horse, Head"), (14, 7, None), (3, 0, None)],
)
def test_an_export_that_the_published_class_cannot_read_says_so(
    n: int, classes: int, says: str | None, tmp_path: Path
) -> None:
    scene = "causal3dident" if classes else "3dident"
    ours = make_dataset(tmp_path / "ours", n, scene=scene, classes=classes)
    done = CliRunner().invoke(main, ["export", str(ours), str(tmp_path / "out")])
    assert done.exit_code == 0, done.output
    assert ("Note: The published class" in done.stderr) == (says is not None)
    assert (says or "") in done.stderr


@pytest.mark.parametrize("form", ["folder", "tar", "tar.gz", "tar.xz"])
def test_there_and_back(pair: tuple[Path, Path], form: str, tmp_path: Path) -> None:
    ours, exported = pair
    source = exported
    if form != "folder":
        mode = {"tar": "w", "tar.gz": "w:gz", "tar.xz": "w:xz"}[form]
        source = tar_of(exported, tmp_path / f"archive.{form}", mode)
    back = bring(source, tmp_path / "back", shard_size=32)
    same(ours, back)
    assert verify(back, show_progress=False).sound
    world, again = (World.from_dict(read_description(p).settings["world"]) for p in (ours, back))
    assert again == world
    recorded = read_description(back).settings
    assert recorded["source"]["raw_to_scene"]["kind"] == ("periodic" if world.periodic else "linear")
    card = (back / "README.md").read_text()
    assert recorded["origin"]["source"] in card
    assert recorded["origin"]["citation"] in card
    assert not [p for p in tmp_path.iterdir() if p.name.startswith(".")]
    index = np.arange(len(ImageDataset(ours)))
    np.testing.assert_array_equal(ImageDataset(back).images(index), ImageDataset(ours).images(index))


def test_an_export_writes_and_deletes_nothing_behind_links(tmp_path: Path) -> None:
    """Somebody who knows the dataset has prepared the folder, so that it looks like an interrupted export."""
    ours, out, theirs = make_dataset(tmp_path / "ours", 9), tmp_path / "out", tmp_path / "theirs"
    theirs.mkdir()
    (theirs / f"{TEMPORARY}0.png").write_text("theirs")
    before = sorted(theirs.iterdir())

    def prepare(name: str, target: Path) -> None:
        shutil.rmtree(out, ignore_errors=True)
        out.mkdir()
        (out / MARK).write_text(json.dumps({"shards_sha256": read_description(ours).shards_sha256}))
        (out / name).parent.mkdir(exist_ok=True)
        (out / name).symlink_to(target)

    prepare("images", theirs)
    with pytest.raises(UserError, match="images is a link"):
        export(ours, out, **QUIET)
    for name in ("images_of_theirs", f"images/{TEMPORARY}0.png", "latents.npy"):
        prepare(name, theirs if name.startswith("images_") else theirs / f"{TEMPORARY}0.png")
        assert export(ours, out, **QUIET).n == 9
        assert (out / "images/0.png").stat().st_size > 100
    assert sorted(theirs.iterdir()) == before
    assert before[0].read_text() == "theirs"


def test_an_import_unpacks_into_no_file_of_others(small: Path, tmp_path: Path) -> None:
    source = tar_of(small, tmp_path / "archive.tar.gz", "w:gz")
    theirs = tmp_path / "theirs"
    theirs.write_text("theirs")
    (tmp_path / f"{TEMPORARY}back-members").symlink_to(theirs)
    assert len(ImageDataset(bring(source, tmp_path / "back"))) == 9
    assert theirs.read_text() == "theirs"


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """A published folder of nine pictures."""
    export(make_dataset(tmp_path / "ours", 9), tmp_path / "train", **QUIET)
    return tmp_path / "train"


def test_other_ranges_are_inferred_and_recorded(small: Path, tmp_path: Path) -> None:
    raw = np.load(small / "raw_latents.npy")
    world = World("3dident", position_range=2.0, hue_range=np.pi)
    np.save(small / "latents.npy", world.to_scene(raw))
    back = bring(small, tmp_path / "back")
    recorded = read_description(back).settings
    assert World.from_dict(recorded["world"]) == world
    assert recorded["source"]["raw_to_scene"]["object_hue"]["scale"] == pytest.approx(np.pi)
    assert recorded["source"]["raw_to_scene"]["x"] == pytest.approx({"scale": 2.0, "offset": 0.0}, abs=1e-5)
    scene = world.to_scene(raw)
    scene[:, 4] += 0.5
    np.save(small / "latents.npy", scene)
    with pytest.raises(UserError, match=r"raw_latents\.npy.*rotation_theta.*0\.5"):
        bring(small, tmp_path / "bent")


@pytest.mark.parametrize("names", [["spotlight_position"], ["object_hue", "spotlight_hue", "ground_hue"]])
def test_latents_held_at_zero_are_imported(small: Path, tmp_path: Path, names: list[str]) -> None:
    raw = np.load(small / "raw_latents.npy")
    columns = [NAMES.index(name) for name in names]
    raw[:, columns] = 0
    np.save(small / "raw_latents.npy", raw)
    np.save(small / "latents.npy", World().to_scene(raw))
    recorded = read_description(bring(small, tmp_path / "back")).settings
    assert World.from_dict(recorded["world"]) == World()
    unknown = [name for name, fit in recorded["source"]["raw_to_scene"].items() if fit is None]
    assert unknown == names


def test_stray_files_and_transparency_are_left_out(small: Path, tmp_path: Path) -> None:
    plain = bring(small, tmp_path / "plain")
    (small / ".ipynb_checkpoints/images").mkdir(parents=True)
    (small / "images/.ipynb_checkpoints").mkdir()
    (small / "images/.ipynb_checkpoints/0.png").write_text("stray")
    (small / ".ipynb_checkpoints/images/0.png").write_text("stray")
    (small / "images/Thumbs.db").write_text("stray")
    (small / "notes.txt").write_text("stray")
    with (small / "film.mp4").open("wb") as file:
        file.truncate(2**30 + 1)  # sparse: larger than what is read
    same(plain, bring(small, tmp_path / "folder"))
    (small / "film.mp4").unlink()
    opaque = Image.open(small / "images/4.png").convert("RGBA")
    opaque.putalpha(100)
    opaque.save(small / "images/4.png")
    same(plain, bring(tar_of(small, tmp_path / "stray.tar.gz", "w:gz"), tmp_path / "back"))


def test_a_split_is_chosen_by_name(small: Path, tmp_path: Path) -> None:
    export(make_dataset(tmp_path / "others", 12, seed=1), tmp_path / "both/testset", **QUIET)
    small.rename(tmp_path / "both/trainset")
    with pytest.raises(UserError, match=r"testset, trainset.*--split"):
        bring(tmp_path / "both", tmp_path / "out")
    with pytest.raises(UserError, match=r"testset, trainset.*--split.*valid"):
        bring(tmp_path / "both", tmp_path / "out", split="valid")
    assert len(ImageDataset(bring(tmp_path / "both", tmp_path / "train", split="train"))) == 9
    assert len(ImageDataset(bring(tmp_path / "both", tmp_path / "test", split="testset"))) == 12
    export(tmp_path / "others", tmp_path / "both/more/testset", **QUIET)
    with pytest.raises(UserError, match=r"more/testset, testset, trainset.* not test\."):
        bring(tmp_path / "both", tmp_path / "out", split="test")
    assert len(ImageDataset(bring(tmp_path / "both", tmp_path / "more", split="more/testset"))) == 12


def test_an_interrupted_import_is_continued(small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, real, made = bring(small, tmp_path / "whole", shard_size=2), make.write_shard, []

    def stopping(*arguments: object) -> object:
        if len(made) == 3:
            raise KeyboardInterrupt
        made.append(arguments)
        return real(*arguments)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(make, "write_shard", stopping)
        with pytest.raises(KeyboardInterrupt):
            bring(small, tmp_path / "cut", shard_size=2)
    with pytest.raises(UserError, match="6 of 9"):
        ImageDataset(tmp_path / "cut")
    result = import_(small, tmp_path / "cut", workers=2, **QUIET)
    assert (result.n, result.imported) == (9, 3)
    same(whole, tmp_path / "cut")
    assert import_(small, tmp_path / "cut", workers=1, **QUIET).imported == 0
    np.save(small / "raw_latents.npy", np.load(small / "raw_latents.npy")[::-1])
    np.save(small / "latents.npy", np.load(small / "latents.npy")[::-1])
    with pytest.raises(UserError, match="holds another dataset"):
        bring(small, tmp_path / "cut")


def test_an_interrupted_export_is_continued(tmp_path: Path) -> None:
    ours = make_dataset(tmp_path / "ours", 12)
    export(ours, tmp_path / "whole", **QUIET)
    export(ours, tmp_path / "cut", **QUIET)
    for name in ("images/11.png", "images/05.png", "latents.npy"):
        (tmp_path / "cut" / name).unlink()
    with pytest.raises(UserError, match="something else"):
        export(ours, tmp_path / "cut", **QUIET)
    (tmp_path / "cut" / MARK).write_text(json.dumps({"shards_sha256": read_description(ours).shards_sha256}))
    (tmp_path / "cut/images/.partial-11.png").write_text("cut short")
    assert export(ours, tmp_path / "cut", **QUIET).written == 2
    files = [{p.relative_to(d).as_posix(): p.read_bytes() for p in d.rglob("*") if p.is_file()}
             for d in (tmp_path / "whole", tmp_path / "cut")]  # fmt: skip
    assert files[0] == files[1]
    other = make_dataset(tmp_path / "other", 12, seed=3)
    (tmp_path / "cut" / MARK).write_text(json.dumps({"shards_sha256": read_description(ours).shards_sha256}))
    with pytest.raises(UserError, match="something else"):
        export(other, tmp_path / "cut", **QUIET)


def test_an_export_killed_while_it_wrote_its_mark_goes_on(tmp_path: Path) -> None:
    ours = make_dataset(tmp_path / "ours", 4)
    (tmp_path / "out").mkdir()
    (tmp_path / "out/.partial-0123456789abcdef").write_text("cut short")
    assert export(ours, tmp_path / "out", **QUIET).written == 4
    assert not list((tmp_path / "out").glob(".*"))


def member(name: str, content: bytes = b"x", **fields: object) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.size = len(content)
    for key, value in fields.items():
        setattr(info, key, value)
    return info, content


@pytest.mark.parametrize("packed", ["w", "w:gz"])
@pytest.mark.parametrize(
    ("hostile", "sentence"),
    [
        (member("/etc/images/0.png"), "would leave its folder"),
        (member("train/../../images/0.png"), "would leave its folder"),
        (member("images/0.png", b"", type=tarfile.SYMTYPE, linkname="/etc/passwd"), "not a plain file"),
        (member("images/0.png", b"", type=tarfile.LNKTYPE, linkname="raw_latents.npy"), "not a plain file"),
        (member("images/0.png", b"", type=tarfile.CHRTYPE), "not a plain file"),
        (member("images/0.png", b"", type=tarfile.FIFOTYPE), "not a plain file"),
        (member("raw_latents.npy", b"", size=2**31), "more than the 1,073,741,824 that are read"),
        (member("images/0.png", b"", size=2**27), "more than the 67,108,864 that are read"),
        (member("notes.txt", b"", size=-512), "claims -512 bytes"),
    ],
)
def test_hostile_members_are_refused(
    tmp_path: Path, hostile: tuple[tarfile.TarInfo, bytes], sentence: str, packed: str
) -> None:
    info, content = hostile
    with tarfile.open(tmp_path / "hostile.tar", packed) as archive:
        archive.addfile(info, io.BytesIO(content) if info.size == len(content) else None)
    with pytest.raises(UserError, match=sentence):
        bring(tmp_path / "hostile.tar", tmp_path / "out")
    left = {p.name for p in tmp_path.rglob("*")}
    assert left == {"hostile.tar"}


def test_a_small_archive_does_not_fill_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with tarfile.open(tmp_path / "bomb.tar.gz", "w:gz") as archive:
        for k in range(4):
            info, content = member(f"images/{k}.png", bytes(2**20))
            archive.addfile(info, io.BytesIO(content))
    monkeypatch.setattr(tar_members, "LEEWAY", 2**21)
    with pytest.raises(UserError, match=r"unpacks to more than 2,\d{3},\d{3} bytes"):
        bring(tmp_path / "bomb.tar.gz", tmp_path / "out")
    monkeypatch.setattr(tar_members, "RESERVE", 2**60)
    with pytest.raises(UserError, match="is too full to unpack"):
        bring(tmp_path / "bomb.tar.gz", tmp_path / "out")
    assert not list(tmp_path.glob(".partial*"))


def twice(folder: Path, base: Path) -> Path:
    with tarfile.open(base / "a.tar", "w") as archive:
        for _ in range(2):
            archive.add(folder, arcname="train")
    return base / "a.tar"


def cut_short(folder: Path, base: Path) -> Path:
    archive = tar_of(folder, base / "a.tar", "w")
    archive.write_bytes(archive.read_bytes()[: archive.stat().st_size // 2])
    return archive


def cut_gzip(folder: Path, base: Path) -> Path:
    archive = tar_of(folder, base / "a.tar.gz", "w:gz")
    archive.write_bytes(archive.read_bytes()[: archive.stat().st_size // 2])
    return archive


def no_archive(folder: Path, base: Path) -> Path:
    (base / "a.tar").write_bytes(b"not an archive" * 100)
    return base / "a.tar"


def pickled(folder: Path, base: Path) -> Path:
    np.save(folder / "raw_latents.npy", np.array([[{}] * 10] * 9, object), allow_pickle=True)
    return folder


def lying_array(folder: Path, base: Path) -> Path:
    data = (folder / "raw_latents.npy").read_bytes()
    (folder / "raw_latents.npy").write_bytes(data.replace(b"(9, 10)", b"(9999999, 10)".ljust(7))[: len(data)])
    return folder


def vast_array(folder: Path, base: Path) -> Path:
    data = (folder / "raw_latents.npy").read_bytes()
    (folder / "raw_latents.npy").write_bytes(data.replace(b"(9, 10), }" + b" " * 12, b"(9" + b"0" * 12 + b", 10), }"))
    assert b"000, 10)" in (folder / "raw_latents.npy").read_bytes()
    return folder


def broken_zip(folder: Path, base: Path) -> Path:
    (folder / "raw_latents.npy").write_bytes(b"PK\x03\x04 and no more")
    return folder


def link(folder: Path, base: Path) -> Path:
    (folder / "images/4.png").rename(base / "elsewhere.png")
    (folder / "images/4.png").symlink_to(base / "elsewhere.png")
    return folder


def other_columns(folder: Path, base: Path) -> Path:
    np.save(folder / "raw_latents.npy", np.zeros((9, 12), np.float32))
    return folder


def out_of_range(folder: Path, base: Path) -> Path:
    raw = np.load(folder / "raw_latents.npy") * 3
    np.save(folder / "raw_latents.npy", raw)
    np.save(folder / "latents.npy", World().to_scene(raw))
    return folder


def not_finite(folder: Path, base: Path) -> Path:
    raw = np.load(folder / "raw_latents.npy")
    raw[3, 3] = np.nan
    np.save(folder / "raw_latents.npy", raw)
    return folder


def fewer_rows(folder: Path, base: Path) -> Path:
    np.save(folder / "latents.npy", np.load(folder / "latents.npy")[:8])
    return folder


def missing_number(folder: Path, base: Path) -> Path:
    (folder / "images/4.png").rename(folder / "images/9.png")
    return folder


def same_number(folder: Path, base: Path) -> Path:
    (folder / "images/04.png").write_bytes((folder / "images/4.png").read_bytes())
    return folder


def bomb(folder: Path, base: Path) -> Path:
    Image.new("RGB", (10_000, 10_000)).save(folder / "images/0.png")
    return folder


def huge_bomb(folder: Path, base: Path) -> Path:
    Image.new("1", (20_000, 20_000)).save(folder / "images/0.png")
    return folder


def not_square(folder: Path, base: Path) -> Path:
    Image.new("RGB", (16, 8)).save(folder / "images/3.png")
    return folder


def other_size(folder: Path, base: Path) -> Path:
    Image.new("RGB", (8, 8)).save(folder / "images/3.png")
    return folder


def not_png(folder: Path, base: Path) -> Path:
    Image.new("RGB", (16, 16)).save(folder / "images/3.png", "bmp")
    return folder


def cut_picture(folder: Path, base: Path) -> Path:
    (folder / "images/3.png").write_bytes((folder / "images/3.png").read_bytes()[:-200])
    return folder


def mixed(folder: Path, base: Path) -> Path:
    (folder / "images_0").mkdir()
    (folder / "images_0/0.png").write_bytes((folder / "images/0.png").read_bytes())
    return folder


def nothing(folder: Path, base: Path) -> Path:
    (base / "nothing").mkdir()
    return base / "nothing"


@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [
        (twice, "holds train/.* twice"),
        (cut_short, "cut short"),
        (cut_gzip, "cut short"),
        (no_archive, "cannot be read as a tar archive"),
        (pickled, "raw_latents.npy cannot be read as a .npy file"),
        (lying_array, "raw_latents.npy cannot be read"),
        (vast_array, "raw_latents.npy cannot be read"),
        (broken_zip, "raw_latents.npy cannot be read"),
        (link, "9 rows"),
        (other_columns, "in 10 or 11 columns"),
        (out_of_range, r"Raw latents lie in \[-1, 1\]"),
        (not_finite, "not finite"),
        (fewer_rows, "9 pictures, raw_latents.npy 9 rows, latents.npy 8"),
        (missing_number, "images lacks number 4"),
        (same_number, "Image 4 is there twice"),
        (bomb, "larger than Pillow's limit"),
        (huge_bomb, "larger than Pillow's limit"),
        (not_square, "16×8 RGB"),
        (other_size, "8×8 RGB"),
        (not_png, "cannot be read"),
        (cut_picture, "cannot be read"),
        (mixed, "classes of the latents"),
        (nothing, "No published layout was found"),
    ],
)
def test_broken_sources_get_one_sentence(
    small: Path, tmp_path: Path, spoil: Callable[[Path, Path], Path], sentence: str
) -> None:
    with pytest.raises(UserError, match=sentence):
        bring(spoil(small, tmp_path), tmp_path / "out")
    assert not list(tmp_path.glob(".partial*"))


def test_what_is_not_there_or_not_finished(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no folder or archive"):
        bring(tmp_path / "nowhere", tmp_path / "out")
    with pytest.raises(UserError, match="is not finished"):
        export(make_dataset(tmp_path / "half", 9, finished=False), tmp_path / "out", **QUIET)
    with pytest.raises(UserError, match="is cut short"):
        tar_members.ByteRange(Path(__file__), 0, 10**9).read()
