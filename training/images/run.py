"""A run's folder: ``run.json`` says what was asked for, on which data, by which versions, where."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from ident3d.errors import UserError, check_known
from ident3d.latents.worlds import AnyWorld, World, read_world
from ident3d.loaders.datasets.image_dataset import ImageDataset
from ident3d.loaders.datasets.pair_dataset import PairDataset
from ident3d.loaders.format.description import Description, read_description
from ident3d.training.encoders.image_encoder import Encoder, encoder
from ident3d.training.encoders.output_spaces import Posterior, output_space
from ident3d.training.images.settings import PUBLIC_BOUND, TrainSettings, moving_latents, on_sphere
from ident3d.training.loop import checkpoint
from ident3d.training.loop.dtype import TYPES
from ident3d.training.loop.run_folder import (
    IMAGES_RUN,
    RUN_FILE,
    record_of,
    safe_name,
    short_hash,
    with_new_names,
    write_record,
)
from ident3d.training.losses.choice import VARIATIONAL
from ident3d.training.own.own_object import OwnObject
from ident3d.training.own.own_record import check_record
from ident3d.training.views.pixels import Pixels


@dataclass(frozen=True)
class Run:
    """An opened run. `data` holds the training set's path, its number of images and its settings.

    `images` and `pairs` are the training set as the run's trainer opened it; None if the run was read from its folder.
    """

    path: Path
    settings: TrainSettings
    data: dict[str, Any]
    pixels: Pixels
    dtype: str
    facts: dict[str, Any]
    images: ImageDataset | None = field(default=None, compare=False, repr=False)
    pairs: PairDataset | None = field(default=None, compare=False, repr=False)

    @property
    def world(self) -> AnyWorld:
        return read_world(self.data["settings"]["world"])

    @property
    def latents(self) -> tuple[str, ...]:
        """The latents that vary, which the codes are scored against."""
        return moving_latents(self.world)


def data_facts(path: Path, description: Description) -> dict[str, Any]:
    """Return what ``run.json`` records of the training set."""
    return {
        "path": str(path.absolute()),
        "n": description.n,
        "size": description.size,
        "shards_sha256": description.shards_sha256,
        "settings": description.settings,
    }


def write_run(run: Run) -> None:
    """Write ``run.json`` into the run's folder."""
    pixels = {"mean": list(run.pixels.mean), "std": list(run.pixels.std)}
    content = {"settings": run.settings.as_dict(), "data": run.data, "pixels": pixels}
    write_record(run.path, IMAGES_RUN, content | {"dtype": run.dtype, "facts": run.facts})


def open_run(path: Path | str) -> Run:
    """Read ``run.json``, every field checked."""
    path = Path(path)
    with record_of(path, IMAGES_RUN) as content:
        settings = TrainSettings.from_dict(content["settings"])
        mean, std = (tuple(map(float, content["pixels"][name])) for name in ("mean", "std"))
        data, facts = content["data"], content["facts"]
        dtype = str(with_new_names(content)["dtype"])  # "precision" until version 0.1
        check_known("number format", dtype, TYPES)
        shown = data["settings"]
        # Built only to refuse a world that this version does not know.
        read_world(shown["world"])
        if not isinstance(shown["source"], dict) or {"material", "size"} - shown.keys():
            raise TypeError("it does not say what images it was trained on")
        wanted = {"path": str, "n": int, "size": int, "shards_sha256": str}
        if not all(isinstance(data[name], kind) for name, kind in wanted.items()) or not isinstance(facts, dict):
            raise TypeError("its data are of a wrong kind")
        for own in facts.get("own_code", {}).values():
            check_record(own)
    return Run(path, settings, data, Pixels(mean, std, settings.size), dtype, facts)


def dtype_beside(folder: Path, settings: TrainSettings, data: dict[str, Any]) -> str | None:
    """Return the number format of a run beside this folder, or begun in it, that differs in its seed alone."""
    for file in sorted(folder.parent.glob(f"*/{RUN_FILE}")):
        try:
            run = open_run(file.parent)
        # Somebody else's file is no business of this run, readable or not.
        except (UserError, OSError):
            continue
        if replace(run.settings, seed=settings.seed) == settings and run.data["shards_sha256"] == data["shards_sha256"]:
            return run.dtype
    return None


def new_pairs(settings: TrainSettings, images: ImageDataset) -> PairDataset:
    """Return the pairs that the settings ask for among these images."""
    s = settings
    if s.rule not in (None, "nearest"):
        return PairDataset(images, seed=s.seed, rule=s.rule, grid=s.grid, rate=s.rate, max_lag=s.max_lag)
    # On the periodic variant vmf is for the sphere, with a normal on the box.
    both = on_sphere(images.world) and s.cond == "vmf"
    names, moving = images.world.names, moving_latents(images.world)
    return PairDataset(
        images,
        "normal,vmf" if both else s.cond,
        widths_of_latents(s.lambdas[0], names, moving) if s.lambdas else s.sigma,
        s.seed,
        p=s.cond_p or 3.0,
        kappa=1 / s.sigma if both else None,
        only=s.only or None,
        same_class=s.same_class,
        environments=s.environments,
        search=s.search,
        negative=third_conditional(s.lambdas, s.hard, names, moving, s.only),
    )


def pairs_of(run: Run) -> PairDataset | None:
    """Return a run's pairs, as its trainer made them if it just did; None without pairs or without its images."""
    if run.pairs is not None or run.settings.images_alone:
        return run.pairs
    try:
        # In a folder that was rendered anew, the same numbers name other pairs.
        if read_description(Path(run.data["path"])).shards_sha256 == run.data["shards_sha256"]:
            return new_pairs(run.settings, ImageDataset(run.data["path"]))
    except UserError:
        pass  # the folder was moved or deleted since
    return None


def new_encoder(settings: TrainSettings, world: AnyWorld, channels: int = 3) -> Encoder:
    """Return the settings' encoder of images with so many channels; its weights depend on the seed alone."""
    s = settings
    assert s.space is not None
    assert s.dim is not None
    dims: int | list[int] = s.dim
    # A product of spaces stands for the periodic variant alone: three positions in a box, eight numbers on a sphere.
    if "*" in s.space:
        if not (isinstance(world, World) and world.periodic and s.space == "box*sphere" and s.dim == world.n_raw):
            raise UserError("The product box*sphere is the space of the periodic variant's 3 + 8 raw latents.")
        dims = [3, 8]
    # Here and not earlier, so that the weights depend on nothing that was drawn before.
    torch.manual_seed(s.seed)
    # A start that was found from pairs stands in the checkpoint; here any will do.
    if s.loss in VARIATIONAL:
        return encoder(s.encoder, Posterior(s.dim), size=s.size, channels=channels)
    space = output_space(s.space, dims, bound=s.bound or PUBLIC_BOUND, radius=s.radius, learnable=s.learnable)
    return encoder(s.encoder, space, size=s.size, channels=channels)


def trained_encoder(run: Run, own: str | Callable[..., Any] | None = None) -> tuple[Encoder, int]:
    """Return the run's encoder with its trained weights, ready to evaluate, and the step that they are of.

    If the encoder is a user's own code, `own` must be it or name it again: no import path is taken from a file. A run
    that was just trained with an object still has it.
    """
    name, settings = run.settings.encoder, run.settings
    if ":" in name and own is not None and not isinstance(own, str):
        settings = replace(settings, encoder=own)
    elif ":" in name and not isinstance(name, OwnObject) and own != name:
        how = f"--encoder {name}" if name.partition(":")[2].isidentifier() else "the object itself in Python, encoder=…"
        raise UserError(f"The encoder of {run.path} is its author's own code, {name!r}. If you trust it, give {how}.")
    model, kept = new_encoder(settings, run.world, run.pixels.channels), checkpoint.load(run.path)
    checkpoint.restore(model, kept.part(checkpoint.MODEL), f"encoder {settings.encoder}")
    return model.eval(), kept.step


def default_name(settings: TrainSettings, data: Path) -> str:
    """Return <dataset>-<views>-<loss>-<space>-<encoder>-seed<seed>-<hash of all settings>."""
    s = settings
    return safe_name(
        data.resolve().name, s.pair_kind, s.loss, s.space, s.encoder, f"seed{s.seed}", short_hash(s.as_dict())
    )


def old_name(settings: TrainSettings, data: Path) -> str:
    """Return the name that version 0.1 gave a run: <dataset>-<views>-<space>-<hash of all settings>."""
    views = "supervised" if settings.supervised else settings.cond
    # A star is no part of a sensible file name.
    return f"{data.resolve().name}-{views}-{settings.space}-{short_hash(settings.as_dict())}".replace("*", "x")


def widths_of_latents(precision: Sequence[float], names: Sequence[str], moving: Sequence[str]) -> list[float]:
    """Return σ = 1/√Λ of each raw latent; Λ has a value for each latent that varies, and the others are held anyway."""
    own = dict(zip(moving, precision, strict=True))
    return [own.get(name, 1.0) ** -0.5 for name in names]


def third_conditional(
    lambdas: Sequence[Sequence[float]],
    hard: Sequence[float],
    names: Sequence[str],
    moving: Sequence[str],
    only: Sequence[str],
) -> dict[str, Any] | None:
    """Return the conditional that a pair's third image is drawn from, as PairDataset takes it; None without one."""
    precision = hard or (lambdas[1] if len(lambdas) > 1 else ())
    if not precision:
        return None
    return {"cond": "normal", "sigma": widths_of_latents(precision, names, moving), "only": only or None}
