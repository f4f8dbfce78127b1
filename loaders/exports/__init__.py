"""A dataset folder in other people's formats: the published layout, Hugging Face, WebDataset, PNG files with a CSV.

Imported by loaders/layouts, which reads these exports back, looking and the commands. It imports loaders/format,
stores, folders and datasets. Start at `exporting.export` and `export_to.export_to`.
"""
