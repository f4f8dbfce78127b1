"""Quality presets: all that pixels depend on besides scene and size. They load no bpy."""

from dataclasses import dataclass
from typing import Literal

Denoising = Literal["none", "cycles", "fast", "balanced", "high"]


@dataclass(frozen=True)
class Quality:
    """How one image is sampled and denoised.

    Without bounces a Cycles path lights its pixel by one light, picked by one stratified number. With three lights
    and a power of two samples the three get unequal shares in every pixel, and that is most of the noise. Split into
    two halves in the same place the spotlight makes four lights, each picked exactly n / 4 times by n = 4, 8, 16, ...
    samples.
    """

    # Paths of every pixel. The evenly lit ground needs no more.
    samples: int
    # Paths of the pixels in the box around the shadow that the spotlight casts of the object.
    shadow_samples: int
    # Paths of the pixels in the box around the object: after denoising, most of the error is along its edges.
    object_samples: int
    # Equal parts that the spotlight is split into: 1 as published, 2 for equal shares of all lights.
    spots: int
    pattern: Literal["AUTOMATIC", "TABULATED_SOBOL", "BLUE_NOISE"]
    # Cycles' denoiser with its feature images, or Open Image Denoise on the colours alone at this precision.
    denoising: Denoising

    def __post_init__(self) -> None:
        if not 0 < self.samples <= min(self.shadow_samples, self.object_samples):
            raise ValueError("A quality needs at least one sample, and as many for shadow and object as for the rest.")


# "reference" is the paper's, "standard" the default, and the benchmark measures the others against "truth".
QUALITIES: dict[str, Quality] = {
    "reference": Quality(512, 512, 512, spots=1, pattern="AUTOMATIC", denoising="cycles"),
    "standard": Quality(4, 8, 28, spots=2, pattern="TABULATED_SOBOL", denoising="balanced"),
    "draft": Quality(4, 4, 8, spots=2, pattern="TABULATED_SOBOL", denoising="fast"),
    "truth": Quality(1024, 1024, 1024, spots=1, pattern="AUTOMATIC", denoising="none"),
}
