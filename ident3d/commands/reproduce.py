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
@click.option("--world", "worlds", multiple=True, help="Only this world of the profile; repeatable.")
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
    worlds: tuple[str, ...],
    device: str,
    out: Path | None,
    root: Path | None,
    as_json: bool,
) -> int:
    """Run a paper's image experiment: table4 or causal3dident.

    Renders what is missing, trains the rows that are not finished, and writes a table with the paper's numbers beside
    ours. The same command goes on where it was interrupted.

    \b
      ident3d reproduce table4                                  both small worlds, hours on a CPU
      ident3d reproduce table4 --world seven --rows box-normal  one row, about 20 minutes
      ident3d reproduce table4 --profile paper --seeds 0,1,2    the paper's own size
    """
    from ident3d.errors import UserError
    from ident3d.reproducing import reproduce

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
            worlds=[name for given in worlds for name in given.split(",")],
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
