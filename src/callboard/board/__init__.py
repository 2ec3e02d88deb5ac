"""The fair board: posted work, fair grants, verified results."""
