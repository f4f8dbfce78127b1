"""Cells on mixed latents: several at a time, each in a process of its own with one thread."""

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from typing import Any, Final

import torch

from ident3d.errors import UserError
from ident3d.loaders.stores.lease import Busy
from ident3d.machine import cores
from ident3d.progress import progress_bar
from ident3d.reproduction.autoencoder import beside_table, decoder_facts
from ident3d.reproduction.cells import Cell, CellEvent, CellStatus, write_result
from ident3d.training.experiments.experiment import Variant
from ident3d.training.loop.devices import circumstances, device_of, torch_threads
from ident3d.training.loop.log_file import read_log
from ident3d.training.loop.run_folder import hold_folder
from ident3d.training.mixing.scores import evaluate_mixing
from ident3d.training.mixing.settings import MixingSettings, with_defaults
from ident3d.training.mixing.train import mixing, seconds_of_step

MixingCell = Cell[Variant[MixingSettings]]

POLL: Final = 0.2  # seconds between looks at the processes
SAVE_EVERY: Final = 500
LOG_EVERY: Final = 50
# Exit codes of a cell's process. Any other one but 0 is a failure.
INTERRUPTED: Final = 130
BUSY: Final = 3


def estimate(cells: Sequence[MixingCell], device: str, workers: int | None) -> list[str]:
    """Say what the cells take, from a few steps of one thread for each kind of settings; a GPU is not measured."""
    seconds, known = 0.0, {}
    for cell in cells:
        s = settings_of(cell)
        # Settings that agree in these take the same time for a step, so one of them is measured.
        kind = (s.encoder, s.batch, s.dim, s.space, s.loss, s.model_p, s.supervised, len(s.lambdas), bool(s.hard))
        if kind not in known:
            with torch_threads(1):
                known[kind] = seconds_of_step(s)
        seconds += known[kind] * max(0, (s.steps or 0) - steps_done(cell))
    side, where = processes(device, workers, len(cells)), device_of(device)
    of = "on one thread each" if where.type == "cpu" else f"on the CPU, {where} not tried"
    takes = f"{seconds / 3600:,.1f} CPU hours" if seconds >= 3600 else f"{seconds / 60:.1f} CPU minutes"
    return [f"{len(cells)} row{'s' * (len(cells) != 1)} to do, {side} at a time; about {takes} {of}."]


def processes(device: str, workers: int | None, cells: int) -> int:
    """Return how many cells run at once: as many as asked for, else one on each core, or one on a GPU."""
    return min(cells, workers or (cores() if device_of(device).type == "cpu" else 1))


def settings_of(cell: MixingCell) -> MixingSettings:
    """Return a cell's settings with every default decided."""
    return with_defaults(cell.variant.settings_of(cell.row, cell.seed))


def depends_on(cell: MixingCell) -> dict[str, Any]:
    """Return what a cell's figures depend on: the settings, and which decoder the mixing is, if it is one."""
    settings = settings_of(cell).as_dict()
    if cell.variant.autoencoder:
        settings["mixing"] = beside_table(settings["mixing"])
    return {"settings": settings, **decoder_facts(cell.variant)}


def run_cells(
    cells: Sequence[MixingCell], device: str, workers: int | None, show_progress: bool
) -> Iterator[CellEvent]:
    """Finish the cells, several at a time, and yield what becomes of each. A cell that fails ends no other.

    An interrupt is passed on to the cells' processes: every run saves its state and ends after its step.
    """
    # A fork would share torch's threads, which do not exist in a forked child.
    spawn = multiprocessing.get_context("spawn")
    waiting, running = list(cells), dict[SpawnProcess, tuple[MixingCell, Connection]]()
    total = sum(settings_of(cell).steps or 0 for cell in cells)
    finished_steps = 0
    with progress_bar(total, "steps", show=show_progress and bool(cells)) as bar:
        try:
            while waiting or running:
                while waiting and len(running) < processes(device, workers, len(cells)):
                    cell = waiting.pop(0)
                    # Another process may have finished it since this one made its list.
                    if cell.done:
                        continue
                    ours, theirs = spawn.Pipe(duplex=False)
                    process = spawn.Process(target=run_cell_apart, args=(cell, device, theirs))
                    process.start()
                    # The child holds the only other end now. So reading from ours ends when the child does.
                    theirs.close()
                    running[process] = cell, ours
                    yield CellEvent(cell, CellStatus.STARTED)
                time.sleep(POLL)
                for process in [process for process in running if not process.is_alive()]:
                    cell, connection = running.pop(process)
                    finished_steps += steps_done(cell)
                    yield outcome(cell, process.exitcode, connection)
                bar.update(finished_steps + sum(steps_done(cell) for cell, _ in running.values()) - bar.n)
        finally:
            # All are asked to stop before any is waited for, so that they save side by side.
            for process in running:
                process.terminate()
            for process in running:
                process.join()


def steps_done(cell: MixingCell) -> int:
    lines = read_log(cell.folder)
    return int(lines[-1]["step"]) if lines else 0


def outcome(cell: MixingCell, code: int | None, connection: Connection) -> CellEvent:
    """Return what became of a cell whose process has ended; raise KeyboardInterrupt if it was interrupted."""
    reason = f"The run of {cell.label} ended with exit code {code}."
    # A process that was killed sends nothing, and its pipe just ends.
    with connection, suppress(EOFError):
        reason = connection.recv()
    if cell.done:
        return CellEvent(cell, CellStatus.FINISHED)
    if code == INTERRUPTED:
        raise KeyboardInterrupt
    return CellEvent(cell, CellStatus.BUSY if code == BUSY else CellStatus.FAILED, reason)


def run_cell_apart(cell: MixingCell, device: str, connection: Connection) -> None:
    """Call `run_cell` in a process of its own, which stops when its parent has gone."""
    # In a group of its own it gets no interrupt from the keyboard: the parent passes that on, once.
    os.setpgrp()
    # One thread a row: side by side, rows use all cores better than the threads of one small model.
    torch.set_num_threads(1)
    threading.Thread(target=stop_with_parent, daemon=True).start()
    try:
        run_cell(cell, device)
    except UserError as error:
        connection.send(str(error))
        raise SystemExit(BUSY if isinstance(error, Busy) else 2) from None
    except KeyboardInterrupt:
        raise SystemExit(INTERRUPTED) from None


def stop_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os.kill(os.getpid(), signal.SIGTERM)


def run_cell(cell: MixingCell, device: str) -> None:
    """Train and score one row, and write the result; a run that was interrupted goes on."""
    # Taken before training: the time of a run is that of its start.
    began = depends_on(cell) | circumstances(device_of(device))
    work = mixing(
        cell.variant.settings_of(cell.row, cell.seed),
        out=cell.folder,
        device=device,
        resume=True,
        save_every=SAVE_EVERY,
        log_every=LOG_EVERY,
        show_progress=False,
    )
    # Training has let go of the folder, and another process may take the trained run up, score it or clear it up.
    with hold_folder(cell.folder):
        if cell.done:
            return
        found = evaluate_mixing(work)
        log = read_log(cell.folder)
        facts = {"used": work.settings.as_dict(), **found["facts"], **began}
        facts["cpu_seconds"] = round(sum(line["cpu_seconds"] for line in log), 1)
        write_result(cell, found["figures"], sum(line["seconds"] for line in log), facts)
