"""Training and scoring encoders on latents behind an invertible mixing, where the loss's minimum is known.

Imported by experiments and reproduction, never by images.
Start at `train.mixing`.
"""
