"""The trainer on mixed latents: drawn on the device, mixed, and identified again, in minutes instead of GPU days."""

import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ident3d.errors import UserError
from ident3d.loaders.stores.data_root import data_root
from ident3d.memory import keep_memory
from ident3d.metrics import linear_r2
from ident3d.training.encoders.image_encoder import parameter_groups
from ident3d.training.encoders.output_spaces import Box, OutputSpace, output_space
from ident3d.training.encoders.perceptron import Perceptron, perceptron
from ident3d.training.loop import checkpoint
from ident3d.training.loop.devices import device_of
from ident3d.training.loop.dtype import autocast
from ident3d.training.loop.log import Log, OnLog
from ident3d.training.loop.recording import Step, check_request, record_steps
from ident3d.training.loop.run_folder import usual_folder
from ident3d.training.loop.steps import Stream, rate_factor, seed_of, set_rates
from ident3d.training.loop.stopping import stoppable
from ident3d.training.mixing.by_lambda import r2_of_halves
from ident3d.training.mixing.decoded import DecodedImages, weights_sha256
from ident3d.training.mixing.generator import Whitening, mixing_named
from ident3d.training.mixing.ground_truth import global_minimum
from ident3d.training.mixing.loss import MixingLoss
from ident3d.training.mixing.run import default_name, go_on_with, old_name, start_or_resume
from ident3d.training.mixing.sampling import Sampler, sampler
from ident3d.training.mixing.settings import MixingSettings, with_defaults
from ident3d.training.own.own_code import own_code

DEFAULTS = MixingSettings()

# Latents drawn to whiten observations and to find a box's width, and the width over the codes' extent. A sigmoid never
# meets its ends, so a box is wider than the codes that it has to hold.
WHITENING_SAMPLES, MARGIN = 10_000, 1.3


@dataclass(frozen=True)
class MixingRun:
    """A run's parts: settings without any None, g, f, the loss, the sampler, and the folder if it has one."""

    settings: MixingSettings
    mixing: nn.Module
    whitening: Whitening
    encoder: Perceptron
    loss: MixingLoss
    sampler: Sampler
    path: Path | None = None

    @property
    def device(self) -> torch.device:
        return next(self.encoder.parameters()).device

    def observed(self, z: Tensor) -> Tensor:
        """Return what the encoder gets of latents (N, d): x = g(z), whitened if the settings say so; no gradients."""
        with torch.no_grad():
            x: Tensor = self.whitening(self.mixing(z))
        return x

    def encoded(self, x: Tensor) -> Tensor:
        """Return h = f(x), computed in the run's number format; codes are float32."""
        with autocast(self.settings.dtype, x.device):
            codes: Tensor = self.encoder(x)
        return codes


def mixing(
    settings: MixingSettings = DEFAULTS,
    *,
    out: Path | str | None = None,
    root: Path | str | None = None,
    device: str = "auto",
    resume: bool = False,
    save_every: int = 1000,
    log_every: int = 100,
    on_log: OnLog | None = None,
    show_progress: bool = True,
) -> MixingRun:
    """Train an encoder f on x = g(z), z and z̃ drawn anew in every step; the run's folder is `out`.

    With `resume` a run goes on where its checkpoint stands, to the very bits that an uninterrupted run ends with: each
    step seeds its draws from (seed, step). An interrupt ends it after the step under way, saved.

    Args:
        settings: What decides what is drawn and learnt.
        out: The run's folder.
        root: The data root.
        device: "auto", "cpu", "cuda" or "mps".
        resume: Go on with an unfinished run.
        save_every: Steps between checkpoints.
        log_every: Steps between lines of the log.
        on_log: Called with each line of the log, a dict with step, loss, r2 and more.
        show_progress: Show a progress bar.

    Returns:
        The `MixingRun`, with its scores.

    Example:
        >>> from ident3d import MixingSettings, mixing
        >>> settings = MixingSettings(dim=3, encoder="16x2", batch=64, steps=5)
        >>> run = mixing(settings, out="mixing/first", device="cpu", show_progress=False)
        >>> run.path.name
        'first'
    """
    check_request(settings, MixingSettings, save_every, log_every, on_log)
    keep_memory()
    where = device_of(device)
    with ExitStack() as stack:
        # ---- Set up: the parts first, which refuse what does not fit before a folder is made.
        work = build(settings, where)
        s = work.settings
        path = Path(out) if out else usual_folder(data_root(root) / "mixing", default_name(s), old_name(s))
        work = replace(work, path=path)
        optimiser = optimiser_of(work)
        last = s.steps or 0
        held = stack.enter_context(start_or_resume(path, s, where, resume))
        asked_to_stop = stack.enter_context(stoppable())
        first = restore(work, optimiser)
        log = Log(path, first, last, show=show_progress, on_log=on_log)
        stack.callback(log.close)
        if first:
            for sentence in go_on_with(path, s, trains=first < last):
                log.note(sentence)

        # ---- Bookkeeping: a line of the log and a checkpoint, whenever one is due.
        for step, to_save in record_steps(
            steps_of(work, optimiser, first, where), log, first=first, last=last, save_every=save_every,
            log_every=log_every, lease=held, asked_to_stop=asked_to_stop,
        ):  # fmt: skip
            own = step.codes[: len(step.latents)]
            log.record(step.done, s.batch, {**step.figures(), **learnt_figures(work, step.latents, own)})
            if to_save:
                # Mixed latents have no loader: a checkpoint's loader stands at the number of batches drawn.
                drawn = {"epoch": 0, "batch": step.done}
                checkpoint.save(path, checkpoint.state_of(step.done, pair_of(work), work.loss, optimiser, drawn, {}))
    return work


def steps_of(work: MixingRun, optimiser: torch.optim.Optimizer, first: int, device: torch.device) -> Iterator[Step]:
    """Take the steps from the first to the last, one each time that the next is asked for."""
    s, rates = work.settings, [group["lr"] for group in optimiser.param_groups]
    for step in range(first, s.steps or 0):
        set_rates(optimiser, rates, rate_factor(s.schedule, s.steps or 0, step))
        yield one_step(work, optimiser, step, device)


def one_step(work: MixingRun, optimiser: torch.optim.Optimizer, step: int, device: torch.device) -> Step:
    """Draw, mix, encode, and move the weights."""
    seed = seed_of(work.settings.seed, step, Stream.TRAINING)
    # For a user's own encoder or loss that draws.
    torch.manual_seed(seed)
    latents = work.sampler.draw(work.settings.batch, torch.Generator(device).manual_seed(seed))
    # Hard negatives are drawn last, so that up to here a run without any has drawn the same.
    if step < work.settings.hard_after:
        latents = latents[:2]
    # One pass for all views: a larger batch uses the processor better than several small ones.
    joint = work.encoded(work.observed(torch.cat(latents)))
    codes = torch.split(joint, [len(view) for view in latents])
    loss = work.loss(codes, latents)
    optimiser.zero_grad()
    loss.backward()
    optimiser.step()
    return Step(step + 1, loss.detach(), latents[0], codes[0].detach())


def build(settings: MixingSettings, device: torch.device) -> MixingRun:
    """Return the parts of a run at its first step. Raise UserError for what does not fit."""
    s = with_defaults(settings)
    g, draws = mixing_named(s.mixing, s.dim, seed=s.seed).to(device), sampler(s)
    # Without whitening and a box to measure, two samples are enough to find the width of an observation.
    some = WHITENING_SAMPLES if s.whiten or s.bound is None else 2
    z = draws.draw(some, torch.Generator(device).manual_seed(seed_of(s.seed, 0, Stream.WHITENING)))[0]
    with torch.no_grad(), own_code("mixing", s.mixing):
        x = g(z)
    if not isinstance(x, Tensor) or x.ndim != 2 or len(x) != len(z):
        raise UserError(f"The mixing {s.mixing!r} must map latents (B, {s.dim}) to one row of numbers for each.")
    # From here on the bound is a number, and run.json records it.
    if s.bound is None:
        s = replace(s, bound=matched_bound(s, z))
    # The weights depend on the seed alone, whatever was drawn before.
    torch.manual_seed(s.seed)
    space = output_space(str(s.space), s.dim, bound=s.bound or 1.0, radius=s.radius, learnable=s.learnable)
    f = perceptron(s.encoder, x.shape[1], space).to(device)
    # One pass finds now what a user's own encoder does wrong.
    with own_code("encoder", s.encoder):
        f(x[:2])
    whitening = Whitening(x if s.whiten else None, x.shape[1]).to(device)
    return MixingRun(s, g, whitening, f, MixingLoss(s).to(device), draws)


def matched_bound(s: MixingSettings, z: Tensor) -> float:
    """Return the bound at which a box holds codes of the best scale, with a margin."""
    if s.space != "box" or s.supervised:
        return 1.0
    return round(float(MARGIN * global_minimum(s, steps=100).scale * (z.amax(0) - z.amin(0)).mean()), 3)


def optimiser_of(work: MixingRun) -> torch.optim.Adam:
    """Return Adam, with separate rates for the output space and for Λ̂."""
    s = work.settings
    groups = parameter_groups(work.encoder, s.lr, {OutputSpace: s.space_lr} if s.space_lr else {})
    if own := [parameter for parameter in work.loss.parameters() if parameter.requires_grad]:
        groups.append({"params": own, "lr": s.lambda_lr})
    return torch.optim.Adam(groups, fused=work.device.type in ("cpu", "cuda"))


def pair_of(work: MixingRun) -> nn.ModuleDict:
    """Return g, whitening and f as one module: a checkpoint holds it, so that no run depends on drawing g again."""
    return nn.ModuleDict({"mixing": work.mixing, "whitening": work.whitening, "encoder": work.encoder})


def learnt_figures(work: MixingRun, latents: Tensor, codes: Tensor) -> dict[str, Any]:
    """Return what else the log records: the box's mean bound, Λ̂ in increasing order, R² of both halves."""
    facts: dict[str, Any] = {}
    if isinstance(work.encoder.space, Box):
        facts["bound"] = round(float(work.encoder.space.widths().mean()), 5)
    if diagonals := work.loss.diagonals():
        facts["precision"] = [[round(float(value), 4) for value in row.detach().sort().values] for row in diagonals]
    if work.settings.lambdas and len(codes) > 3 * codes.shape[1] and codes.isfinite().all():
        facts |= r2_of_halves(work.settings.lambdas, linear_r2(latents.cpu().numpy(), codes.cpu().numpy()).per_latent)
    return facts


def restore(work: MixingRun, optimiser: torch.optim.Optimizer) -> int:
    """Copy the folder's checkpoint into the parts, and return the step that it stands at; 0 without one."""
    assert work.path is not None
    if not (work.path / checkpoint.CHECKPOINT_FILE).exists():
        return 0
    s = work.settings
    names = {"encoder": s.encoder, "loss": str(s.loss)}
    decoder = work.mixing if isinstance(work.mixing, DecodedImages) else None
    loaded = weights_sha256(decoder) if decoder else ""
    step = checkpoint.restore_all(work.path, pair_of(work), work.loss, optimiser, **names).step
    # The paths of a decoder's run may differ, and its weights may not.
    if decoder and weights_sha256(decoder) != loaded:
        raise UserError(f"{work.path} was started with another decoder than {decoder.source.run} holds now.")
    return step


def seconds_of_step(settings: MixingSettings, steps: int = 4) -> float:
    """Return the CPU seconds of one step, the least of several."""
    work = build(settings, torch.device("cpu"))
    optimiser, taken = optimiser_of(work), []
    for step in range(steps):
        start = time.process_time()
        one_step(work, optimiser, step, torch.device("cpu"))
        taken.append(time.process_time() - start)
    # The first step also allocates memory.
    return min(taken[1:])
