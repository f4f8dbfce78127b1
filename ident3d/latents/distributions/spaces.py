"""Where latents live: a box, circles, the unit sphere, the whole of R^d, and products of these."""

from dataclasses import dataclass
from typing import ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ident3d.errors import UserError


@dataclass(frozen=True)
class _Coordinates:
    """So many coordinates around 0."""

    dim: int
    least: ClassVar[int] = 1

    def __post_init__(self) -> None:
        if self.dim < self.least:
            raise UserError(f"This space has at least {self.least} dimension{'s' * (self.least > 1)}, not {self.dim}.")

    @property
    def centre(self) -> tuple[float, ...]:
        """The point that marginals are drawn around."""
        return (0.0,) * self.dim


@dataclass(frozen=True)
class Box(_Coordinates):
    """[low, high]^dim.

    Args:
        dim: The number of dimensions, at least 1.
        low: The lower bound of every dimension.
        high: The upper bound of every dimension.

    Example:
        >>> from ident3d import latents
        >>> latents.Box(2, 0, 1).centre
        (0.5, 0.5)
    """

    low: float = -1.0
    high: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.low < self.high:
            raise UserError(
                f"A box reaches from its lower to its higher bound, not from {self.low:g} to {self.high:g}."
            )

    @property
    def centre(self) -> tuple[float, ...]:
        return ((self.low + self.high) / 2,) * self.dim


@dataclass(frozen=True)
class Circle(_Coordinates):
    """[-1, 1)^dim, in which each coordinate goes round: 1 is -1 again.

    Args:
        dim: The number of coordinates, at least 1.

    Example:
        >>> from ident3d import latents
        >>> latents.Circle(2).centre
        (0.0, 0.0)
    """

    low: ClassVar[float] = -1.0
    high: ClassVar[float] = 1.0


@dataclass(frozen=True)
class Sphere(_Coordinates):
    """The unit sphere S^(dim-1) in R^dim.

    Args:
        dim: The number of coordinates, at least 2.

    Example:
        >>> from ident3d import latents
        >>> latents.Sphere(3).centre
        (1.0, 0.0, 0.0)
    """

    least: ClassVar[int] = 2

    @property
    def centre(self) -> tuple[float, ...]:
        """The pole that marginals are drawn around."""
        return (1.0,) + (0.0,) * (self.dim - 1)


@dataclass(frozen=True)
class Unbounded(_Coordinates):
    """R^dim.

    Args:
        dim: The number of dimensions, at least 1.

    Example:
        >>> from ident3d import latents
        >>> latents.Unbounded(2).centre
        (0.0, 0.0)
    """


@dataclass(frozen=True)
class Product:
    """The product of several spaces, their coordinates one after another.

    Args:
        parts: The factors.

    Example:
        >>> from ident3d import latents
        >>> latents.Product((latents.Box(3), latents.Sphere(8))).dim
        11
    """

    parts: tuple["Box | Circle | Sphere | Unbounded", ...]

    @property
    def dim(self) -> int:
        return sum(part.dim for part in self.parts)

    @property
    def centre(self) -> tuple[float, ...]:
        return tuple(c for part in self.parts for c in part.centre)

    @property
    def slices(self) -> list[slice]:
        """Each part's coordinates."""
        ends = [sum(part.dim for part in self.parts[: i + 1]) for i in range(len(self.parts))]
        return [slice(end - part.dim, end) for part, end in zip(self.parts, ends, strict=True)]


Part: TypeAlias = Box | Circle | Sphere | Unbounded
Space: TypeAlias = Part | Product


def parts_of(space: Space) -> tuple[Part, ...]:
    """Return the factors of a product; of any other space itself."""
    return space.parts if isinstance(space, Product) else (space,)


def goes_round(space: Space) -> NDArray[np.bool_]:
    """Return which coordinates of a space are circles, (dim,)."""
    return np.concatenate([np.full(part.dim, isinstance(part, Circle)) for part in parts_of(space)])


def distance(space: Space, a: NDArray[np.float64], b: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return |a - b| of each coordinate (n, dim), on circles the shorter way round."""
    apart = np.abs(a - b)
    turn = Circle.high - Circle.low
    return np.where(goes_round(space), np.minimum(apart, turn - apart), apart)
