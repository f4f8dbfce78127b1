"""Where a dataset lives and who may write it: object stores, their cache on this disk, archives, and leases.

Imported by loaders/folders and upwards. It imports loaders/format.
Start at `store.store_or_folder`; `lease.lease` makes sure of one writer at a time.
"""
