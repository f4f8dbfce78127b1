"""Runs that resume to the bit, ranks and chunks that equal one process, and what ends or refuses a run."""

import json
import os
import resource
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from shutil import which
from typing import Any

import numpy as np
import pytest
import torch
from synthetic import make_dataset

from ident3d.errors import UserError
from ident3d.loaders.format.files import TEMPORARY
from ident3d.loaders.stores.lease import LEASE_PREFIX, Busy, lease
from ident3d.training.images.run import open_run
from ident3d.training.images.settings import TrainSettings
from ident3d.training.images.train import train
from ident3d.training.loop import checkpoint, run_folder
from ident3d.training.loop.log_file import read_log

HERE = Path(__file__).parents[2]  # of the modules that the tests share
N = 64
TINY = TrainSettings(encoder="tiny:convolution", batch=16, steps=9, lr=1e-3, dtype="fp32", bound=3.0)
PLAIN = replace(TINY, encoder="tiny:plain", steps=4)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_dataset(tmp_path_factory.mktemp("train") / "set", N)


def quick(path: Path, settings: TrainSettings, out: Path, **options: Any) -> Path:
    options = {"workers": 0, "show_progress": False, "log_every": 1, "device": "cpu"} | options
    return train(path, settings, out=out, **options).path


def command(path: Path, runs: dict[Path, TrainSettings], **options: Any) -> list[str]:
    pairs = [word for out, settings in runs.items() for word in (str(out), json.dumps(asdict(settings)))]
    given = [str(path), json.dumps({"device": "cpu"} | options), *pairs]
    return [sys.executable, str(HERE / "train_here.py"), *given]


def environment(**more: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(HERE), "OMP_NUM_THREADS": "1", **more}


def assert_same_state(a: Path, b: Path) -> None:
    ours, theirs = checkpoint.load(a), checkpoint.load(b)
    assert ours.step == theirs.step
    assert ours.tensors.keys() == theirs.tensors.keys()
    for name, value in ours.tensors.items():
        assert torch.equal(value, theirs.tensors[name]), name


def assert_same_gradients(a: Path, b: Path) -> None:
    """Adam's first moments are sums of gradients; the weights are not compared, since Adam blows up rounding."""
    ours, theirs = checkpoint.load(a).part("optimiser."), checkpoint.load(b).part("optimiser.")
    moments = [name for name in ours if name.endswith("exp_avg")]
    assert moments
    for name in moments:
        largest = float(ours[name].abs().max())
        torch.testing.assert_close(ours[name], theirs[name], rtol=1e-3, atol=1e-4 * largest, msg=name)


@pytest.mark.parametrize(
    "settings",
    [
        replace(TINY, steps=30, cond="augment", space="sphere", schedule="onecycle"),
        replace(TINY, steps=30, loss="aninfonce", chunk=6),
    ],
    ids=["augmented", "anisotropic in chunks"],
)
def test_a_killed_run_resumes_to_the_same_bits(path: Path, tmp_path: Path, settings: TrainSettings) -> None:
    torch.set_num_threads(1)
    whole = quick(path, settings, tmp_path / "whole")
    out = tmp_path / "killed"
    dying = command(path, {out: settings}, save_every=2, log_every=1, killed_at=7)
    assert subprocess.run(dying, env=environment(), check=False).returncode == -signal.SIGKILL
    # a step and a line of the log are lost, which the resumed run makes again
    assert (checkpoint.load(out).step, read_log(out)[-1]["step"]) == (6, 7)
    quick(path, settings, out, resume=True, save_every=2)
    assert_same_state(whole, out)
    steps = [line["step"] for line in read_log(out)]
    assert steps == sorted(set(steps))
    losses = {line["step"]: line["loss"] for line in read_log(whole)}
    assert all(line["loss"] == losses[line["step"]] for line in read_log(out))


def test_a_run_killed_at_any_step_resumes(path: Path, tmp_path: Path) -> None:
    torch.set_num_threads(1)
    whole = quick(path, TINY, tmp_path / "whole")
    for stop in (1, 4, 8):
        out = tmp_path / f"stopped{stop}"
        quick(path, replace(TINY, steps=stop), out)
        quick(path, TINY, out, resume=True)
        assert_same_state(whole, out)


def test_an_interrupt_saves_the_step_under_way(path: Path, tmp_path: Path) -> None:
    long = replace(TINY, steps=100_000)
    options = {"log_every": 1, "save_every": 10**6}
    process = subprocess.Popen(command(path, {tmp_path / "run": long}, **options), env=environment())
    deadline = time.monotonic() + 60
    while len(read_log(tmp_path / "run")) < 3 and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=60) != 0
    assert checkpoint.load(tmp_path / "run").step >= 3


def test_a_run_whose_folder_was_taken_over_writes_nothing_more(path: Path, tmp_path: Path) -> None:
    """As one that was stopped for minutes finds it when it wakes: another process goes on with the run meanwhile."""
    run = tmp_path / "run"
    arguments = command(path, {run: replace(TINY, steps=100_000)}, log_every=1, save_every=10**6)
    with subprocess.Popen(arguments, env=environment(), stderr=subprocess.PIPE, text=True) as process:
        deadline = time.monotonic() + 60
        while len(read_log(run)) < 3 and time.monotonic() < deadline:
            time.sleep(0.02)
        (claim,) = run.glob(f"{LEASE_PREFIX}*")
        claim.write_text(json.dumps({"host": "elsewhere", "pid": 7}))
        assert "process 7 on elsewhere took over" in process.communicate(timeout=60)[1]
    assert not (run / checkpoint.CHECKPOINT_FILE).exists()


def test_two_ranks_equal_one_process_with_the_joint_batch(path: Path, tmp_path: Path) -> None:
    torch.set_num_threads(1)
    changes: list[dict[str, Any]] = [{}, {"loss": "simclr"}, {"loss": "aninfonce", "chunk": 7}, {"supervised": True}]
    cases = [replace(PLAIN, steps=2, **change) for change in changes]
    runs = {tmp_path / f"ranks{i}": settings for i, settings in enumerate(cases)}
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        meeting = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free.getsockname()[1]), "WORLD_SIZE": "2"}
    ranks = [
        subprocess.Popen(command(path, runs), env=environment(RANK=str(r), LOCAL_RANK=str(r), **meeting))
        for r in range(2)
    ]
    try:
        assert [rank.wait(timeout=60) for rank in ranks] == [0, 0]
    finally:
        for rank in ranks:
            rank.kill()
            rank.wait()
    for i, settings in enumerate(cases):
        alone = quick(path, replace(settings, chunk=None), tmp_path / f"alone{i}")
        assert_same_gradients(alone, tmp_path / f"ranks{i}")


def test_chunks_equal_the_whole_batch(path: Path, tmp_path: Path) -> None:
    whole = quick(path, PLAIN, tmp_path / "whole")
    chunks = quick(path, replace(PLAIN, chunk=5), tmp_path / "chunks")
    assert_same_gradients(whole, chunks)


def test_a_chunk_that_would_hold_one_image_joins_another(path: Path, tmp_path: Path) -> None:
    small = replace(PLAIN, encoder="conv", size=8, batch=5)
    with_rest = quick(path, replace(small, chunk=3), tmp_path / "rest")
    assert open_run(with_rest).settings.chunk == 3
    with pytest.raises(UserError, match="two images"):
        quick(path, replace(small, chunk=1), tmp_path / "one")


def test_workers_do_not_change_a_run(path: Path, tmp_path: Path) -> None:
    torch.set_num_threads(1)
    assert_same_state(quick(path, PLAIN, tmp_path / "none"), quick(path, PLAIN, tmp_path / "two", workers=2))


def test_the_loss_falls_and_the_log_tells(path: Path, tmp_path: Path) -> None:
    run = quick(path, replace(PLAIN, batch=N, steps=60, space_lr=0.02), tmp_path / "run", log_every=10)
    lines = read_log(run)
    assert [line["step"] for line in lines] == [1, 10, 20, 30, 40, 50, 60]
    assert lines[-1]["loss"] < lines[0]["loss"] - 0.1
    assert lines[-1]["r2"] > 0.3
    assert len(lines[-1]["r2_by_latent"]) == 10
    assert np.mean(lines[-1]["r2_by_latent"]) == pytest.approx(lines[-1]["r2"], abs=1e-3)
    assert 0 < lines[-1]["mcc"] <= 1
    assert lines[-1]["bound"] != lines[0]["bound"]
    assert lines[-1]["per_second"] > 0


def test_a_researchers_own_loss(path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = quick(path, replace(PLAIN, loss="tiny:squared", space="unbounded"), tmp_path / "run")
    assert open_run(run).settings.loss == "tiny:squared"
    # A box's start is not searched for under such a loss: the run says so, with what was taken.
    assert "--bound" not in capsys.readouterr().err
    quick(path, replace(PLAIN, loss="tiny:squared", space="box", bound=None, lr=3e-3), tmp_path / "box")
    said = capsys.readouterr().err
    assert [fact for fact in ("1 wide", "--bound auto", "tiny:squared", "0.003", "itself") if fact not in said] == []
    quick(path, replace(PLAIN, loss="tiny:squared", space="box"), tmp_path / "given")
    assert "--bound" not in capsys.readouterr().err


def test_runs_of_one_process_share_no_module_of_a_researchers(path: Path, tmp_path: Path) -> None:
    own = replace(PLAIN, encoder="tiny:module", loss="tiny:scaled", space="unbounded")
    first, second = (quick(path, own, tmp_path / name) for name in ("first", "second"))
    assert_same_state(first, second)


def test_a_researchers_own_loss_that_cannot_be_made_is_one_sentence(path: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"The loss 'tiny:Sharp' raised TypeError: .*sharpness"):
        quick(path, replace(PLAIN, loss="tiny:Sharp"), tmp_path / "run")


def test_a_researchers_own_supervised_loss_gets_codes_and_latents(path: Path, tmp_path: Path) -> None:
    own = replace(PLAIN, supervised=True, loss="tiny:weighed", batch=N, steps=40, lr=3e-3)
    lines = read_log(quick(path, own, tmp_path / "run"))
    assert lines[-1]["loss"] < 0.9 * lines[0]["loss"]


def test_nan_ends_a_run_and_is_never_saved(path: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"loss is nan by step 3.*checkpoint of step 2 is intact"):
        quick(path, replace(PLAIN, encoder="tiny:broken"), tmp_path / "run", save_every=1)
    assert checkpoint.load(tmp_path / "run").step == 2


def test_too_little_memory_is_one_sentence(path: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="--chunk"):
        quick(path, replace(PLAIN, encoder="tiny:vast"), tmp_path / "run", save_every=1)
    assert checkpoint.load(tmp_path / "run").step == 1


def test_collapse_is_said(path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    quick(path, replace(PLAIN, encoder="tiny:constant", steps=1), tmp_path / "run")
    assert "collapsed" in "".join(capsys.readouterr())


def with_file_limit(bytes_: int, action: Callable[[], object]) -> None:
    """A write that fails for want of room: beyond the limit the kernel refuses, as a full disk does."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (bytes_, before[1]))
    try:
        action()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)


def test_a_full_disk_leaves_the_last_checkpoint(path: Path, tmp_path: Path) -> None:
    run = quick(path, replace(PLAIN, steps=2), tmp_path / "run")
    before = (run / checkpoint.CHECKPOINT_FILE).read_bytes()

    def go_on() -> None:
        quick(path, PLAIN, run, resume=True)

    with pytest.raises(UserError, match=r"cannot be written.*the last checkpoint is intact"):
        with_file_limit(len(before) // 2, go_on)
    assert (run / checkpoint.CHECKPOINT_FILE).read_bytes() == before
    assert not list(run.glob(".partial-*"))
    quick(path, PLAIN, run, resume=True)
    assert checkpoint.load(run).step == PLAIN.steps


def test_a_run_is_not_begun_twice_nor_resumed_as_another(path: Path, tmp_path: Path) -> None:
    run = quick(path, PLAIN, tmp_path / "run")
    with pytest.raises(UserError, match="--resume"):
        quick(path, PLAIN, run)
    with pytest.raises(UserError, match=r"other settings \(lr: 0.001 there, 0.1 asked for\)"):
        quick(path, replace(PLAIN, lr=0.1), run, resume=True)
    other = make_dataset(tmp_path / "other", N, seed=1)
    with pytest.raises(UserError, match="other images"):
        quick(other, PLAIN, run, resume=True)


def test_a_run_that_another_process_ends_just_before_we_hold_its_folder_is_not_begun_anew(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, others = tmp_path / "run", iter([1])

    @contextmanager
    def after_another(folder: Path) -> Iterator[None]:
        if next(others, None):
            quick(path, PLAIN, out)
        with lease(folder):
            yield

    monkeypatch.setattr(run_folder, "lease", after_another)
    with pytest.raises(UserError, match="--resume"):
        quick(path, replace(PLAIN, lr=0.1), out)
    assert open_run(out).settings.lr == PLAIN.lr


def test_a_run_is_one_process_at_a_time(path: Path, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    left = tmp_path / f"run/{TEMPORARY}left by a kill"
    left.touch()
    with lease(tmp_path / "run"), pytest.raises(Busy, match=f"is being written by process {os.getpid()}"):
        quick(path, PLAIN, tmp_path / "run")
    assert left.exists()
    quick(path, PLAIN, tmp_path / "run")
    assert not left.exists()


def test_a_run_does_not_move_into_a_dataset(path: Path) -> None:
    with pytest.raises(UserError, match=r"is a dataset.*--out"):
        quick(path, PLAIN, path)


@pytest.mark.parametrize("dtype", ["bf16", "fp16"])
def test_a_run_from_a_gpu_does_not_go_on_in_a_format_that_this_cpu_lacks(
    path: Path, tmp_path: Path, dtype: str
) -> None:
    run = quick(path, PLAIN, tmp_path / "run")
    content = json.loads((run / "run.json").read_text())
    for record in (content, content["settings"]):
        record["dtype"] = dtype
    (run / "run.json").write_text(json.dumps(content))
    with pytest.raises(UserError, match=r"needs a GPU|needs images of at least 32 pixels"):
        quick(path, replace(PLAIN, dtype=dtype), run, resume=True)


def test_a_checkpoint_of_another_architecture_is_refused(path: Path, tmp_path: Path) -> None:
    run = quick(path, PLAIN, tmp_path / "run")
    other = quick(path, replace(PLAIN, encoder="tiny:convolution"), tmp_path / "other")
    (run / checkpoint.CHECKPOINT_FILE).write_bytes((other / checkpoint.CHECKPOINT_FILE).read_bytes())
    with pytest.raises(UserError, match="encoder tiny:plain"):
        quick(path, replace(PLAIN, steps=6), run, resume=True)


@pytest.mark.parametrize("content", [b"", b"\x80\x04.", b"{}" * 100])
def test_a_damaged_checkpoint_is_one_sentence(path: Path, tmp_path: Path, content: bytes) -> None:
    run = quick(path, PLAIN, tmp_path / "run")
    (run / checkpoint.CHECKPOINT_FILE).write_bytes(content)
    with pytest.raises(UserError, match="is not a checkpoint of ident3d"):
        quick(path, PLAIN, run, resume=True)


def other_checkpoint(run: Path, **change: Any) -> None:
    checkpoint.save(run, replace(checkpoint.load(run), **change))


def test_moments_that_do_not_fit_are_refused_before_a_fused_step_reads_beyond_them(path: Path, tmp_path: Path) -> None:
    run = quick(path, replace(PLAIN, steps=2), tmp_path / "run")
    tensors = checkpoint.load(run).tensors
    weights = {name: value for name, value in tensors.items() if not name.startswith("optimiser.")}
    for wrong in (
        weights,
        tensors | {"optimiser.0.exp_avg": torch.ones(1)},
        tensors | {"optimiser.x.exp_avg": torch.ones(1)},
        tensors | {"optimiser.99.step": torch.ones(())},
        {name: value for name, value in tensors.items() if name != "optimiser.1.exp_avg_sq"},
    ):
        other_checkpoint(run, tensors=wrong)
        with pytest.raises(UserError, match="moments"):
            quick(path, PLAIN, run, resume=True)
    other_checkpoint(run, tensors=tensors)
    quick(path, PLAIN, run, resume=True)


def test_a_parameter_that_no_loss_reaches_has_no_moments_and_its_run_resumes(path: Path, tmp_path: Path) -> None:
    idle = replace(PLAIN, encoder="tiny:idle")
    whole = quick(path, idle, tmp_path / "whole")
    run = quick(path, replace(idle, steps=2), tmp_path / "run")
    quick(path, idle, run, resume=True)
    assert_same_state(whole, run)


@pytest.mark.parametrize("loader", [{}, {"epoch": 0}])
def test_a_checkpoint_says_where_its_loader_was(path: Path, tmp_path: Path, loader: dict[str, Any]) -> None:
    run = quick(path, replace(PLAIN, steps=2), tmp_path / "run")
    other_checkpoint(run, loader=loader)
    with pytest.raises(UserError, match="loader"):
        quick(path, PLAIN, run, resume=True)


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")  # torch's own
@pytest.mark.skipif(which("c++") is None, reason="torch.compile needs a C++ compiler on a CPU")
def test_a_compiled_encoder_has_the_same_gradients_in_chunks_too(path: Path, tmp_path: Path) -> None:
    plain = quick(path, replace(PLAIN, steps=2), tmp_path / "plain")
    compiled = quick(path, replace(PLAIN, steps=2, compile=True, chunk=16), tmp_path / "compiled")
    assert_same_gradients(plain, compiled)
