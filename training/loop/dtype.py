"""Which number format the encoder computes in: the fastest of those that the device knows, as measured at start-up."""

import copy
import time

import torch
from torch import Tensor, nn

from ident3d.errors import UserError

TYPES = {"fp32": None, "bf16": torch.bfloat16, "fp16": torch.float16}
MOST_IMAGES, REPEATS = 64, 3
# A format has to be so many times faster, or float32 stays.
WORTH_IT = 1.05
# oneDNN's bf16 gradient of a 3×3 convolution with stride 2 on a single pixel holds memory that nobody wrote (torch
# 2.13, AVX-512). A ResNet comes down to one pixel before its last such convolution if images are below 32 pixels.
SMALLEST_IN_BF16 = 32


def wide(x: Tensor) -> Tensor:
    """Return float32 for the 16-bit types that autocast gives, and anything wider as it is.

    In 16 bits, logits would lose the differences that teach.
    """
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x


def formats_of(device: torch.device) -> list[str]:
    """Return the formats that a device has instructions for."""
    if device.type == "cuda":
        return ["fp32", "bf16" if torch.cuda.is_bf16_supported(including_emulation=False) else "fp16"]
    return ["fp32", "bf16"] if device.type == "cpu" and cpu_has_bf16() else ["fp32"]


def cpu_has_bf16() -> bool:
    return bool(
        torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
        and torch.ops.mkldnn._is_mkldnn_bf16_supported()
    )


def autocast(name: str, device: torch.device) -> torch.autocast:
    """Return the context for an encoder's passes."""
    return torch.autocast(device.type, dtype=TYPES[name] or torch.bfloat16, enabled=TYPES[name] is not None)


def choose_dtype(wanted: str, model: nn.Module, images: Tensor) -> tuple[str, dict[str, float]]:
    """Return `wanted`, or for "auto" the fastest format with the seconds that each took for a pass there and back."""
    if wanted != "auto":
        check_dtype(wanted, images.device, images.shape[-1])
        return wanted, {}
    names = ["fp32"] if too_small(images.device, images.shape[-1]) else formats_of(images.device)
    if len(names) == 1:
        return names[0], {}
    # On a copy, whose statistics and gradients go with it.
    trial, some = copy.deepcopy(model).train(), images[:MOST_IMAGES]
    seconds = {name: seconds_of_pass(trial, some, name) for name in names}
    best = min(seconds, key=seconds.__getitem__)
    return (best if seconds["fp32"] > WORTH_IT * seconds[best] else "fp32"), seconds


def check_dtype(name: str, device: torch.device, size: int) -> None:
    """Raise UserError for a format that a device cannot train in, or not on images of this size."""
    if name == "fp16" and device.type == "cpu":
        raise UserError("fp16 needs a GPU; on a CPU take bf16, fp32 or auto.")
    if name == "bf16" and too_small(device, size):
        raise UserError(f"On a CPU, bf16 needs images of at least {SMALLEST_IN_BF16} pixels; take fp32 or auto.")


def too_small(device: torch.device, size: int) -> bool:
    return device.type == "cpu" and size < SMALLEST_IN_BF16


def seconds_of_pass(model: nn.Module, images: Tensor, name: str) -> float:
    """Return the least of several, after one that warms up."""
    # Process time on a CPU, which others may be using too. A GPU works while its process waits.
    on_gpu = images.device.type == "cuda"
    clock = time.perf_counter if on_gpu else time.process_time
    taken = []
    for _ in range(REPEATS + 1):
        model.zero_grad()
        start = clock()
        with autocast(name, images.device):
            codes = model(images)
        codes.float().square().mean().backward()
        if on_gpu:
            torch.cuda.synchronize()
        taken.append(clock() - start)
    return min(taken[1:])
