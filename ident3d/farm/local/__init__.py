"""Worker processes of this machine: a Dask cluster that starts and ends with the run.

Imported by farm and bench. It imports farm.batch, for the run's private folder.
Start at `embedded.embedded_cluster`.
"""
