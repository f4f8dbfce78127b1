"""Benchmarks: every figure that the README names is measured here, against a baseline of the same run."""
