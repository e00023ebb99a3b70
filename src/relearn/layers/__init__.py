"""Layers: building blocks that run in a network's forward pass, one idea per file."""
