"""Encoders from images or vectors to codes, and the output spaces that codes live in, as torch modules."""

from ident3d.public import lazy

__getattr__, __dir__, __all__ = lazy(__name__)
