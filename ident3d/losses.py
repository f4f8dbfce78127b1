"""The papers' losses on codes and posteriors, functions with one value per anchor, to be averaged and minimised.

They need nothing else of this package: give them the codes of a researcher's own encoder.
"""

from ident3d.public import lazy

__getattr__, __dir__, __all__ = lazy(__name__)
