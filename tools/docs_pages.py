"""Pages that mkdocs makes while it builds: the command line from click, the Python names from their docstrings.

They are generated in every build and never committed, so they cannot be stale.
"""

import re
import shutil
from importlib import import_module
from pathlib import Path
from typing import Any

import click
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from ident3d.cli import Commands, main
from ident3d.public import homes

TOP = Path(__file__).parent.parent
TREE = TOP / ".build" / "docs" / "ident3d"
WIDTH = 96
# public modules, in the order of the page, with what they are for
MODULES = {
    "ident3d.latents": "What a dataset is: spaces, marginals, conditionals, the causal graph. NumPy and SciPy alone.",
    "ident3d.metrics": "Scores on two arrays. The [table of all scores](metrics.md) says which answers what.",
    "ident3d.losses": "Losses on torch tensors, for your own loop.",
    "ident3d.encoders": "Encoders and output spaces, as torch modules.",
    "ident3d.views": "From a loader's uint8 images to an encoder's input.",
}


def on_startup(**_event: Any) -> None:
    """Copy the packages to where they are installed, for mkdocstrings to read without importing them.

    Links would not do: it follows them back to the repository, where the packages lie side by side. The copy is made
    at the start because mkdocstrings drops search paths that are not there when it reads its settings.
    """
    shutil.rmtree(TREE, ignore_errors=True)
    only_code = shutil.ignore_patterns("__pycache__", "*.pyi")
    for package in ("ident3d", "blender_scenes", "loaders", "training"):
        target = TREE if package == "ident3d" else TREE / package
        shutil.copytree(TOP / package, target, ignore=only_code)
    # the parser knows a doctest under "Examples:" alone; under "Example:" its output would be read as Markdown
    for file in TREE.rglob("*.py"):
        file.write_text(re.sub(r"^( +)Example:$", r"\1Examples:", file.read_text(), flags=re.MULTILINE))


def on_files(files: Files, config: MkDocsConfig) -> Files:
    files.append(File.generated(config, "reference/cli.md", content=command_line_page()))
    files.append(File.generated(config, "reference/python.md", content=python_page()))
    # Where people look for it is the top of the repository. From there its links begin with docs/.
    security = (TOP / "SECURITY.md").read_text(encoding="utf-8").replace("](docs/", "](")
    files.append(File.generated(config, "security.md", content=security))
    return files


def command_line_page() -> str:
    """The help of every command, by the sections of `ident3d --help`."""
    assert isinstance(main, Commands)
    lines = [
        "# Command line",
        "Generated from the commands themselves: each block is what `ident3d COMMAND --help` prints. An option means "
        "the same in every command. A mistake gets one sentence and [exit code](errors.md) 2.",
        "Shell completion: put the line for your shell into its start-up file.",
        '```bash\neval "$(_IDENT3D_COMPLETE=bash_source ident3d)"       # ~/.bashrc\n'
        'eval "$(_IDENT3D_COMPLETE=zsh_source ident3d)"        # ~/.zshrc\n'
        "_IDENT3D_COMPLETE=fish_source ident3d | source        # ~/.config/fish/completions/ident3d.fish\n```",
    ]
    context = click.Context(main, info_name="ident3d", max_content_width=WIDTH, terminal_width=WIDTH)
    for section, names in main.sections.items():
        lines.append(f"## {section}")
        for name in names:
            command = main.get_command(context, name)
            assert command is not None
            lines += help_of(command, context, f"ident3d {name}", 3)
    return "\n\n".join(lines) + "\n"


def help_of(command: click.Command, parent: click.Context, name: str, level: int) -> list[str]:
    """A heading and the command's own help; below it those of its subcommands."""
    inner = click.Context(command, info_name=name.split()[-1], parent=parent, terminal_width=WIDTH)
    inner.help_option_names = ["-h", "--help"]
    lines = [f"{'#' * level} {name}", f"```text\n{command.get_help(inner)}\n```"]
    if isinstance(command, click.Group):
        for sub in command.list_commands(inner):
            found = command.get_command(inner, sub)
            assert found is not None
            lines += help_of(found, inner, f"{name} {sub}", level + 1)
    return lines


def python_page() -> str:
    """Every public name, for mkdocstrings to fill in from its docstring."""
    lines = [
        "# Python",
        "These names are the public interface: `ident3d.NAME`, and the modules below. They load on first use, so "
        "`import ident3d` costs neither torch nor bpy. Everything else may change without notice.",
        "## ident3d",
    ]
    functions = {name: module for name, module in homes("ident3d").items() if module != "ident3d"}
    lines += [f"::: {functions[name]}.{name}" for name in sorted(functions, key=str.lower)]
    for module, purpose in MODULES.items():
        import_module(module)
        lines += [f"## {module}", purpose]
        lines += [f"::: {found}.{name}" for name, found in sorted(homes(module).items())]
    return "\n\n".join(lines) + "\n"
