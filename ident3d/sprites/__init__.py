"""Pictures made without Blender, of NumPy and Pillow alone: dSprites and Natural Sprites.

Imported by loaders/layouts, the commands and the top. It imports latents and loaders/format, stores, folders, datasets.
Start at `generate.dsprites` and `generate_natural.natural_sprites`.
"""
