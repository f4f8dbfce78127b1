"""``ident3d mixing``."""

from typing import Any

import click

from ident3d.commands.options import LOSS, Sectioned, option, options, settings_of
from ident3d.commands.output import interruptible, show
from ident3d.commands.parameters import number_or, numbers


@click.command(cls=Sectioned)
@options(
    option("--latent-space", show_default="box; sphere with --lambda", help="Where latents live: box, sphere, "
           "unbounded."),
    option("--dim", default=10),
    option("--marginal", show_default="uniform; normal if unbounded",
           help="Marginal p(z): uniform, normal, laplace, gennorm, vmf (sphere)."),
    option("--marginal-sigma", default=1.0, help="Width of the marginal."),
    option("--marginal-kappa", default=1.0, help="Concentration κ of the marginal vmf."),
    option("--mixing", default="papers",
           help="Mixing: papers, papers:5 (layers), decoder:RUN (an autoencoder's), or your own as "
           "package.module:name."),
    section="Data",
)  # fmt: skip
@options(
    option("--cond", default=None, metavar="[normal|laplace|gennorm|vmf|rejected_normal]",
           show_default="normal; rejected_normal with --lambda"),
    option("--sigma", default=0.05),
    option("--cond-p", default=3.0),
    option("--kappa", default=1.0),
    option("--lambda", "lambdas", multiple=True, type=numbers()),
    option("--hard-lambda", "hard"),
    option("--hard-count", default=8, help="Hard negatives of each anchor."),
    option("--hard-beside", is_flag=True, help="Keep the batch's other anchors as negatives next to hard ones."),
    option("--hard-after", default=0, help="Steps before hard negatives come."),
    section="Pairs",
)  # fmt: skip
@options(
    option("--encoder", default="papers", metavar="[papers|256x4|100,500x4,100|package.module:name]"),
    option("--whiten", is_flag=True, help="Give the encoder observations of mean 0 and covariance 1."),
    option("--space", metavar="[box|sphere|unbounded]"),
    option("--bound", type=number_or("match"), default="1"),
    "--radius",
    "--learnable/--fixed",
    option("--dtype", default="fp32", metavar="[fp32|bf16]"),
    section="Encoder",
)
@options(
    option("--loss", metavar="[delta|infonce|simclr|au|aninfonce|tricl|tricl-released|package.module:name]"),
    *LOSS[1:],
    section="Loss",
)
@options(
    option("--batch", default=6144),
    option("--steps", show_default="300,000; supervised 100,000"),
    "--lr",
    "--space-lr",
    option("--lambda-lr", default=1e-3),
    "--schedule",
    section="Optimiser",
)
@options(
    "--seed",
    "--device",
    option("--out", show_default="below the data root's mixing folder"),
    "--root",
    "--resume",
    option("--save-every", default=1000),
    option("--log-every", default=100),
    "--json",
    section="Run",
)
def mixing(as_json: bool, **given: Any) -> None:
    """Identify latents behind an invertible mixing, in minutes instead of GPU days.

    Latents are drawn on the device, mixed by a random invertible perceptron, and an encoder is trained on pairs, as in
    Tables 1 and 2 and in AnInfoNCE. A report is written. The defaults are the papers' settings; the second
    line below is quick.

    There are as many latents as codes. --lambda takes one number, one per latent or one per half of them (5,25); each
    time that it is given there is one more conditional. An encoder is the papers' or has hidden layers of the widths
    given; package.module:name is your own encoder or loss. --bound match starts the box at its best width.

    \b
      ident3d mixing --latent-space box --cond normal --space box --model-p 2
      ident3d mixing --encoder 256x4 --whiten --bound match --batch 1024 --lr 3e-3 --schedule cosine --steps 2000
      ident3d mixing --lambda 5,25                      AnInfoNCE: five latents at 5, five at 25
      ident3d mixing --lambda 5,25 --mixing decoder:RUN --encoder 512x2     the same on images that a decoder makes
    """
    from ident3d.training.mixing.scores import evaluate_mixing, shown_figures
    from ident3d.training.mixing.settings import MixingSettings
    from ident3d.training.mixing.train import mixing
    from ident3d.training.report.mixing_report import write_mixing_report

    with interruptible():
        work = mixing(settings_of(MixingSettings, given), **given)
    found = evaluate_mixing(work)
    assert work.path is not None
    report = write_mixing_report(work.path, found)
    text_of = f"{shown_figures(found, work.settings)}\n\nRun: {work.path}\nReport: {report}"
    show({"run": work.path, "report": report, **found}, as_json, text_of)
