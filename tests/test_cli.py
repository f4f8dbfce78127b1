"""The command line as a user meets it: help, version, mistakes."""

import json
import os
import re
import resource
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

import ident3d
from ident3d.cli import SECTIONS, Commands, main
from ident3d.health import doctor
from ident3d.machine import UNTRIED


def run(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "ident3d", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, **environment})


def test_help_is_grouped_and_quick() -> None:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = run("--help")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.returncode == 0
    for section, names in SECTIONS.items():
        assert (f"{section}:" in done.stdout) == bool(names)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    assert spent < 0.4


def test_every_command_explains_itself() -> None:
    for words, _ in commands(main):
        result = CliRunner().invoke(main, [*words.split(), "--help"])
        assert result.exit_code == 0, result.output
        assert "Usage:" in result.output


def commands(group: Commands, path: str = "") -> Iterator[tuple[str, click.Command]]:
    """Every command that is no group, with the words that call it."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, Commands):
            yield from commands(command, f"{path}{name} ")
        elif command is not None:
            yield f"{path}{name}", command


def test_an_option_means_the_same_in_every_command() -> None:
    """One help sentence for one name, wherever it appears; only defaults may differ."""
    helps = defaultdict[str, dict[str | None, list[str]]](lambda: defaultdict(list))
    for words, command in commands(main):
        for param in command.params:
            if isinstance(param, click.Option):
                for name in [*param.opts, *param.secondary_opts]:
                    helps[name][param.help].append(words)
    assert len(helps) > 100
    assert {"bench farm", "bench train"} <= {
        words for given in helps.values() for found in given.values() for words in found
    }
    differing = {name: dict(given) for name, given in helps.items() if len(given) > 1 or None in given}
    assert not differing


@pytest.mark.parametrize(
    ("name", "sections"),
    [
        ("train", ["Data", "Pairs", "Encoder", "Loss", "Optimiser", "Run"]),
        ("mixing", ["Data", "Pairs", "Encoder", "Loss", "Optimiser", "Run"]),
        ("render", ["Dataset", "Images and their latents", "Run", "Cluster"]),
    ],
)
def test_long_helps_are_grouped(name: str, sections: list[str]) -> None:
    shown = CliRunner().invoke(main, [name, "--help"]).output
    assert re.findall(r"^(\w.*):$", shown, re.MULTILINE) == sections
    command = main.get_command(click.Context(main), name)
    assert command is not None
    assert all(option in shown for param in command.params if isinstance(param, click.Option) for option in param.opts)


def test_what_has_never_been_run_is_named() -> None:
    """By doctor, all of it; by the help of an option, what concerns it."""
    table = " ".join(doctor().table().split())
    assert all(name in table for name in UNTRIED)
    for words, names in {
        "train": ["cuda", "mps", "fp16", "nccl"],
        "render": ["pbs", "lsf", "k8s", "GPU rendering"],
        "index": ["FAISS on GPUs"],
    }.items():
        shown = CliRunner().invoke(main, [words, "--help"]).output
        named = " ".join(re.findall(r"never run: ([^)]*)", " ".join(shown.split())))
        assert all(name in named for name in names), words


@pytest.mark.parametrize(
    ("words", "facts"),
    [
        ("reproduce table1 --seeds 0,x", ["--seeds", "whole numbers", "'0,x'"]),
        ("traverse --base 0,wide", ["--base", "'0,wide'"]),
        ("bench farm --worker-counts 1.5", ["--worker-counts", "whole numbers"]),
        ("mixing --lambda five", ["--lambda", "'five'"]),
        ("mixing --bound wide", ["--bound", "match"]),
        ("render --cluster-option walltime", ["--cluster-option", "NAME=VALUE", "walltime=08:00:00"]),
        ("score --latents z.npy --codes h.npy --block content", ["--block", "NAME=COLUMNS"]),
    ],
)
def test_words_that_an_option_does_not_take(words: str, facts: list[str]) -> None:
    done = CliRunner().invoke(main, words.split())
    assert done.exit_code == 2
    assert done.stderr.startswith("Error: ")
    assert done.stderr.count("\n") == 1
    assert all(fact in done.stderr for fact in facts)


def test_version() -> None:
    assert run("--version").stdout == f"ident3d, version {ident3d.__version__}\n"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["docter"], "Error: There is no command 'docter'; choose one of "),
        (["doctor", "--rooot"], "Error: No such option"),
        (["doctor", "extra"], "Error: Got unexpected extra argument"),
    ],
)
def test_mistakes_get_one_sentence_and_exit_code_2(words: list[str], sentence: str) -> None:
    done = run(*words)
    assert done.returncode == 2
    assert done.stderr.startswith(sentence)
    assert done.stderr.count("\n") == 1
    assert not done.stdout


def test_without_arguments_help_is_shown() -> None:
    assert "Usage:" in run().stdout


def test_completion_script_is_offered() -> None:
    assert "ident3d" in run(_IDENT3D_COMPLETE="bash_source", _PYTHON_M_IDENT3D_COMPLETE="bash_source").stdout


def test_doctor_as_json_and_its_exit_code(tmp_path: Path) -> None:
    done = run("doctor", "--json", "--root", str(tmp_path))
    report = json.loads(done.stdout)
    expected = (0 if report["can_render"] else 4) + (0 if report["can_train"] else 8)
    assert done.returncode == expected
    assert {"Python", "torch devices", "bpy (rendering)", "FAISS (pairs)", "cores", "memory", "free disk"} <= {
        finding["what"] for finding in report["findings"]
    }
