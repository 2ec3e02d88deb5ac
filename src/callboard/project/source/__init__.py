"""The work file: what is to be done, as people wrote it, and how it is read and changed.

The file is the authority; the database holds a copy that can be made anew. Nothing here opens a
database, and nothing writes a file that was not read and shown before.
"""
