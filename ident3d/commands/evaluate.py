"""``ident3d evaluate``."""

import json
from pathlib import Path

import click

from ident3d.commands.options import Place, json_option, root_option


@click.command()
@click.argument("run", metavar="RUN", type=click.Path(path_type=Path))
@click.option("--data", type=Place(), help="Folder to score on; the matching test set by default.")
@click.option(
    "--metrics", default="default", show_default=True, help="default, all, or names of scores separated by commas."
)
@click.option("--count", default=4096, show_default=True, help="Images to score on, from the first.")
@click.option("--bn-batch-stats", is_flag=True, help="Batch norm by each batch's statistics, as the public code does.")
@click.option("--allow-same", is_flag=True, help="Score on images that the run was trained on, and label it.")
@click.option("--encoder", help="The run's encoder, where it is your own: package.module:name.")
@click.option("--device", default="auto", show_default=True, help="cpu, cuda, cuda:1, mps, or auto.")
@click.option("--seed", default=0, show_default=True, help="Seed of the held-out split and of every draw.")
@root_option
@json_option
def evaluate(
    run: Path,
    data: Path | str | None,
    metrics: str,
    count: int,
    bn_batch_stats: bool,
    allow_same: bool,
    encoder: str | None,
    device: str,
    seed: int,
    root: Path | None,
    as_json: bool,
) -> None:
    """Score a run on held-out images.

    Prints and writes down every score, with the values per latent, and renews the run's report.
    """
    from ident3d.training.images.evaluate import evaluate
    from ident3d.training.report.report import write_report

    found = evaluate(
        run,
        data,
        metrics=metrics if metrics in ("default", "all") else [name.strip() for name in metrics.split(",")],
        count=count,
        bn_batch_stats=bn_batch_stats,
        allow_same=allow_same,
        encoder=encoder,
        device=device,
        seed=seed,
        root=root,
    )
    report = write_report(run)
    click.echo(json.dumps(found.as_dict(), indent=2) if as_json else f"{found.table()}\n\nReport: {report}")
