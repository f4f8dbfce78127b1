"""ident3d: image benchmarks with known latent factors, from rendering to identifiability scores.

Public is what `__init__.pyi` lists, and what `ident3d.metrics`, `ident3d.latents`, `ident3d.losses`,
`ident3d.encoders` and `ident3d.views` list in theirs. All of it loads on first use, so that ``import ident3d`` costs
neither torch nor bpy.
"""

from ident3d.public import lazy

__version__ = "0.1.0"
__getattr__, __dir__, __all__ = lazy(__name__)
