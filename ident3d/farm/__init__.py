"""The render farm: from a recipe to the finished shards of a dataset folder, here or on a cluster.

Imported by looking, reproduction, bench, health and the commands. It imports latents, loaders, shapes, blender_scenes.
Start at `render.render`; one shard is made in `render_shard.render_shard`.
"""
