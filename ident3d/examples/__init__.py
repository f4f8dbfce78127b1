"""Scenes to start from: `--scene examples:Objects` renders one, `ident3d scene print examples:Objects` prints its file.

They import what a user's own scene imports: Blender, and the public names of ident3d. Nothing imports them: their text
is read. Start reading in camera.py, the shorter one.
"""
