"""`--cluster sge` on a real Grid Engine: make test ARGS='-m slow tests/farm/test_sge.py'."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from farm.batchsystems import GridEngine, wait_for
from farm.realjobs import PATIENCE, RealJobs, Run

from ident3d.loaders.format import manifest

pytestmark = [pytest.mark.slow, pytest.mark.bpy]


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GridEngine]:
    pytest.importorskip("dask_jobqueue")
    with GridEngine(tmp_path_factory.mktemp("sge")) as sge:
        print(sge.version())
        yield sge


class TestGridEngine(RealJobs):
    plain = ("--cluster-option", "queue=short.q", "--cluster-option", "walltime=00:30:00")
    script = ("short.q", "h_rt=1800")
    never = ("--cluster-option", "resource_spec=mem_free=900G")
    reason = "qw"
    refused = "unknown queue"

    def test_a_job_at_the_end_of_its_walltime_is_replaced(
        self, run: list[Run], system: GridEngine, reference: Path, tmp_path: Path
    ) -> None:
        """Grid Engine kills it without a word."""
        render = self.start(run, system, tmp_path, "--cluster-option", "walltime=0:0:9", n=100_000, jobs=1)
        render.wait_for_shards()
        (first,) = system.running()
        wait_for(lambda: set(system.running()) - {first}, PATIENCE, "another job")
        render.wait_for_shards(max(render.entered(), 16))
        assert render.interrupt() == 130, render.output
        assert manifest.read_entries(render.data)[:16] == manifest.read_entries(reference)
