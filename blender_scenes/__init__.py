"""Everything that touches Blender: stage, materials, meshes, Cycles presets and the studio that renders latents.

Imported by farm, shapes, looking and bench, inside functions: bpy takes seconds to load. It imports latents/exact.
Start at `studio.Studio`.
"""
