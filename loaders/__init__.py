"""Datasets on disk and what serves them: seven folders, from the bytes (format) up to batches.

May be imported by every room but latents, metrics and blender_scenes. It imports latents; no bpy.
Start at datasets/pair_dataset.py, or at folders/folder.py for what a dataset is.
"""
