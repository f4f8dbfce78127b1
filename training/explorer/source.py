"""What a page is of: a dataset folder, or a run with the images that its codes are taken of."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ident3d.errors import UserError
from ident3d.loaders.datasets.image_dataset import ImageDataset
from ident3d.loaders.folders.folder import is_dataset, local_copy
from ident3d.training.encoders.image_encoder import Encoder
from ident3d.training.images.encode import codes_of
from ident3d.training.images.run import Run, open_run, trained_encoder
from ident3d.training.images.which_dataset import held_out_folder, is_trained_on, read_fitting
from ident3d.training.loop.run_folder import IMAGES_RUN, MIXING_RUN, RUN_FILE, record_of

PAGE_FILE = "explore.html"


class Source(NamedTuple):
    """The images of a page, what they are called, and its usual file; of a run also the run and its encoder."""

    images: ImageDataset
    name: str
    page: Path
    run: Run | None = None
    model: Encoder | None = None

    @property
    def subtitle(self) -> str:
        """Say what the page is of."""
        if self.run is None:
            return f"ident3d dataset {self.name}"
        same = is_trained_on(self.run.data["settings"], self.images.parts[0].folder.description)
        which = "images that it was trained on" if same else "images that it was not trained on"
        return f"ident3d run {self.run.path.resolve().name}, codes of {which}, of {self.name}"

    def codes(self, numbers: NDArray[np.int64], device: str, show: bool) -> NDArray[np.float32] | None:
        """Return the run's codes of images by number; None without a run."""
        if self.run is None or self.model is None:
            return None
        return codes_of(self.run, self.model, self.images, numbers, device, False, show)


def open_source(
    path: Path | str,
    data: Path | str | None = None,
    encoder: str | Callable[..., Any] | None = None,
    root: Path | str | None = None,
) -> Source:
    """Open a dataset folder or a run; `data`, `encoder` and `root` are for runs, as in `explore`."""
    if "://" not in str(path) and Path(path, RUN_FILE).is_file():
        return run_source(Path(path), data, encoder, root)
    for name, given in {"data": data, "encoder": encoder, "root": root}.items():
        if given is not None:
            raise UserError(f"--{name} is for runs, and {path} is none.")
    folder = local_copy(path)
    if folder.is_dir() and not is_dataset(folder):
        raise UserError(f"{folder} is neither a dataset folder nor a run: it has neither dataset.json nor {RUN_FILE}.")
    images = ImageDataset(path)
    name = str(path).rstrip("/").rpartition("/")[2] if "://" in str(path) else folder.resolve().name
    # A dataset in a store has no folder next to it.
    beside = Path() if "://" in str(path) else folder.resolve().parent
    return Source(images, name, beside / f"{name}-{PAGE_FILE}")


def run_source(
    path: Path, data: Path | str | None, encoder: str | Callable[..., Any] | None, root: Path | str | None
) -> Source:
    with record_of(path, IMAGES_RUN, MIXING_RUN) as content:
        if content["format"] == MIXING_RUN:
            raise UserError(f"{path} is a run on mixed latents, which has no images to look at.")
    run = open_run(path)
    folder = local_copy(data) if data is not None else held_out_folder(run, root) or Path(run.data["path"])
    if data is None and not is_dataset(folder):
        raise UserError(f"The images of {path} are no longer at {folder}; name others of its scene by --data.")
    read_fitting(run, folder)
    # Before any image is read: an encoder of the user's own has to be named.
    model, _ = trained_encoder(run, encoder)
    return Source(ImageDataset(folder), folder.resolve().name, path / PAGE_FILE, run, model)
