"""What views of one z share: the blocks that folders record, how far private latents were asked to go, correlations."""

import numpy as np

from ident3d.latents.distributions.spaces import goes_round
from ident3d.latents.exact.arithmetic import Float64
from ident3d.latents.factors import Factors
from ident3d.latents.view_draws import asked_changes
from ident3d.latents.views import Views
from ident3d.latents.worlds import AnyWorld
from ident3d.loaders.datasets.image_dataset import ImageDataset
from ident3d.loaders.format.latents_source import environments_of, views_of


def recorded_views(images: ImageDataset) -> Views | None:
    """Return how all folders were rendered as views; None if they were not, or not alike."""
    found = [views_of(part.folder.description.settings) for part in images.parts]
    return found[0] if all(each == found[0] for each in found) else None


def asked_of_views(images: ImageDataset) -> list[float]:
    """Return the mean |z̃ - z| of two views that all folders were asked for; nothing if there is no single one."""
    views = recorded_views(images)
    if views is None or any(environments_of(part.folder.description.settings) for part in images.parts):
        return []
    return asked_changes(images.world, views).tolist()  # type: ignore[no-any-return]


def blocks_by_name(images: ImageDataset) -> tuple[str, ...]:
    """Return for each latent whether views share it; nothing if that is not recorded."""
    if (views := recorded_views(images)) is None:
        return ()
    of = {name: block for block, names in views.blocks(images.world).items() for name in names}
    return tuple(of.get(name, "held") for name in images.world.names)


def correlations_of(world: AnyWorld, z: Float64, z_tilde: Float64) -> tuple[float | None, ...]:
    """Return how each latent of anchors and of positives (n, d) correlate; None where that has no meaning."""
    found: list[float | None] = []
    categorical = world.categorical if isinstance(world, Factors) else ()
    for k, turns in enumerate(goes_round(world.space)):
        a, b = z[:, k], z_tilde[:, k]
        if k in categorical or not (a.std() and b.std()):
            found.append(None)
        elif turns:
            found.append(float(np.cos(np.pi * (b - a)).mean()))
        else:
            found.append(float(np.corrcoef(a, b)[0, 1]))
    return tuple(found)
