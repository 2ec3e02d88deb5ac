"""The one checked way to change the board: request, candidate, append, receipt."""
