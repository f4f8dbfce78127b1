"""The theory bench: latents drawn on the device, mixed, and identified again, in minutes instead of GPU days."""

import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ident3d.errors import UserError
from ident3d.loaders.folders.data_root import data_root
from ident3d.memory import keep_memory
from ident3d.metrics import linear_r2
from ident3d.training.encoders.image_encoder import parameter_groups
from ident3d.training.encoders.output_spaces import Box, OutputSpace, output_space
from ident3d.training.encoders.perceptron import Perceptron, perceptron
from ident3d.training.loop import checkpoint
from ident3d.training.loop.devices import device_of
from ident3d.training.loop.dtype import autocast
from ident3d.training.loop.log import Log, batch_scores, check_finite, collapsed
from ident3d.training.loop.own_code import own_code
from ident3d.training.loop.steps import rate_factor, seed_of, set_rates
from ident3d.training.loop.stopping import stoppable
from ident3d.training.mixing.by_lambda import halves
from ident3d.training.mixing.generator import Whitening, mixing_named
from ident3d.training.mixing.ground_truth import global_minimum
from ident3d.training.mixing.loss import MixingLoss
from ident3d.training.mixing.run import default_name, opened
from ident3d.training.mixing.sampling import Sampler, sampler
from ident3d.training.mixing.settings import MixingSettings, with_defaults

PAPER = MixingSettings()
MARGIN, SOME, WHITENED = 1.3, 10_000, 3


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

    def observed(self, z: Tensor) -> Tensor:
        """What the encoder gets of latents (N, d): x = g(z), whitened if that is wanted; no gradients."""
        with torch.no_grad():
            x: Tensor = self.whitening(self.mixing(z))
        return x

    def encoded(self, x: Tensor) -> Tensor:
        """h = f(x), computed in the run's number format; codes are float32."""
        with autocast(self.settings.dtype, x.device):
            codes: Tensor = self.encoder(x)
        return codes


def mixing(
    settings: MixingSettings = PAPER,
    *,
    out: Path | str | None = None,
    root: Path | None = None,
    device: str = "auto",
    resume: bool = False,
    save_every: int = 1000,
    log_every: int = 100,
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
    if min(save_every, log_every) < 1:
        raise UserError("--save-every and --log-every are at least 1 step.")
    keep_memory()
    where = device_of(device)
    work = built(settings, where)
    s, path = work.settings, Path(out) if out else data_root(root) / "mixing" / default_name(work.settings)
    work = replace(work, path=path)
    optimiser = optimiser_of(work)
    rates = [group["lr"] for group in optimiser.param_groups]
    with opened(path, s, where, resume) as held, stoppable() as asked_to_stop:
        first = saved = restored(work, optimiser)
        log = Log(path, first, s.steps or 0, show=show_progress, tensorboard=False)
        try:
            for step in range(first, s.steps or 0):
                set_rates(optimiser, rates, rate_factor(s.schedule, s.steps or 0, step))
                latents, codes, loss = one_step(work, optimiser, step, where)
                done = step + 1
                stop = asked_to_stop()
                to_save = done % save_every == 0 or done == s.steps or stop
                if to_save or done % log_every == 0 or done == first + 1:
                    held.check()
                    check_finite(float(loss), done, saved)
                    if collapsed(codes):
                        log.say(f"By step {done:,} all codes are the same: the encoder has collapsed.")
                    values = {"loss": float(loss), **batch_scores(latents, codes), **learnt(work, latents, codes)}
                    log.record(done, s.batch, values)
                if to_save:
                    state = checkpoint.state_of(
                        done, pair_of(work), work.loss, optimiser, {"epoch": 0, "batch": done}, {}
                    )
                    checkpoint.save(path, state)
                    saved = done
                log.bar.update()
                if stop and done < (s.steps or 0):
                    raise KeyboardInterrupt
        finally:
            log.close()
    return work


def one_step(work: MixingRun, optimiser: torch.optim.Optimizer, step: int, device: torch.device) -> tuple[Tensor, ...]:
    """Draw, mix, encode, and move the weights; returns the anchors, their codes, and the loss."""
    seed = seed_of(work.settings.seed, step)
    torch.manual_seed(seed)  # for an encoder or a loss of a user's own that draws
    latents = work.sampler.draw(work.settings.batch, torch.Generator(device).manual_seed(seed))
    codes = torch.split(work.encoded(work.observed(torch.cat(latents))), [len(view) for view in latents])
    loss = work.loss(codes, latents)
    optimiser.zero_grad()
    loss.backward()
    optimiser.step()
    return latents[0], codes[0].detach(), loss.detach()


def built(settings: MixingSettings, device: torch.device) -> MixingRun:
    """The parts of a run at its first step; whatever does not fit is refused here."""
    s = with_defaults(settings)
    g, draws = mixing_named(s.mixing, s.dim, seed=s.seed).to(device), sampler(s)
    some = SOME if s.whiten or s.bound is None else 2
    z = draws.draw(some, torch.Generator(device).manual_seed(seed_of(s.seed, 0, WHITENED)))[0]
    with torch.no_grad(), own_code("mixing", s.mixing):
        x = g(z)
    if not isinstance(x, Tensor) or x.ndim != 2 or len(x) != len(z):
        raise UserError(f"The mixing {s.mixing!r} must map latents (B, {s.dim}) to one row of numbers for each.")
    if s.bound is None:
        s = replace(s, bound=matched_bound(s, z))
    torch.manual_seed(s.seed)
    space = output_space(str(s.space), s.dim, bound=s.bound or 1.0, radius=s.radius, learnable=s.learnable)
    f = perceptron(s.encoder, x.shape[1], space).to(device)
    with own_code("encoder", s.encoder):
        f(x[:2])
    whitening = Whitening(x if s.whiten else None, x.shape[1]).to(device)
    return MixingRun(s, g, whitening, f, MixingLoss(s).to(device), draws)


def matched_bound(s: MixingSettings, z: Tensor) -> float:
    """Where a box starts so that codes of the best scale fit in, with room for a sigmoid that never meets its ends."""
    if s.space != "box" or s.supervised:
        return 1.0
    return round(float(MARGIN * global_minimum(s, steps=100).scale * (z.amax(0) - z.amin(0)).mean()), 3)


def optimiser_of(work: MixingRun) -> torch.optim.Adam:
    """Adam, with rates of their own for the output space and for Λ̂."""
    s = work.settings
    groups = parameter_groups(work.encoder, s.lr, {OutputSpace: s.space_lr} if s.space_lr else {})
    if own := [parameter for parameter in work.loss.parameters() if parameter.requires_grad]:
        groups.append({"params": own, "lr": s.lambda_lr})
    return torch.optim.Adam(groups, fused=own_device(work).type in ("cpu", "cuda"))


def own_device(work: MixingRun) -> torch.device:
    return next(work.encoder.parameters()).device


def pair_of(work: MixingRun) -> nn.ModuleDict:
    """g, whitening and f as one module: what a checkpoint holds, so that a run never depends on drawing g again."""
    return nn.ModuleDict({"mixing": work.mixing, "whitening": work.whitening, "encoder": work.encoder})


def learnt(work: MixingRun, latents: Tensor, codes: Tensor) -> dict[str, Any]:
    """What the log says beside loss and scores: the box's mean bound, Λ̂ in increasing order, R² of both halves."""
    facts: dict[str, Any] = {}
    if isinstance(work.encoder.space, Box):
        facts["bound"] = round(float(work.encoder.space.widths().mean()), 5)
    if diagonals := work.loss.diagonals():
        facts["precision"] = [[round(float(value), 4) for value in row.detach().sort().values] for row in diagonals]
    if work.settings.lambdas and len(codes) > 3 * codes.shape[1] and codes.isfinite().all():
        facts |= halves(work.settings.lambdas, linear_r2(latents.cpu().numpy(), codes.cpu().numpy()).per_latent)
    return facts


def restored(work: MixingRun, optimiser: torch.optim.Optimizer) -> int:
    """The step that the folder's checkpoint stands at, its state now in the parts; 0 without one."""
    assert work.path is not None
    if not (work.path / checkpoint.FILE).exists():
        return 0
    kept = checkpoint.load(work.path)
    checkpoint.restore(pair_of(work), kept.part(checkpoint.MODEL), f"encoder {work.settings.encoder}")
    checkpoint.restore(work.loss, kept.part(checkpoint.OBJECTIVE), f"loss {work.settings.loss}")
    checkpoint.restore_optimiser(optimiser, kept.part(checkpoint.OPTIMISER))
    return kept.step


def seconds_of_step(settings: MixingSettings, steps: int = 4) -> float:
    """CPU seconds of one step, the least of several."""
    work = built(settings, torch.device("cpu"))
    optimiser, taken = optimiser_of(work), []
    for step in range(steps):
        start = time.process_time()
        one_step(work, optimiser, step, torch.device("cpu"))
        taken.append(time.process_time() - start)
    return min(taken[1:])
