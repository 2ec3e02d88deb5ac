"""The commands of a project. They know nothing of the board."""
