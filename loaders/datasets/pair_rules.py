"""Which pairs a dataset's images allow: the sampler of each pair rule, made of what a folder holds."""

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ident3d.errors import UserError, check_known
from ident3d.latents import Conditional, World
from ident3d.latents.distributions.spaces import parts_of
from ident3d.latents.factors import Factors
from ident3d.latents.worlds import AnyWorld
from ident3d.loaders.datasets.image_dataset import ImageDataset
from ident3d.loaders.pairs.grid import GridSampler
from ident3d.loaders.pairs.rules import OWN_PAIRS, way_of
from ident3d.loaders.pairs.sampler import PairSampler
from ident3d.loaders.pairs.time import TimeSampler
from ident3d.loaders.pairs.view import ViewSampler

Sampler: TypeAlias = PairSampler | GridSampler | TimeSampler | ViewSampler


def time_sampler(images: ImageDataset, max_lag: int, seed: int) -> TimeSampler:
    """Return the sampler of frames of one sequence, up to `max_lag` later, among these images."""
    if "sequence" not in images.columns:
        raise UserError(
            f"The images of {images.parts[0].path} have no sequences, so no frame is later than another: the rule time "
            "needs the column sequence (and frame, unless images lie in the order of their frames)."
        )
    sequence = joined_numbers(images, "sequence")
    frame = images.column("frame") if "frame" in images.columns else None
    return TimeSampler(images.all_latents()[0], sequence, frame, max_lag=max_lag, seed=seed)


def view_sampler(images: ImageDataset, seed: int) -> ViewSampler:
    """Return the sampler of views of one instance among these images."""
    if "instance" not in images.columns:
        raise UserError(
            f"The images of {images.parts[0].path} are no views of one z: the rule view needs the column instance, as "
            "`ident3d render --views` makes it."
        )
    return ViewSampler(images.all_latents()[0], joined_numbers(images, "instance"), seed=seed)


def joined_numbers(images: ImageDataset, column: str) -> NDArray[np.int64]:
    """Return the numbers in a column (n,), made different where folders are: each may begin with 0."""
    own = [part.column(column) for part in images.parts]
    folder = np.repeat(np.arange(len(own)), [len(numbers) for numbers in own])
    pairs = np.column_stack([folder, np.concatenate(own)])
    return np.asarray(np.unique(pairs, axis=0, return_inverse=True)[1].ravel(), np.int64)


def usual_rule(images: ImageDataset) -> str:
    """Return the pair rule if none is named: view for views of one z, time for frames of sequences, else nearest."""
    return next((rule for column, rule in OWN_PAIRS.items() if column in images.columns), "nearest")


def check_environments(images: ImageDataset, environments: str) -> tuple[str, NDArray[np.int64] | None]:
    """Return the way to restrict pairs, and the numbers of the environments that it names; None for all of them.

    Raise UserError if pairs of these images cannot be kept within an environment, or taken across two.
    """
    way, names = way_of(environments)
    if "environment" not in images.columns:
        raise UserError(f"The images of {images.parts[0].path} have no environments: `ident3d render --environment`.")
    if not names:
        return way, None
    # Environments without names, as those of arrays, are called by their numbers.
    called = dict(enumerate(images.environments)) or {k: str(k) for k in np.unique(images.column("environment"))}
    for name in names:
        check_known("environment", name, called.values())
    if way == "across" and len(set(names)) < 2:
        raise UserError(f"Pairs go across two environments or more; {environments!r} names one.")
    return way, np.array([k for k, name in called.items() if name in names], np.int64)


def check_space(world: AnyWorld, name: str | None) -> None:
    """Refuse a `space=` other than the one that the dataset's latents live in."""
    own = "*".join(type(part).__name__.lower() for part in parts_of(world.space))
    if name is not None and name != own:
        what = f"this {world.scene} dataset" if isinstance(world, World) else "these images"
        raise UserError(f"The latents of {what} live on the space {own}, not on {name}.")


def pair_sampler(
    images: ImageDataset,
    conditional: Conditional,
    *,
    seed: int = 0,
    same_class: bool = False,
    negative: Conditional | None = None,
    anchors: str = "rendered",
    search: str = "exact",
    environments: str | None = None,
) -> PairSampler:
    """Return the sampler of pairs among these images, which must have classes if pairs are kept within a class.

    With `environments` they must have some: pairs are "within" one, or "across" two of them, or, as in "within:a,b", of
    those that are named.
    """
    world = images.world
    if anchors == "marginal" and world.mechanisms is not None:
        raise UserError(
            f"The marginal of {world.title} is its graph, which the rendered images follow: use --anchors rendered."
        )
    # Pairs are searched among all raw latents, whichever of them the dataset returns.
    raw, classes = images.all_latents()
    if same_class and classes is None:
        raise UserError("These images have no classes, so pairs cannot be kept within a class.")
    within = classes if same_class else None
    # A nearest value means nothing among values without an order: a pair has them in common, as it has a class.
    if isinstance(world, Factors) and world.categorical:
        shared = [raw[:, k] for k in world.categorical] + ([] if within is None else [within.astype(np.float32)])
        within = np.unique(np.column_stack(shared), axis=0, return_inverse=True)[1].ravel()
    apart = among = None
    if environments is not None:
        way, numbers = check_environments(images, environments)
        own = images.column("environment")
        among = None if numbers is None else np.flatnonzero(np.isin(own, numbers))
        if way == "across":
            apart = own
        else:
            kinds = own[:, None] if within is None else np.column_stack([own, within])
            within = np.unique(kinds, axis=0, return_inverse=True)[1].ravel()
    given = {"anchors": anchors, "search": search, "classes": within, "negative": negative, "apart": apart}
    given |= {"among": among}
    return PairSampler(raw, conditional, seed=seed, **given)  # type: ignore[arg-type]
