"""relearn: published experiments on reliable and efficient representation learning, re-run from one command."""

__version__ = "0.8.0"
