"""The papers' losses on codes, exact and in blocks of memory, and the objective that a run's settings name.

Imported by encoders, images and mixing. It imports training/loop; no loaders.
Start at `contrastive`; `objective.Objective` chooses.
"""
