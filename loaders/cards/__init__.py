"""What people see of a dataset: its card in words, its facts, and pictures of many images at once.

Imported by loaders/folders, which writes the card, and by all that shows pictures. It imports latents and format.
Start at `text.card`.
"""
