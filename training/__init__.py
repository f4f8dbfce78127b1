"""Encoders, output spaces, losses, views, the trainer, experiments as data, the report."""
