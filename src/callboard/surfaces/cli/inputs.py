"""Files that a person names: read whole, as plain files, never more than a bound.

`-` is standard input. What the bytes mean is judged elsewhere.
"""

from __future__ import annotations

import sys
from pathlib import Path

from callboard import canonical, files
from callboard.errors import CallboardError

STANDARD_INPUT = "-"


def read_input(name: str, *, limit_bytes: int = canonical.MAX_PARSE_BYTES, what: str) -> bytes:
    """The bytes of a file, or of standard input.

    Raises `CallboardError` `file_missing`, `file_not_regular`, `file_unreadable` or
    `resource_limit`. A symbolic link is refused: what is read is what was named.
    """
    if name != STANDARD_INPUT:
        if not name or "\0" in name:
            raise CallboardError("file_missing", f"{name!r} names no file", "check the path")
        if Path(name).is_symlink():
            raise CallboardError(
                "file_not_regular",
                f"{what} {name!r} is a symbolic link",
                "name the file itself, or hand it over on standard input with -",
            )
        return files.read_bounded(Path(name), limit_bytes, what=what)
    data = _standard_input(limit_bytes + 1, what)
    if len(data) > limit_bytes:
        raise CallboardError(
            "resource_limit",
            f"{what} on standard input is larger than {limit_bytes} bytes",
            f"keep it at or under {limit_bytes} bytes",
            {"limit_bytes": limit_bytes},
        )
    return data


def _standard_input(length: int, what: str) -> bytes:
    # A process that was started with the stream closed has None in its place.
    found = "standard input is closed"
    if sys.stdin is not None:
        try:
            return sys.stdin.buffer.read(length)
        except OSError as error:
            found = f"standard input cannot be read: {error.strerror or error}"
    raise CallboardError(
        "file_unreadable", f"{found}, so there is no {what}", "name a file, or pipe one in"
    )


def read_text(name: str, limit_bytes: int, what: str) -> str:
    """As `read_input`, in UTF-8. Raises `text_invalid` for other bytes."""
    data = read_input(name, limit_bytes=limit_bytes, what=what)
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise CallboardError(
            "text_invalid",
            f"{what} is no UTF-8 at byte {error.start}",
            "save the text as UTF-8",
            {"byte": error.start},
        ) from error
