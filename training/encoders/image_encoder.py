"""Encoders f: a backbone with 10·d outputs, LeakyReLU, a linear layer to d, and an output space."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from ident3d.errors import UserError
from ident3d.training.encoders.autoencoders import NETS, pixel_perceptron
from ident3d.training.encoders.choice import check_image_encoder, is_widths
from ident3d.training.encoders.conv import UNITS, conv_net
from ident3d.training.encoders.output_spaces import OutputSpace
from ident3d.training.encoders.own_encoder import gives_codes
from ident3d.training.encoders.projector import projector, split_projector
from ident3d.training.encoders.resnet import STAGES, ResNet, resnet
from ident3d.training.loop.dtype import wide
from ident3d.training.losses.choice import DECODED_SIZE
from ident3d.training.own.own_code import own_code, own_module
from ident3d.training.own.own_object import own_name

# Name → the number of layers.
RESNETS = {f"resnet{layers}": layers for layers in STAGES}
# What may follow a ResNet's name.
FLAT, SMALL_STEM = "flat", "small-stem"
FEATURES_PER_CODE = 10


class Encoder(nn.Module):
    """f(x) = space(W LeakyReLU(backbone(x)) + b): images (N, C, H, W) → codes (N, d).

    Under autocast the backbone computes in 16 bits, the head and the space in float32. `name` is the backbone's.
    Without `head` the backbone gives the raw outputs itself: f(x) = space(backbone(x)). With a `projector` of so many
    `features` it is the head: f(x) = space(projector(backbone(x))).
    """

    def __init__(
        self,
        backbone: nn.Module,
        space: OutputSpace,
        name: str = "resnet18",
        *,
        head: bool = True,
        projector: nn.Module | None = None,
        features: int | None = None,
    ) -> None:
        super().__init__()
        self.name = name
        self.backbone = backbone
        self.features = features or (FEATURES_PER_CODE * space.dim if head else space.inputs)
        usual = nn.Sequential(nn.LeakyReLU(), nn.Linear(self.features, space.inputs)) if head else nn.Identity()
        self.head: nn.Module = usual if projector is None else projector
        self.projected = projector is not None
        self.space = space

    def forward(self, images: Tensor) -> Tensor:
        if ":" in self.name:
            with own_code("encoder", self.name):
                features = self.backbone(images)
        else:
            features = self.backbone(images)
        # A user's own backbone may return anything; a wrong shape would fail much later, in the head or the loss.
        shape = tuple(features.shape) if isinstance(features, Tensor) else type(features).__name__
        if shape != (len(images), self.features):
            raise UserError(
                f"The encoder's backbone gives features of shape {shape} where ({len(images)}, {self.features}) are "
                f"needed: {FEATURES_PER_CODE} for each of {self.space.dim} codes, or the {self.space.inputs} outputs "
                "of a whole encoder."
            )
        # In 16 bits, codes would be rounded before the loss compares them.
        with torch.autocast(features.device.type, enabled=False):
            codes: Tensor = self.space(self.head(wide(features)))
        return codes


def encoder(
    name: str | Callable[..., Any], space: OutputSpace, *, size: int | None = None, channels: int = 3
) -> Encoder:
    """Return an encoder into `space`, by name, or a user's own, itself or as "package.module:name".

    Names are conv, resnet18, 34 and 50, and higgins and locatello: whole encoders of the papers for images of 64
    pixels in [0, 1], which no layer follows; hidden widths such as 512x2 are a perceptron on all pixels. A ResNet takes
    options: with "+flat" its last features are flattened and not averaged, with "+small-stem" it begins with a 3×3
    convolution that keeps the image's size, as in "resnet18+small-stem+flat". With "+projector512", conv's too, codes
    come of a projector with this hidden width behind the features; "+bn-projector8192x2" has batch norm. A user's own
    is a class or function that is called with the number of outputs, 10·d, or an nn.Module that has as many: a
    backbone. If `size` is given, it may have d outputs as well (2d for a `Posterior`): a whole encoder, which no layer
    follows.

    Args:
        name: The backbone's name, or a user's own.
        space: The output space, of d dimensions.
        size: The width of the images; conv and "+flat" take no other, higgins and locatello only 64.
        channels: Channels C of the images: 1 (grey) or 3. A user's own backbone gets them as they come.

    Returns:
        An `Encoder`: images (N, C, H, W) → codes (N, d).

    Example:
        >>> import torch
        >>> from ident3d import encoders
        >>> f = encoders.encoder("resnet18", encoders.output_space("sphere", 5))
        >>> f(torch.zeros(2, 3, 64, 64)).shape
        torch.Size([2, 5])
    """
    name, outputs = own_name(name), FEATURES_PER_CODE * space.dim
    if ":" in name:
        own = own_module("encoder", name, outputs=outputs)
        return Encoder(own, space, name, head=size is None or not gives_codes(own, space.inputs, size, channels))
    if is_widths(name):
        if size is None:
            raise UserError(f"The encoder {name} is made for images of one width: give its `size`.")
        return Encoder(pixel_perceptron(name, space.inputs, size, channels), space, name, head=False)
    if name in NETS:
        if size not in (None, DECODED_SIZE):
            raise UserError(f"The encoder {name} takes images of {DECODED_SIZE} pixels, not {size}; see --size.")
        return Encoder(NETS[name](space.inputs, channels), space, name, head=False)
    plain, widths, batch_norm = split_projector(name)
    if widths:
        net = backbone(plain, None, size, channels)
        features = net.width if isinstance(net, ResNet) else UNITS
        behind = projector(widths, features, space.inputs, batch_norm=batch_norm)
        return Encoder(net, space, name, head=False, projector=behind, features=features)
    return Encoder(backbone(name, outputs, size, channels), space, name)


def backbone(name: str, outputs: int | None, size: int | None, channels: int = 3) -> nn.Module:
    """Return a backbone of ours by name; without `outputs` it gives its features."""
    kind, *extras = name.split("+")
    check_image_encoder(kind)
    if kind not in RESNETS and extras:
        raise UserError(f"The encoder {kind} has no options but a projector; those of {name!r} are for ResNets.")
    if bad := [extra for k, extra in enumerate(extras) if extra not in (FLAT, SMALL_STEM) or extra in extras[:k]]:
        raise UserError(
            f"{name!r}: a ResNet's options are +{FLAT}, +{SMALL_STEM} and a +projector512, each once, not {bad[0]!r}."
        )
    if size is None and (kind == "conv" or FLAT in extras):
        raise UserError(f"The encoder {name} is made for images of one width: give its `size`.")
    if kind == "conv":
        return conv_net(outputs, size or 0, channels)
    flat = size if FLAT in extras else None
    return resnet(RESNETS[kind], outputs, flat=flat, small_stem=SMALL_STEM in extras, channels=channels)


def parameter_groups(
    module: nn.Module, lr: float, own: Mapping[type[nn.Module], float] | None = None
) -> list[dict[str, Any]]:
    """Return the optimiser's groups: `module` is trained at `lr`, or inside modules of a type in `own` at that rate.

    `parameter_groups(encoder, 1e-4, {OutputSpace: 2e-3})` lets a learnable bound move twenty times as fast.

    Args:
        module: An encoder or a loss.
        lr: The learning rate of all that `own` does not name.
        own: Type of a module inside → its learning rate.

    Returns:
        Groups for a PyTorch optimiser.

    Example:
        >>> import torch
        >>> from ident3d import encoders
        >>> f = encoders.perceptron("32x2", 10, encoders.Box(5))
        >>> [group["lr"] for group in encoders.parameter_groups(f, 1e-4, {encoders.OutputSpace: 2e-3})]
        [0.0001, 0.002]
    """
    rates = {
        parameter: rate
        for kind, rate in (own or {}).items()
        for part in module.modules()
        if isinstance(part, kind)
        for parameter in part.parameters()
    }
    # One group for each rate, whatever it is for: Adam's fused step is made once a group.
    groups: dict[float, list[nn.Parameter]] = {lr: []}
    for parameter in module.parameters():
        if parameter.requires_grad:
            groups.setdefault(rates.get(parameter, lr), []).append(parameter)
    return [{"params": parameters, "lr": rate} for rate, parameters in groups.items() if parameters]
