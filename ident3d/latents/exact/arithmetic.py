"""Elementary functions from ``+ - * /`` and square root alone, so that latents agree on every machine.

IEEE 754 fixes the result of those five operations to the last bit; it leaves sine, exponential and their kin to the
maths library, whose answers differ between systems, processors and even between the vector loop of a NumPy function
and its tail. A dataset's latents are promised to be the same bytes everywhere, so whatever lies between the
random integers and a stored latent goes through the functions here. NumPy evaluates one operation per call, so that no
compiler can fuse a multiplication with an addition. Scaling by a power of two (``frexp``, ``ldexp``) and rounding to
whole numbers are exact as well.

All take and return float64 arrays; they agree with the maths library to a few units in the last place.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

Float64 = NDArray[np.float64]

HALF_PI = np.pi / 2
# π/2 and ln 2 as sums of a short number, whose small multiples are exact, and the rest.
HALF_PI_PARTS = (float.fromhex("0x1.921fb544p+0"), float.fromhex("0x1.0b4611a626331p-34"))
LN2_PARTS = (float.fromhex("0x1.62e42fee00000p-1"), float.fromhex("0x1.a39ef35793c76p-33"))
SQRT_2PI = 2.5066282746310002


def polynomial(x: Float64, coefficients: Sequence[float]) -> Float64:
    """Return c[0] + c[1] x + c[2] x² + …, by Horner's rule."""
    # The rule fixes the order of the operations, and with it the last bit.
    total = np.full_like(x, coefficients[-1])
    for c in reversed(coefficients[:-1]):
        total = total * x + c
    return total


def _inverse_factorials(first: int, last: int, step: int, sign: float) -> list[float]:
    """Return 1/first!, sign/(first+step)!, 1/(first+2 step)!, …: quotients of whole numbers, so correctly rounded."""
    values: list[float] = []
    factorial = 1
    for n in range(last + 1):
        factorial *= max(n, 1)
        if n >= first and (n - first) % step == 0:
            values.append(sign ** len(values) / factorial)
    return values


_SIN = _inverse_factorials(1, 19, 2, -1.0)
_COS = _inverse_factorials(0, 18, 2, -1.0)
_EXP = _inverse_factorials(0, 14, 1, 1.0)
_ATANH = [1 / (2 * k + 1) for k in range(12)]
_ATAN = [(-1) ** k / (2 * k + 1) for k in range(15)]


def sin_cos(x: ArrayLike) -> tuple[Float64, Float64]:
    """Return (sin x, cos x) for |x| up to a million."""
    x = np.asarray(x, np.float64)
    quarter = np.rint(x / HALF_PI)
    # Subtracted in two parts: the first product is exact, so the difference keeps its digits.
    r = (x - quarter * HALF_PI_PARTS[0]) - quarter * HALF_PI_PARTS[1]
    sin, cos = r * polynomial(r * r, _SIN), polynomial(r * r, _COS)
    # Which quarter it was decides which series is the sine, and the signs.
    turn = quarter.astype(np.int64) % 4
    odd = turn % 2 == 1
    return (
        np.where(turn >= 2, -1.0, 1.0) * np.where(odd, cos, sin),
        np.where((turn == 1) | (turn == 2), -1.0, 1.0) * np.where(odd, sin, cos),
    )


def exp(x: ArrayLike) -> Float64:
    """Return eˣ for |x| ≤ 700."""
    x = np.asarray(x, np.float64)
    # eˣ = 2ⁿ eʳ with |r| ≤ ln 2 / 2, where the series is short; 2ⁿ is exact.
    doublings = np.rint(x / sum(LN2_PARTS))
    r = (x - doublings * LN2_PARTS[0]) - doublings * LN2_PARTS[1]
    return np.ldexp(polynomial(r, _EXP), doublings.astype(np.int32))


def log(x: ArrayLike) -> Float64:
    """Return ln x for x > 0, from ln m = 2 artanh((m - 1)/(m + 1)) with m between √½ and √2."""
    m, e = np.frexp(np.asarray(x, np.float64))
    low = m < np.sqrt(0.5)
    m, e = np.where(low, 2 * m, m), np.where(low, e - 1, e)
    s: Float64 = (m - 1) / (m + 1)
    return e * LN2_PARTS[0] + (2 * s * polynomial(s * s, _ATANH) + e * LN2_PARTS[1])


def atan2(y: ArrayLike, x: ArrayLike) -> Float64:
    """Return the angle of (x, y) in [-π, π], 0 at the origin."""
    y, x = np.broadcast_arrays(np.asarray(y, np.float64), np.asarray(x, np.float64))
    low, high = np.minimum(np.abs(x), np.abs(y)), np.maximum(np.abs(x), np.abs(y))
    # The smaller over the larger keeps t within 1; at the origin 0/1 gives the angle 0.
    t = low / np.where(high == 0, 1.0, high)
    # arctan t = π/6 + arctan((√3 t - 1)/(√3 + t)) brings t below tan π/12, where the series is short.
    far = t > 2 - np.sqrt(3.0)
    r = np.where(far, (np.sqrt(3.0) * t - 1) / (np.sqrt(3.0) + t), t)
    angle = r * polynomial(r * r, _ATAN) + np.where(far, np.pi / 6, 0.0)
    angle = np.where(np.abs(y) > np.abs(x), HALF_PI - angle, angle)
    angle = np.where(x < 0, np.pi - angle, angle)
    return np.where(y < 0, -angle, angle)


def normal_cdf(x: ArrayLike) -> Float64:
    """Return Φ(x) = P(N(0, 1) ≤ x); small values keep their relative precision (to x = -37)."""
    x = np.asarray(x, np.float64)
    # Just beyond 37 the tail leaves the range of normal float64 numbers.
    z = np.minimum(np.abs(x), 37.0)
    density = exp(-0.5 * z * z) / SQRT_2PI
    # Near the middle Φ(z) = ½ + φ(z) (z + z³/3 + z⁵/15 + …), and beyond 3 Laplace's continued fraction of Mills' ratio.
    near, total = np.minimum(z, 3.0), np.zeros_like(z)
    term, square = near, near * near
    for n in range(1, 55):
        total = total + term
        term = term * square / (2 * n + 1)
    ratio = np.maximum(z, 3.0)
    for n in range(60, 0, -1):
        ratio = np.maximum(z, 3.0) + n / ratio
    upper = np.where(z <= 3.0, 0.5 - density * total, density / ratio)
    return np.where(x > 0, 1 - upper, upper)


# Wichura's algorithm AS 241 (PPND16, Applied Statistics 37, 1988): numerators and denominators of three ranges.
_MIDDLE = (
    (3.3871328727963666080e0, 1.3314166789178437745e2, 1.9715909503065514427e3, 1.3731693765509461125e4,
     4.5921953931549871457e4, 6.7265770927008700853e4, 3.3430575583588128105e4, 2.5090809287301226727e3),
    (1.0, 4.2313330701600911252e1, 6.8718700749205790830e2, 5.3941960214247511077e3,
     2.1213794301586595867e4, 3.9307895800092710610e4, 2.8729085735721942674e4, 5.2264952788528545610e3),
)  # fmt: skip
_TAIL = (
    (1.42343711074968357734e0, 4.63033784615654529590e0, 5.76949722146069140550e0, 3.64784832476320460504e0,
     1.27045825245236838258e0, 2.41780725177450611770e-1, 2.27238449892691845833e-2, 7.74545014278341407640e-4),
    (1.0, 2.05319162663775882187e0, 1.67638483018380384940e0, 6.89767334985100004550e-1,
     1.48103976427480074590e-1, 1.51986665636164571966e-2, 5.47593808499534494600e-4, 1.05075007164441684324e-9),
)  # fmt: skip
_FAR_TAIL = (
    (6.65790464350110377720e0, 5.46378491116411436990e0, 1.78482653991729133580e0, 2.96560571828504891230e-1,
     2.65321895265761230930e-2, 1.24266094738807843860e-3, 2.71155556874348757815e-5, 2.01033439929228813265e-7),
    (1.0, 5.99832206555887937690e-1, 1.36929880922735805310e-1, 1.48753612908506148525e-2,
     7.86869131145613259100e-4, 1.84631831751005468180e-5, 1.42151175831644588870e-7, 2.04426310338993978564e-15),
)  # fmt: skip


def normal_quantile(p: ArrayLike) -> Float64:
    """Return Φ⁻¹(p) for 0 < p < 1."""
    p = np.asarray(p, np.float64)
    q = p - 0.5
    middle = np.abs(q) <= 0.425
    square = np.where(middle, 0.180625 - q * q, 0.0)
    inner = q * polynomial(square, _MIDDLE[0]) / polynomial(square, _MIDDLE[1])
    r = np.sqrt(-log(np.where(middle, 0.5, np.minimum(p, 1 - p))))
    # Clamped to its own range, each quotient stays finite where the other one is chosen.
    near, far = np.minimum(r, 5.0) - 1.6, np.maximum(r, 5.0) - 5.0
    outer = np.where(
        r <= 5.0,
        polynomial(near, _TAIL[0]) / polynomial(near, _TAIL[1]),
        polynomial(far, _FAR_TAIL[0]) / polynomial(far, _FAR_TAIL[1]),
    )
    return np.where(middle, inner, np.where(q < 0, -outer, outer))
