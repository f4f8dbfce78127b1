"""Jobs of a batch system as workers: asked for, followed in its queue, with a private folder for each run.

Imported by farm, farm/local and health. It imports loaders/stores.
Start at `systems.batch_cluster`.
"""
