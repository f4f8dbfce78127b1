"""Encoders from images or vectors to codes, and the output spaces that codes live in.

Imported by images and mixing. It imports training/loop and training/losses; no loaders.
Start at `image_encoder.encoder`.
"""
