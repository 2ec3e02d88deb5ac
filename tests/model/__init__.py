"""A second, deliberately slow reading of the board's rules, kept to check the engine against.

Nothing here may import the engine: two readings that share code would share mistakes.
"""
