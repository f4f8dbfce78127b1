"""What every training loop is made of: devices, number formats, step rates, checkpoints, logs, stopping.

Imported by every folder of training. It imports loaders/format, loaders/stores and metrics.
Start at `checkpoint`.
"""
