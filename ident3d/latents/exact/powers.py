"""Exponential, hyperbolic tangent and powers to the last digit, from ``+ - * /`` and scaling by powers of two alone.

Between input and result every number is an unevaluated sum of two float64 numbers (a `Double`), about 32 digits. The
one rounding at the end therefore hardly ever differs from that of the true value, and a larger argument never gives a
smaller result. The products and sums are Dekker's and Knuth's (Dekker, "A floating-point technique for extending the
available precision", Numerische Mathematik 18, 1971): they give the rounding error of an operation exactly.
"""

from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ident3d.latents.exact.arithmetic import Float64, log, polynomial

# ln 2 in three parts. Whole multiples up to 2¹¹ of the first two are exact.
LN2 = tuple(map(float.fromhex, ("0x1.62e42fefa38p-1", "0x1.ef35793c768p-45", "0x1.cc01f97b57a08p-87")))
# e^-745.13 is the smallest number that is not 0, e^709.78 the largest.
EXP_RANGE = (-746.0, 709.0)
# Powers of x up to this need all 32 digits; the rest of the series is too small for it to matter.
PRECISE = 8


class Double(NamedTuple):
    """The number high + low, where low is at most half of high's last digit."""

    high: Float64
    low: Float64


def _sum(a: Float64, b: Float64) -> Double:
    """Return a + b without error."""
    total = a + b
    shared = total - a
    return Double(total, (a - (total - shared)) + (b - shared))


def _product(a: Float64, b: Float64) -> Double:
    """Return a · b without error, for numbers below 10³⁰⁰."""
    total = a * b
    (a1, a2), (b1, b2) = _halves(a), _halves(b)
    return Double(total, ((a1 * b1 - total) + a1 * b2 + a2 * b1) + a2 * b2)


def _halves(a: Float64) -> tuple[Float64, Float64]:
    """Return a as a sum of two numbers of 26 digits, whose products are exact."""
    spread = 134217729.0 * a
    high = spread - (spread - a)
    return high, a - high


def _add(a: Double, b: Double) -> Double:
    high, low = _sum(a.high, b.high)
    return Double(*_sum(high, low + (a.low + b.low)))


def _multiply(a: Double, b: Double) -> Double:
    high, low = _product(a.high, b.high)
    return Double(*_sum(high, low + (a.high * b.low + a.low * b.high)))


def _divide(a: Double, b: Double) -> Double:
    first = a.high / b.high
    # What the first quotient leaves of a gives its error.
    product = _multiply(Double(first, np.zeros_like(first)), b)
    rest = _add(a, Double(-product.high, -product.low))
    return Double(*_sum(first, rest.high / b.high))


def _double(value: Fraction) -> Double:
    high = float(value)
    return Double(np.asarray(high), np.asarray(float(value - Fraction(high))))


def _factorial_series(last: int) -> list[Fraction]:
    """Return 1/1!, 1/2!, …, 1/last!."""
    values = [Fraction(1)]
    for n in range(2, last + 1):
        values.append(values[-1] / n)
    return values


_SERIES = _factorial_series(24)
_FIRST = [_double(value) for value in _SERIES[:PRECISE]]
_REST = [float(value) for value in _SERIES[PRECISE:]]


def _exponential(x: Double) -> tuple[Float64, Double]:
    """Return n and t with e^x = 2ⁿ (1 + t), -0.3 < t < 0.42; t keeps its digits when it is small."""
    doublings = np.rint(x.high / LN2[0])
    # The first difference is exact, because both numbers are close; the second is kept with its error.
    r = _sum(x.high - doublings * LN2[0], -doublings * LN2[1])
    r = Double(*_sum(r.high, r.low + (x.low - doublings * LN2[2])))
    total = Double(polynomial(r.high, _REST), np.zeros_like(r.high))
    for coefficient in reversed(_FIRST):
        total = _add(_multiply(total, r), coefficient)
    return doublings, _multiply(total, r)


def _scaled(x: Double) -> Float64:
    """Return e^x, for x within EXP_RANGE."""
    doublings, t = _exponential(x)
    whole = _add(Double(np.ones_like(t.high), np.zeros_like(t.high)), t)
    return np.ldexp(whole.high, doublings.astype(np.int32))


def exponential(x: ArrayLike) -> Float64:
    """Return eˣ for x up to 709; below -746 it is 0."""
    inside = np.clip(np.asarray(x, np.float64), *EXP_RANGE)
    return _scaled(Double(inside, np.zeros_like(inside)))


def tanh(x: ArrayLike) -> Float64:
    """Return tanh x = (1 - e^-2|x|) / (1 + e^-2|x|), with the sign of x."""
    x = np.asarray(x, np.float64)
    # From 22 on the result is 1 to the last digit.
    argument = -2 * np.minimum(np.abs(x), 22.0)
    doublings, t = _exponential(Double(argument, np.zeros_like(argument)))
    scale = np.ldexp(np.ones_like(argument), doublings.astype(np.int32))
    less_one = _add(_sum(scale, -np.ones_like(scale)), Double(scale * t.high, scale * t.low))
    quotient = _divide(less_one, _add(less_one, Double(np.full_like(scale, 2.0), np.zeros_like(scale))))
    # 0 takes no sign from the quotient, so that its bits are the same on every machine.
    return np.where(x > 0, -quotient.high, np.where(x < 0, quotient.high, 0.0))


def power(x: ArrayLike, exponent: float) -> Float64:
    """Return x to a fixed exponent, for x ≥ 0, or for any x if the exponent is whole; 0 to the exponent 0 is 1.

    The result must lie between 10⁻³⁰⁰ and 10³⁰⁰, or be 0.
    """
    x = np.asarray(x, np.float64)
    size = np.where(x == 0, 1.0, np.abs(x))
    # Newton's step mends the logarithm: ln x = l + ln(x e^-l), where x e^-l is 1 up to the error of l.
    guess = log(size)
    doublings, t = _exponential(Double(-guess, np.zeros_like(guess)))
    scaled = np.ldexp(size, doublings.astype(np.int32))
    error = _add(_sum(scaled, -np.ones_like(size)), _multiply(Double(scaled, np.zeros_like(size)), t))
    logarithm = _sum(guess, error.high - error.high * error.high / 2)
    result = _scaled(_multiply(logarithm, Double(np.full_like(size, exponent), np.zeros_like(size))))
    result = np.where(x == 0, 1.0 if exponent == 0 else 0.0, result)
    return np.where((x < 0) & (exponent % 2 == 1), -result, result)
