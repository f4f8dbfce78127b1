"""``ident3d train``."""

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ident3d.commands.options import LOSS, Sectioned, is_given, option, options, settings_of
from ident3d.commands.output import interruptible, show
from ident3d.commands.parameters import StoreOrPath, number_or, numbers
from ident3d.errors import UserError
from ident3d.machine import untried

if TYPE_CHECKING:
    from ident3d.latents.worlds import AnyWorld
    from ident3d.training.images.settings import TrainSettings


@click.command(cls=Sectioned)
@click.argument("directory", metavar="[DIR]", required=False, type=StoreOrPath())
@options(
    option("--size", show_default="as stored"),
    option("--workers", show_default="chosen by the data"),
    "--root",
    "--allow-same",
    section="Data",
)
@options(
    "--rule",
    option("--cond", metavar="[normal|laplace|gennorm|vmf|augment]"),
    "--cond-p",
    option("--sigma", default=0.1),
    option("--lambda", "lambdas", multiple=True, type=numbers(), show_default="1/σ²"),
    option("--hard-lambda", "hard"),
    "--only",
    "--same-class",
    "--environments",
    "--search",
    "--augment",
    "--grid",
    "--rate",
    "--max-lag",
    section="Pairs",
)
@options(
    option(
        "--encoder",
        default="resnet18",
        metavar="[conv|higgins|locatello|resnet18|resnet34|resnet50|512x2|package.module:name]",
    ),
    option("--dim", show_default="as many as latents vary"),
    option("--space", metavar="[box|sphere|unbounded|box*sphere]"),
    option("--bound", type=number_or("auto"), default="auto"),
    "--radius",
    "--learnable/--fixed",
    option("--dtype", default="auto", metavar=f"[auto|fp32|bf16|fp16]{untried('fp16')}"),
    option("--compile", is_flag=True, help=f"Compile the encoder with torch.compile{untried('compile on GPUs')}."),
    option("--sync-bn", is_flag=True, help=f"Batch statistics over all ranks, on CUDA{untried('nccl')}."),
    section="Encoder",
)
@options(
    option("--loss", metavar="[delta|infonce|simclr|au|aninfonce|pcl|slowvae|betavae|adagvae|package.module:name]"),
    *LOSS[1:],
    option("--drop-last", is_flag=True, help="Leave the last code out of the loss au, as the public code does."),
    option("--beta", type=float, show_default="8 for betavae, else 1", help="Weight β of the prior in autoencoders."),
    option("--gamma", type=float, show_default="10", help="Weight γ of the transition within a pair in slowvae."),
    option(
        "--laplace-rate", type=float, show_default="6", help="Rate λ of the Laplace distribution of that transition."
    ),
    section="Loss",
)
@options(
    option("--batch", default=512),
    option("--chunk", type=int, help="Images that the encoder takes at once; all negatives are kept."),
    option("--steps", default=30_000),
    "--lr",
    option("--space-lr", show_default="20 times --lr with --bound auto, else --lr"),
    option("--lambda-lr", show_default="--lr, at least 0.001"),
    "--schedule",
    section="Optimiser",
)
@options(
    "--seed",
    option("--seeds", show_default="the one of --seed"),
    "--device",
    option("--out", show_default="below the data root's runs folder"),
    "--resume",
    option("--save-every", default=500),
    option("--log-every", default=20),
    option("--tensorboard", is_flag=True, help="Write TensorBoard's files as well."),
    "--metrics",
    "--json",
    section="Run",
)
def train(directory: Path | str | None, as_json: bool, **given: Any) -> None:
    """Train an encoder, score it on held-out images, and write a report.

    DIR may be omitted if there is only one complete training set below the data root. The defaults are the paper's
    but for the box: --bound auto estimates its start from the pairs, and its bound moves 20 times as fast. Larger
    stored images are averaged down to --size. Under torchrun, ranks share the batch and see each other's negatives.

    --lambda takes one number, one per latent or one per half of them (5,25); given twice, each anchor has two
    positives. κ of --cond vmf is 1/σ. Encoders: conv for small images, higgins and locatello for 64 pixels, a ResNet
    also with +flat or +small-stem, both it and conv with +projector512, 512x2 a perceptron of these hidden layers. The
    losses slowvae, betavae and adagvae train autoencoders, on 64 pixels, or any with a perceptron. package.module:name
    is your own encoder or loss.

    \b
      ident3d train --space box --cond normal           the paper's best row
      ident3d train --encoder conv --lr 1e-3 --schedule onecycle --steps 2000     the same on a CPU, images of 64 pixels
      ident3d train --space sphere --cond augment       SimCLR
      ident3d train --supervised                        the ceiling
      ident3d train --loss slowvae --encoder higgins --dim 10 --batch 32          SlowVAE, on 64 images at a time
      ident3d train --loss betavae --beta 2 --encoder 512x2 --dim 10 --cond augment --augment none     a VAE, on MNIST
      ident3d train --seeds 0,1,2                       three runs, one after the other, and their spread
      torchrun --nproc-per-node 8 -m ident3d train      eight GPUs
    """
    from ident3d.loaders.folders.folder import local_copy
    from ident3d.loaders.format.latents_source import world_of
    from ident3d.metrics.scoring import choose_scores
    from ident3d.training.images.settings import OF_RULE, TrainSettings
    from ident3d.training.images.train import train
    from ident3d.training.images.which_dataset import training_folder
    from ident3d.training.loop.devices import rank
    from ident3d.training.losses.choice import check_seeds
    from ident3d.training.report.finish import finish
    from ident3d.training.runs.comparison import compare

    settings, metrics = settings_of(TrainSettings, given), given.pop("metrics")
    # Who asks for a width, even the usual one, asks for nearest pairs, also of rendered views and sequences.
    if settings.rule is None and is_given(*OF_RULE["nearest"]):
        settings = replace(settings, rule="nearest")
    # A name that does not exist is refused before hours of training.
    choose_scores(metrics)
    seeds, out = given.pop("seeds"), given.pop("out")
    if seeds is not None:
        check_seeds(seeds)
        if settings.seed:
            raise UserError("Take either --seed or --seeds.")
        if int(os.environ.get("WORLD_SIZE", "1")) > 1:
            raise UserError("--seeds is for one process; under torchrun, start a training for each --seed.")
    path, description = training_folder(
        None if directory is None else local_copy(directory), given["root"], allow_same=given["allow_same"]
    )
    which = ""
    if directory is None:
        which = f", the only training set below the data root ({description.n:,} images of {description.size} pixels)"
    # A run that goes on has the settings that it was started with, with or without effect.
    if not given["resume"]:
        check_used(settings, world_of(description.settings))
    if rank() == 0:
        click.echo(f"Training on {directory or path}{which}", err=True)
    all_finished = []
    for seed in seeds or (settings.seed,):
        own = out
        if seeds is not None:
            click.echo(f"Seed {seed}", err=True)
            own = None if out is None else out / f"seed{seed}"
        with interruptible():
            run = train(path, replace(settings, seed=seed), out=own, **given)
        # The first rank alone scores and reports.
        if rank() == 0:
            where = {name: given[name] for name in ("root", "device", "allow_same")}
            all_finished.append(finish(run, **where, encoder=settings.encoder, metrics=metrics))
            if not as_json:
                click.echo(all_finished[-1].text())
    if seeds is not None:
        found = compare([finished.run for finished in all_finished])
        runs = [finished.as_dict() for finished in all_finished]
        show({"runs": runs, "comparison": found.as_dict()}, as_json, f"\n{found.table()}")
    elif as_json and all_finished:
        show(all_finished[0], as_json)


def check_used(s: "TrainSettings", world: "AnyWorld") -> None:
    """Raise UserError for an option of the command line that the space or the loss leaves without effect."""
    from ident3d.training.encoders.choice import SPACES
    from ident3d.training.images.defaults import usual_loss, usual_space
    from ident3d.training.losses.choice import WITH_NEGATIVES

    space = s.space or ("unbounded" if s.supervised else usual_space(s, world))
    named = "--supervised" if s.supervised else f"--space {space}"
    # A space that is misspelt is judged with the rest of the settings.
    if not set(space.split("*")) <= set(SPACES):
        return
    for name, kind in (("bound", "box"), ("radius", "sphere")):
        if is_given(name) and kind not in space:
            raise UserError(f"--{name} is for a {kind}, and {named} has none: leave it away, or name another --space.")
    if space == "unbounded" and (is_given("learnable") or is_given("space_lr")):
        raise UserError(f"--learnable, --fixed and --space-lr are for a box or a sphere, and {named} has none.")
    if s.learnable is False and is_given("space_lr"):
        raise UserError("--fixed keeps the space as it starts, and so takes no --space-lr.")
    if space == "sphere" and not s.learnable and is_given("space_lr"):
        raise UserError("A sphere keeps its radius unless --learnable is given, and so takes no --space-lr.")
    loss = s.loss or usual_loss(s, space)
    if is_given("negatives") and loss not in WITH_NEGATIVES:
        named = "--supervised" if s.supervised else f"--loss {loss}"
        raise UserError(f"--negatives is for --loss {', '.join(WITH_NEGATIVES)}, not for {named}.")
