"""Training and scoring encoders on rendered images: settings, set-up, the loop, the run's folder, scores.

Imported by experiments, report and reproduction, never by mixing.
Start at `train.train`.
"""
