"""A projector: the layers between a backbone's features and the codes that a loss compares."""

import re
from itertools import pairwise

from torch import nn

from ident3d.errors import UserError
from ident3d.training.encoders.choice import hidden_widths, is_widths

# What may follow the name of conv or of a ResNet: projector512, or bn-projector8192x2 with batch norm.
NAME = re.compile(r"(bn-)?projector(.*)")


def projector(widths: str, inputs: int, outputs: int, *, batch_norm: bool = False) -> nn.Sequential:
    """Return linear layers with ReLU between them, features → hidden widths → outputs.

    With widths 512 it is SimCLR's. With batch norm behind each hidden layer, and no bias in the last, as the expanders
    of VICReg have it.

    Args:
        widths: The hidden layers, such as "512" or "8192x2".
        inputs: The number of features.
        outputs: The number of outputs.
        batch_norm: Whether batch norm follows each hidden layer.

    Returns:
        A module: features (N, inputs) → (N, outputs).

    Example:
        >>> from ident3d import encoders
        >>> sum(weights.numel() for weights in encoders.projector("512", 512, 256).parameters())
        393984
    """
    if not is_widths(widths):
        raise UserError(f"A projector is named with its hidden widths, such as projector512, not projector{widths}.")
    sizes = [inputs, *hidden_widths(widths, 0)]
    layers: list[nn.Module] = []
    for before, after in pairwise(sizes):
        layers.append(nn.Linear(before, after, bias=not batch_norm))
        layers += [nn.BatchNorm1d(after)] if batch_norm else []
        layers.append(nn.ReLU(inplace=True))
    return nn.Sequential(*layers, nn.Linear(sizes[-1], outputs, bias=not batch_norm))


def split_projector(name: str) -> tuple[str, str, bool]:
    """Return an encoder's name without its projector, the projector's widths ("": none), and if it has batch norm.

    The name is one of ours, such as resnet18+small-stem+projector512.
    """
    kind, *extras = name.split("+")
    found = [NAME.fullmatch(extra) for extra in extras]
    of_projector = [match for match in found if match]
    if len(of_projector) > 1:
        raise UserError(f"{name!r} names several projectors; an encoder has one.")
    rest = "+".join([kind, *(extra for extra, match in zip(extras, found, strict=True) if not match)])
    return (rest, of_projector[0][2] or "none", bool(of_projector[0][1])) if of_projector else (name, "", False)
