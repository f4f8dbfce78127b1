"""The experiments on mixed latents: cells run side by side, each in a process of its own with one thread."""

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any

import torch

from ident3d.errors import UserError
from ident3d.loaders.stores.lease import Busy
from ident3d.machine import cores
from ident3d.progress import progress_bar
from ident3d.reproduction.cells import LEFT, Cell, Say, finish
from ident3d.training.experiments.mixing_rows import Latents
from ident3d.training.loop.devices import circumstances, device_of, torch_threads
from ident3d.training.loop.log import read_log
from ident3d.training.mixing.scores import score
from ident3d.training.mixing.settings import with_defaults
from ident3d.training.mixing.train import mixing, seconds_of_step

POLL = 0.2  # seconds between looks at the processes
SAVE_EVERY, LOG_EVERY = 500, 50
INTERRUPTED, BUSY = 130, 3


def estimate(cells: Sequence[Cell[Latents]], device: str, workers: int | None) -> list[str]:
    """What the cells take, from a few steps of one thread for each kind of settings; on a GPU it is not measured."""
    seconds, known = 0.0, {}
    for cell in cells:
        s = with_defaults(cell.data.settings_of(cell.row, cell.seed))
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
    """How many cells run at once: as many as asked for, else one on each core, or one on a GPU."""
    return min(cells, workers or (cores() if device_of(device).type == "cpu" else 1))


def run_cells(
    cells: Sequence[Cell[Latents]], device: str, workers: int | None, say: Say, show_progress: bool
) -> Iterator[Cell[Latents]]:
    """Finish the cells, several at a time; gives each that is finished. What another process is at is left to it.

    An interrupt is passed on, and every run ends after its step, saved. One that fails does not end the others: it is
    said, and raised once they are done.
    """
    spawn = multiprocessing.get_context("spawn")  # a fork would share torch's threads
    waiting, running = list(cells), dict[Any, tuple[Cell[Latents], Connection]]()
    total = sum(with_defaults(cell.data.settings_of(cell.row, cell.seed)).steps or 0 for cell in cells)
    finished_steps, failures = 0, list[str]()
    with progress_bar(total, "steps", show=show_progress and bool(cells)) as bar:
        try:
            while waiting or running:
                while waiting and len(running) < processes(device, workers, len(cells)):
                    cell = waiting.pop(0)
                    if cell.done:  # by another process, since this one began
                        continue
                    ours, theirs = spawn.Pipe(duplex=False)
                    process = spawn.Process(target=run_cell_apart, args=(cell, device, theirs))
                    process.start()
                    theirs.close()
                    running[process] = cell, ours
                time.sleep(POLL)
                for process in [process for process in running if not process.is_alive()]:
                    cell, told = running.pop(process)
                    failures += failure(cell, process.exitcode, told, say)
                    finished_steps += steps_done(cell)
                    if cell.done:
                        say(f"[{len(cells) - len(waiting) - len(running)}/{len(cells)}] {label(cell)}")
                        yield cell
                bar.update(finished_steps + sum(steps_done(cell) for cell, _ in running.values()) - bar.n)
        finally:
            for process in running:
                process.terminate()
            for process in running:
                process.join()
    if failures:
        raise UserError(" ".join(failures))


def steps_done(cell: Cell[Latents]) -> int:
    lines = read_log(cell.folder)
    return int(lines[-1]["step"]) if lines else 0


def label(cell: Cell[Latents]) -> str:
    return f"{cell.world}: {cell.row.name}, seed {cell.seed}"


def failure(cell: Cell[Latents], code: int | None, told: Connection, say: Say) -> list[str]:
    """What a process that has ended says, said, if it did not finish its cell; nothing if it did or left it."""
    sentence = None
    with told, suppress(EOFError):
        sentence = told.recv()
    if cell.done:
        return []
    if code == INTERRUPTED:
        raise KeyboardInterrupt
    if code == BUSY:
        say(f"{LEFT}: {sentence}")
        return []
    say(f"Failed: {label(cell)}: {sentence or f'exit code {code}'}")
    return [sentence or f"The run of {label(cell)} ended with exit code {code}."]


def run_cell_apart(cell: Cell[Latents], device: str, told: Connection) -> None:
    """`run_cell` in a process of its own, which stops when its parent has gone."""
    os.setpgrp()  # an interrupt from the keyboard is the parent's to pass on
    torch.set_num_threads(1)
    threading.Thread(target=stop_with_parent, daemon=True).start()
    try:
        run_cell(cell, device)
    except UserError as error:
        told.send(str(error))
        raise SystemExit(BUSY if isinstance(error, Busy) else 2) from None
    except KeyboardInterrupt:
        raise SystemExit(INTERRUPTED) from None


def stop_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os.kill(os.getpid(), signal.SIGTERM)


def asked_for(cell: Cell[Latents]) -> dict[str, Any]:
    """What a cell's figures depend on."""
    return {"settings": with_defaults(cell.data.settings_of(cell.row, cell.seed)).as_dict()}


def run_cell(cell: Cell[Latents], device: str) -> None:
    """Train, score and write down one row; a run that was interrupted goes on."""
    began = circumstances(device_of(device))
    work = mixing(
        cell.data.settings_of(cell.row, cell.seed),
        out=cell.folder,
        device=device,
        resume=True,
        save_every=SAVE_EVERY,
        log_every=LOG_EVERY,
        show_progress=False,
    )
    found = score(work)
    log = read_log(cell.folder)
    facts = {**asked_for(cell), "used": work.settings.as_dict(), **found["facts"], **began}
    facts["cpu_seconds"] = round(sum(line["cpu_seconds"] for line in log), 1)
    finish(cell, found["figures"], sum(line["seconds"] for line in log), facts)
