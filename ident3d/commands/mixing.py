"""``ident3d mixing``."""

import json
from pathlib import Path
from typing import Any

import click

from ident3d.commands.options import json_option, root_option
from ident3d.errors import UserError


def start_of_bound(text: str) -> float | None:
    """ "14.1" → 14.1; None for "match"."""
    try:
        return None if text == "match" else float(text)
    except ValueError:
        raise UserError(f"--bound takes a number above 0, or match, not {text!r}.") from None


def numbers(option: str, text: str) -> tuple[float, ...]:
    """ "5,25" → (5.0, 25.0)."""
    try:
        return tuple(float(value) for value in text.split(","))
    except ValueError:
        raise UserError(f"--{option} takes numbers separated by commas, such as 5,25, not {text!r}.") from None


@click.command()
@click.option("--latent-space", help="Where latents live: box (default), sphere (default with --lambda), unbounded.")
@click.option("--dim", default=10, show_default=True, help="Number of latents.")
@click.option("--marginal", help="p(z): uniform (default where there is one), normal, laplace, gennorm, vmf (sphere).")
@click.option("--marginal-sigma", default=1.0, show_default=True, help="The marginal's width.")
@click.option("--marginal-kappa", default=1.0, show_default=True, help="Concentration of a vmf marginal.")
@click.option("--cond", help="p(z̃ | z): normal (default), laplace, gennorm; on the sphere vmf, rejected_normal.")
@click.option("--sigma", default=0.05, show_default=True, help="The conditional's width.")
@click.option("--cond-p", default=3.0, show_default=True, help="Power of gennorm.")
@click.option("--kappa", default=1.0, show_default=True, help="Concentration of a vmf conditional.")
@click.option(
    "--lambda", "lambdas", multiple=True, metavar="Λ", help="AnInfoNCE's precision, as 5,25 (halves); again: another Λ."
)
@click.option("--hard-lambda", "hard", metavar="Λ", help="Draw each anchor's own negatives with this precision.")
@click.option("--hard-count", default=8, show_default=True, help="Hard negatives of each anchor.")
@click.option("--space", help="The model's output space: box, sphere, unbounded; by default that of the latents.")
@click.option(
    "--loss", help="delta, infonce (the sphere's), aninfonce (with --lambda), simclr, au, package.module:name."
)
@click.option("--model-p", type=float, help="Power p of the L_δ loss: 1 Laplace, 2 normal (default), 3 and so on.")
@click.option("--tau", default=1.0, show_default=True, help="The loss's temperature.")
@click.option("--alpha", default=0.5, show_default=True, help="Share of uniformity in the loss au.")
@click.option(
    "--negatives",
    default="batch",
    show_default=True,
    help="Negatives of each anchor: batch (all anchors, itself too) or others (all but itself).",
)
@click.option("--supervised", is_flag=True, help="Learn the latents themselves, by mean squared error.")
@click.option("--mixing", default="papers", show_default=True, help="papers, papers:5 (layers), package.module:name.")
@click.option(
    "--encoder", default="papers", show_default=True, help="papers, hidden widths as 256x4, or package.module:name."
)
@click.option("--whiten", is_flag=True, help="Give the encoder observations of mean 0 and covariance 1.")
@click.option("--dtype", default="fp32", show_default=True, help="Number format of the encoder: fp32, bf16.")
@click.option("--bound", default="1", show_default=True, help="Where the box's bound starts, or match: the best scale.")
@click.option("--radius", default=1.0, show_default=True, help="Where the sphere's radius starts.")
@click.option("--learnable/--fixed", default=None, help="Train bound and radius; by default boxes do, spheres do not.")
@click.option("--space-lr", type=float, help="Learning rate of bound and radius; --lr by default.")
@click.option("--lambda-lr", default=1e-3, show_default=True, help="Learning rate of Λ̂.")
@click.option("--batch", default=6144, show_default=True, help="Pairs in a step.")
@click.option("--steps", type=int, help="Steps in all; the papers' 300,000 (supervised 100,000) by default.")
@click.option("--lr", default=1e-4, show_default=True, help="Adam's learning rate.")
@click.option("--schedule", default="constant", show_default=True, help="constant, cosine, onecycle.")
@click.option("--seed", default=0, show_default=True, help="Seed of mixing, weights and samples.")
@click.option("--device", default="auto", show_default=True, help="cpu, cuda, cuda:1, mps, or auto.")
@click.option("--save-every", default=1000, show_default=True, help="Steps between checkpoints.")
@click.option("--log-every", default=100, show_default=True, help="Steps between lines of the log.")
@click.option("--out", type=click.Path(path_type=Path), help="The run's folder; below the data root by default.")
@root_option
@click.option("--resume", is_flag=True, help="Go on where the same command stopped.")
@json_option
def mixing(
    lambdas: tuple[str, ...],
    hard: str | None,
    bound: str,
    device: str,
    save_every: int,
    log_every: int,
    out: Path | None,
    root: Path | None,
    resume: bool,
    as_json: bool,
    **options: Any,
) -> int:
    """Identify synthetic latents behind an invertible mixing: minutes instead of GPU days.

    Latents are drawn on the device, mixed by a random invertible perceptron, and an encoder is trained on pairs, as in
    Tables 1 and 2 and in AnInfoNCE. The defaults are the papers' settings; the second line below is quick.

    \b
      ident3d mixing --latent-space box --cond normal --space box --model-p 2
      ident3d mixing --encoder 256x4 --whiten --bound match --batch 1024 --lr 3e-3 --schedule cosine --steps 2000
      ident3d mixing --lambda 5,25                      AnInfoNCE: five latents at 5, five at 25
    """
    from ident3d.training.mixing.scores import score, text
    from ident3d.training.mixing.settings import MixingSettings
    from ident3d.training.mixing.train import mixing

    settings = MixingSettings(
        **options,
        lambdas=tuple(numbers("lambda", given) for given in lambdas),
        hard=() if hard is None else numbers("hard-lambda", hard),
        bound=start_of_bound(bound),
    )
    try:
        work = mixing(
            settings, out=out, root=root, device=device, resume=resume, save_every=save_every, log_every=log_every
        )
    except KeyboardInterrupt:
        click.echo("\nInterrupted; the same command with --resume goes on from the last checkpoint.", err=True)
        return 130
    found = score(work)
    if as_json:
        click.echo(json.dumps({"run": str(work.path), **found}, indent=2))
    else:
        click.echo(f"{text(found, work.settings.lambdas)}\n\n{work.path}")
    return 0
