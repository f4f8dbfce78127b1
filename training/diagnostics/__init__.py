"""What augmentations do: read out of a run's codes, and measured on images of a user's own.

Imported by reproduction and commands. It imports training/images and what that imports.
Start at `readout.read_out`.
"""
