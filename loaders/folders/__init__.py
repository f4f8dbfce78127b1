"""A dataset folder's life: its description, how it is started, continued, finished, verified, packed and shown.

Imported by loaders/datasets, loaders/layouts, the farm and training. It imports format, cards and stores; no torch.
Start at `folder.open_folder`; `lifecycle` makes folders, `verify` checks them.
"""
