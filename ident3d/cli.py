"""The ``ident3d`` command: a group whose commands load on demand, listed by what they are for."""

import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from keyword import iskeyword
from typing import Any, NoReturn

import click

from ident3d import __version__
from ident3d.errors import UserError, unknown

# section of the help -> its commands; each lives in ident3d/commands/<name>.py
SECTIONS: dict[str, tuple[str, ...]] = {
    "Data": ("render", "meshes", "verify", "info", "pack", "import", "export"),
    "Pairs": ("index", "pairs"),
    "Training": ("train", "evaluate", "encode", "score", "mixing", "reproduce"),
    "Looking": ("preview", "traverse", "graph"),
    "Health": ("doctor", "bench"),
}


class Commands(click.Group):
    """A click group that imports a command's module when it is needed and ends every mistake with one sentence.

    `sections` lists the commands by what they are for; the command ``name`` is ``<prefix>name`` in the module
    ``ident3d.commands.<prefix>name``.
    """

    def __init__(self, *args: Any, sections: Mapping[str, Sequence[str]], prefix: str = "", **options: Any) -> None:
        super().__init__(*args, **options)
        self.sections = sections
        self.prefix = prefix

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [name for names in self.sections.values() for name in names]

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in self.list_commands(ctx):
            return None
        own = self.prefix + name + "_" * iskeyword(name)  # import lives in import_
        command: click.Command = getattr(import_module(f"ident3d.commands.{own}"), own)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and not args[0].startswith("-") and args[0] not in self.list_commands(ctx):
            raise unknown("command", args[0], self.list_commands(ctx))
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for section, names in self.sections.items():
            commands = [(name, self.get_command(ctx, name)) for name in names]
            rows = [(name, command.get_short_help_str(90)) for name, command in commands if command]
            if rows:
                with formatter.section(section):
                    formatter.write_dl(rows)

    def main(self, args: Sequence[str] | None = None, *rest: Any, **options: Any) -> Any:
        """Run one command. Exit code 0: done; 2: the user's mistake, told in one sentence; 130: interrupted."""
        options["standalone_mode"] = False
        try:
            result = super().main(args, *rest, **options)
        except UserError as error:
            fail(str(error))
        except click.exceptions.NoArgsIsHelpError as error:
            click.echo(error.ctx.get_help() if error.ctx else error.format_message())
            sys.exit(0)
        except click.ClickException as error:
            fail(error.format_message())
        except BrokenPipeError:
            sys.exit(1)  # whoever read our output has gone
        except OSError as error:
            where = f"{error.filename}: " if error.filename else ""
            fail(f"{where}{error.strerror or error}.")
        except (click.Abort, KeyboardInterrupt):
            click.echo("Interrupted.", err=True)
            sys.exit(130)
        sys.exit(result if isinstance(result, int) else 0)


def fail(sentence: str) -> NoReturn:
    """Say what was wrong in one sentence and leave with exit code 2."""
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

    Every command has its own --help, and does what the Python function of the same name does.
    """
