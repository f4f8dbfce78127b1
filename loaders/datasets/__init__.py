"""Torch datasets over dataset folders: images, pairs of images, and what finite data makes of a pair's width.

Imported by loaders/batches, training and the commands. It imports the folders of loaders above it.
Start at `pair_dataset.PairDataset`.
"""
