"""Lengths of time in words: what a set-up took that several Claims shared, and what each waited.

Measured by whoever ran it and told beside the ledger; pure wording, nothing is measured here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

TIMINGS = ("setup_ms", "worker_ms", "shared_by", "waited_ms")
_LONGEST_MS = 10**12


def timing_facts(found: Mapping[str, Any]) -> dict[str, int]:
    """The timings among `found` that are whole numbers and no nonsense."""
    return {
        name: value
        for name in TIMINGS
        if type(value := found.get(name)) is int and 0 <= value <= _LONGEST_MS
    }


def timing_text(found: Mapping[str, Any]) -> str:
    """`setup 12.3 s, shared by 3 claims; work 20.4 s`; empty where nothing was measured."""
    said: list[str] = []
    if "setup_ms" in found:
        shared_by = found.get("shared_by", 1)
        shared = f", shared by {shared_by} claims" if shared_by > 1 else ""
        said.append(f"setup {length_text(found['setup_ms'])}{shared}")
    if "worker_ms" in found:
        said.append(f"work {length_text(found['worker_ms'])}")
    return "; ".join(said)


def timing_lines(found: Mapping[str, Any]) -> list[str]:
    """The same of one Claim, with how long it had waited."""
    waited = []
    if "waited_ms" in found:
        waited.append(f"began {length_text(found['waited_ms'])} after its grant")
    return [one for one in (*waited, timing_text(found)) if one]


def length_text(ms: int) -> str:
    """A length of time: tenths of a second below a minute, then in two units."""
    if ms < 60_000:
        return f"{ms // 1000}.{ms % 1000 // 100} s"
    minutes, seconds = divmod(ms // 1000, 60)
    if minutes < 60:
        return f"{minutes} min {seconds} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min"
