"""A user's own encoder, loss or mixing: given itself or by its import path, called, and recorded.

Imported by every folder of training that takes one. It imports no other folder.
Start at `own_code`; `own_object` is what settings hold, and `own_record` what a run keeps of it.
"""
