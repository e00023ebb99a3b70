"""Measurements: each file takes a network, features or poisons, modifies nothing, and returns numbers."""
