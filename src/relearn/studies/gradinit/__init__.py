"""gradinit"""
