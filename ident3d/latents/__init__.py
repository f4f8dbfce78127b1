"""What a dataset is: latent spaces, marginals, conditionals, the causal graph, raw → scene mapping.

Imported by every room but metrics. It imports its own folders `distributions` and `exact`, and the ground.
Start at `worlds.World` and `draws.draw`.
"""

from ident3d.public import lazy

__getattr__, __dir__, __all__ = lazy(__name__)
