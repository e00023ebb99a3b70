"""Running a part of the DAG on another machine: what travels there, the driver that works there, what comes home."""
