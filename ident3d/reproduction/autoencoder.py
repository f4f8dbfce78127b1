"""The autoencoder whose decoder is a table's mixing, or whose codes rows are scored by: trained first, on MNIST."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from ident3d.downloads.labelled_sets import MNIST
from ident3d.errors import UserError
from ident3d.loaders.folders.folder import is_dataset
from ident3d.loaders.format.description import read_description
from ident3d.loaders.format.latents_source import world_of
from ident3d.loaders.stores.lease import Busy
from ident3d.training.experiments.experiment import Experiment, Variant
from ident3d.training.images.defaults import with_defaults
from ident3d.training.images.run import data_facts, open_run, trained_encoder, write_run
from ident3d.training.images.settings import TrainSettings
from ident3d.training.images.start import check_same
from ident3d.training.images.train import train
from ident3d.training.loop import checkpoint
from ident3d.training.mixing.decoded import SAMPLES_FILE, decoded_images, save_samples, weights_sha256
from ident3d.training.mixing.settings import DECODER, MixingSettings


def with_decoders(experiment: Experiment, profile: str, folder: Path) -> Experiment:
    """Return the experiment with the decoder's run named as the mixing of each variant that has an autoencoder.

    `folder` is the table's. Nothing is trained here.
    """
    variants = tuple(
        replace(variant, settings=replace(variant.settings, mixing=f"{DECODER}{run_of(variant, folder)}"))
        if variant.autoencoder and experiment.kind == "mixing"
        else variant
        for variant in experiment.profiles[profile]
    )
    return replace(experiment, profiles={**experiment.profiles, profile: variants})


def run_of(variant: Variant[Any], folder: Path) -> Path:
    """Return the folder of a variant's autoencoder; below the current folder by a path that names no machine."""
    path = folder / f"{variant.name}-autoencoder"
    here = Path.cwd()
    return path.relative_to(here) if path.is_absolute() and path.is_relative_to(here) else path


def train_autoencoder(
    variant: Variant[Any], folder: Path, base: Path, device: str, say: Callable[[str], None], show: bool
) -> None:
    """Train a variant's autoencoder, or what an interrupted call left of it, unless it is there; show its pairs."""
    wanted = variant.autoencoder
    if wanted is None:
        return
    data, run = mnist_below(base), run_of(variant, folder)
    if is_finished(run, wanted):
        check_autoencoder(run, wanted, data)
    else:
        say(f"First the autoencoder, {wanted.steps:,} steps on MNIST, into {run}.")
        try:
            train(data, wanted, out=run, device=device, resume=run.exists(), show_progress=show)
        except Busy as error:
            raise UserError(f"All rows need the autoencoder, and {error}") from None
    if not (folder / SAMPLES_FILE).is_file():
        dim = wanted.dim or 0
        save_samples(decoded_images(run, dim), dim, folder / SAMPLES_FILE)


def mnist_below(base: Path) -> Path:
    """Return the folder of MNIST's training images. Raise UserError unless both splits are there, and are MNIST's.

    Rows are scored on the test images after their training.
    """
    for split, count in MNIST.images.items():
        folder = base / MNIST.name / split
        if not is_dataset(folder):
            raise UserError(
                f"The table needs MNIST in {folder}; `ident3d datasets fetch mnist --out {folder.parent}` brings it."
            )
        found = read_description(folder)
        facts = (found.settings.get("origin", {}).get("name"), found.n, found.shape, found.complete)
        side = MNIST.size, MNIST.size, MNIST.channels
        if facts != (MNIST.title, count, side, True) or world_of(found.settings).classes != MNIST.classes:
            raise UserError(
                f"{folder} is not MNIST's {count:,} images of {split} with their classes; move it away, and "
                f"`ident3d datasets fetch mnist --out {folder.parent}` brings them."
            )
    return base / MNIST.name / "train"


def is_finished(run: Path, wanted: TrainSettings) -> bool:
    """Return whether the run's last checkpoint is of its last step."""
    return (run / checkpoint.CHECKPOINT_FILE).is_file() and checkpoint.load(run).step >= wanted.steps


def check_autoencoder(run: Path, wanted: TrainSettings, data: Path) -> None:
    """Raise UserError if the autoencoder that is there has other settings, or was trained on other images."""
    description = read_description(data)
    settings = with_defaults(wanted, world_of(description.settings), description.size, description.n)
    found, facts = open_run(run), data_facts(data, description)
    check_same(found, settings, facts)
    # Rows are scored on the images that the run names, and these may have been moved.
    if found.data["path"] != facts["path"]:
        write_run(replace(found, data=facts))


def beside_table(mixing: str) -> str:
    """Return a decoder's name with its run's folder relative to the table's, wherever the table lies."""
    return DECODER + Path(mixing.removeprefix(DECODER)).name


def decoder_facts(variant: Variant[MixingSettings]) -> dict[str, Any]:
    """Return what tells the decoder that is a variant's mixing from others; nothing before there is one."""
    run = Path(variant.settings.mixing.removeprefix(DECODER))
    if variant.autoencoder is None or not is_finished(run, variant.autoencoder):
        return {}
    generator = decoded_images(run, variant.settings.dim)
    return {"decoder": {"weights_sha256": weights_sha256(generator), "images_sha256": generator.source.images_sha256}}


def autoencoder_facts(variant: Variant[Any], folder: Path) -> dict[str, Any]:
    """Return what tells the autoencoder whose codes rows are scored by from others; nothing before there is one."""
    run = run_of(variant, folder)
    if variant.autoencoder is None or not is_finished(run, variant.autoencoder):
        return {}
    return {"autoencoder": {"weights_sha256": weights_sha256(trained_encoder(open_run(run))[0])}}
