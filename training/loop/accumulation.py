"""Gradient accumulation that keeps all negatives (Gao et al. 2021, GradCache).

A contrastive loss compares every code with every other, so it cannot be summed over parts of a batch. But its gradient
for the codes needs no encoder: all codes are made without a graph, the loss is differentiated as far as the codes, and
the encoder runs over each part once more to carry those gradients on to its parameters.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.parallel import DistributedDataParallel

from ident3d.errors import UserError


def accumulated_backward(
    model: nn.Module,
    inputs: Tensor,
    loss: Callable[[Tensor], Tensor],
    chunk: int,
    *,
    forward_context: Callable[[], AbstractContextManager[Any]] = nullcontext,
) -> tuple[Tensor, Tensor]:
    """Add the gradients of loss(model(inputs)) to the parameters, `chunk` inputs at a time. Return the loss and codes.

    inputs (N, ...) → codes (N, d), all of which `loss` gets at once. Exact for models without batch statistics: a batch
    norm has those of its chunk, and updates its running ones once. Random layers see the same draws in both passes.
    `forward_context` is entered around the model's passes, for instance for autocast.
    """
    chunks = chunks_of(inputs, chunk)
    if len(chunks) == 1:
        with forward_context():
            codes = model(inputs)
        value = loss(codes)
        value.backward()  # type: ignore[no-untyped-call]
        return value.detach(), codes.detach()
    devices = [inputs.device] if inputs.device.type == "cuda" else []
    states: list[Sequence[Tensor]] = []
    parts: list[Tensor] = []
    with torch.no_grad(), untracked_statistics(model), forward_context():
        for part in chunks:
            # A random layer must draw the same again in the second pass.
            states.append((torch.get_rng_state(), *map(torch.cuda.get_rng_state, devices)))
            parts.append(model(part))
    codes = torch.cat(parts).requires_grad_()
    value = loss(codes)
    value.backward()  # type: ignore[no-untyped-call]
    if codes.grad is None:
        raise UserError("The loss does not depend on the encoder's codes, so there is nothing to learn.")
    for i, (part, state, gradient) in enumerate(zip(chunks, states, chunks_of(codes.grad, chunk), strict=True)):
        with ExitStack() as stack:
            if isinstance(model, DistributedDataParallel) and i < len(chunks) - 1:
                # Ranks exchange gradients with the last part alone: once a step.
                stack.enter_context(model.no_sync())
            stack.enter_context(torch.random.fork_rng(devices))
            torch.set_rng_state(state[0])
            for device, on_device in zip(devices, state[1:], strict=True):
                torch.cuda.set_rng_state(on_device, device)
            with forward_context():
                again = model(part)
            again.backward(gradient)
    return value.detach(), codes.detach()


def chunks_of(inputs: Tensor, chunk: int) -> Sequence[Tensor]:
    """Return the inputs `chunk` at a time. A last one that is left over joins those before: a batch norm needs two."""
    left = len(inputs) % chunk
    whole = [chunk] * (len(inputs) // chunk)
    if left == 1 and whole:
        return torch.split(inputs, [*whole[:-1], chunk + 1])
    return torch.split(inputs, chunk)


@contextmanager
def batch_norm_said() -> Iterator[None]:
    """Raise UserError where a batch norm is trained on a single value of each channel, which has no spread."""
    try:
        yield
    except ValueError as error:
        if "more than 1 value per channel" not in str(error):
            raise
        raise UserError("A batch norm needs two images at once: take a larger --chunk or --batch.") from None


@contextmanager
def untracked_statistics(model: nn.Module) -> Iterator[None]:
    """Keep every batch norm from updating its running statistics; it normalises as before."""
    tracking = [module for module in model.modules() if isinstance(module, _BatchNorm) and module.track_running_stats]
    for module in tracking:
        module.track_running_stats = False
    try:
        yield
    finally:
        for module in tracking:
            module.track_running_stats = True
