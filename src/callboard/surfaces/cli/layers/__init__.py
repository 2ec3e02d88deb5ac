"""The commands of layers. They know nothing of the board and of the project."""
