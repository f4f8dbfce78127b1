"""Other people's files: the published archives of 3DIdent and Causal-3DIdent, read and written.

Imported by the commands alone. It imports loaders/format, stores, folders and datasets.
Start at `importing.import_` and `exporting.export`.
"""
