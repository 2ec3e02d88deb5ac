"""Names that people or file systems take for one: *twins*. Whoever stores names keeps one of them.

Pure; it knows no rule of what a name may be.
"""

from __future__ import annotations

import unicodedata


def twin(name: str) -> str:
    """Equal for names that would be confused: case and compatible forms of Unicode are folded."""
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold())
