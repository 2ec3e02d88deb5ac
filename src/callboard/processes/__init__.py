"""Processes of this machine: which one a record means, running one whole family, and ending it."""
