"""Callboard: the call board for crews of AI agents."""

__version__ = "0.1.0"
