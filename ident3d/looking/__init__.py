"""Pictures and facts for people: a folder's description, its images with latents, traversals, the causal graph.

Imported by the commands alone. It imports latents, loaders, shapes, blender_scenes and the farm's recipe.
Start at `pictures.preview`.
"""
