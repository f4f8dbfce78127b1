"""From stored bytes to what an encoder sees: normalised pixels, SimCLR's augmentations, the views of a pair.

Imported by images. It imports the ground alone.
Start at `views`.
"""
