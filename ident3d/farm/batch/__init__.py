"""Jobs of a batch system as workers: asked for, followed in its queue, with a private folder for each run.

Imported by farm and health. It imports the ground and loaders.stores.
Start at `systems.batch_cluster`.
"""
