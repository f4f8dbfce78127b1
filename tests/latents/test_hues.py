"""Hue angles to RGB against colorsys, in both modes."""

import colorsys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ident3d.latents.exact.hues import hue_to_rgb

ANGLES = np.linspace(-np.pi / 2, np.pi / 2, 401)


@pytest.mark.parametrize("saturation", [1.0, 0.8, 0.6])
def test_published_is_colorsys_with_the_negative_hue_clamped(saturation: float) -> None:
    expected = [np.maximum(colorsys.hsv_to_rgb(angle / (2 * np.pi), saturation, 1.0), 0.0) for angle in ANGLES]
    np.testing.assert_allclose(hue_to_rgb(ANGLES, saturation), expected, atol=1e-14)


@pytest.mark.parametrize("saturation", [1.0, 0.8, 0.6])
def test_wrapped_is_colorsys_of_the_hue_mod_one(saturation: float) -> None:
    expected = [colorsys.hsv_to_rgb(angle / (2 * np.pi) % 1.0, saturation, 1.0) for angle in ANGLES]
    np.testing.assert_allclose(hue_to_rgb(ANGLES, saturation, wrapped=True), expected, atol=1e-14)


@given(st.floats(-2 / 3, 0, exclude_min=True, exclude_max=True), st.sampled_from([1.0, 0.8, 0.6]))
def test_published_follows_the_closed_form_below_zero(raw: float, saturation: float) -> None:
    expected = (1.0, max(0.0, 1 - saturation * (1 + 1.5 * -raw)), 1 - saturation)
    np.testing.assert_allclose(hue_to_rgb(raw * np.pi / 2, saturation), expected, atol=1e-12)


def test_published_object_hue_is_constant_over_a_third_of_its_range_and_wrapped_is_not() -> None:
    angles = np.linspace(-0.66, -0.01, 50) * np.pi / 2
    assert len(np.unique(hue_to_rgb(angles, 1.0).round(12), axis=0)) == 1
    assert len(np.unique(hue_to_rgb(angles, 1.0, wrapped=True).round(12), axis=0)) == len(angles)


def test_published_leaves_channels_above_one() -> None:
    np.testing.assert_allclose(hue_to_rgb(-np.pi / 2, 0.8), (1.0, 0.2, 1.4), atol=1e-12)


@pytest.mark.parametrize("shape", [(), (3,), (2, 3)])
def test_shape_is_kept_with_rgb_last(shape: tuple[int, ...]) -> None:
    assert hue_to_rgb(np.zeros(shape), 1.0).shape == (*shape, 3)
