"""What is fuzzed: for each kind of file how it is changed in a copy of sound folders, and who then reads it."""

import io
import json
import pickle
import shutil
import warnings
import zipfile
from collections.abc import Callable
from contextlib import chdir, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from attack import labelled
from attack import mutations as m
from PIL import Image
from synthetic import make_dataset

from ident3d import MixingSettings, export, info, mixing, pack, preview, train
from ident3d.cli import main
from ident3d.latents import load_model, published_model
from ident3d.latents.exact.causal import published_text
from ident3d.latents.worlds import World
from ident3d.loaders.datasets.image_dataset import ImageDataset
from ident3d.loaders.folders.packed import PACKED_FILE
from ident3d.loaders.folders.provenance import record_run
from ident3d.loaders.folders.verify import verify
from ident3d.loaders.format.description import digest
from ident3d.loaders.format.files import sha256
from ident3d.loaders.format.latents_source import read_npy
from ident3d.loaders.layouts.importing import import_
from ident3d.loaders.layouts.kitti_annotations import SIZE
from ident3d.loaders.layouts.kitti_masks import latents_of
from ident3d.reproduction.cells import finished_results
from ident3d.shapes.cache import cached_meshes, load_mesh, mesh_sha256
from ident3d.shapes.normalise import NormalMesh
from ident3d.sprites.dsprites import FACTORS, grid_values, images
from ident3d.training.images.encode import encode
from ident3d.training.images.evaluate import evaluate
from ident3d.training.images.run import open_run
from ident3d.training.images.settings import TrainSettings
from ident3d.training.loop import checkpoint
from ident3d.training.mixing.run import open_mixing
from ident3d.training.report.report import write_report

_START = datetime(2026, 1, 1, tzinfo=UTC)
Read = Callable[[Path], object]
QUIET = {"show_progress": False}
SCORED: dict[str, Any] = {"count": 12, "metrics": "mcc_pearson", "device": "cpu", **QUIET}


@dataclass(frozen=True)
class Target:
    """A kind of file. `change` makes one hostile in a copy of the folder `uses`; of `reads`, some then read it."""

    uses: str
    change: Callable[[Path, Random], None]
    reads: tuple[Read, ...]


def make_folders(at: Path, old: Path, cache: Path) -> None:
    """Write the sound folders that cases are copies of. `old` is tests/data/v0.1, `cache` holds meshes."""
    make_dataset(at / "set/set", 8, size=8, shard_size=4, classes=2)
    pack(at / "set/set", **QUIET)
    record_run(at / "set/set", _START)
    for name in ("run-resumed", "test", "train"):
        shutil.copytree(old / name, at / "run" / ("run" if name == "run-resumed" else name))
    # Version 0.1's evaluation lacks what today's page shows.
    with chdir(at / "run"):
        evaluate("run", "test", encoder="tiny:smallest", **SCORED)
    shutil.copytree(old / "mixing-resumed", at / "mixing/run")
    shutil.copytree(old / "reproduce", at / "table/tables")
    made = make_dataset(at / "made", 4, size=8, shard_size=4)
    export(made, at / "layout/published", **QUIET)
    shutil.rmtree(made)
    (at / "score").mkdir()
    rng = np.random.default_rng(0)
    for name in ("latents", "codes"):
        np.save(at / "score" / f"{name}.npy", rng.uniform(-1, 1, (40, 10)).astype(np.float32))
    np.save(at / "score/class.npy", np.arange(40) % 3)
    (at / "graph").mkdir()
    (at / "graph/own.toml").write_text(published_text())
    shutil.copytree(cache, at / "meshes/cache")
    make_others(at / "others")
    labelled.make_labelled(at / "labelled")


def make_others(at: Path) -> None:
    """Write small files in the forms in which dSprites and KITTI Masks were published or annotated."""
    at.mkdir()
    values = grid_values(FACTORS, 1000, 6)
    places = np.column_stack([np.zeros(6, np.int64), FACTORS.indices(FACTORS.to_raw(values))])
    table = np.column_stack([np.ones(6), values + np.eye(5)[0]])
    np.savez(at / "published.npz", imgs=images(values), latents_values=table, latents_classes=places)
    masks = np.zeros((4, SIZE, SIZE), np.bool_)
    masks[:, 20:40, 10:30] = True
    content = {"pedestrians": [masks, masks.copy()], "pedestrians_latents": [latents_of(masks)] * 2}
    (at / "published.pickle").write_bytes(pickle.dumps(content, 4))
    (at / "texts").mkdir()
    # 60 columns of background, 20 of the object, and the rest: of 64×128 pixels
    runs = [SIZE * 60, SIZE * 20, SIZE * 48]
    code = "".join(chr(48 + (run >> shift & 31 | 32 * (shift < 10))) for run in runs for shift in (0, 5, 10))
    ignored = "".join(chr(48 + (run >> shift & 31 | 32 * (shift < 10))) for run in (0, SIZE * 30, SIZE * 98)
                      for shift in (0, 5, 10))  # fmt: skip
    lines = [f"{t} {k} {k // 1000} 64 128 {c}" for t in range(3) for k, c in ((2001, code), (10000, ignored))]
    (at / "texts/0000.txt").write_text("\n".join(lines) + "\n")
    picture = np.zeros((SIZE, 128), np.uint16)
    picture[:, 60:80], picture[:, :30] = 2001, 10000
    (at / "pictures/0002").mkdir(parents=True)
    for t in range(3):
        Image.fromarray(picture).save(at / f"pictures/0002/{t}.png")


def rewrite_json(path: Path, rng: Random, sign: Callable[[dict[str, Any]], None] | None = None) -> None:
    path.write_bytes(m.json_bytes(json.loads(path.read_text()), rng, sign))


def sign(content: dict[str, Any]) -> None:
    """Make the digest anew, as somebody would who wants the rest to be read."""
    content.pop("digest", None)
    content["digest"] = digest(content)


def sign_folder(path: Path) -> None:
    """Enter the shards' hashes and sizes in the manifest, and its hash in the description."""
    lines = []
    for line in (path / "shards.jsonl").read_bytes().splitlines():
        with suppress(ValueError, TypeError, KeyError, AttributeError, OSError, RecursionError):
            content = json.loads(line)
            data = (path / "shards" / Path(content["name"]).name).read_bytes()
            lines.append(json.dumps(content | {"sha256": sha256(data), "bytes": len(data)}).encode() + b"\n")
            continue
        lines.append(line + b"\n")
    (path / "shards.jsonl").write_bytes(b"".join(lines))
    description = json.loads((path / "dataset.json").read_text())
    description["shards_sha256"] = sha256(b"".join(lines))
    if (path / "all_latents.npy").exists():
        description["all_latents"] = sha256((path / "all_latents.npy").read_bytes())
    sign(description)
    (path / "dataset.json").write_text(json.dumps(description))


def change_description(case: Path, rng: Random) -> None:
    rewrite_json(case / "set/dataset.json", rng, sign)


def change_manifest(case: Path, rng: Random) -> None:
    path = case / "set/shards.jsonl"
    lines = path.read_bytes().splitlines()
    lines[0] = m.json_bytes(json.loads(lines[0]), rng)
    path.write_bytes(b"\n".join(lines) + b"\n")
    if rng.random() < 0.7:
        description = json.loads((case / "set/dataset.json").read_text())
        description["shards_sha256"] = sha256(path.read_bytes())
        description["n"] = rng.choice((8, 8, 4, 0, 10**12))
        sign(description)
        (case / "set/dataset.json").write_text(json.dumps(description))


def change_packed(case: Path, rng: Random) -> None:
    rewrite_json(case / "set" / PACKED_FILE, rng, sign)


def change_shard(case: Path, rng: Random) -> None:
    path = case / "set/shards/00000.h5"
    path.write_bytes(m.shard(path.read_bytes(), rng))
    for name in ("images.u8", "packed.json", *(("all_latents.npy",) if rng.random() < 0.7 else ())):
        (case / "set" / name).unlink()
    if rng.random() < 0.9:
        sign_folder(case / "set")


def change_table(case: Path, rng: Random) -> None:
    path = case / "set/all_latents.npy"
    path.write_bytes(m.npy(np.load(path), rng))
    sign_folder(case / "set")


def change_source(case: Path, rng: Random) -> None:
    """Let the dataset's latents come from a file."""
    path = case / "set/latents.npy"
    path.write_bytes(m.npy(np.load(case / "set/all_latents.npy")[:, :10], rng))
    description = json.loads((case / "set/dataset.json").read_text())
    description["settings"]["source"] |= {"kind": "file", "sha256": sha256(path.read_bytes())}
    sign(description)
    (case / "set/dataset.json").write_text(json.dumps(description))


def change_provenance(case: Path, rng: Random) -> None:
    rewrite_json(case / "set/provenance.json", rng)


def change_run(case: Path, rng: Random) -> None:
    rewrite_json(case / "run/run.json", rng)


def change_log(case: Path, rng: Random) -> None:
    path = case / "run/metrics.jsonl"
    lines = path.read_bytes().splitlines()
    lines[rng.randrange(len(lines))] = m.json_bytes(json.loads(lines[0]), rng)
    path.write_bytes(b"\n".join(lines))


def change_evaluation(case: Path, rng: Random) -> None:
    codes, path = case / "run/evaluation-codes.npy", case / "run/evaluation.json"
    sound, content = np.load(codes), json.loads(path.read_text())
    if rng.random() < 0.5:
        codes.write_bytes(m.npy(sound, rng))
        path.write_text(json.dumps(content | {"codes_sha256": sha256(codes.read_bytes())}))
    else:
        path.write_bytes(m.json_bytes(content, rng))


def change_checkpoint(case: Path, rng: Random) -> None:
    path = case / "run/checkpoint.safetensors"
    path.write_bytes(m.tensors(path.read_bytes(), rng))


def change_result(case: Path, rng: Random) -> None:
    rewrite_json(rng.choice(sorted(case.glob("tables/**/result.json"))), rng)


def change_graph(case: Path, rng: Random) -> None:
    (case / "own.toml").write_bytes(m.toml(published_text(), rng))


def change_world(case: Path, rng: Random) -> None:
    """A world in a description, with the published graph written out."""
    content = json.loads((case / "set/dataset.json").read_text())
    world = World("causal3dident", graph=published_model()).as_dict()
    content["settings"]["world"] = m.change_fields(world, rng)
    sign(content)
    (case / "set/dataset.json").write_text(json.dumps(content))


def change_score(case: Path, rng: Random) -> None:
    path = case / rng.choice(("latents.npy", "codes.npy", "class.npy"))
    array = np.load(path)
    path.write_bytes(m.npy(array if array.ndim == 2 else array[:, None], rng))


def change_archive(case: Path, rng: Random) -> None:
    name, data = m.archive(case / "published", rng)
    shutil.rmtree(case / "published")
    (case / name).write_bytes(data)


def change_layout(case: Path, rng: Random) -> None:
    path = rng.choice(sorted(path for path in (case / "published").rglob("*") if path.is_file()))
    if path.suffix == ".npy":
        path.write_bytes(m.npy(np.load(path), rng))
    elif rng.random() < 0.7:
        path.write_bytes(m.mangle(path.read_bytes(), rng))
    else:
        size = rng.choice(((8, 8), (9, 8), (1, 1), (8192, 8192), (30_000, 2), (0x7FFF, 0x7FFF)))
        mode = rng.choice(("RGB", "RGBA", "L", "P", "1", "I;16"))
        Image.new(mode if size[0] < 9000 else "1", size).save(path, format=rng.choice(("PNG", "PNG", "TIFF")))


def change_npz(case: Path, rng: Random) -> None:
    path = case / "published.npz"
    if rng.random() < 0.4:
        path.write_bytes(m.mangle(path.read_bytes(), rng))
        return
    with np.load(path) as file:
        members = {name: file[name] for name in file}
    chosen = rng.choice(sorted(members))
    with zipfile.ZipFile(path, "w", rng.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))) as archive:
        for name, array in members.items():
            plain = io.BytesIO()
            np.save(plain, array)
            archive.writestr(f"{name}.npy", m.npy(array, rng) if name == chosen else plain.getvalue())


def change_one_of(pattern: str) -> Callable[[Path, Random], None]:
    """Return what mangles one of the files of this pattern."""

    def change(case: Path, rng: Random) -> None:
        path = rng.choice(sorted(case.glob(pattern)))
        path.write_bytes(m.mangle(path.read_bytes(), rng))

    return change


def change_mark(case: Path, rng: Random) -> None:
    (case / "out").mkdir()
    (case / "out/images").mkdir()
    (case / "out/.partial-export").write_bytes(m.json_bytes({"shards_sha256": "0" * 64}, rng))


def change_meshes(case: Path, rng: Random) -> None:
    index = next((case / "cache").rglob("index.json"))
    content = json.loads(index.read_text())
    if rng.random() < 0.5:
        index.write_bytes(m.json_bytes(content, rng))
        return
    name, record = next(iter(content["meshes"].items()))
    path = index.parent / f"{name}-{record['sha256'][:16]}.npz"
    vertices = np.load(path)["vertices"]
    path.write_bytes(m.npy(vertices, rng))
    # An index that vouches for what the file holds.
    with suppress(Exception), np.load(path, allow_pickle=False) as file:
        record["sha256"] = mesh_sha256(NormalMesh(file["vertices"], file["faces"]))
        path.rename(index.parent / f"{name}-{record['sha256'][:16]}.npz")
        index.write_text(json.dumps(content))


def read_all(path: Path, **options: Any) -> None:
    data = ImageDataset(path, **options)
    numbers = np.arange(min(len(data), 8))
    data.images(numbers)
    data.latents(numbers)
    data.all_latents()
    data.batch(numbers)
    _ = data.mean, data.std, data.names


def command(*words: str) -> Read:
    """Run a command of ours; it ends with code 0 or 2."""

    def read(case: Path) -> None:
        try:
            main(list(words))
        except SystemExit as end:
            if end.code not in (0, 2):
                raise AssertionError(f"exit code {end.code}") from None

    return read


def read_meshes(case: Path) -> None:
    for name in cached_meshes():
        load_mesh(name)


def resume_train(case: Path) -> None:
    # A user asks for what was asked for before, whatever the file says by now.
    settings = TrainSettings(space="box", cond="gennorm", cond_p=3.0, loss="delta", model_p=3.0, negatives="others",
                        encoder="tiny:smallest", dim=10, size=16, batch=8, steps=4, dtype="fp32")  # fmt: skip
    train("train", settings, out="run", resume=True, workers=0, device="cpu", **QUIET)


def resume_mixing(case: Path) -> None:
    content = json.loads((Path(__file__).parents[1] / "data/v0.1/mixing-resumed/run.json").read_text())
    mixing(MixingSettings.from_dict(content["settings"]), out="run", resume=True, device="cpu", **QUIET)


DATASET: tuple[Read, ...] = (
    lambda case: verify("set", **QUIET),
    lambda case: read_all(Path("set")),
    lambda case: read_all(Path("set"), packed=False),
    lambda case: info("set").table(),
    lambda case: pack("set", **QUIET),
    lambda case: export("set", "out", **QUIET),
    lambda case: preview("set"),
    lambda case: make_dataset(Path("set"), 12, size=8, shard_size=4, classes=2),
    lambda case: verify("set", repair=True, **QUIET),
)
RUN: tuple[Read, ...] = (
    lambda case: open_run("run").latents,
    lambda case: evaluate(
        "run", "test", count=12, metrics="mcc_pearson", encoder="tiny:smallest", device="cpu", **QUIET
    ),
    lambda case: write_report("run"),
    lambda case: encode("run", "test", "codes.npy", encoder="tiny:smallest", device="cpu", **QUIET),
    lambda case: evaluate("run", count=12, metrics="mcc_pearson", device="cpu", **QUIET),
    resume_train,
)
MIXING: tuple[Read, ...] = (
    lambda case: open_mixing(case / "run"),
    lambda case: checkpoint.load(case / "run"),
    resume_mixing,
)
IMPORT: tuple[Read, ...] = (lambda case: import_(next(case.glob("published*")), "out", workers=1, **QUIET),)


def bring_kitti(name: str) -> Read:
    """Import KITTI Masks; a note that these are not all of them is due."""

    def read(case: Path) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            import_(case / name, "out", data="kitti-masks", workers=1, **QUIET)

    return read


SCORE = command(
    "score",
    "--latents",
    "latents.npy",
    "--codes",
    "codes.npy",
    "--class-file",
    "class.npy",
    "--metrics",
    "linear_r2,mcc_pearson",
)

TARGETS: dict[str, Target] = {
    "dataset.json": Target("set", change_description, DATASET),
    "shards.jsonl": Target("set", change_manifest, DATASET),
    "packed.json": Target("set", change_packed, DATASET[:6]),
    "shard": Target("set", change_shard, DATASET),
    "shard of another world": Target("set", change_world, DATASET[:7]),
    "all_latents.npy": Target("set", change_table, DATASET),
    "latents.npy": Target("set", change_source, DATASET),
    "provenance.json": Target("set", change_provenance, (lambda case: record_run(case / "set", _START),)),
    "run.json": Target("run", change_run, RUN),
    "metrics.jsonl": Target("run", change_log, (RUN[2], resume_train)),
    "evaluation.json and codes": Target("run", change_evaluation, (RUN[2],)),
    "checkpoint": Target("run", change_checkpoint, RUN),
    "run.json on mixed latents": Target("mixing", change_run, MIXING),
    "checkpoint on mixed latents": Target("mixing", change_checkpoint, MIXING),
    "result.json": Target(
        "table", change_result, (lambda case: [finished_results(p) for p in sorted(case.glob("tables/*"))],)
    ),
    "graph": Target("graph", change_graph, (lambda case: load_model(Path("own.toml")), command("graph", "own.toml"))),
    "latents, codes and classes to score": Target("score", change_score, (SCORE,)),
    "latents to render": Target(
        "score", change_score, (lambda case: World().check_raw(read_npy(case / "latents.npy")),)
    ),
    "archive": Target("layout", change_archive, IMPORT),
    "published folder": Target("layout", change_layout, IMPORT),
    "dSprites": Target("others", change_npz, (lambda case: import_("published.npz", "out", workers=1, **QUIET),)),
    "pickle": Target("others", change_one_of("*.pickle"), (bring_kitti("published.pickle"),)),
    "annotations": Target("others", change_one_of("texts/*.txt"), (bring_kitti("texts"),)),
    "annotated pictures": Target("others", change_one_of("pictures/0002/*.png"), (bring_kitti("pictures"),)),
    "MNIST and CIFAR-10": Target(
        "labelled",
        labelled.change_labelled,
        (*(partial(labelled.read_set, form) for form in labelled.FORMS), labelled.read_parts),
    ),
    "transitions": Target("labelled", labelled.change_transitions, (labelled.read_table,)),
    "mark of an export": Target("set", change_mark, (lambda case: export("set", "out", **QUIET),)),
    "meshes": Target("meshes", change_meshes, (read_meshes,)),
}
