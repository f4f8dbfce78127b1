"""Everything that touches Blender: stage, materials, meshes, Cycles presets and the studio that renders latents."""
