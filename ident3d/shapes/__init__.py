"""The shapes of Causal-3DIdent's classes: meshes fetched from the package index or taken from files, and kept.

All but the teapot, which is made in code. None of them is part of ident3d; each has terms of its own.
Imported by farm, looking, bench, health and the commands. It imports latents, loaders and blender_scenes.
Start at `library.meshes`.
"""
