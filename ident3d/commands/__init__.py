"""One short module per command: options and help, then one call of a documented function.

Imported by cli alone. It may import every room, inside functions.
Start at `options`, which holds the options that commands share.
"""
