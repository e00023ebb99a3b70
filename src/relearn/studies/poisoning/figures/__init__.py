"""Figures of this study."""
