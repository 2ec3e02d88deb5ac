"""One module a step, named and numbered in order."""
