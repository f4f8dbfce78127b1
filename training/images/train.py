"""The trainer on images: one loop for every row of the papers' tables, and for a user's own encoder and loss."""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ident3d.memory import keep_memory, memory_advice
from ident3d.training.encoders.output_spaces import Box, Sphere
from ident3d.training.images.best_box import start_of_box, usual_start
from ident3d.training.images.parts import Parts, build, restore
from ident3d.training.images.plateau import advice, plateau
from ident3d.training.images.run import Run, write_run
from ident3d.training.images.settings import TrainSettings
from ident3d.training.images.start import start_or_resume
from ident3d.training.loop import checkpoint
from ident3d.training.loop.accumulation import accumulated_backward, batch_norm_said
from ident3d.training.loop.devices import Rank, join_ranks
from ident3d.training.loop.dtype import autocast
from ident3d.training.loop.log import Log, OnLog
from ident3d.training.loop.log_file import read_log
from ident3d.training.loop.recording import Step, check_request, record_steps
from ident3d.training.loop.steps import rate_factor, seed_of, set_rates
from ident3d.training.loop.stopping import stoppable
from ident3d.training.losses.autoencoder import Autoencoder
from ident3d.training.losses.gather import average_gradients
from ident3d.training.own.own_code import records_after_resume

DEFAULTS = TrainSettings()
SMALLER = "take a smaller --chunk, which keeps all negatives, or a smaller --batch, --size or --encoder"


def train(
    data: Path | str | None = None,
    settings: TrainSettings = DEFAULTS,
    *,
    out: Path | str | None = None,
    root: Path | str | None = None,
    device: str = "auto",
    resume: bool = False,
    allow_same: bool = False,
    workers: int | None = None,
    save_every: int = 500,
    log_every: int = 20,
    tensorboard: bool = False,
    on_log: OnLog | None = None,
    show_progress: bool = True,
) -> Run:
    """Train an encoder on a folder's pairs, augmented images or latents. Return the run, whose folder is `out`.

    `data` may be omitted if there is only one complete training set below the data root. With `resume` a run
    goes on where its checkpoint stands, on one device to the very bits that an uninterrupted run ends with. An
    interrupt ends it after the step under way, saved. Under torchrun the batch is shared out among ranks, and every
    rank sees all negatives.

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
        on_log: Called with each line of the log, a dict with step, loss, r2 and more.
        show_progress: Show a progress bar.

    Returns:
        The `Run`.

    Example:
        >>> from ident3d import TrainSettings, train
        >>> settings = TrainSettings(encoder="resnet18", sigma=0.3, batch=8, steps=2, dtype="fp32")
        >>> run = train(dataset, settings, out="runs/first", device="cpu", workers=0, show_progress=False)
        >>> run.path.name, run.settings.loss
        ('first', 'delta')
    """
    check_request(settings, TrainSettings, save_every, log_every, on_log)
    keep_memory()
    with ExitStack() as stack:
        # ---- Set up. Files are written by start_or_resume, which makes the folder, and by write_run.
        stack.enter_context(memory_advice(SMALLER))
        here = stack.enter_context(join_ranks(device))
        request = stack.enter_context(
            start_or_resume(data, settings, here, out=out, root=root, resume=resume, allow_same=allow_same)
        )
        asked_to_stop = stack.enter_context(stoppable(here.world_size == 1))
        work = build(request, here, workers)
        run, s = work.run, work.run.settings
        first, said_of_own = 0, list[str]()
        if request.resumed:
            first, names = restore(work), {"encoder": s.encoder, "loss": str(s.loss)}
            own, said_of_own = records_after_resume(run.facts.get("own_code"), names, trains=first < s.steps)
            run = replace(run, facts=run.facts | ({"own_code": own} if own else {}))
        if here.first:
            write_run(run)
        log = Log(
            run.path if here.first else None, first, s.steps, show=show_progress, tensorboard=tensorboard, on_log=on_log
        )
        stack.callback(log.close)
        if resume and not request.resumed:
            log.note(f"{run.path} held no run to go on with; a new one starts.")
        if work.box and s.bound is None and not request.resumed:
            log.note(start_of_box(work.box, s))
        if settings.bound is None and not work.box and "box" in str(s.space) and not request.resumed:
            log.note(usual_start(s))
        lines = read_log(run.path) if here.first else []
        # The loss of three views is another one than that of the best box.
        box = work.box if s.views == 2 else None
        # A run that went on from a plateau has said so.
        said = bool(box and plateau(lines, box, s))
        for sentence in said_of_own:
            log.note(sentence)

        # ---- Bookkeeping: a line of the log and a checkpoint, whenever one is due.
        for step, to_save in record_steps(
            steps_of(work, first, here), log, first=first, last=s.steps, save_every=save_every, log_every=log_every,
            lease=request.held, asked_to_stop=asked_to_stop,
        ):  # fmt: skip
            rate = s.lr * rate_factor(s.schedule, s.steps, step.done - 1)
            figures = {"lr": rate, **step.figures(), **learnt_facts(work)}
            log.record(step.done, s.batch, figures)
            lines.append({"step": step.done, **figures})
            if box and not said and (reached := plateau(lines, box, s)):
                said = True
                log.note(advice(reached, box, s))
            if to_save and here.first:
                state = checkpoint.state_of(
                    step.done, work.model, work.objective, work.optimiser, work.loader.state_dict(),
                    work.scaler.state_dict(),
                )  # fmt: skip
                checkpoint.save(run.path, state)
        return run


def steps_of(work: Parts, first: int, here: Rank) -> Iterator[Step]:
    """Take the steps from the first to the last, one each time that the next is asked for."""
    s, batches, has_latents = work.run.settings, endless(work.loader), bool(work.run.latents)
    for step in range(first, s.steps):
        # ---- One step: a batch, its views, codes, loss, gradients, new weights.
        batch = next(batches)
        # A resumed run must draw what it would have drawn. So each step seeds every generator anew, after the loader,
        # which draws when an epoch begins.
        torch.manual_seed(seed_of(s.seed, step, here.rank))
        work.generator.manual_seed(seed_of(s.seed, step, here.rank))
        images, latents = work.views(batch, here.device)
        set_rates(work.optimiser, work.rates, rate_factor(s.schedule, s.steps, step))
        work.optimiser.zero_grad()
        with batch_norm_said():
            loss, codes = accumulated_backward(
                work.network,
                torch.cat(images),
                partial(scaled_loss, work, latents, images),
                s.chunk or len(images) * s.batch,
                forward_context=partial(autocast, work.run.dtype, here.device),
            )
        # DistributedDataParallel averages the encoder's gradients alone, not those of what the loss learns.
        average_gradients(work.objective.parameters())
        loss = loss / work.scaler.get_scale()
        work.scaler.step(work.optimiser)
        work.scaler.update()
        # The number of a class is no latent that codes could be scored by.
        scored = latents[0] if has_latents else latents[0][:, :0]
        # A posterior's means are the codes.
        yield Step(step + 1, loss, scored, codes[:, : work.model.space.dim])


def scaled_loss(work: Parts, latents: tuple[Tensor, ...], images: tuple[Tensor, ...], codes: Tensor) -> Tensor:
    """Return the loss, scaled up if the gradients are fp16, in which small ones would vanish."""
    # An autoencoder's target is what the encoder saw; the other losses compare codes with one another, or with latents.
    target = torch.cat(images) if isinstance(work.objective, Autoencoder) else latents
    scaled: Tensor = work.scaler.scale(work.objective(codes, target))
    return scaled


def endless(loader: Any) -> Iterator[Any]:
    """Yield the loader's batches, epoch after epoch."""
    while True:
        yield from loader


def learnt_facts(work: Parts) -> dict[str, Any]:
    """Return the mean bound and radius of the output space, the range of Λ̂, and an autoencoder's terms, if any."""
    facts: dict[str, Any] = {}
    for part in work.model.space.modules():
        if isinstance(part, Box):
            facts["bound"] = round(float(part.widths().mean()), 5)
        elif isinstance(part, Sphere):
            facts["radius"] = round(float(part.radius), 5)
    if isinstance(work.objective, Autoencoder):
        facts |= work.objective.figures()
    if diagonals := [diagonal.detach() for diagonal in work.objective.diagonals()]:
        both = torch.cat(diagonals)
        facts |= {"precision_min": float(both.min()), "precision_max": float(both.max())}
        # By code: with two conditionals, those of one are large where those of the other are small.
        if len(diagonals) > 1:
            facts["precision"] = [[round(float(value), 4) for value in row] for row in diagonals]
    return facts
