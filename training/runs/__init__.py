"""Runs side by side: what lies below a folder, and how runs compare over seeds. No torch.

Imported by no other folder of training.
Start at `listing.runs`.
"""
