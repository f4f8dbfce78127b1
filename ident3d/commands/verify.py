"""``ident3d verify``."""

from pathlib import Path

import click

from ident3d.commands.options import dataset_argument, option, options
from ident3d.commands.output import print_warnings, show


@click.command()
@dataset_argument
@options(
    option(
        "--repair",
        is_flag=True,
        help="Rebuild a damaged manifest and move what is broken to DIR/removed-<time>; the same `render` or "
        "`import` then makes it again.",
    ),
    option("--delete", is_flag=True, help="With --repair: delete what a hash proves wrong, instead of moving it."),
    "--json",
)
def verify(directory: Path | str, repair: bool, delete: bool, as_json: bool) -> int:
    """Check every hash, shape, index and latent of a dataset.

    What cannot be read here and now, because of a lock, too little memory or too many open files, is not judged, and
    never removed. The exit code is 0 for a complete dataset with nothing wrong, 1 if something is wrong, missing or not
    closed yet, and 3 if nothing is but something could not be judged.
    """
    from ident3d.loaders.folders.verify import verify

    with print_warnings():
        result = verify(directory, repair=repair, delete=delete)
    lines = [problem.what for problem in result.problems]
    lines += [f"not judged: {each.what}" for each in result.unjudged]
    rest = result.total - result.good - result.missing
    others = f", {rest:,} are lost, broken or not judged" if rest > 0 else ""
    lines.append(f"{result.good:,} images are as recorded, {result.missing:,} are not made yet{others}.")
    if not (result.closed or result.missing or result.problems or result.unjudged):
        lines.append(f"{result.path} is not closed yet: the same `ident3d render` or `import` closes it.")
    lines += result.done
    if result.unjudged:
        lines.append("What was not judged is untouched; verify it again when its reason is gone.")
    if result.repaired and result.closed:
        lines.append("All images are there. The same `ident3d render` makes a lost card again, `pack` images.u8.")
    elif result.repaired:
        lines.append("The same `ident3d render` or `import` as before makes what is missing again, and closes it.")
    elif result.missing and not result.problems:
        lines.append("The same `ident3d render` or `import` as before makes what is missing.")
    elif result.problems and not result.done:
        lines.append("Add --repair: it moves what is broken aside, and the same `render` or `import` makes it again.")
    show(result, as_json, "\n".join(lines), sound=result.sound)
    # Scripts stop on these exit codes; 2 is left for a wrong command.
    if result.sound:
        return 0
    return 1 if result.problems or result.missing or not result.closed else 3
