"""What README and docs say about the program is true: commands, options, imports, links."""

import ast
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path

import click
import pytest

from ident3d.cli import main

TOP = Path(__file__).parent.parent
PAGES = [TOP / "README.md", TOP / "CONTRIBUTING.md", TOP / "SECURITY.md", *sorted((TOP / "docs").rglob("*.md"))]
SHELL = ("bash", "console", "")  # "": an indented block
# options of other programs that the pages name: dask scheduler and worker, docker, pip
FOREIGN = {
    "--tls-ca-file", "--nthreads", "--nworkers", "--memory-limit", "--lifetime", "--lifetime-stagger",
    "--lifetime-restart", "--no-dashboard", "--dashboard-address", "--host", "--port", "--resources", "--gres",
    "--shm-size", "--count", "--first", "--nproc-per-node",
}  # fmt: skip


def blocks(text: str) -> Iterator[tuple[str, str]]:
    """The fenced and indented code blocks of a page, each with its language; indented ones have none."""
    fenced = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
    for found in fenced.finditer(text):
        yield found[1] or "text", found[2]
    for found in re.finditer(r"(?:^    [^ \-*|].*\n)+", fenced.sub("", text), re.MULTILINE):
        yield "", found[0]


def commands(page: Path) -> Iterator[list[str]]:
    """Every call of ident3d on the page, in blocks and inline, as words after ``ident3d``."""
    text = page.read_text(encoding="utf-8")
    lines = [
        line.strip()
        for language, block in blocks(text)
        if language in SHELL
        for line in re.sub(r"\\\n", " ", block).splitlines()
    ]
    lines += [re.sub(r"\s+", " ", code) for code in re.findall(r"(?<!`)`([^`]+)`(?!`)", text)]
    for line in lines:
        for part in line.split(";"):
            found = re.search(r"(?:^|-m )ident3d ([a-z].*)", part.strip())
            if found:
                yield shlex.split(found[1].replace("…", ""), comments=True)


@cache
def command(words: tuple[str, ...]) -> click.Command | None:
    """The command that the words name: a command, or one of a group's."""
    found: click.Command | None = main
    for word in words:
        if not isinstance(found, click.Group):
            return found
        found = found.get_command(click.Context(found), word)
        if found is None:
            return None
    return found


def options(found: click.Command) -> set[str]:
    named = [option for param in found.params for option in (*param.opts, *param.secondary_opts)]
    return {option for option in named if option.startswith("-")} | {"--help", "-h"}


@cache
def every_option() -> set[str]:
    context = click.Context(main)
    found = options(main) | {"--version"}
    for name in main.list_commands(context):
        one = main.get_command(context, name)
        assert one is not None
        found |= options(one)
        if isinstance(one, click.Group):
            for sub in one.list_commands(context):
                found |= options(one.get_command(context, sub) or one)
    return found


def mistakes_in(words: list[str]) -> list[str]:
    """Names in a call of ident3d that do not exist."""
    if words[0] == "COMMAND":
        return []
    group = isinstance(command((words[0],)), click.Group) and len(words) > 1 and not words[1].startswith("-")
    found = command(tuple(words[: 2 if group else 1]))
    if found is None:
        return [f"there is no command {' '.join(words[:2])}"]
    given = {word.partition("=")[0] for word in words if word.startswith("--")}
    return [f"{words[0]} has no {option}" for option in sorted(given - options(found))]


def test_a_wrong_command_and_a_wrong_option_are_found() -> None:
    assert mistakes_in(["rendre", "--n", "3"])
    assert mistakes_in(["render", "--number", "3"]) == ["render has no --number"]
    assert mistakes_in(["bench", "farms"])
    assert not mistakes_in(["bench", "farm", "--worker-counts", "1,2"])
    assert not mistakes_in(["train", "DIR", "--fixed"])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(TOP)))
def test_every_command_and_option_that_a_page_names_exists(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    wrong = [mistake for words in commands(page) for mistake in mistakes_in(words)]
    inline = set(re.findall(r"`(--[a-z0-9][a-z0-9-]*)", text))
    assert not wrong
    assert not inline - every_option() - FOREIGN


def test_every_command_that_datasets_lists_exists() -> None:
    listed = import_module("ident3d.looking.datasets").datasets().datasets
    words = [shlex.split(data.command) for data in listed]
    assert all(first == "ident3d" for first, *_ in words)
    assert not [mistake for _, *rest in words for mistake in mistakes_in(rest)]


def test_pages_name_commands_at_all() -> None:
    named = {words[0] for page in PAGES for words in commands(page)}
    assert set(main.list_commands(click.Context(main))) - named <= {"bench"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(TOP)))
def test_every_import_of_a_page_exists(page: Path) -> None:
    for language, block in blocks(page.read_text(encoding="utf-8")):
        if language != "python":
            continue
        for node in ast.walk(ast.parse(block)):
            if isinstance(node, ast.ImportFrom) and str(node.module).startswith("ident3d"):
                module = import_module(str(node.module))
                assert all(hasattr(module, alias.name) for alias in node.names), ast.unparse(node)
            elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "ident3d":
                assert hasattr(import_module("ident3d"), node.attr), node.attr


def test_files_that_the_pages_name_exist() -> None:
    files = re.compile(r"`((?:ident3d|blender_scenes|loaders|training|tests|tools|docs|results)/[\w./-]*)`")
    for page in PAGES:
        for name in files.findall(page.read_text(encoding="utf-8")):
            if not name.startswith("ident3d/objects"):  # in the user's cache folder
                assert (TOP / name).exists(), f"{page.name}: {name}"


def test_every_promise_of_security_has_a_test_that_exists() -> None:
    text = (TOP / "SECURITY.md").read_text(encoding="utf-8")
    promised, _, refused = text.partition("## What is not promised")
    rows = [line for line in promised.splitlines() if line.startswith("| ") and "| held by |" not in line]
    named = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")
    assert len(rows) > 10
    assert all(named.search(row) for row in rows)
    for file, test in named.findall(text):
        tree = ast.parse((TOP / file).read_text(encoding="utf-8"))
        assert test in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}, f"{file}::{test}"
    assert named.search(refused)


@pytest.mark.parametrize("text", ["[a page](nowhere.md)", "[a heading](index.md#nothing)"])
def test_a_broken_link_fails_make_docs(text: str, tmp_path: Path) -> None:
    pytest.importorskip("mkdocs")
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "index.md").write_text(f"# A page\n\n{text}\n")
    own = f"INHERIT: {TOP / 'mkdocs.yml'}\ndocs_dir: docs\nnav: [index.md]\nhooks: []\nplugins: []\nextra_css: []\n"
    (tmp_path / "mkdocs.yml").write_text(own)
    recipe = re.search(r"^docs:.*\n.*/mkdocs (build .*)$", (TOP / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert recipe
    command = [sys.executable, "-m", "mkdocs", *shlex.split(recipe[1]), "--site-dir", str(tmp_path / "site")]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    assert text.partition("(")[2].rstrip(")") in done.stderr


def test_the_readme_is_short_and_its_links_lead_somewhere() -> None:
    readme = (TOP / "README.md").read_text(encoding="utf-8")
    assert readme.count("\n") <= 120
    for number in ("2102.08850", "2106.04619", "2407.00143"):
        assert number in readme
    for page in (TOP / "README.md", TOP / "CONTRIBUTING.md", TOP / "SECURITY.md"):
        for target in re.findall(r"\]\(([^)#]+)", page.read_text(encoding="utf-8")):
            assert target.startswith("https://") or (TOP / target).exists(), target


def test_pages_use_no_private_metaphors() -> None:
    for page in PAGES:
        assert not re.search(r"\b(house|rooms?|front door)\b", page.read_text(encoding="utf-8"), re.IGNORECASE), page


def test_pictures_are_small() -> None:
    for picture in (TOP / "docs" / "pictures").iterdir():
        assert picture.stat().st_size < 550_000, picture.name
