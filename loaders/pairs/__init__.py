"""Which image goes with which, by one of three rules: nearest to a draw from the conditional, grid, time.

Imported by loaders/datasets and loaders/batches. It imports latents and loaders/format; neither torch nor h5py.
Start at `sampler.PairSampler`; the other rules are `grid.GridSampler` and `time.TimeSampler`.
"""
