"""A server that keeps imported modules warm for short jobs."""
