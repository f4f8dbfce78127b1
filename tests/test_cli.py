"""The command line as a user meets it: help, version, mistakes."""

import json
import os
import re
import resource
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

import ident3d
from ident3d.cli import SECTIONS, Commands, main
from ident3d.commands.parameters import Listed
from ident3d.health import doctor
from ident3d.latents.distributions.by_name import CONDITIONALS
from ident3d.machine import UNTRIED
from ident3d.training.encoders.choice import IMAGE_ENCODERS, SPACES
from ident3d.training.images import settings as image_settings
from ident3d.training.losses.choice import LOSSES, PERMUTATION, TRICL, VARIATIONAL
from ident3d.training.mixing import settings as mixing_settings

OWN = "package.module:name"


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
    ("words", "option", "taken"),
    [
        ("train", "--cond", image_settings.VIEWS),
        ("train", "--dtype", image_settings.DTYPES),
        ("train", "--encoder", [*IMAGE_ENCODERS, "512x2", OWN]),
        ("train", "--loss", [*set(LOSSES) - {"mse"}, PERMUTATION, *VARIATIONAL, OWN]),
        ("bench train", "--encoder", [*IMAGE_ENCODERS, OWN]),
        ("evaluate", "--encoder", [OWN]),
        ("encode", "--encoder", [OWN]),
        ("mixing", "--cond", set().union(*mixing_settings.CONDITIONALS.values())),
        ("mixing", "--dtype", mixing_settings.DTYPES),
        ("mixing", "--loss", [*set(LOSSES) - {"mse"}, *TRICL, OWN]),
        ("mixing", "--space", SPACES),
        ("pairs", "--cond", CONDITIONALS),
    ],
)
def test_help_lists_what_the_command_itself_takes(words: str, option: str, taken: Iterable[str]) -> None:
    params = dict(commands(main))[words].params
    shown = next(param.metavar for param in params if option in param.opts)
    assert shown is not None
    assert sorted(shown.partition(" (")[0].strip("[]").split("|")) == sorted(taken)


@pytest.mark.parametrize(
    ("words", "name", "value"),
    [
        ("reproduce table1 --rows a,b --rows c", "rows", ("a", "b", "c")),
        ("reproduce table1 --rows a,b", "rows", ("a", "b")),
        ("reproduce table1 --seeds 0 --seeds 1,2", "seeds", (0, 1, 2)),
        ("reproduce table1", "seeds", None),
        ("train DIR --only x --only hue", "only", ("x", "hue")),
        ("train DIR --only x,hue", "only", ("x", "hue")),
        ("train DIR", "only", ()),
        ("train DIR --hard-lambda 5 --hard-lambda 25", "hard", (5.0, 25.0)),
        ("train DIR", "metrics", "default"),
        ("train DIR --metrics all", "metrics", "all"),
        ("train DIR --metrics mig --metrics sap,dci", "metrics", ("mig", "sap", "dci")),
        ("pairs DIR --lambda 5,25", "precision", (5.0, 25.0)),
    ],
)
def test_lists_are_separated_by_commas_or_their_option_is_repeated(words: str, name: str, value: object) -> None:
    called, *rest = words.split()
    assert dict(commands(main))[called].make_context(called, rest).params[name] == value


def test_every_list_says_in_the_same_words_how_it_is_given() -> None:
    lists = [
        (words, param)
        for words, command in commands(main)
        for param in command.params
        if isinstance(param, click.Option) and isinstance(param.type, Listed)
    ]
    assert len(lists) > 15
    assert all(param.multiple and "separated by commas; repeatable." in (param.help or "") for _, param in lists)


@pytest.mark.parametrize(
    ("name", "sections"),
    [
        ("train", ["Data", "Pairs", "Encoder", "Loss", "Optimiser", "Run"]),
        ("mixing", ["Data", "Pairs", "Encoder", "Loss", "Optimiser", "Run"]),
        ("render", ["Dataset", "Images and their latents", "Sequences, views and environments", "Run", "Cluster"]),
        ("traverse", ["Options", "Images and their latents"]),
        ("import", ["Options", "Anybody's arrays", "Anybody's pictures"]),
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
        ("import SRC OUT --images-per-chunk 32", ["--images-per-chunk", "--arrays"]),
        ("import --arrays x.npy none OUT SRC", ["SRC", "--arrays"]),
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
        (["docter"], "Error: There is no command 'docter'. Did you mean 'doctor'?"),
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
