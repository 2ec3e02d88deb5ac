"""The doctor: looks at a project that may be ill, and changes nothing.

It works on a copy in memory, so that nobody has to wait for it. It migrates nothing, and reads
nothing of what a newer program wrote. A repair is an operation like any other.
"""

from callboard.project.doctor.diagnosis import diagnose

__all__ = ["diagnose"]
