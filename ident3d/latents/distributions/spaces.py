"""Where latents live: a box, the unit sphere, the whole of R^d, and products of these."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from ident3d.errors import UserError, unknown


@dataclass(frozen=True)
class Box:
    """[low, high]^dim."""

    dim: int
    low: float = -1.0
    high: float = 1.0

    def __post_init__(self) -> None:
        _check_dim(self.dim, 1)
        if not self.low < self.high:
            raise UserError(
                f"A box reaches from its lower to its higher bound, not from {self.low:g} to {self.high:g}."
            )

    @property
    def centre(self) -> tuple[float, ...]:
        return ((self.low + self.high) / 2,) * self.dim


@dataclass(frozen=True)
class Sphere:
    """The unit sphere S^(dim-1) in R^dim."""

    dim: int

    def __post_init__(self) -> None:
        _check_dim(self.dim, 2)

    @property
    def centre(self) -> tuple[float, ...]:
        """The pole that marginals are drawn around."""
        return (1.0,) + (0.0,) * (self.dim - 1)


@dataclass(frozen=True)
class Unbounded:
    """R^dim."""

    dim: int

    def __post_init__(self) -> None:
        _check_dim(self.dim, 1)

    @property
    def centre(self) -> tuple[float, ...]:
        return (0.0,) * self.dim


@dataclass(frozen=True)
class Product:
    """The product of several spaces, their coordinates one after another."""

    parts: tuple["Box | Sphere | Unbounded", ...]

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


Factor: TypeAlias = Box | Sphere | Unbounded
Space: TypeAlias = Factor | Product


def space(name: str, dim: int | Sequence[int]) -> Space:
    """A space by name: "box", "sphere", "unbounded", or a product such as "box*sphere" with a dim for each factor."""
    kinds = {"box": Box, "sphere": Sphere, "unbounded": Unbounded}
    factors = name.split("*")
    dims = [dim] if isinstance(dim, int) else list(dim)
    for factor in factors:
        if factor not in kinds:
            raise unknown("latent space", factor, kinds)
    if len(dims) != len(factors):
        raise UserError(
            f"The space {name} has {len(factors)} factors, so it takes as many dimensions, not {len(dims)}."
        )
    made = [kinds[factor](d) for factor, d in zip(factors, dims, strict=True)]
    return made[0] if len(made) == 1 else Product(tuple(made))


def _check_dim(dim: int, least: int) -> None:
    if dim < least:
        raise UserError(f"This space has at least {least} dimension{'s' * (least > 1)}, not {dim}.")
