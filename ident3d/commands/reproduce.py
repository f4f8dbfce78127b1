"""``ident3d reproduce``."""

import json
from pathlib import Path

import click

from ident3d.commands.options import json_option, root_option


@click.command()
@click.argument("experiment")
@click.option("--profile", default="mini", show_default=True, help="paper (full size), or mini (for a CPU).")
@click.option("--rows", multiple=True, metavar="ROW", help="Only these rows; repeatable, or separated by commas.")
@click.option("--seeds", default="0", show_default=True, help="Seeds, separated by commas.")
@click.option("--variant", "variants", multiple=True, help="Only this variant of the profile; repeatable.")
@click.option("--workers", type=int, help="Rows on mixed latents at the same time; one for each core by default.")
@click.option("--device", default="auto", show_default=True, help="cpu, cuda, cuda:1, mps, or auto.")
@click.option(
    "--out", type=click.Path(path_type=Path), help="Folder of runs and tables; below the data root by default."
)
@root_option
@json_option
def reproduce(
    experiment: str,
    profile: str,
    rows: tuple[str, ...],
    seeds: str,
    variants: tuple[str, ...],
    workers: int | None,
    device: str,
    out: Path | None,
    root: Path | None,
    as_json: bool,
) -> int:
    """Run a paper's experiment and write a table with the paper's numbers beside ours.

    On images: table4, causal3dident; what is missing is rendered. On mixed latents: table1, table2, figure2,
    aninfonce-fig2, aninfonce-linear, hard-negatives, ensemble, dimension-batch. Finished rows are skipped, and the same
    command goes on where it was interrupted.

    \b
      ident3d reproduce table1                                    all rows, as many at once as there are cores
      ident3d reproduce table4                                    both small variants, hours on a CPU
      ident3d reproduce table4 --variant seven --rows box-normal  one row, about 20 minutes
      ident3d reproduce table4 --profile paper --seeds 0,1,2      the paper's own size
    """
    from ident3d.errors import UserError
    from ident3d.reproduction.reproduce import reproduce

    try:
        numbers = [int(seed) for seed in seeds.split(",")]
    except ValueError:
        raise UserError(f"--seeds takes whole numbers separated by commas, such as 0,1,2, not {seeds!r}.") from None
    try:
        folder, markdown = reproduce(
            experiment,
            profile=profile,
            rows=[name for given in rows for name in given.split(",")],
            seeds=numbers,
            variants=[name for given in variants for name in given.split(",")],
            workers=workers,
            out=out,
            root=root,
            device=device,
            say=lambda sentence: click.echo(sentence, err=True),
        )
    except KeyboardInterrupt:
        click.echo("\nInterrupted; the same command goes on from the last checkpoint.", err=True)
        return 130
    if as_json:
        click.echo(json.dumps(json.loads((folder / "table.json").read_text(encoding="utf-8")), indent=2))
    else:
        click.echo(f"{markdown}\nReport: {folder / 'report.html'}")
    return 0
