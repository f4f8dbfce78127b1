"""The trainer: one loop for every row of the papers' tables, for a researcher's own encoder and loss as well."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ident3d.errors import UserError
from ident3d.memory import keep_memory, memory_advice
from ident3d.training.encoders.output_spaces import Box, Sphere
from ident3d.training.images.run import Run
from ident3d.training.images.settings import Settings
from ident3d.training.images.setup import Parts, built, opened
from ident3d.training.loop import checkpoint
from ident3d.training.loop.accumulation import accumulated_backward
from ident3d.training.loop.devices import joined_ranks
from ident3d.training.loop.dtype import autocast
from ident3d.training.loop.log import Log, batch_scores, check_finite, collapsed
from ident3d.training.loop.steps import rate_factor, seed_of, set_rates
from ident3d.training.loop.stopping import stoppable
from ident3d.training.losses.gather import average_gradients

PAPER = Settings()
SMALLER = "take a smaller --chunk, which keeps all negatives, or a smaller --batch, --size or --encoder"


def train(
    data: Path | str | None = None,
    settings: Settings = PAPER,
    *,
    out: Path | str | None = None,
    root: Path | None = None,
    device: str = "auto",
    resume: bool = False,
    allow_same: bool = False,
    workers: int | None = None,
    save_every: int = 500,
    log_every: int = 20,
    tensorboard: bool = False,
    show_progress: bool = True,
) -> Run:
    """Train an encoder on a folder's pairs, augmented images or latents; returns the run, whose folder is `out`.

    `data` is by default the newest complete training set below the data root. With `resume` a run goes on where its
    checkpoint stands, on one device to the very bits that an uninterrupted run ends with. An interrupt ends it after
    the step under way, saved. Under torchrun the batch is shared out among ranks, and every rank sees all negatives.

    Args:
        data: The dataset folder, or its address in a store.
        settings: What decides what is learnt.
        out: The run's folder.
        root: The data root.
        device: "auto", "cpu", "cuda" or "mps".
        resume: Go on with an unfinished run.
        allow_same: Accept a test set that shares images with the training set.
        workers: Processes that fetch batches.
        save_every: Steps between checkpoints.
        log_every: Steps between lines of the log.
        tensorboard: Write the log for TensorBoard as well.
        show_progress: Show a progress bar.

    Returns:
        The `Run`.

    Example:
        >>> from ident3d import Settings, train
        >>> settings = Settings(encoder="resnet18", sigma=0.3, batch=8, steps=2, dtype="fp32")
        >>> run = train(dataset, settings, out="runs/first", device="cpu", workers=0, show_progress=False)
        >>> run.path.name, run.settings.loss
        ('first', 'delta')
    """
    if min(save_every, log_every) < 1:
        raise UserError("--save-every and --log-every are at least 1 step.")
    keep_memory()
    with ExitStack() as stack:
        stack.enter_context(memory_advice(SMALLER))
        here = stack.enter_context(joined_ranks(device))
        order = stack.enter_context(
            opened(data, settings, here, out=out, root=root, resume=resume, allow_same=allow_same)
        )
        asked_to_stop = stack.enter_context(stoppable(here.world == 1))
        work = built(order, here, workers)
        run, first = work.run, work.step
        s, batches, saved = run.settings, endless(work.loader), first
        log = Log(run.path if here.first else None, first, s.steps, show=show_progress, tensorboard=tensorboard)
        stack.callback(log.close)
        if resume and not order.resumed:
            log.say(f"{run.path} held no run to go on with; this one begins.")
        codes = torch.empty(0)
        for step in range(first, s.steps):
            batch = next(batches)
            torch.manual_seed(seed_of(s.seed, step, here.rank))  # after the loader, which draws when an epoch begins
            work.generator.manual_seed(seed_of(s.seed, step, here.rank))
            images, latents = work.views(batch, here.device)
            set_rates(work.optimiser, work.rates, rate_factor(s.schedule, s.steps, step))

            def loss_of(all_codes: Tensor, latents: tuple[Tensor, ...] = latents) -> Tensor:
                nonlocal codes
                codes = all_codes.detach()
                scaled: Tensor = work.scaler.scale(work.objective(all_codes, latents))
                return scaled

            work.optimiser.zero_grad()
            loss = accumulated_backward(
                work.network,
                torch.cat(images),
                loss_of,
                s.chunk or len(images) * s.batch,
                forward_context=lambda: autocast(run.dtype, here.device),
            )
            average_gradients(work.objective.parameters())
            loss = loss / work.scaler.get_scale()
            work.scaler.step(work.optimiser)
            work.scaler.update()

            done = step + 1
            stop = asked_to_stop()
            to_save = done % save_every == 0 or done == s.steps or stop
            if to_save or done % log_every == 0 or done == first + 1:
                if order.held:
                    order.held.check()
                check_finite(float(loss), done, saved)
                own = codes[: len(latents[0])]
                if collapsed(codes):
                    log.say_once(f"By step {done:,} all codes are the same: the encoder has collapsed.")
                rate = s.lr * rate_factor(s.schedule, s.steps, step)
                values = {"loss": float(loss), "lr": rate, **batch_scores(latents[0], own), **space_facts(work)}
                log.record(done, s.batch, values)
            if to_save and here.first:
                save(work, done)
                saved = done
            log.bar.update()
            if stop and done < s.steps:
                raise KeyboardInterrupt
        return run


def save(work: Parts, step: int) -> None:
    state = checkpoint.state_of(
        step, work.model, work.objective, work.optimiser, work.loader.state_dict(), work.scaler.state_dict()
    )
    checkpoint.save(work.run.path, state)


def endless(loader: Any) -> Iterator[Any]:
    """Epoch after epoch."""
    while True:
        yield from loader


def space_facts(work: Parts) -> dict[str, float]:
    """The mean bound and radius of the output space, and the range of Λ̂, where there are any."""
    facts: dict[str, float] = {}
    for part in work.model.space.modules():
        if isinstance(part, Box):
            facts["bound"] = round(float(part.widths().mean()), 5)
        elif isinstance(part, Sphere):
            facts["radius"] = round(float(part.radius), 5)
    if work.objective.precision is not None:
        diagonal = work.objective.precision().detach()
        facts |= {"precision_min": float(diagonal.min()), "precision_max": float(diagonal.max())}
    return facts
