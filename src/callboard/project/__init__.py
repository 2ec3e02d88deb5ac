"""The project wing: who is responsible, who holds what, what happened.

Its authority is one database a project. It knows nothing of the board or of layers.
"""
