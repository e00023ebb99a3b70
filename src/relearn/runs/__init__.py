"""One run and its record: files, checkpoints, devices, code version."""
