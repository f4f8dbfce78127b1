"""The papers' tables: which rows are missing, running them, and writing ours beside theirs.

Imported by the commands alone. It may import every room but the farm's neighbours `looking` and `bench`.
Start at `reproduce.reproduce`; the rows themselves are in training/experiments.
"""
