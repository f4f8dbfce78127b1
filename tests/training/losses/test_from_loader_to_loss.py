"""A dataset's batches go through views, encoder, output space and loss, for both kinds of views."""

from functools import partial
from pathlib import Path

import pytest
import torch
from synthetic import make_dataset
from torch import nn

from ident3d.loaders.batches.loader import make_loader
from ident3d.loaders.datasets.image_dataset import ImageDataset
from ident3d.loaders.datasets.pair_dataset import PairDataset
from ident3d.training.encoders.image_encoder import Encoder, parameter_groups
from ident3d.training.encoders.output_spaces import Box, OutputSpace, Sphere
from ident3d.training.losses.contrastive import delta_contrastive, hard_negatives, two_view_info_nce
from ident3d.training.losses.similarities import minus_power
from ident3d.training.views.choice import Augmentation
from ident3d.training.views.pixels import Pixels
from ident3d.training.views.views import MakeViews, augmented_views, pair_views

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_dataset(tmp_path_factory.mktemp("training") / "set", 64)


def backbone(outputs: int) -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(3 * 16 * 16, outputs))


def test_normalised_images_have_mean_0_and_std_1(path: Path) -> None:
    data = ImageDataset(path)
    pixels = Pixels(data.mean, data.std)
    x = pixels.normalise(pixels.unit(data[:][1], CPU))
    torch.testing.assert_close(x.mean((0, 2, 3)), torch.zeros(3), rtol=0, atol=1e-4)
    torch.testing.assert_close(x.std((0, 2, 3)), torch.ones(3), rtol=1e-3, atol=0)


@pytest.mark.parametrize("kind", ["pairs", "augmentations"])
def test_a_loss_falls(path: Path, kind: str) -> None:
    torch.manual_seed(0)
    data = PairDataset(path, sigma=0.3) if kind == "pairs" else ImageDataset(path)
    pixels = Pixels(data.mean, data.std)
    views: MakeViews = partial(pair_views, pixels)
    loss, space = delta_contrastive, Box(10, 6.0)
    if kind == "augmentations":
        views = partial(augmented_views, pixels, Augmentation(crop=(0.8, 1.0)), torch.Generator().manual_seed(0))
        loss, space = partial(two_view_info_nce, tau=0.5), Sphere(10)
    encoder = Encoder(backbone(100), space)
    optimiser = torch.optim.Adam(parameter_groups(encoder, 1e-3, {OutputSpace: 2e-2}))
    values = []
    for _ in range(15):
        for batch in make_loader(data, 32, workers=0):
            (x, x_tilde), latents = views(batch, CPU)
            assert latents[0].shape == (32, 10)
            value = loss(encoder(x), encoder(x_tilde)).mean()
            optimiser.zero_grad()
            value.backward()
            optimiser.step()
            values.append(value.item())
    assert sum(values[-5:]) / 5 < sum(values[:5]) / 5 - 0.2


def test_hard_negatives_of_a_pair_dataset(path: Path) -> None:
    data = PairDataset(path, sigma=0.1, negative={"cond": "normal", "sigma": 0.5})
    views = pair_views(Pixels(data.mean, data.std), next(iter(make_loader(data, 16, workers=0))), CPU)
    encoder = Encoder(backbone(30), Box(3))
    z, z_tilde, z_minus = map(encoder, views.images)
    value = hard_negatives(z, z_tilde, z_minus[:, None], partial(minus_power, p=2.0))
    assert value.shape == (16,)
    torch.testing.assert_close(
        value, torch.nn.functional.softplus(minus_power(z, z_minus, 2) - minus_power(z, z_tilde, 2))
    )
