"""Latent spaces, marginals and conditionals, for NumPy arrays and torch tensors alike.

Imported by latents, loaders/pairs, loaders/datasets and training. It may import latents/exact.
Start at `by_name.conditional`.
"""
