"""The bytes of a dataset folder: its description, shards, manifest, table of all latents, where latents come from.

Imported by every other folder of loaders, the farm and shapes. It imports latents and the ground.
Start at `shard.encode_shard`; every file is written by `files.write_atomically`.
"""
