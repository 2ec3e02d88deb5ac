"""Words for what a run left on this machine: refusals, what was not delivered, who lives on.

Pure wording of what `callboard show` was given; nothing is read or decided here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from callboard.surfaces.cli.render import Block, count, faint

_MAX_SURVIVORS = 5
_MAX_REFUSALS = 8
_INDENT = " " * 10


def refusal_text(one: dict[str, Any]) -> str:
    """`code: message` of a refusal, as far as it has them."""
    return ": ".join(str(one[name]) for name in ("code", "message") if one.get(name))


def left_lines(claim: dict[str, Any]) -> Iterator[Block]:
    """What stands under an attempt of `show` beside its grant and its logs."""
    delivery = (claim.get("ending") or {}).get("delivery")
    if delivery and claim.get("stage") != "verified":
        yield f"{_INDENT}not delivered: {refusal_text(delivery)}"
    refusals = claim.get("refusals", [])
    for one in refusals[:_MAX_REFUSALS]:
        what = "refused" if one["of_claim"] else "refused, of no task"
        times = f" ({count(one['count'], 'time')})" if one["count"] > 1 else ""
        yield f"{_INDENT}{what}{times}: {refusal_text(one)}"
    if len(refusals) > _MAX_REFUSALS:
        yield faint(f"{_INDENT}and {len(refusals) - _MAX_REFUSALS} more refusals (--json)")
    survivors = claim.get("survivors", [])
    for one in survivors[:_MAX_SURVIVORS]:
        yield f"{_INDENT}still running when it had ended: process {one['pid']}, {one['command']}"
    if len(survivors) > _MAX_SURVIVORS:
        yield faint(f"{_INDENT}and {len(survivors) - _MAX_SURVIVORS} more processes (--json)")
