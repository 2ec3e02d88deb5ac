"""What makes bytes a ledger file: whole lines, none blank, no NUL, a bounded size.

Framing only. Whether a line is JSON, and what it says, is judged elsewhere; nothing is repaired
here and no line is skipped.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from callboard.canonical import MAX_PARSE_BYTES
from callboard.errors import CallboardError

MAX_LEDGER_BYTES = MAX_PARSE_BYTES
"""The most a ledger file may hold, in bytes (wire-v3 §1)."""

_BLANK_INSIDE = re.compile(rb"\n[ \t\r]*\n")
_BLANK_FIRST = re.compile(rb"[ \t\r]*\n")


def check_ledger(data: bytes, where: str) -> None:
    """Refuse `data` unless it is one or more whole lines (§7.6, wire-v3 §1).

    Raises `CallboardError` `ledger_invalid`; details hold `line` (from 1) and `byte` (from 0) of
    the fault, of a torn last line those at which it begins, `where`, and `cause`: `empty_ledger`,
    `blank_line`, `truncated_line`, `invalid_json` (a NUL) or `resource_limit`.
    """
    if len(data) > MAX_LEDGER_BYTES:
        raise too_large(len(data), where)
    fault = _first_fault(data)
    if fault is not None:
        line = data.count(b"\n", 0, fault.byte) + 1
        raise ledger_invalid(fault.cause, fault.reason, where, line=line, byte=fault.byte)


def check_lines(lines: bytes, base_bytes: int, where: str) -> None:
    """Refuse lines that would break the framing of a ledger of `base_bytes` bytes.

    Raises `CallboardError` `ledger_invalid` with the details of `check_ledger`; line and byte
    count within `lines`.
    """
    if base_bytes + len(lines) > MAX_LEDGER_BYTES:
        raise too_large(base_bytes + len(lines), where)
    fault = _first_fault(lines)
    if fault is not None:
        line = lines.count(b"\n", 0, fault.byte) + 1
        raise CallboardError(
            "ledger_invalid",
            f"the lines to append are not whole records: {fault.reason} at line {line}, "
            f"byte {fault.byte}",
            "nothing was written; append complete lines, each ending in a newline",
            {"cause": fault.cause, "line": line, "byte": fault.byte, "where": where},
        )


def ledger_invalid(cause: str, reason: str, where: str, *, line: int, byte: int) -> CallboardError:
    """The refusal of a ledger found in a state that nobody may build on; `cause` is a code."""
    return CallboardError(
        "ledger_invalid",
        f"{where} is not a valid ledger: {reason} at line {line}, byte {byte}",
        "it was left untouched; restore the branch to its last good commit",
        {"cause": cause, "line": line, "byte": byte, "where": where},
    )


def too_large(size_bytes: int, where: str) -> CallboardError:
    """The refusal of a ledger beyond `MAX_LEDGER_BYTES`."""
    return CallboardError(
        "ledger_invalid",
        f"{where} would hold {size_bytes} bytes, more than the {MAX_LEDGER_BYTES} a reader takes"
        f" (line 1, byte {MAX_LEDGER_BYTES})",
        "settle what is open, and begin another board",
        {
            "cause": "resource_limit",
            "line": 1,
            "byte": MAX_LEDGER_BYTES,
            "bytes": size_bytes,
            "limit_bytes": MAX_LEDGER_BYTES,
            "where": where,
        },
    )


class _Fault(NamedTuple):
    """Where framing first fails; a torn line fails where it begins."""

    byte: int
    cause: str
    reason: str


def _first_fault(data: bytes) -> _Fault | None:
    if not data:
        return _Fault(0, "empty_ledger", "it is empty")
    faults: list[_Fault] = []
    nul = data.find(b"\0")
    if nul >= 0:
        faults.append(_Fault(nul, "invalid_json", "a NUL byte stands"))
    if _BLANK_FIRST.match(data):
        faults.append(_Fault(0, "blank_line", "a blank line stands"))
    elif blank := _BLANK_INSIDE.search(data):
        faults.append(_Fault(blank.start() + 1, "blank_line", "a blank line stands"))
    if not data.endswith(b"\n"):
        torn = data.rfind(b"\n") + 1
        faults.append(_Fault(torn, "truncated_line", "the last line has no newline"))
    return min(faults, default=None)
