"""Benchmarks: every figure that README and docs name is measured here, against a baseline of the same run.

Imported by the commands alone. It may import every other room.
Start at `measure`, which the measurements share; each has a file of its own.
"""
