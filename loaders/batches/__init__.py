"""Batches for a training loop: loader, epochs and ranks, and the shared memory that workers fill.

Imported by training and the commands. It imports loaders/datasets.
Start at `loader.make_loader`; `resumable.Loader` is what it makes.
"""
