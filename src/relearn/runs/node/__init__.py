"""Run a part of the DAG on another machine: the pack, the driver that runs there, and the results that are brought home."""
