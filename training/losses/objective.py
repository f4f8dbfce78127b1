"""What is minimised: a loss by name or import path, with everybody's codes as negatives."""

from collections.abc import Callable, Sequence
from copy import deepcopy
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from ident3d.errors import UserError
from ident3d.training.loop.own_code import by_path, own_code
from ident3d.training.losses.aninfonce import Precision, an_info_nce
from ident3d.training.losses.contrastive import alignment_uniformity, delta_contrastive, info_nce, two_view_info_nce
from ident3d.training.losses.gather import first_row, gather
from ident3d.training.losses.regression import mean_squared_error


class LossSettings(Protocol):
    """What an objective wants to know of a run's settings."""

    @property
    def loss(self) -> str | None: ...
    @property
    def dim(self) -> int | None: ...
    @property
    def space(self) -> str | None: ...
    @property
    def model_p(self) -> float | None: ...
    @property
    def tau(self) -> float: ...
    @property
    def negatives(self) -> str: ...
    @property
    def alpha(self) -> float: ...
    @property
    def seed(self) -> int: ...
    @property
    def supervised(self) -> bool: ...


class Objective(nn.Module):
    """Codes of all views, one after another (views · B, d), and their latents → the mean loss."""

    def __init__(self, settings: LossSettings) -> None:
        super().__init__()
        s = settings
        assert s.loss is not None
        assert s.dim is not None
        self.settings, self.name = settings, s.loss
        self.precision: nn.Module | None = (
            Precision(s.dim, generator=torch.Generator().manual_seed(s.seed)) if s.loss == "aninfonce" else None
        )
        self.own = own_loss(s.loss) if ":" in s.loss else None

    def forward(self, codes: Tensor, latents: Sequence[Tensor]) -> Tensor:
        return self.per_anchor(codes, latents).mean()

    def per_anchor(self, codes: Tensor, latents: Sequence[Tensor]) -> Tensor:
        s = self.settings
        if s.supervised:
            if self.own is not None:
                return self.of_own(codes, codes, latents[0])
            return mean_squared_error(codes, latents[0])
        z, z_tilde = codes.chunk(2)
        own_row = first_row(z) if s.negatives == "others" else None
        if self.name == "infonce":
            return info_nce(z, z_tilde, gather(z), tau=s.tau, first_row=own_row)
        if self.name == "delta":
            return delta_contrastive(z, z_tilde, gather(z), p=s.model_p or 2.0, tau=s.tau, first_row=own_row)
        if self.name == "au":
            return alignment_uniformity(z, z_tilde, gather(z), alpha=s.alpha, p=s.model_p or 2.0)
        joint = gather(z), gather(z_tilde)
        if self.name == "simclr":
            return two_view_info_nce(z, z_tilde, joint, first_row=first_row(z), tau=s.tau)
        if self.precision is not None:
            return an_info_nce(
                z, z_tilde, self.precision(), joint, first_row=first_row(z), normalize=s.space == "sphere"
            )
        return self.of_own(codes, z, z_tilde, joint[0])

    def of_own(self, codes: Tensor, *given: Tensor) -> Tensor:
        """The value of a researcher's own loss, which must depend on the codes."""
        assert self.own is not None
        with own_code("loss", self.name):
            value = checked(self.own(*given), self.name)
        if codes.requires_grad and not value.requires_grad and torch.is_grad_enabled():
            raise UserError(f"The loss {self.name!r} has no gradient: its value does not depend on the codes.")
        return value


def own_loss(path: str) -> Callable[..., Any]:
    """A researcher's own loss: a function (anchors, positives, candidates) → one value per anchor, or such a module.

    In supervised training it is called with (codes, latents).
    """
    found = by_path("loss", path)
    if isinstance(found, type) and issubclass(found, nn.Module):
        with own_code("loss", path):
            found = found()
    elif isinstance(found, nn.Module):
        found = deepcopy(found)  # what it learns is this run's alone
    if not callable(found):
        raise UserError(f"The loss {path!r} is neither a function nor an nn.Module.")
    return found


def checked(value: Any, name: str) -> Tensor:
    if not isinstance(value, Tensor) or value.ndim > 1:
        shape = tuple(value.shape) if isinstance(value, Tensor) else type(value).__name__
        raise UserError(f"The loss {name!r} gives one value per anchor, not {shape}.")
    return value
