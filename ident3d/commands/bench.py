"""``ident3d bench``: the group; each benchmark is ``bench_<name>`` in a module of that name."""

import click

from ident3d.cli import Commands

SECTIONS = {
    "Benchmarks": (
        "classes",
        "farm",
        "loader",
        "losses",
        "metrics",
        "mixing",
        "render",
        "scale",
        "shards",
        "train",
    ),
}


@click.group(cls=Commands, sections=SECTIONS, prefix="bench_")
def bench() -> None:
    """Measure what the README claims.

    Every figure comes with a baseline measured in the same run.
    """
