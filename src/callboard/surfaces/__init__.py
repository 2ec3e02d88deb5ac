"""Thin surfaces: parse, call a façade, render."""
