"""The shapes of Causal-3DIdent's classes: meshes fetched from the package index or taken from files, and kept.

All but the teapot, which is made in code. None of them is part of ident3d; each has terms of its own.
"""
