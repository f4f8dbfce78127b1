"""What every cluster of a run has in common: Dask's settings, its silence, and the reason of a failure in one line."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

# A worker may die for reasons that have nothing to do with its shard, so each shard is tried again.
RETRIES = 2
# The resource that a job on a GPU asks of its worker.
GPU = "GPU"

# A worker gets one shard at a time, and the others wait at the scheduler: a worker that dies costs one shard at most.
# Worker processes are renewed every 12 hours, at different times; each renewal repeats one shard at most.
# HTTP pages know no password, and every user of a machine can reach its loopback: our servers have none.
DASK_SETTINGS = {
    "distributed.scheduler.worker-saturation": 1.0,
    "distributed.scheduler.allowed-failures": RETRIES,
    "distributed.scheduler.http.routes": [],
    "distributed.worker.http.routes": [],
    "distributed.worker.memory.spill": False,
    "distributed.worker.memory.target": False,
    "distributed.worker.memory.pause": False,
    "distributed.comm.timeouts.connect": "30s",
    "distributed.worker.lifetime.duration": "12 hours",
    "distributed.worker.lifetime.stagger": "2 hours",
    "distributed.worker.lifetime.restart": True,
}


@contextmanager
def quiet() -> Iterator[None]:
    """Keep Dask's own log off the terminal: a killed worker fills it, and the farm reports what matters itself."""
    # Dask sets a level for each of its loggers. Errors in its loop's callbacks go to Tornado's logger.
    loggers = [logging.getLogger(name) for name in ("distributed", "distributed.client", "tornado.application")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


def reason_of(error: BaseException) -> str:
    """Return the innermost reason that has a text, in one line."""
    reasons = [error]
    while cause := reasons[-1].__cause__ or reasons[-1].__context__:
        reasons.append(cause)
    return next((text for reason in reversed(reasons) if (text := str(reason).partition("\n")[0])), repr(error))
