"""`--cluster slurm` on a real Slurm: make test ARGS='-m slow tests/farm/test_slurm.py'."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from farm.batchsystems import Slurm, kill, wait_for
from farm.conftest import contents
from farm.realjobs import PATIENCE, RealJobs, Run

pytestmark = [pytest.mark.slow, pytest.mark.bpy]


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slurm]:
    pytest.importorskip("dask_jobqueue")
    with Slurm(tmp_path_factory.mktemp("slurm")) as slurm:
        print(slurm.version())
        yield slurm


class TestSlurm(RealJobs):
    plain = ("--cluster-option", "queue=short", "--cluster-option", "walltime=00:30:00")
    script = ("Partition=short", "TimeLimit=00:30:00", "NumCPUs=1", "mem=2G")
    never = ("--cluster-option", "walltime=5-00:00:00")
    reason = "PartitionTimeLimit"
    refused = "invalid partition specified"

    def test_a_controller_that_is_started_again(
        self, run: list[Run], system: Slurm, reference: Path, tmp_path: Path
    ) -> None:
        """Jobs render on without it; one that ends meanwhile is asked for again when it is back."""
        render = self.start(run, system, tmp_path, jobs=1)
        render.wait_for_shards()
        (job,) = system.running()
        system.stop("slurmctld")
        kill(system.pids(job))
        wait_for(lambda: "did not take" in render.output, PATIENCE, "the refusal")
        system.start_controller()
        assert render.finish() == 0, render.output
        assert contents(render.data) == contents(reference)
