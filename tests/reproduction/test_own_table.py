"""A table of a user's own, from a TOML file: what it runs, what it goes on with, and what it refuses."""

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from synthetic import make_dataset

from ident3d import UserError, reproduce
from ident3d.cli import main
from ident3d.latents.worlds import World
from ident3d.reproduction.own_table import own_experiment
from ident3d.training.experiments.experiment import ImageVariant

IMAGES = """
title = "Narrow and wide pairs"
seeds = [0, 1]
columns = ["R²", "linear_r2"]

[data]
train = "train"
test = "test"

[settings]
encoder = "tiny:plain"
batch = 32
steps = 2
dtype = "fp32"
bound = "auto"

[rows.narrow]
sigma = 0.05
paper = {"R²" = [96.7, 0.1]}

[rows.wide]
sigma = 1

[rows.pixels]
identity = true
"""
MIXING = """
name = "mixed"
notes = "Both in a second."

[settings]
dim = 4
encoder = "16x1"
batch = 64
steps = 2

[rows.box]
[rows.an]
lambda = [5, 25]
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with a training set and a test set."""
    monkeypatch.chdir(tmp_path)
    make_dataset(tmp_path / "train", 64)
    make_dataset(tmp_path / "test", 48, split="test")
    return tmp_path


def command(*words: str) -> Result:
    return CliRunner().invoke(main, ["reproduce", *words, "--root", "data", "--device", "cpu"])


def test_a_table_on_images_is_run_and_goes_on(here: Path) -> None:
    Path("own.toml").write_text(IMAGES)
    done = command("own.toml", "--rows", "narrow,pixels", "--seeds", "0", "--json")
    assert done.exit_code == 0, done.output
    folder = here / "data/reproduce/own"
    assert {path.parent.name for path in folder.rglob("result.json")} == {"narrow-seed0", "pixels-seed0"}
    said: list[str] = []
    where, markdown = reproduce("own.toml", root="data", device="cpu", say=said.append, show_progress=False)
    assert where.resolve() == folder
    assert said[0].startswith("4 rows ")
    found = json.loads((folder / "table.json").read_text())
    assert {(result["row"], result["seed"]) for result in found["results"]} == {
        (row, seed) for row in ("narrow", "wide", "pixels") for seed in (0, 1)
    }
    assert found["command"] == "ident3d reproduce own.toml --seeds 0,1"
    assert found["results"][0]["facts"]["settings"]["sigma"] == 0.05
    assert 0 < found["results"][0]["figures"]["linear_r2"] <= 1
    assert "Narrow and wide pairs" in markdown
    assert "0.9670 ± 0.0010" in markdown
    assert (folder / "report.html").is_file()
    # Rows that were run on other images, or with other settings, are not set beside those of now.
    result = next(folder.rglob("wide-seed1/result.json"))
    content = json.loads(result.read_text())
    content["facts"]["best_box"]["start"] *= 1.15 / 0.7
    result.write_text(json.dumps(content))
    assert "wide-seed1 was finished by an earlier version" in command("own.toml").stderr
    result.unlink()
    Path("own.toml").write_text(IMAGES.replace("steps = 2", "steps = 3"))
    assert "settings.steps" in command("own.toml").stderr
    make_dataset(here / "other", 64, seed=1)
    Path("own.toml").write_text(IMAGES.replace('"train"', '"other"'))
    assert "images.sha256.train" in command("own.toml").stderr


def test_a_table_on_mixed_latents(tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text(MIXING)
    folder, markdown = reproduce(
        tmp_path / "own.toml", root=tmp_path, device="cpu", workers=1, say=lambda _: None, show_progress=False
    )
    assert folder == tmp_path / "reproduce/mixed"
    assert "Both in a second." in markdown
    results = json.loads((folder / "table.json").read_text())["results"]
    assert {result["row"]: result["facts"]["settings"]["lambdas"] for result in results} == {
        "box": [], "an": [[5.0, 5.0, 25.0, 25.0]],
    }  # fmt: skip
    assert "identity R²" in results[0]["figures"]


@pytest.mark.parametrize(
    ("old", "new", "fact"),
    [
        ('name = "mixed"', 'columns = ["R2"]', "'R2'.*R² content"),
        ("[5, 25]", '["five"]', "lambda of row an"),
        ("[rows.box]", "[rows.box]\nidentity = true", "identity R²"),
    ],
)
def test_what_a_table_on_mixed_latents_may_not_say(old: str, new: str, fact: str, tmp_path: Path) -> None:
    assert old in MIXING
    (tmp_path / "own.toml").write_text(MIXING.replace(old, new, 1))
    with pytest.raises(UserError, match=fact):
        reproduce(tmp_path / "own.toml", root=tmp_path)


def test_images_may_be_rendered_first(tmp_path: Path) -> None:
    data = '[data]\ntrain = 200\ntest = 50\nsize = 32\nscene = "3dident"\nfixed = {rotation = 0}\n'
    (tmp_path / "own.toml").write_text(f"{data}[rows.one]\nsteps = 5\n")
    (variant,) = own_experiment(tmp_path / "own.toml").variants("own")
    assert isinstance(variant, ImageVariant)
    assert (variant.train, variant.test, variant.size, variant.folders) == (200, 50, 32, {})
    assert variant.world == World(fixed={"rotation": 0})


PARTS = """
[data.all]
train = "train"
test = "test"

[data.few]
train = "less"
test = "test"
rows = ["again"]

[rows.pixels]
identity = true

[rows.again]
identity = true
"""


def test_a_table_on_several_data_sets(here: Path) -> None:
    make_dataset(here / "less", 48)
    Path("own.toml").write_text(PARTS)
    one = command("own.toml", "--rows", "pixels", "--json")
    assert json.loads(one.stdout)["command"] == "ident3d reproduce own.toml --rows pixels --variant all --seeds 0"
    table = Path("data/reproduce/own/table.md")
    assert "all: again; few: again" in table.read_text()
    assert "pixels is run on the variant all" in command("own.toml", "--variant", "few", "--rows", "pixels").stderr
    whole = json.loads(command("own.toml", "--json").stdout)
    assert whole["command"] == "ident3d reproduce own.toml --seeds 0"
    run = {(each["variant"], each["row"]): each["facts"]["images"]["train"] for each in whole["results"]}
    assert run == {("all", "pixels"): 64, ("all", "again"): 64, ("few", "again"): 48}
    assert "Not run" not in table.read_text()
    # What a part no longer runs does not stay in the table.
    Path("own.toml").write_text(PARTS.replace('"again"', '"pixels"'))
    refused = command("own.toml")
    assert (refused.exit_code, "again-seed0" in refused.stderr) == (2, True)


@pytest.mark.parametrize(
    ("old", "new", "fact"),
    [
        ('["again"]', '["agian"]', "'again'"),
        ('["again"]', '"again"', r"\[data.few\]"),
        ('["again"]', "[]", r"\[data.few\]"),
        ('["again"]', '["again", "again"]', r"\[data.few\].*twice"),
        ('"less"', "4", r"\[data.few\].*whole numbers"),
        ('test = "test"\nrows', "rows", r"\[data.few\].*`test`"),
        ("data.few", 'data."table.md"', r"'table\.md'"),
        ("[data.all]", "[data]\nsize = 64\n[data.all]", r"`size` beside \[data.all\]"),
        ('"test"\n\n', '"test"\nrows = ["again"]\n', "the row pixels"),
    ],
)
def test_what_parts_of_a_table_may_not_say(here: Path, old: str, new: str, fact: str) -> None:
    make_dataset(here / "less", 48)
    assert old in PARTS
    Path("own.toml").write_text(PARTS.replace(old, new, 1))
    with pytest.raises(UserError, match=rf"own\.toml.*{fact}"):
        own_experiment("own.toml")


@pytest.mark.parametrize(
    ("old", "new", "fact"),
    [
        ("steps = 2", "step = 2", "'steps'"),
        ("steps = 2", "qqqq = 2", "lambda, hard_lambda"),
        ("steps = 2", 'steps = "two"', "steps of settings"),
        ("steps = 2", "steps = true", "steps of settings"),
        ("batch = 32", "seed = 3", "`seeds`"),
        ("sigma = 1", "sigma = [1]", "sigma of row wide"),
        ("[rows.wide]", '[rows."../wide"]', "'../wide'"),
        ("seeds = [0, 1]", "seeds = [0, 0]", "twice"),
        ("seeds = [0, 1]", "seed = [0]", "'seeds'"),
        ('"linear_r2"', '"linear_r"', "'linear_r2'"),
        ('test = "test"', "", "`test`"),
        ('test = "test"', 'test = "nowhere"', "nowhere"),
        ('test = "test"', "test = 40", "whole numbers"),
        ('test = "test"', 'test = "train"', "`test`"),
        ('test = "test"', 'test = "test"\nvalidation = "test"', "`validation`"),
        ('bound = "auto"', 'bound = "match"', "bound of settings"),
        ("[rows.wide]", '[rows."a,b"]', "'a,b'"),
        ('train = "train"\ntest = "test"', "train = 40\ntest = 40\nfixed = 3", "`fixed`"),
        ('"linear_r2"]', '"R²"]', "twice"),
        ('{"R²" = [96.7', '{"Rsq" = [96.7', "'Rsq'"),
        ("[96.7, 0.1]", "[nan, 0.1]", "percent"),
        ("identity = true", "identity = true\nsteps = 3", "steps"),
        ("identity = true", "identity = 1", "`identity` of row pixels"),
        ("seeds = [0, 1]", "seeds = []", "`seeds`"),
        ("[96.7, 0.1]", '"high"', "percent"),
        ("[rows.narrow]", "[rows.narrow", "TOML"),
    ],
)
def test_what_a_file_may_not_say(here: Path, old: str, new: str, fact: str) -> None:
    assert old in IMAGES
    Path("own.toml").write_text(IMAGES.replace(old, new, 1))
    done = command("own.toml")
    assert (done.exit_code, done.stdout) == (2, "")
    assert fact in done.stderr
    assert "own.toml" in done.stderr
    assert not Path("data").exists()


def test_the_files_of_the_page_can_be_read(here: Path) -> None:
    page = (Path(__file__).parents[2] / "docs/how-to/own-table.md").read_text(encoding="utf-8")
    whole, rendered, several = re.findall(r"^```toml\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    whole = re.sub('"data/3dident-(train|test)-[^"]*"', r'"\1"', whole)
    own = r"^\[data\]\n(.+\n)*"
    for data, images in ((None, [64]), (rendered, [12_000]), (several, [2000, 40_000])):
        text = re.sub(own, data, whole, flags=re.MULTILINE) if data else whole
        Path("page.toml").write_text(text)
        found = own_experiment("page.toml")
        assert [row.name for row in found.rows] == ["narrow", "usual", "sphere", "pixels"]
        assert found.rows[1].paper == {"R²": (96.73, 0.10), "MCC": (98.31, 0.04)}
        assert [variant.train for variant in found.variants("own") if isinstance(variant, ImageVariant)] == images


def test_a_file_that_is_not_there_and_a_name_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"nothing\.toml"):
        own_experiment(tmp_path / "nothing.toml")
    assert "FILE.toml" in command("tabel").stderr
