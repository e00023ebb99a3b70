"""Measurements: each takes a network, features or poisons, modifies nothing, and returns numbers."""
