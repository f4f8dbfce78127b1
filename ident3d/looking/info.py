"""``info``: what a dataset folder holds, at a glance."""

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tabulate import tabulate

from ident3d.errors import UserError
from ident3d.latents.attainable import attainable_r2
from ident3d.latents.worlds import World
from ident3d.loaders.cards.facts import facts, latent_table
from ident3d.loaders.datasets.stored_images import StoredImages
from ident3d.loaders.folders.folder import Folder, open_folder
from ident3d.loaders.format.latents_source import world_of


@dataclass(frozen=True)
class Info:
    """A dataset's description, how much of it is finished, each latent's attainable R² (None: it has one value), and
    the further columns of its images, such as sequence and frame.

    For images without a scene of ours, the attainable R² is not known: it is None.
    """

    folder: Folder
    attainable_r2: dict[str, float | None] | None
    columns: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        folder = self.folder
        finished = {"path": str(folder.address), "finished": folder.finished, "shards": len(folder.entries)}
        return (
            finished
            | self.folder.description.as_dict()
            | {"attainable_r2": self.attainable_r2, "columns": list(self.columns)}
        )

    def table(self) -> str:
        description = self.folder.description
        state = "complete" if description.complete else f"{self.folder.finished:,} of {description.n:,} images finished"
        rows = [("folder", str(self.folder.address)), ("state", state), ("shards", str(len(self.folder.entries)))]
        if self.columns:
            pairs = " (`--rule time` pairs the frames)" if {"sequence", "frame"} <= set(self.columns) else ""
            pairs = " (`--rule view` pairs the views)" if {"instance", "view"} <= set(self.columns) else pairs
            rows.append(("columns", ", ".join(self.columns) + pairs))
        shown = tabulate([*rows, *facts(description)], tablefmt="plain", maxcolwidths=[None, 80], disable_numparse=True)
        headers, *latents = latent_table(description.settings)
        return f"{shown}\n\n{tabulate(latents, headers=headers, disable_numparse=True)}" if latents else shown


def info(path: Path | str) -> Info:
    """Return what a dataset folder is.

    Args:
        path: The dataset folder, or its address in a store.

    Returns:
        An `Info`.

    Example:
        >>> import ident3d
        >>> "16" in ident3d.info(dataset).table()
        True
    """
    # One shard is opened, the first; all else is in the manifest, so it is instant for a dataset of any size.
    folder = open_folder(path)
    world = world_of(folder.description.settings)
    columns: tuple[str, ...] = ()
    # What is finished is told of a damaged folder too.
    with suppress(UserError):
        if folder.entries:
            columns = StoredImages(folder, packed=False).columns
    return Info(folder, attainable_r2(world) if isinstance(world, World) else None, columns)
