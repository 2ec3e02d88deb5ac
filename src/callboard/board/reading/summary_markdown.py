"""A summary as a page of Markdown, in which submitted text means nothing but itself.

Source: specification 1, §7.13 (submitted identifiers and text are always escaped). All that was not
written here goes into code spans, in which no dialect knows markup, HTML, links, mentions or
references, after everything that could end one, or a table's cell, was made a visible escape.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from callboard.board.reading.summary import COUNTS
from callboard.board.reading.timing import length_text, timing_text
from callboard.visible import escaped, visible

LONGEST = 160
_MEANING = "`|"
_STATUS = {
    "completed": "completed",
    "completed_with_cancellations": "completed, with cancellations",
    "cancelled": "cancelled",
    "in_progress": "in progress",
    "delivery_pending": "completed, and not verified yet",
    "delivery_failed": "a delivery failed",
    "launch_rejected": "a launch was refused",
    "launch_uncertain": "it is not known whether every run started",
    "launch_unresolved": "it could not be found out whether every run started",
    "run_binding_conflict": "several runs, or another one than was ordered, claim a launch",
    "submitted": "posted",
    "nothing": "nothing was granted",
}
_OUTCOMES = {"open": "open", "completed": "completed", "cancelled": "cancelled"}
_DELIVERIES = {"none": "-", "pending": "pending", "verified": "verified", "failed": "failed"}
_LEFT_OUT = {
    "nodes": ("node", "nodes"),
    "rows": ("claim", "claims"),
    "launches": ("launch", "launches"),
    "requests": ("request", "requests"),
}


def shown(text: str) -> str:
    """`text` as a page shows it: every character seen, none that could end a span or a cell."""
    plain = visible(text)
    for char in _MEANING:
        plain = plain.replace(char, escaped(char))
    kept = plain.strip(" ")
    if kept != plain:
        # At the ends of a span spaces are dropped.
        before = len(plain) - len(plain.lstrip(" "))
        after = len(plain) - len(kept) - before
        plain = escaped(" ") * before + kept + escaped(" ") * after
    return plain if len(plain) <= LONGEST else plain[: LONGEST - 3] + "..."


def code(text: object) -> str:
    """Submitted text as a code span; there is none of nothing."""
    plain = shown(str(text))
    return f"`{plain}`" if plain else "(empty)"


def summary_markdown(document: dict[str, Any], *, title: str, when: str) -> str:
    """The page of a `summarize` document, its lines ended; `when` is its time, for people.

    `title` and `when` are the caller's own words. Launches may carry a `timing` and rows a
    `waited_ms`, which then are told.
    """
    return "\n".join([*_lines(document, title, when), ""])


def _lines(document: dict[str, Any], title: str, when: str) -> Iterator[str]:
    yield f"## {title}: {_STATUS.get(document['status'], code(document['status']))}"
    yield ""
    counted = [name for name in COUNTS if name != "submitted" or document[name]]
    yield from _table(counted, [[str(document[name]) for name in counted]])
    for name, headers, row_of in _TABLES:
        if document[name]:
            yield from _table(headers, [row_of(one) for one in document[name]])
    left_out = document["left_out"]
    for name, (one, many) in _LEFT_OUT.items():
        if left_out[name]:
            yield f"{left_out[name]} more {one if left_out[name] == 1 else many} not listed."
            yield ""
    tip = "no commit yet" if document["tip"] is None else f"commit {code(document['tip'])}"
    yield f"As of {tip}, {when}."


def _table(headers: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(headers)} |"
    yield f"|{' --- |' * len(headers)}"
    for row in rows:
        yield f"| {' | '.join(row)} |"
    yield ""


def _node(one: dict[str, Any]) -> list[str]:
    return [code(one["name"]), code(one["stage"])]


def _row(one: dict[str, Any]) -> list[str]:
    outcome = _OUTCOMES.get(one["outcome"], code(one["outcome"]))
    delivery = _DELIVERIES.get(one["delivery"], code(one["delivery"]))
    if "reason" in one:
        why = f": {code(one['reason'])}"
        outcome, delivery = (
            (outcome, delivery + why) if one["delivery"] == "failed" else (outcome + why, delivery)
        )
    waited = f", began after {length_text(one['waited_ms'])}" if "waited_ms" in one else ""
    return [
        code(one["name"]),
        code(one["graph_id"]),
        code(one["fairness_key"]),
        f"{code(one['handle'])} {code(one['claim_ref'])}{waited}",
        str(one["attempt"]),
        outcome,
        delivery,
        _outputs(one),
    ]


def _outputs(one: dict[str, Any]) -> str:
    said = [
        " ".join(code(output[name]) for name in ("type", "name") if name in output) or "?"
        for output in one["outputs"]
    ]
    if one["outputs_left_out"]:
        said.append(f"and {one['outputs_left_out']} more")
    return ", ".join(said) or "-"


def _launch(one: dict[str, Any]) -> list[str]:
    why = f": {code(one['reason'])}" if "reason" in one else ""
    return [
        "-" if one["run_id"] is None else code(one["run_id"]),
        code(one["worker_profile"]),
        code(one["pool"]),
        f"{code(one['status'])}{why}",
        code(one["conclusion"]) if "conclusion" in one else "-",
        timing_text(one.get("timing", {})) or "-",
    ]


def _request(one: dict[str, Any]) -> list[str]:
    asked = f"{one['requested']} from {code(one['pool'])}" if "requested" in one else "-"
    got = [f"{one[name]} {name}" for name in ("granted", "submitted") if name in one]
    return [
        code(one["request_id"]),
        code(one["kind"]),
        f"{code(one['role'])} {code(one['principal'])}",
        asked,
        ", ".join(got) or "-",
    ]


_TABLES: tuple[tuple[str, tuple[str, ...], Callable[[dict[str, Any]], list[str]]], ...] = (
    ("nodes", ("posted node", "stage"), _node),
    (
        "rows",
        ("node", "graph", "key", "claim", "attempt", "outcome", "delivery", "outputs"),
        _row,
    ),
    ("launches", ("run", "worker", "pool", "launch", "ended", "time"), _launch),
    ("requests", ("request", "kind", "by", "asked", "got"), _request),
)
