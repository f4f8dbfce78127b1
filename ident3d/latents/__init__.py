"""What a dataset is: latent spaces, marginals, conditionals, the causal graph, raw → scene mapping."""

from ident3d.public import lazy

__getattr__, __dir__, __all__ = lazy(__name__)
