"""Workflow sets: reading one from the repository all or nothing, and installing packaged ones."""

from callboard.layers.sets.freezing import FrozenSet, freeze
from callboard.layers.sets.installing import install, packaged

__all__ = ["FrozenSet", "freeze", "install", "packaged"]
