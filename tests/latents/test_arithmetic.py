"""The exact functions against the maths library, and bit patterns that every machine must reproduce."""

import hashlib

import numpy as np
import pytest
from scipy import special

from ident3d.latents.exact import arithmetic

GRID = np.arange(-100_000, 100_001) / 100_000


@pytest.mark.parametrize("scale", [1.0, 4.0, 1e6])
def test_sin_cos(scale: float) -> None:
    x = GRID * scale
    sin, cos = arithmetic.sin_cos(x)
    np.testing.assert_allclose(sin, np.sin(x), rtol=0, atol=3e-16)
    np.testing.assert_allclose(cos, np.cos(x), rtol=0, atol=3e-16)


def test_exp_and_log() -> None:
    np.testing.assert_allclose(arithmetic.exp(700 * GRID), np.exp(700 * GRID), rtol=1e-15)
    positive = np.exp(700 * GRID)
    np.testing.assert_allclose(arithmetic.log(positive), np.log(positive), rtol=1e-15, atol=1e-300)


def test_atan2() -> None:
    turn = np.pi * GRID
    y, x = np.sin(turn), np.cos(turn)
    np.testing.assert_allclose(arithmetic.atan2(y, x), np.arctan2(y, x), rtol=0, atol=1e-15)
    np.testing.assert_array_equal(arithmetic.atan2([0, 0, 1, -1], [0, -1, 0, 0]), [0, np.pi, np.pi / 2, -np.pi / 2])


def test_normal_cdf_and_quantile() -> None:
    x = np.linspace(-37, 9, 200_001)
    np.testing.assert_allclose(arithmetic.normal_cdf(x), special.ndtr(x), rtol=1e-12)
    p = special.ndtr(np.linspace(-37, 8, 200_001))
    np.testing.assert_allclose(arithmetic.normal_quantile(p), special.ndtri(p), rtol=0, atol=1e-13)


def test_every_machine_gets_these_bytes() -> None:
    """Recorded once; a machine on which this fails would break the promise that latents agree everywhere."""
    parts = [
        *arithmetic.sin_cos(100 * GRID),
        arithmetic.exp(300 * GRID),
        arithmetic.log(GRID[100_001:]),
        arithmetic.atan2(GRID, GRID[::-1] - 0.3),
        arithmetic.normal_cdf(10 * GRID),
        arithmetic.normal_quantile((GRID[1:-1] + 1) / 2),
    ]
    digest = hashlib.sha256(b"".join(np.ascontiguousarray(part, "<f8").tobytes() for part in parts)).hexdigest()
    assert digest == "575276046db1a98aa1eb04792a7f6fb2add53f695a711a2724294356f2f5f213"
