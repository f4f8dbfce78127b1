"""The papers' tables as data: rows, what they change in a profile's settings, and the papers' figures.

Imported by report and reproduction. It imports the settings of images and mixing, and loads no torch.
Start at `experiment.Experiment`.
"""
