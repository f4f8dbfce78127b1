"""Which image goes with which: draws from the conditional, and the nearest rendered image to each.

Imported by loaders/datasets and loaders/batches. It imports latents and loaders/format; neither torch nor h5py.
Start at `sampler.PairSampler`.
"""
