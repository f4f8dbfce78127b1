"""The special functions that samplers need, in the namespace of the arrays at hand: SciPy's for NumPy, else its own."""

from types import ModuleType
from typing import Any, TypeAlias

from array_api_compat import array_namespace, device, is_numpy_namespace

Array: TypeAlias = Any  # a NumPy array or a torch tensor: whatever array_api_compat knows


def functions(xp: ModuleType) -> Any:
    """Return a module with erf, erfinv and gammainc for the arrays of this namespace."""
    if not is_numpy_namespace(xp):
        return xp.special
    # Only now: SciPy takes a second and 100 MB of address space, which reading and verifying do not need.
    import scipy.special

    return scipy.special


def constant(value: Any, like: Array) -> Array:
    """Return `value` as an array of the same namespace, dtype and device as `like`."""
    return array_namespace(like).asarray(value, dtype=like.dtype, device=device(like))


def normal_variates(u: Array) -> Array:
    """Return Φ⁻¹(u) = √2 erf⁻¹(2u - 1): normal variates of uniform ones, never 0, so that each has a direction."""
    xp = array_namespace(u)
    t = inside(2 * u - 1)
    return 2**0.5 * functions(xp).erfinv(xp.where(t == 0, constant(xp.finfo(u.dtype).eps, u), t))


def inside(t: Array) -> Array:
    """Return t clipped to the last number before ±1, where quantile functions are still finite."""
    xp = array_namespace(t)
    # This is the largest number below 1 of the type at hand: float32 ends earlier than float64.
    limit = 1 - xp.finfo(t.dtype).eps / 2
    return xp.clip(t, -limit, limit)
