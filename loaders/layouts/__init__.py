"""Other people's images: arrays of anybody's, and published files of 3DIdent, Causal-3DIdent, dSprites, KITTI Masks.

Imported by the commands, looking and the public names alone. It imports sprites, and loaders/format, stores, folders
and datasets. Start at `arrays.from_arrays`, `importing.import_` and `exporting.export`.
"""
