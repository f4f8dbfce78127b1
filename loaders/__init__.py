"""Dataset folders on disk: shards, manifest, verify, import and export, pair sampling, torch Datasets."""
