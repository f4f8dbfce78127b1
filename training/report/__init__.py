"""A run's report: curves, scores beside the paper's, pairs and codes as pictures, on one page.

Imported by reproduction and the commands. It imports training/images, training/mixing and training/experiments.
Start at `report.write_report`.
"""
