"""The papers' tables as data, one file a paper: rows, what they change in the settings, and the papers' figures.

Imported by report and reproduction. It imports the settings of images and mixing, and loads no torch.
Start at `experiment.Experiment`; `by_name.EXPERIMENTS` lists them all.
"""
