"""The data sets that tables are run on as they are published: found below the data root, generated, or asked for."""

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from ident3d.downloads.labelled_sets import LABELLED_SETS
from ident3d.errors import UserError
from ident3d.latents.factors import Factors
from ident3d.loaders.folders.folder import is_dataset
from ident3d.loaders.format.description import Description, read_description
from ident3d.loaders.format.latents_source import FULL_GRID, GENERATED, world_of
from ident3d.loaders.layouts import kitti_masks
from ident3d.sprites import natural
from ident3d.sprites.dsprites import FACTORS, grid_size
from ident3d.sprites.generate import ORIGIN, dsprites
from ident3d.sprites.generate_natural import natural_sprites
from ident3d.sprites.natural import GRID, SETS
from ident3d.sprites.outlines import SIZE
from ident3d.sprites.transitions import KITTI, KITTI_PAIRED, NAME
from ident3d.training.experiments.experiment import Experiment, ImageVariant, StoredVariant, Variant


@dataclass(frozen=True)
class StoredData:
    """A published data set: its name, images, factors, the command that brings it, and what generates it, if anything.

    Images have `channels`, and 64 pixels; their number is None if it depends on a user's files, and then the name may
    be "": any. `kind` is which images a generated folder says that it holds. In the command, {} stands for the folder.
    What generates it takes the folder, that of the data set `made_of`, if any, and `show_progress`.
    """

    name: str
    images: int | None
    factors: Factors
    command: str
    kind: str = ""
    generate: Callable[..., Any] | None = None
    made_of: str = ""
    channels: int = 1


def natural_data(images: str, source: str, made_of: str = "", drawn: int | None = None) -> StoredData:
    """Return Natural Sprites of the published transitions, or of those of a data set that is there.

    With `drawn`, there are so many images of drawn transitions, else one pair of each transition.
    """
    some = f" --n {drawn}" if drawn else ""
    command = f"ident3d sprites natural --from {source} --images {images}{some} --out {{}}"
    name = f"{NAME} with {source} transitions" if made_of else NAME
    count = drawn or (natural.GRID_IMAGES if images == GRID else KITTI_PAIRED if made_of else None)
    kind = FULL_GRID if images == GRID else natural.kind_of_pairs(images, drawn=drawn is not None)
    generate = partial(natural_sprites, images=images) if made_of else None
    return StoredData(name, count, natural.FACTORS, command, kind, generate, made_of, channels=3)


# What stands for the paper's draws of a transition, an angle and a shape at each access: of each published transition
# about ten pairs, which 300,000 steps of 32 pairs see five times each.
DRAWN: Final = 4_000_000
TABLE: Final = "downscale_keepaspect.csv"
PAIRED: Final = (natural.DISCRETE, natural.CONTINUOUS)

# By the name of the folder below the data root.
DATA: Final = {
    "dsprites": StoredData(
        ORIGIN["name"], grid_size(FACTORS), FACTORS, "ident3d sprites dsprites --out {}", FULL_GRID, dsprites
    ),
    "kitti": StoredData(
        KITTI,
        kitti_masks.FRAMES,
        kitti_masks.FACTORS,
        "ident3d import kitti-masks {} --from kitti_peds_v2.pickle",
    ),
    **{
        f"{name}/{split}": StoredData(
            labelled.title, count, Factors((), labelled.classes), f"ident3d datasets fetch {name} --out {{0.parent}}"
        )
        for name, labelled in LABELLED_SETS.items()
        for split, count in labelled.images.items()
    },
    "imagenet/train": StoredData("", None, Factors(()), "ident3d import --folder PATH/train {} --size 224"),
    "imagenet/test": StoredData(
        "", None, Factors(()), "ident3d import --folder PATH/val {0} --split test --size 224 --like {0.parent}/train"
    ),
    **{f"natural-{images}-drawn": natural_data(images, TABLE, drawn=DRAWN) for images in PAIRED},
    f"natural-{GRID}": natural_data(GRID, TABLE),
    **{f"natural-kitti-{images}": natural_data(images, "KITTI", "kitti") for images in SETS},
}


def with_data(
    experiment: Experiment,
    profile: str,
    variants: Sequence[str],
    due: Container[str],
    base: Path,
    say: Callable[[str], None],
    show_progress: bool,
) -> Experiment:
    """Return the experiment with each variant on published data that is asked for on the folders of these data.

    Data that are missing are brought for variants that are `due`, and for no others.
    """
    return with_variants(
        experiment,
        profile,
        {
            variant.name: on_folders(
                variant, *(stored_folder(name, base, say, show_progress) for name in data_of(variant))
            )
            for variant in experiment.variants(profile, variants)
            if isinstance(variant, StoredVariant)
            and (variant.name in due or all(is_complete(base / name) for name in data_of(variant)))
        },
    )


def with_expected_data(
    experiment: Experiment, profile: str, variants: Sequence[str], due: Container[str], base: Path
) -> Experiment:
    """Return the experiment as `with_data` will for the variants that are `due`, before anything is generated.

    Raise UserError for data that are neither there nor can be generated, and for a folder that holds others.
    """
    return with_variants(
        experiment,
        profile,
        {
            variant.name: expected_variant(variant, base)
            for variant in experiment.variants(profile, variants)
            if isinstance(variant, StoredVariant) and variant.name in due
        },
    )


def with_variants(experiment: Experiment, profile: str, found: Mapping[str, Variant[Any]]) -> Experiment:
    """Return the experiment with these variants in the place of those of their names."""
    placed = tuple(found.get(variant.name, variant) for variant in experiment.profiles[profile])
    return replace(experiment, profiles={**experiment.profiles, profile: placed})


def expected_variant(variant: StoredVariant, base: Path) -> ImageVariant:
    """Return the variant on folders that are there, or on what is known of those that will be generated."""
    for name in data_of(variant):
        check_sources(name, base)
    trained, scored = (base / name for name in data_of(variant))
    if is_complete(trained) and is_complete(scored):
        return on_folders(variant, trained, scored)
    data, other = (DATA[name] for name in data_of(variant))
    least = variant.settings.batch
    return image_variant(
        variant,
        {"train": trained, "test": scored},
        world=data.factors,
        size=SIZE,
        # How many there are of a user's file is known only then, and does not change what a training takes.
        train=data.images or least,
        test=other.images or least,
        channels=data.channels,
    )


def check_sources(name: str, base: Path) -> None:
    """Raise UserError unless a data set is below the data root, or can be generated of what is there."""
    data = DATA[name]
    if not data.generate or is_complete(base / name):
        complete_folder(name, base)
    elif data.made_of:
        check_sources(data.made_of, base)


def data_of(variant: StoredVariant) -> tuple[str, str]:
    """Return the names of the data to train on and of those to score on."""
    return variant.data, variant.scored_on or variant.data


def is_complete(folder: Path) -> bool:
    return is_dataset(folder) and read_description(folder).complete


def stored_folder(name: str, base: Path, say: Callable[[str], None], show_progress: bool) -> Path:
    """Return the complete folder of a data set below the data root, generated now if it can be."""
    data, folder = DATA[name], base / name
    command = data.command.format(folder)
    if data.generate and not is_complete(folder):
        given = [stored_folder(data.made_of, base, say, show_progress)] if data.made_of else []
        count = f" {data.images:,} images," if data.images else ""
        say(f"{folder} is generated first,{count} as by `{command}`.")
        data.generate(folder, *given, show_progress=show_progress)
    return complete_folder(name, base)


def complete_folder(name: str, base: Path) -> Path:
    """Return the folder of a data set below the data root. Raise UserError unless it is there, whole, and this set."""
    data, folder = DATA[name], base / name
    command = data.command.format(folder)
    if not is_dataset(folder):
        raise UserError(f"The table's images are not at {folder}: `{command}` brings them there.")
    description = read_description(folder)
    if not description.complete:
        raise UserError(f"{folder} is not finished yet: `{command}` goes on where it stopped.")
    # Beside the paper's figures stand those of the paper's images, and not of a part of them.
    if wrong := unlike(description, data):
        raise UserError(
            f"{folder} {wrong}: move it away, or give another --root; `{command}` brings the table's images."
        )
    return folder


def unlike(description: Description, data: StoredData) -> str:
    """Return in what a complete folder is not the data set; nothing if it is."""
    settings = description.settings
    world, name = world_of(settings), settings.get("origin", {}).get("name", "images of no name")
    # What was imported does not say which images it holds; their number tells.
    kind = settings["source"].get("images", "" if settings["source"]["kind"] == GENERATED else data.kind)
    wanted = data.factors.names
    if tuple(world.names) != wanted:
        return f"holds images of {', '.join(world.names) or 'no factors'}, and the table is on {', '.join(wanted)}"
    if data.name and name != data.name:
        return f"holds {name}, and the table is on {data.name}"
    if data.kind and kind != data.kind:
        return f"holds {kind or 'images of no kind'}, and the table is on {data.kind}"
    if data.images not in (None, description.n):
        return f"holds {description.n:,} images of {name}, and the table is on {data.images:,} of them"
    for ours, theirs in zip(data.factors.factors, getattr(world, "factors", ()), strict=True):
        if ours.values and len(theirs.values) != len(ours.values):
            return f"has {len(theirs.values)} values of {ours.name}, and the table is on {len(ours.values)}"
    return ""


def check_pair(trained: Path, scored: Path) -> None:
    """Raise UserError unless the images to score on are of the same transitions, whose bins are the factors' values."""
    theirs, ours = (read_description(f).settings["source"].get("transitions_sha256") for f in (scored, trained))
    if theirs != ours:
        raise UserError(
            f"{scored} and {trained} were made of different transitions, so that their values differ: move away the "
            "one that is not the table's."
        )


def on_folders(variant: StoredVariant, trained: Path, scored: Path) -> ImageVariant:
    """Return the variant on complete folders: of the images to train on, and of those to score on."""
    check_pair(trained, scored)
    description = read_description(trained)
    return image_variant(
        variant,
        {"train": trained, "test": scored},
        world=world_of(description.settings),
        size=description.size,
        train=description.n,
        test=read_description(scored).n,
        channels=int(description.settings.get("channels", 3)),
    )


def image_variant(variant: StoredVariant, folders: Mapping[str, Path], **images: Any) -> ImageVariant:
    """Return the variant on images of which world, size, channels and numbers are given."""
    kept: dict[str, Any] = {field.name: getattr(variant, field.name) for field in fields(Variant)}
    return ImageVariant(folders=folders, fraction=variant.fraction, **kept, **images)
