"""The project wing: work that is shared by several hands, and the record of who did what with it.

Its authority is one database a project. It knows nothing of the board or of layers.
"""
