"""Encoders, losses and the trainers, from the parts of a loop up to reports and lists of runs.

Imported by reproduction, bench and the commands. It imports loaders, latents and metrics; no bpy.
Start at images/train.py; losses, encoders and views serve a researcher's own loop.
"""
