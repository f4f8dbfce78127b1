"""``ident3d train``."""

import json
from pathlib import Path
from typing import Any

import click

from ident3d.commands.options import Place, json_option, root_option


@click.command()
@click.argument("directory", metavar="[DIR]", required=False, type=Place())
@click.option("--space", help="Output space: box (box*sphere if periodic), sphere (SimCLR's), unbounded (supervised).")
@click.option(
    "--cond", default="normal", show_default=True, help="Views: normal, laplace, gennorm, vmf (periodic), or augment."
)
@click.option("--cond-p", type=float, help="Power of the conditional gennorm; 3 by default.")
@click.option("--sigma", default=0.1, show_default=True, help="The conditional's width; κ of vmf is 1/sigma.")
@click.option("--only", multiple=True, metavar="LATENT", help="A latent or group that changes in a pair; repeatable.")
@click.option("--same-class", is_flag=True, help="Keep each pair within its class.")
@click.option("--search", default="exact", show_default=True, help="exact (k-d tree), flat (FAISS), ivf (the papers').")
@click.option(
    "--augment",
    default="simclr",
    show_default=True,
    help="With --cond augment: simclr, crop-small, crop-large, colour, rotation, joined by +.",
)
@click.option(
    "--loss", help="delta, infonce (the sphere's), simclr, au, aninfonce, or your own as package.module:name."
)
@click.option("--model-p", type=float, help="Power p of the L_δ loss: 1 Laplace, 2 normal (default), 3 and so on.")
@click.option("--tau", default=1.0, show_default=True, help="Temperature of delta, infonce and simclr.")
@click.option("--alpha", default=0.5, show_default=True, help="Share of uniformity in the loss au.")
@click.option(
    "--negatives",
    default="batch",
    show_default=True,
    help="Negatives of each anchor: batch (all anchors, itself too) or others (all but itself).",
)
@click.option("--supervised", is_flag=True, help="Learn the latents themselves, by mean squared error.")
@click.option(
    "--encoder", default="resnet18", show_default=True, help="resnet18, 34, 50, or your own as package.module:name."
)
@click.option("--dim", type=int, help="Number of codes; as many as latents vary by default.")
@click.option("--bound", default=1.0, show_default=True, help="Where the box's bound starts, in each dimension.")
@click.option("--radius", default=1.0, show_default=True, help="Where the sphere's radius starts.")
@click.option("--learnable/--fixed", default=None, help="Train bound and radius; by default boxes do, spheres do not.")
@click.option("--space-lr", type=float, help="Learning rate of bound and radius; --lr by default.")
@click.option("--size", type=int, help="Side of the images; smaller than stored is averaged over areas.")
@click.option("--batch", default=512, show_default=True, help="Pairs in a step, over all ranks.")
@click.option("--chunk", type=int, help="Images that the encoder takes at once; all negatives are kept.")
@click.option("--steps", default=30_000, show_default=True, help="Steps in all.")
@click.option("--lr", default=1e-4, show_default=True, help="Adam's learning rate.")
@click.option("--schedule", default="constant", show_default=True, help="constant; onecycle or cosine for short runs.")
@click.option("--seed", default=0, show_default=True, help="Seed of weights, pairs and augmentations.")
@click.option("--dtype", default="auto", show_default=True, help="fp32, bf16, fp16; auto measures at the start.")
@click.option("--compile", is_flag=True, help="Compile the encoder with torch.compile.")
@click.option("--sync-bn", is_flag=True, help="Batch statistics over all ranks (CUDA).")
@click.option("--device", default="auto", show_default=True, help="cpu, cuda, cuda:1, mps, or auto.")
@click.option("--workers", type=int, help="Processes that load batches; chosen by the data by default.")
@click.option("--save-every", default=500, show_default=True, help="Steps between checkpoints.")
@click.option("--log-every", default=20, show_default=True, help="Steps between lines of the log.")
@click.option("--tensorboard", is_flag=True, help="Write TensorBoard's files as well.")
@click.option("--out", type=click.Path(path_type=Path), help="The run's folder; below the data root's runs by default.")
@root_option
@click.option("--resume", is_flag=True, help="Go on where the same command stopped.")
@click.option("--allow-same", is_flag=True, help="Train on a test set, or score on the training set, and label it.")
@json_option
def train(
    directory: Path | str | None,
    device: str,
    workers: int | None,
    save_every: int,
    log_every: int,
    tensorboard: bool,
    out: Path | None,
    root: Path | None,
    resume: bool,
    allow_same: bool,
    as_json: bool,
    **options: Any,
) -> int:
    """Train an encoder, score it on held-out images, and write a report.

    DIR is by default the newest complete training set below the data root. The defaults are the paper's: a row of
    Table 4 is one line. Under torchrun, ranks share the batch and see each other's negatives.

    \b
      ident3d train --space box --cond normal           the paper's best row
      ident3d train --space sphere --cond augment       SimCLR
      ident3d train --supervised                        the ceiling
      torchrun --nproc-per-node 8 -m ident3d train      eight GPUs
    """
    from ident3d.training.images.settings import Settings
    from ident3d.training.images.train import train
    from ident3d.training.images.which_dataset import training_folder
    from ident3d.training.loop.devices import rank
    from ident3d.training.report.finish import finish

    if directory is None:
        directory = training_folder(None, root)[0]
    if rank() == 0:
        click.echo(f"Training on {directory}", err=True)
    try:
        run = train(
            directory,
            Settings(**options),
            out=out,
            root=root,
            device=device,
            resume=resume,
            allow_same=allow_same,
            workers=workers,
            save_every=save_every,
            log_every=log_every,
            tensorboard=tensorboard,
        )
    except KeyboardInterrupt:
        click.echo("\nInterrupted; the same command with --resume goes on from the last checkpoint.", err=True)
        return 130
    if rank() > 0:
        return 0
    finished = finish(run.path, root=root, device=device, allow_same=allow_same, encoder=options["encoder"])
    click.echo(json.dumps(finished.as_dict(), indent=2) if as_json else finished.text())
    return 0
