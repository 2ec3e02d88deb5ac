"""TOML files to plain tables, bounded before anything is parsed.

The standard parser's time and memory grow with the square of a dotted key's length, and a key can
be as long as the file; so keys are bounded first. What the values mean is judged elsewhere.
"""

from __future__ import annotations

import re
import tomllib
from typing import Any

from callboard.errors import CallboardError

MAX_KEY_PARTS = 32
# Text without its end reaches to the end of its line or of the file, where the parser refuses it:
# looking for an end again from each quote would take the square of the file.
_TEXT = re.compile(
    r"""
    \"{3} (?: \\. | [^\\] )*? (?: \"{3,5} | \Z )  # text over several lines; it may end in quotes
    | '{3} .*? (?: '{3,5} | \Z )
    | " (?: \\. | [^"\\\n] )*+ "? | ' [^'\n]*+ '?  # text in a line, or a quoted key
    | \# [^\n]*
    """,
    re.DOTALL | re.VERBOSE,
)
_BETWEEN_MARKS = re.compile(r"[^=,{}\[\]\n]+")


def read_toml(data: bytes, *, path: str, code: str, limit_bytes: int) -> dict[str, Any]:
    """The table in `data`, the file at `path`.

    Raises `CallboardError`: `resource_limit` for more than `limit_bytes` or a key of more than
    `MAX_KEY_PARTS` parts, and `code` for what is not TOML.
    """
    if len(data) > limit_bytes:
        raise CallboardError(
            "resource_limit",
            f"{path} has {len(data)} bytes, at most {limit_bytes} are read",
            "keep it short; prompts and scripts go into files of their own",
            {"bytes": len(data), "limit_bytes": limit_bytes},
        )
    try:
        text = data.decode("utf-8")
        _check_keys(text, path)
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        # ValueError: not UTF-8, not TOML, or an integer of thousands of digits.
        raise CallboardError(
            code,
            f"{path} is not valid TOML: {str(error)[:200]}",
            "correct the file and commit it",
            {"faults": [{"pointer": "", "message": "not valid TOML"}]},
        ) from error


def _check_keys(text: str, path: str) -> None:
    bare = _TEXT.sub(lambda found: "\n" * found.group().count("\n"), text)
    for run in _BETWEEN_MARKS.finditer(bare):
        parts = run.group().count(".") + 1
        if parts > MAX_KEY_PARTS:
            line = bare.count("\n", 0, run.start()) + 1
            raise CallboardError(
                "resource_limit",
                f"{path} has a key of {parts} parts in line {line}",
                f"at most {MAX_KEY_PARTS} are allowed",
                {"count": parts, "limit": MAX_KEY_PARTS},
            )
