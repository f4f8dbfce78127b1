"""Identifiability scores: plain functions on two arrays, true latents z (N, d) and codes h (N, k).

Every function returns a small frozen result: `float(result)` is the headline, the fields are the detail.
Imported by training, reproduction, bench and the commands. It imports the ground alone.
Start at `scoring.score`; `catalogue` names every score.
"""

from ident3d.public import lazy

__getattr__, __dir__, __all__ = lazy(__name__)
