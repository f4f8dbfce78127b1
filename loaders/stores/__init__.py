"""Where a dataset lives and who may write it: object stores, their cache on this disk, and leases.

Imported by loaders/folders and upwards. It imports loaders/format.
Start at `store.store_or_folder`; `lease.lease` says how one writer at a time is made sure of.
"""
