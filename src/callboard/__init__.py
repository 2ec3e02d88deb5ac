"""Callboard: a fair, recorded queue of tasks on a Git branch, and the runs that do them."""

__version__ = "0.1.0"
