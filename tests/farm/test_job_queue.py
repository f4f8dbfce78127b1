"""What batch systems print of their queues is read, and a run's private folder goes even if the run was killed."""

import json
import os
from pathlib import Path

import pytest

from ident3d.errors import UserError
from ident3d.farm.batch.job_queue import sge_states, slurm_states
from ident3d.farm.batch.run_folder import OWNER_FILE, PREFIX, run_folder
from ident3d.loaders.stores.owners import this_process

# printed by Slurm 22.05.8 and by Grid Engine 8.1.9
SQUEUE = """\
8 PENDING PartitionDown
9 RUNNING None
10 PENDING Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority partitions
"""
QSTAT = """\
job-ID  prior   name       user         state submit/start at     queue                          slots ja-task-ID 
-----------------------------------------------------------------------------------------------------------------
      1 0.50000 dask-worke root         r     11/19/2026 00:30:52 short.q@localhost                  1        
      2 0.00000 dask-worke root         qw    11/19/2026 00:30:46                                    1        
"""  # noqa: W291


def test_listings_are_read() -> None:
    states = slurm_states(SQUEUE)
    assert list(states) == ["8", "9", "10"]
    assert states["8"] == "PENDING (PartitionDown)"
    assert states["9"] == "RUNNING"
    assert states["10"].startswith("PENDING (Nodes required for job are DOWN")
    assert sge_states(QSTAT) == {"1": "r", "2": "qw"}
    assert slurm_states("") == sge_states("") == {}


def test_a_private_folder_is_for_one_run_and_removes_those_of_dead_ones(tmp_path: Path) -> None:
    dead, alive, foreign = (tmp_path / f"{PREFIX}{name}" for name in ("dead", "alive", "foreign"))
    me = this_process()
    for folder, owner in ((dead, me | {"started": "1"}), (alive, me), (foreign, me | {"host": "elsewhere", "pid": 1})):
        folder.mkdir()
        (folder / OWNER_FILE).write_text(json.dumps(owner))
    stranger = tmp_path / f"{PREFIX}pipe"
    os.mkfifo(stranger)
    with run_folder(tmp_path) as own:
        assert own.stat().st_mode & 0o777 == 0o700
        assert set(tmp_path.iterdir()) == {own, alive, foreign, stranger}
    assert not own.exists()


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="file"), run_folder(tmp_path / "file"):
        pass
