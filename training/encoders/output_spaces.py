"""Output spaces: where an encoder's codes may lie. The last layer of every encoder, named as in the papers' tables."""

from collections.abc import Sequence
from math import isfinite

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from ident3d.errors import UserError, check_known
from ident3d.training.encoders.choice import SPACES
from ident3d.training.loop.dtype import wide


class OutputSpace(nn.Module):
    """Maps raw outputs (N, inputs) to codes (N, dim) of the space, in float32 or wider; `inputs` is mostly `dim`."""

    def __init__(self, dim: int, least: int = 1) -> None:
        super().__init__()
        if dim < least:
            raise UserError(f"A {type(self).__name__.lower()} has at least {least} dimensions, not {dim}.")
        self.dim = self.inputs = dim


class Unbounded(OutputSpace):
    """R^dim: the identity.

    Args:
        dim: The number of codes d.
    """

    def forward(self, x: Tensor) -> Tensor:
        return wide(x)


class Posterior(OutputSpace):
    """Normal posteriors q(z|x) = N(μ, diag σ²) on R^dim, of raw outputs (N, 2 dim): first the μ, then the log σ².

    Training mode gives both, (N, 2 dim), as a variational loss needs them. Evaluation mode gives the means (N, dim):
    the codes.

    Args:
        dim: The number of codes d.
    """

    def __init__(self, dim: int) -> None:
        super().__init__(dim)
        self.inputs = 2 * dim

    def forward(self, x: Tensor) -> Tensor:
        return wide(x) if self.training else wide(x)[:, : self.dim]


class Box(OutputSpace):
    """[0, b_1] × … × [0, b_dim]: b sigmoid(x), with b = `bound` for each dimension, fixed or learnable.

    An L_δ loss at τ = 1 wants the box as wide, in units of its own kernel, as the data are in units of the conditional:
    2/(σ√2) for p = 2 and a normal conditional of width σ on [-1, 1]. A short run starts near that, because a bound
    moves by no more than the learning rate in each of Adam's steps.

    Args:
        dim: The number of codes d.
        bound: Where the bounds start, one number or d of them.
        learnable: Whether they are trained.
    """

    def __init__(self, dim: int, bound: float | Sequence[float] = 1.0, *, learnable: bool = True) -> None:
        super().__init__(dim)
        bounds = [float(bound)] * dim if isinstance(bound, int | float) else [float(b) for b in bound]
        if len(bounds) != dim:
            raise UserError(f"A box of {dim} dimensions has as many bounds, not {len(bounds)}.")
        self.bound = nn.Parameter(_positive("bound", bounds), requires_grad=learnable)

    def forward(self, x: Tensor) -> Tensor:
        return self.bound * torch.sigmoid(wide(x))

    def widths(self) -> Tensor:
        """Return the box's extent in each dimension (dim,)."""
        # Nothing keeps a learnt bound above 0. Below, it mirrors the box, which identifies as well.
        return self.bound.detach().abs()


class Sphere(OutputSpace):
    """The sphere of radius r around the origin of R^dim: r x/|x|, r fixed or learnable.

    Args:
        dim: The number of codes d, at least 2.
        radius: Where the radius starts.
        learnable: Whether it is trained.
    """

    def __init__(self, dim: int, radius: float = 1.0, *, learnable: bool = False) -> None:
        super().__init__(dim, least=2)
        self.radius = nn.Parameter(_positive("radius", [radius])[0], requires_grad=learnable)

    def forward(self, x: Tensor) -> Tensor:
        # Normalised in float32: in 16 bits the lengths would differ by tenths of a percent.
        return self.radius * normalize(wide(x), dim=1)


class Product(OutputSpace):
    """The product of several spaces, their coordinates one after another.

    Args:
        factors: The spaces.
    """

    def __init__(self, *factors: OutputSpace) -> None:
        super().__init__(sum(factor.dim for factor in factors))
        self.factors = nn.ModuleList(factors)
        self.dims = [factor.dim for factor in factors]

    def forward(self, x: Tensor) -> Tensor:
        # Factors take their coordinates in order, as the latents of the periodic variant are stored.
        parts = torch.split(x, self.dims, dim=1)
        return torch.cat([factor(part) for factor, part in zip(self.factors, parts, strict=True)], dim=1)


def output_space(
    name: str,
    dim: int | Sequence[int],
    *,
    bound: float | Sequence[float] = 1.0,
    radius: float = 1.0,
    learnable: bool | None = None,
) -> OutputSpace:
    """Return a space by name: box, sphere, unbounded, or a product such as "box*sphere" with a dim for each factor.

    `bound` is where each box starts and `radius` each sphere; `learnable` says whether they are trained, by default
    boxes are and spheres are not. A sequence of bounds is shared out among a product's boxes in order.

    Args:
        name: box, sphere, unbounded, or a product such as "box*sphere".
        dim: The number of codes, or on a product one for each factor.
        bound: Where boxes start, one number or one per dimension.
        radius: Where spheres start.
        learnable: Whether bounds and radii are trained; by default bounds are.

    Returns:
        An `OutputSpace`: raw outputs (N, d) → codes (N, d).

    Example:
        >>> import torch
        >>> from ident3d import encoders
        >>> encoders.output_space("box*sphere", [1, 2], bound=4.0)(torch.tensor([[0.0, 3.0, 4.0]])).tolist()
        [[2.0, 0.6000000238418579, 0.800000011920929]]
    """
    kinds = name.split("*")
    dims = [dim] if isinstance(dim, int) else list(dim)
    for kind in kinds:
        check_known("output space", kind, SPACES)
    if len(dims) != len(kinds):
        raise UserError(f"The space {name} has {len(kinds)} factors, so it takes as many dimensions, not {len(dims)}.")
    in_boxes = sum(d for kind, d in zip(kinds, dims, strict=True) if kind == "box")
    bounds = [bound] * in_boxes if isinstance(bound, int | float) else list(bound)
    if len(bounds) != in_boxes:
        raise UserError(
            f"The space {name} has {in_boxes} bounded dimensions and takes as many bounds, not {len(bounds)}."
        )
    # Bounds go to the boxes in order, each taking as many as it has dimensions.
    factors: list[OutputSpace] = []
    for kind, d in zip(kinds, dims, strict=True):
        if kind == "box":
            own, bounds = bounds[:d], bounds[d:]
            factors.append(Box(d, own, learnable=learnable is not False))
        elif kind == "sphere":
            factors.append(Sphere(d, radius, learnable=learnable is True))
        else:
            factors.append(Unbounded(d))
    return factors[0] if len(factors) == 1 else Product(*factors)


def _positive(what: str, values: Sequence[float]) -> Tensor:
    if not all(isfinite(value) and value > 0 for value in values):
        raise UserError(f"A {what} is a number above 0, not {', '.join(f'{value:g}' for value in values)}.")
    return torch.tensor(values)
