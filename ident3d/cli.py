"""The ``ident3d`` command: a group whose commands load on demand, listed by what they are for."""

import atexit
import os
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from keyword import iskeyword
from typing import Any, NoReturn

import click

from ident3d import __version__
from ident3d.errors import UserError, check_known

# section of the help -> its commands; each lives in ident3d/commands/NAME.py
SECTIONS: dict[str, tuple[str, ...]] = {
    "Data": ("datasets", "render", "sprites", "meshes", "verify", "info", "pack", "import", "export"),
    "Pairs": ("index", "pairs"),
    "Training": ("train", "evaluate", "encode", "score", "mixing", "reproduce", "runs", "compare"),
    "Looking": ("preview", "explore", "traverse", "diagnose", "scene", "graph"),
    "Health": ("doctor", "bench"),
}


class Commands(click.Group):
    """A click group that ends every mistake with one sentence.

    `sections` lists commands by what they are for; each is imported from its own module when it is needed. Commands
    that are added as click does it, as those of ``ident3d bench`` are, need no sections.
    """

    def __init__(self, *args: Any, sections: Mapping[str, Sequence[str]] | None = None, **options: Any) -> None:
        super().__init__(*args, **options)
        self.sections = sections or {}

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [name for names in self.sections.values() for name in names] or super().list_commands(ctx)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if not self.sections or name not in self.list_commands(ctx):
            return super().get_command(ctx, name)
        # The command import lives in import_, since a module cannot carry a keyword's name.
        own = name + "_" * iskeyword(name)
        command: click.Command = getattr(import_module(f"ident3d.commands.{own}"), own)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and not args[0].startswith("-"):
            check_known("command", args[0], self.list_commands(ctx))
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for section, names in (self.sections or {"Commands": self.list_commands(ctx)}).items():
            commands = [(name, self.get_command(ctx, name)) for name in names]
            with formatter.section(section):
                # A summary is the first sentence of a docstring, which is one line and never cut.
                formatter.write_dl([(name, command.get_short_help_str(120)) for name, command in commands if command])

    def main(self, args: Sequence[str] | None = None, *rest: Any, **options: Any) -> Any:
        """Run one command. The exit code is 0 if it worked, 2 for the user's mistake, 130 if it was interrupted."""
        # Click would end mistakes with several lines and exit code 1.
        options["standalone_mode"] = False
        try:
            for word in sys.argv[1:] if args is None else args:
                check_utf8(word)
            result = super().main(args, *rest, **options)
        except UserError as error:
            fail(str(error))
        except click.exceptions.NoArgsIsHelpError as error:
            click.echo(error.ctx.get_help() if error.ctx else error.format_message())
            sys.exit(0)
        except click.ClickException as error:
            fail(error.format_message())
        # The program that read our output has ended, as `head` does.
        except BrokenPipeError:
            sys.exit(1)
        except OSError as error:
            where = f"{error.filename}: " if error.filename else ""
            fail(f"{where}{error.strerror or error}.")
        except MemoryError:
            fail("There is not enough memory for this.")
        except (ImportError, SystemError) as error:
            if not lacks_room(error):
                raise
            fail("There is not enough memory to load the libraries.")
        except (click.Abort, KeyboardInterrupt):
            click.echo("Interrupted.", err=True)
            sys.exit(130)
        sys.exit(result if isinstance(result, int) else 0)


def check_utf8(word: str) -> None:
    """Raise UserError for a path that is not UTF-8: no message, record or report could hold its name."""
    try:
        word.encode()
    except UnicodeEncodeError:
        raise UserError(f"The name {os.fsencode(word)!r} is not UTF-8; rename the file or folder.") from None


def lacks_room(error: BaseException | None) -> bool:
    """Return whether a library could not be loaded because the address space is too small (ulimit -v)."""
    # NumPy raises errors of its own after what the system said.
    # A module whose memory ends while C code sets it up ends in a SystemError, which names no reason.
    return error is not None and (
        "failed to map segment" in str(error) or isinstance(error, SystemError) or lacks_room(error.__context__)
    )


def fail(sentence: str) -> NoReturn:
    """Print what was wrong as one line and exit with code 2."""
    click.echo(f"Error: {' '.join(sentence.split())}", err=True)
    sys.exit(2)


@click.group(
    cls=Commands,
    sections=SECTIONS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)
@click.version_option(__version__, prog_name="ident3d")
def main() -> None:
    """Image benchmarks with known latent factors: render, pair, train, score.

    Every command has its own --help. Each but bench does what the Python function of the same name does.
    """


def run() -> None:
    """Run the command line of this process, and end the process even where Blender's own clean-up would wait for good.

    Blender 4.5 waits for its sound thread if anything still holds the module bpy while Python ends, such as a user's
    scene. By then all that is ours is done: this handler was registered first, and so is the last.
    """
    code = 1

    def end() -> None:
        if "bpy" in sys.modules:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)

    atexit.register(end)
    try:
        main()
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else 0 if error.code is None else 1
        raise
