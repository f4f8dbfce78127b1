"""Encoders, losses and the trainer: eight folders, from the loop's parts up to reports.

Imported by reproduction, bench and the commands. It imports loaders, latents and metrics; no bpy.
Start at images/train.py; losses, encoders and views serve a researcher's own loop.
"""
