"""``ident3d verify``."""

from pathlib import Path

import click

from ident3d.commands.options import dataset_argument, option, options, print_warnings, show


@click.command()
@dataset_argument
@options(
    option(
        "--repair", is_flag=True, help="Remove what is broken, so that the same `render` or `import` makes it again."
    ),
    "--json",
)
def verify(directory: Path | str, repair: bool, as_json: bool) -> int:
    """Check every hash, shape, index and latent of a dataset.

    The exit code is 0 for a complete dataset with nothing wrong, else 1.
    """
    from ident3d.loaders.folders.verify import verify

    with print_warnings():
        result = verify(directory, repair=repair)
    lines = [problem.what for problem in result.problems]
    lines.append(f"{result.good:,} images are as recorded, {result.missing:,} are not rendered yet.")
    if result.repaired:
        lines.append("What was broken is removed; the same `ident3d render` or `import` as before makes it again.")
    elif result.problems:
        lines.append("Add --repair to remove what is broken, so that the same `render` or `import` makes it again.")
    show(result, as_json, "\n".join(lines), sound=result.sound)
    # Scripts stop on this exit code; 2 is left for a wrong command.
    return 0 if result.sound else 1
