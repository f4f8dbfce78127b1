"""A mixing that makes images: the decoder of an autoencoder's run, with latents on the sphere, as in VAE-MNIST."""

from dataclasses import dataclass
from math import sqrt
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ident3d.errors import UserError
from ident3d.latents.distributions.by_name import conditional, marginal, uniforms
from ident3d.latents.distributions.spaces import Sphere
from ident3d.loaders.cards.contact_sheet import contact_sheet, save_picture
from ident3d.loaders.datasets.image_dataset import ImageDataset
from ident3d.loaders.folders.folder import is_dataset
from ident3d.loaders.format.files import sha256
from ident3d.training.encoders.autoencoders import decoder
from ident3d.training.encoders.choice import usual_decoder
from ident3d.training.loop import checkpoint
from ident3d.training.loop.run_folder import IMAGES_RUN, record_of
from ident3d.training.losses.autoencoder import Autoencoder
from ident3d.training.losses.choice import VARIATIONAL
from ident3d.training.mixing.settings import DECODER

# The precisions whose pairs are shown, anchors, and positives of each.
SHOWN_LAMBDAS: Final = (5.0, 15.0, 50.0, 200.0)
ANCHORS, POSITIVES = 3, 5
SAMPLES_FILE: Final = "conditional-samples.png"


class DecodedImages(nn.Module):
    """x = sigmoid(decoder(√d z)), one row of C·S·S pixels in [0, 1] for each latent z of the unit sphere in R^d.

    √d is about as long as a code of the prior N(0, I) is, so that the decoder is used where it was trained.
    """

    def __init__(self, net: nn.Module, dim: int, source: "DecoderSource") -> None:
        super().__init__()
        self.net, self.scale, self.source = net, sqrt(dim), source

    def forward(self, z: Tensor) -> Tensor:
        """Return pixels (N, C·S·S) of latents (N, d)."""
        pixels: Tensor = self.net(self.scale * z).sigmoid().flatten(1)
        return pixels


@dataclass(frozen=True)
class DecoderSource:
    """The run that a decoder comes from: its folder, the shape (C, S, S) of its images, their folder and digest."""

    run: Path
    shape: tuple[int, int, int]
    data: Path
    images_sha256: str


def decoded_images(path: Path, dim: int) -> DecodedImages:
    """Return the decoder of an autoencoder's run, trained as its checkpoint has it, as a mixing of `dim` latents."""
    with record_of(path, IMAGES_RUN) as content:
        settings, channels = content["settings"], len(content["pixels"]["mean"])
        loss, encoder, codes, size = (settings[name] for name in ("loss", "encoder", "dim", "size"))
        data, digest = Path(content["data"]["path"]), str(content["data"]["shards_sha256"])
        if not (isinstance(encoder, str) and isinstance(size, int) and isinstance(codes, int)):
            raise TypeError("its settings are of a wrong kind")
    if loss not in VARIATIONAL:
        raise UserError(f"{path} has no decoder: its loss is {loss}; take a run of --loss {', '.join(VARIATIONAL)}.")
    if codes != dim:
        raise UserError(f"The decoder of {path} takes {codes} latents, not {dim}: give --dim {codes}.")
    # The weights that are drawn here are replaced by the trained ones, and no draw of the caller's is shifted.
    with torch.random.fork_rng(devices=()):
        net = decoder(usual_decoder(encoder), codes, channels, size)
    trained = Autoencoder(loss, net, beta=0.0)
    checkpoint.restore(trained, checkpoint.load(path).part(checkpoint.OBJECTIVE), f"decoder of {encoder}")
    return DecodedImages(net, dim, DecoderSource(path, (channels, size, size), data, digest))


def weights_sha256(module: nn.Module) -> str:
    """Return the sha256 of a module's weights, in the order of their names."""
    state = sorted(module.state_dict().items())
    return sha256(b"".join(name.encode() + value.cpu().contiguous().numpy().tobytes() for name, value in state))


def decoder_named(name: str, dim: int) -> DecodedImages:
    """Return the mixing that decoder:RUN names."""
    return decoded_images(Path(name.removeprefix(DECODER)), dim)


def real_images(source: DecoderSource) -> tuple[ImageDataset, ImageDataset] | None:
    """Return the images that the autoencoder was trained on and the test set beside them, if both have classes."""
    folders = source.data, source.data.parent / "test"
    if not all(is_dataset(folder) for folder in folders):
        return None
    train, test = (ImageDataset(folder) for folder in folders)
    fits = all((images.shape[2], images.size) == source.shape[:2] for images in (train, test))
    have_classes = all(images.all_latents()[1] is not None for images in (train, test))
    return (train, test) if fits and have_classes else None


def rows_of(images: ImageDataset, first: int, count: int) -> Tensor:
    """Return stored images as a decoder gives them: pixels (count, C·S·S) in [0, 1]."""
    pixels = images.images(np.arange(first, min(first + count, len(images))))
    return torch.from_numpy(pixels.transpose(0, 3, 1, 2).reshape(len(pixels), -1).astype(np.float32) / 255)


@torch.no_grad()
def conditional_samples(generator: DecodedImages, dim: int, seed: int = 0) -> NDArray[np.uint8]:
    """Return decoded anchors with positives behind each (Λ, anchor, 1 + positive, S, S, C), the same anchors for all Λ.

    All latents of a pair have the same Λ: one of `SHOWN_LAMBDAS` after another.
    """
    rows = []
    for precision in SHOWN_LAMBDAS:
        uniform = uniforms(torch.Generator().manual_seed(seed), torch.empty(0))
        z = marginal("uniform", Sphere(dim)).sample(ANCHORS, uniform)
        positives = conditional("rejected_normal", Sphere(dim), precision=[precision] * dim).sample(
            z.repeat_interleave(POSITIVES, 0), uniform
        )
        rows.append(torch.cat([z[:, None], positives.view(ANCHORS, POSITIVES, dim)], 1))
    codes = torch.stack(rows)
    device = next(generator.parameters()).device
    pixels = generator(codes.reshape(-1, dim).to(device)).cpu().view(-1, *generator.source.shape)
    images: NDArray[Any] = (255 * pixels).round().byte().permute(0, 2, 3, 1).numpy()
    return images.reshape(*codes.shape[:3], *images.shape[1:])


def save_samples(generator: DecodedImages, dim: int, path: Path) -> None:
    """Save a picture of pairs: a row for each Λ, in it several anchors, each with its positives behind it."""
    shown = conditional_samples(generator, dim)
    columns = [title for _ in range(ANCHORS) for title in ("anchor", *["positive"] * POSITIVES)]
    titles = [f"Λ = {precision:g}" for precision in SHOWN_LAMBDAS]
    images = shown.reshape(-1, *shown.shape[3:])
    save_picture(contact_sheet(list(images), len(columns), column_titles=columns, row_titles=titles), path)
