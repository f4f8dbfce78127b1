"""Which FAISS build is installed: the two share one module and exclude each other."""

from importlib.metadata import distributions
from typing import Literal

from ident3d.errors import UserError

FaissBuild = Literal["cpu", "gpu", "both", "none"]

ADVICE: dict[FaissBuild, str] = {
    "none": "--search flat and ivf need FAISS: pip install 'ident3d[cpu]', or 'ident3d[gpu]' on a machine with CUDA.",
    "both": "faiss-cpu and faiss-gpu overwrite each other's files: uninstall both, then install one of them.",
}


def faiss_build() -> FaissBuild:
    """Return which FAISS build is installed, by the names of the installed distributions."""
    # The names of distributions, because both builds are imported as `faiss`, and importing it to see costs a second.
    names = {(dist.metadata["Name"] or "").lower().replace("_", "-") for dist in distributions()}
    cpu = bool(names & {"faiss-cpu", "faiss"})  # conda's is called faiss
    gpu = any(name == "faiss-gpu" or name.startswith("faiss-gpu-") for name in names)
    if cpu and gpu:
        return "both"
    if cpu or gpu:
        return "cpu" if cpu else "gpu"
    return "none"


def require_faiss() -> None:
    """Raise a UserError with advice unless exactly one FAISS build is installed."""
    advice = ADVICE.get(faiss_build())
    if advice:
        raise UserError(advice)
