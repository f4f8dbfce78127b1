"""ident3d: image benchmarks with known latent factors, from rendering to identifiability scores.

Public is what stands here, and what `ident3d.metrics`, `ident3d.latents`, `ident3d.losses` and `ident3d.encoders` list
in their `__all__`. All of it loads on first use, so that ``import ident3d`` costs neither torch nor bpy.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # what editors and type checkers see of the names that load on first use
    from ident3d import encoders as encoders
    from ident3d import latents as latents
    from ident3d import losses as losses
    from ident3d import metrics as metrics
    from ident3d.errors import UserError as UserError
    from ident3d.farm.cluster import Cluster as Cluster
    from ident3d.farm.estimate import estimate as estimate
    from ident3d.farm.recipe import Recipe as Recipe
    from ident3d.farm.render import render as render
    from ident3d.health import doctor as doctor
    from ident3d.latents.worlds import World as World
    from ident3d.loaders.batches.loader import make_loader as make_loader
    from ident3d.loaders.datasets.image_dataset import ImageDataset as ImageDataset
    from ident3d.loaders.datasets.pair_dataset import PairDataset as PairDataset
    from ident3d.loaders.datasets.pair_widths import pairs as pairs
    from ident3d.loaders.datasets.search_index import index as index
    from ident3d.loaders.folders.packed import pack as pack
    from ident3d.loaders.folders.verify import verify as verify
    from ident3d.loaders.layouts.exporting import export as export
    from ident3d.loaders.layouts.importing import import_ as import_
    from ident3d.loaders.pairs.sampler import PairSampler as PairSampler
    from ident3d.looking.causal_graph import graph as graph
    from ident3d.looking.info import info as info
    from ident3d.looking.pictures import preview as preview
    from ident3d.looking.pictures import traverse as traverse
    from ident3d.metrics.scoring import score as score
    from ident3d.reproduction.reproduce import reproduce as reproduce
    from ident3d.shapes.library import meshes as meshes
    from ident3d.training.images.evaluate import encode as encode
    from ident3d.training.images.evaluate import evaluate as evaluate
    from ident3d.training.images.settings import Settings as Settings
    from ident3d.training.images.train import train as train
    from ident3d.training.mixing.settings import MixingSettings as MixingSettings
    from ident3d.training.mixing.train import mixing as mixing

__version__ = "0.1.0"

# public module of functions for a researcher's own arrays and loop
_MODULES = ("encoders", "latents", "losses", "metrics")

# public name → the module that holds it
_HOME: dict[str, str] = {
    "Cluster": "ident3d.farm.cluster",
    "ImageDataset": "ident3d.loaders.datasets.image_dataset",
    "MixingSettings": "ident3d.training.mixing.settings",
    "PairDataset": "ident3d.loaders.datasets.pair_dataset",
    "PairSampler": "ident3d.loaders.pairs.sampler",
    "Recipe": "ident3d.farm.recipe",
    "Settings": "ident3d.training.images.settings",
    "UserError": "ident3d.errors",
    "World": "ident3d.latents.worlds",
    "doctor": "ident3d.health",
    "encode": "ident3d.training.images.evaluate",
    "estimate": "ident3d.farm.estimate",
    "evaluate": "ident3d.training.images.evaluate",
    "export": "ident3d.loaders.layouts.exporting",
    "graph": "ident3d.looking.causal_graph",
    "import_": "ident3d.loaders.layouts.importing",
    "index": "ident3d.loaders.datasets.search_index",
    "info": "ident3d.looking.info",
    "make_loader": "ident3d.loaders.batches.loader",
    "meshes": "ident3d.shapes.library",
    "mixing": "ident3d.training.mixing.train",
    "pack": "ident3d.loaders.folders.packed",
    "pairs": "ident3d.loaders.datasets.pair_widths",
    "preview": "ident3d.looking.pictures",
    "render": "ident3d.farm.render",
    "reproduce": "ident3d.reproduction.reproduce",
    "score": "ident3d.metrics.scoring",
    "train": "ident3d.training.images.train",
    "traverse": "ident3d.looking.pictures",
    "verify": "ident3d.loaders.folders.verify",
}

__all__ = ["__version__", *_HOME, *_MODULES]  # noqa: PLE0604, the table's keys are strings


def __getattr__(name: str) -> object:
    if name in _MODULES:
        return import_module(f"ident3d.{name}")
    if name not in _HOME:
        raise AttributeError(f"module 'ident3d' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
