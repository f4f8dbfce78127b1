"""``ident3d evaluate``."""

from pathlib import Path
from typing import Any

import click

from ident3d.commands.options import option, options, run_argument
from ident3d.commands.output import show
from ident3d.commands.parameters import names
from ident3d.errors import UserError


@click.command()
@run_argument
@options(
    "--data",
    "--metrics",
    option("--n", "count", default=4096),
    option(
        "--bn-batch-stats", is_flag=True, help="Use each batch's statistics in batch norm, as the public code does."
    ),
    "--allow-same",
    option("--protocol", help="Score as another paper's code does: slowvae, on the training images by default."),
    option("--fraction", default=1.0, help="With --protocol, the share of its sample counts to draw."),
    option(
        "--readout",
        type=names("all"),
        help="Read the class and these single augmentations out of frozen features: all, or grey, brightness, "
        "contrast, saturation, hue, crop, blur.",
    ),
    option("--encoder", metavar="package.module:name", show_default="the run's, unless it is your own code"),
    "--device",
    "--seed",
    "--root",
    "--json",
)
def evaluate(
    run: Path, data: Path | str | None, protocol: str | None, fraction: float,
    readout: str | tuple[str, ...] | None, as_json: bool, **given: Any,
) -> None:  # fmt: skip
    """Score a run on held-out images, the first N of the dataset.

    Prints and writes every score, with the values per latent, and renews the run's report.

    \b
      ident3d evaluate RUN                          on the matching test set, next to the training set
      ident3d evaluate RUN --data DIR --n 1024      on the first 1,024 images of another folder
      ident3d evaluate RUN --metrics all            all scores
      ident3d evaluate RUN --readout grey,blur      how well features tell grey from colour, blurred from sharp
      ident3d evaluate RUN --protocol slowvae       BetaVAE, FactorVAE, MIG, DCI, … as the SlowVAE paper took them
    """
    from ident3d.training.diagnostics.readout import read_out
    from ident3d.training.images.by_protocol import evaluate_by_protocol
    from ident3d.training.images.evaluate import evaluate
    from ident3d.training.report.report import write_report

    if protocol is None and fraction != 1:
        raise UserError("--fraction is for --protocol.")
    if readout is not None:
        usual = {"count": 4096, "bn_batch_stats": False, "allow_same": False, "metrics": "default"}
        if protocol is not None or (useless := [name for name, value in usual.items() if given[name] != value]):
            other = "protocol" if protocol else {"count": "n"}.get(useless[0], useless[0]).replace("_", "-")
            raise UserError(f"--{other} does not go with --readout.")
        own = {name: given[name] for name in ("encoder", "device", "seed", "root")}
        read = read_out(run, data, None if readout == "all" else readout, **own)
        show(read, as_json)
        # A page of scores by a protocol cannot be made again without them.
        if not any(run.glob("protocol-*.json")):
            click.echo(f"\nReport: {write_report(run)}", err=as_json)
        return
    if protocol is not None:
        # A protocol has its own sample counts, and images that the run was trained on are what it asks for.
        usual = {"count": 4096, "bn_batch_stats": False, "allow_same": False, "root": None}
        if useless := [name for name, value in usual.items() if given[name] != value]:
            option_name = {"count": "n"}.get(useless[0], useless[0]).replace("_", "-")
            raise UserError(f"--{option_name} is not for --protocol; its sample counts are scaled by --fraction.")
        named = None if given["metrics"] in ("default", "all") else given["metrics"]
        own = {name: given[name] for name in ("encoder", "device", "seed")}
        show(evaluate_by_protocol(run, protocol, data, metrics=named, fraction=fraction, **own), as_json)
        return
    found = evaluate(run, data, **given)
    # The report shows the newest scores, so it is written again.
    report = write_report(run, found)
    show(found, as_json, f"{found.table()}\n\nReport: {report}")
