"""Lines that several of the project's answers are made of, each for one thing it tells.

Pure wording, like `words`, which puts them together.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from callboard.surfaces.cli.render import Block, bad, count, faint, local_time

Document = Mapping[str, Any]
_MAX_BODY = 100
_MAX_LINES = 20


def session_line(one: Document) -> str:
    """A session in one line."""
    return (
        f"session {one['id']}: {one['agent']} at {one['work']} on {one['branch']}, "
        f"{state_text(one['state'])}"
    )


def state_text(state: str) -> str:
    """A state in words."""
    return state.replace("_", " ")


def claim_line(one: Document) -> str:
    """A claim in one line."""
    return f"claim {one['id']}: {one['work']} held by {one['agent']}, {claim_state(one)}"


def claim_state(one: Document) -> str:
    """How a claim stands; one that is past its end and was not taken over is lapsed."""
    if one["state"] == "expired" and one["released_at_ms"] is None:
        return f"lease lapsed at {local_time(one['expires_at_ms'])}"
    if one["state"] != "active":
        return f"{one['state']} at {local_time(one['released_at_ms'])}"
    if one["expires_at_ms"] is None:
        return "without an end"
    return f"until {local_time(one['expires_at_ms'])}"


def cut(text: str) -> str:
    """The text, cut where it is long."""
    return text if len(text) <= _MAX_BODY else text[: _MAX_BODY - 1] + "…"


def cut_lines(lead: str, text: str) -> Iterable[Block]:
    """A text of several lines, each one cut."""
    lines = text.splitlines()
    yield from (f"{lead}{cut(line)}" for line in lines[:_MAX_LINES])
    if len(lines) > _MAX_LINES:
        yield faint(f"{lead}and {count(len(lines) - _MAX_LINES, 'more line')} (--json)")


def how_to_see_all(texts: Iterable[str]) -> Iterable[Block]:
    """How to see in full what was cut."""
    if any(len(text) > _MAX_BODY for text in texts):
        yield faint("what ends in … is cut; --json has all of it")


def revision_line(document: Document) -> Block:
    """Which revision an answer is of."""
    return faint(f"revision {document['project_revision']}")


def more_line(document: Document) -> Iterable[Block]:
    """How to ask for the next page."""
    if document["next"]:
        yield faint(f"there is more: --after {document['next']}")


def remark_lines(document: Document) -> Iterable[Block]:
    """What somebody should look at, though nothing was refused."""
    yield from (bad(f"note: {one}") for one in document.get("remarks", ()))


def event_line(one: Document) -> str:
    """An event in one line."""
    return f"event {one['seq']}: {one['type']}"


def branch_line(one: Document) -> str:
    """A branch in one line."""
    return f"branch {one['name']}: {one['state']}" + (", selected" if one["selected"] else "")


def checkpoint_line(one: Document) -> str:
    """A checkpoint in one line."""
    return f"checkpoint {one['id']}: by {one['agent']}, next: {cut(one['next_action'])}"


def evidence_line(one: Document) -> str:
    """Evidence in one line."""
    covered = count(len(one["covers"]), "criterion", "criteria")
    return f"evidence {one['id']}: {one['kind']} for {one['work']}, covers {covered}"
