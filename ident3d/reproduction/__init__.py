"""The papers' tables: which rows are missing, running them, and writing ours next to theirs.

Imported by the commands alone. It imports latents, loaders, training, metrics and the farm.
Start at `reproduce.reproduce`; the rows themselves are in training/experiments.
"""
