"""What the project's commands say to a person: lines and tables from their JSON documents.

Pure wording; `--json` has all of it. Text of others is made plainly visible where it is written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from callboard.project.operation import Operation
from callboard.surfaces.cli.render import (
    Block,
    Hint,
    Table,
    bad,
    count,
    document_text,
    faint,
    heading,
    local_time,
)

Document = Mapping[str, Any]
_MAX_BODY = 100
_MAX_LINES = 20


def blocks_of(operation: Operation, document: Document) -> Iterable[Block]:
    """What to say of the answer of an operation."""
    return _WORDS.get(operation.words, _changed)(document)


# --- lines ------------------------------------------------------------------------------------


def _session(one: Document) -> str:
    return (
        f"session {one['id']}: {one['agent']} at {one['work']} on {one['branch']}, "
        f"{_state(one['state'])}"
    )


def _state(state: str) -> str:
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


def _cut(text: str) -> str:
    return text if len(text) <= _MAX_BODY else text[: _MAX_BODY - 1] + "…"


def _lines_of(lead: str, text: str) -> Iterable[Block]:
    """A text of several lines, each one cut."""
    lines = text.splitlines()
    yield from (f"{lead}{_cut(line)}" for line in lines[:_MAX_LINES])
    if len(lines) > _MAX_LINES:
        yield faint(f"{lead}and {count(len(lines) - _MAX_LINES, 'more line')} (--json)")


def _whole(texts: Iterable[str]) -> Iterable[Block]:
    """How to see in full what was cut."""
    if any(len(text) > _MAX_BODY for text in texts):
        yield faint("what ends in … is cut; --json has all of it")


def _revision(document: Document) -> Block:
    return faint(f"revision {document['project_revision']}")


def _more(document: Document) -> Iterable[Block]:
    if document["next"]:
        yield faint(f"there is more: --after {document['next']}")


# --- answers ----------------------------------------------------------------------------------


def _changed(document: Document) -> Iterable[Block]:
    """The answer of a change: what it made, in a line each."""
    for name, say in _THINGS.items():
        if document.get(name):
            yield say(document[name])
    for one in document.get("closed_claims", ()):
        yield claim_line(one)
    yield from _remarks(document)
    yield _revision(document)
    if document.get("session") and document.get("claim", "none was asked for") is None:
        yield Hint(
            f"callboard project claim acquire --session {document['session']['id']}",
            "it holds nothing; to hold its work: ",
        )


def _remarks(document: Document) -> Iterable[Block]:
    """What somebody should look at, though nothing was refused."""
    yield from (bad(f"note: {one}") for one in document.get("remarks", ()))


def _event(one: Document) -> str:
    return f"event {one['seq']}: {one['type']}"


def _branch(one: Document) -> str:
    return f"branch {one['name']}: {one['state']}" + (", selected" if one["selected"] else "")


def _checkpoint(one: Document) -> str:
    return f"checkpoint {one['id']}: by {one['agent']}, next: {_cut(one['next_action'])}"


def _evidence(one: Document) -> str:
    covered = count(len(one["covers"]), "criterion", "criteria")
    return f"evidence {one['id']}: {one['kind']} for {one['work']}, covers {covered}"


_THINGS: dict[str, Callable[[Any], str]] = {
    "session": _session,
    "claim": claim_line,
    "branch": lambda one: _branch(one) if isinstance(one, Mapping) else f"on branch {one}",
    "checkpoint": _checkpoint,
    "evidence": _evidence,
    "event": _event,
}


def _status(document: Document) -> Iterable[Block]:
    whose = document["project"]
    yield heading(f"project {whose['key']}, branch {document['branch']}")
    yield _revision(document)
    for kind, numbers in document["counts"].items():
        if kind == "claims":
            numbers = _with_lapsed(numbers, document.get("lapsed", 0))
        told = ", ".join(f"{number} {state}" for state, number in numbers.items()) or "none"
        yield f"{_KINDS.get(kind, kind)}: {told}"
        if kind == "work":
            yield f"completed on branch {document['branch']}: {document.get('completed', 0)}"
    rows = [(one["work"], one["agent"], one["branch"], _lease(one)) for one in document["claims"]]
    if rows:
        yield Table(("work", "agent", "on", "claim"), rows)
    yield from _ready(document)


def _with_lapsed(numbers: Mapping[str, int], lapsed: int) -> dict[str, int]:
    """Counts of claims, those that lapsed apart from those that somebody ended as expired."""
    apart = {**numbers, "expired": numbers.get("expired", 0) - lapsed, "lapsed": lapsed}
    return {state: number for state, number in sorted(apart.items()) if number}


_KINDS = {"work": "work, as the files have it", "claims": "claims so far"}


def _lease(claim: Document) -> str:
    """How a claim that nobody ended stands, and until when."""
    return ("live, " if claim["state"] == "active" else "") + claim_state(claim)


_STANDING = Hint("callboard project work list", "how each piece of work stands: ")


def _ready(document: Document) -> Iterable[Block]:
    if not document["ready"]:
        yield f"nothing is ready on branch {document['branch']}"
        yield _STANDING
        return
    rows = [
        (one["key"], "-" if one["priority"] is None else str(one["priority"]), _cut(one["title"]))
        for one in document["ready"]
    ]
    yield Table(("ready", "priority", "title"), rows)
    if document["more"]:
        yield faint("and more")


def _init(document: Document) -> Iterable[Block]:
    for file in document["files"]:
        if file["action"] == "keep":
            yield f"{file['path']} is there, and stays as it is"
        elif document["accepted"]:
            yield f"wrote {file['path']}"
        else:
            yield heading(f"would write {file['path']}")
            yield from file["diff"].splitlines()
    yield from _remarks(document)
    if not document["accepted"]:
        yield Hint("callboard project init --accept")
    elif document["project"]:
        yield from _status(document)


def _work_list(document: Document) -> Iterable[Block]:
    rows = [
        (one["key"], one["status"], _standing(one), one["source_file"], _cut(one["title"]))
        for one in document["work"]
    ]
    headers = ("work", "status", f"on {document['branch']}", "file", "title")
    if rows:
        yield Table(headers, rows)
    elif document["status"]:
        yield f"no work has the status {document['status']}"
    else:
        yield "no work is indexed"
    yield from _more(document)


def _standing(one: Document) -> str:
    """How a piece of work stands, in a word or two."""
    if one["completed"]:
        return "completed"
    if one["readiness"]["ready"]:
        return "ready"
    kinds = {reason["kind"]: reason for reason in one["readiness"]["reasons"]}
    held = kinds.get("claimed", {}).get("claim")
    return f"held by {held['agent']}" if held else next(iter(kinds)).replace("_", " ")


def _work(document: Document) -> Iterable[Block]:
    one = document["work"]
    yield heading(f"{one['key']}: {one['title']}")
    status = f"{one['status']}, branch {document['branch']}"
    yield status + (", completed" if one["completed"] else "")
    yield "ready" if one["readiness"]["ready"] else bad("not ready")
    for reason in one["readiness"]["reasons"]:
        yield f"  {reason['message']}"
    if one["claim"]:
        where = one["claim"]["branch"]
        elsewhere = "" if where == document["branch"] else f", on branch {where}"
        yield claim_line(one["claim"]) + elsewhere
    for name in ("goal", "next_action", "owner", "workstream"):
        if one[name]:
            yield f"{name.replace('_', ' ')}: {_cut(one[name])}"
    for name in ("acceptance", "depends_on", "external", "paths", "tags"):
        if one[name]:
            yield f"{name.replace('_', ' ')}:"
            yield from (f"  {_cut(entry)}" for entry in one[name])
    yield _revision(document)


def _completed(document: Document) -> Iterable[Block]:
    yield f"{document['work']['key']} is complete on branch {document['branch']}"
    yield _revision(document)


def _next(document: Document) -> Iterable[Block]:
    if document["session"] is None:
        yield f"nothing is ready on branch {document['branch']}"
        yield _STANDING
        return
    yield heading(f"{document['work']['key']}: {document['work']['title']}")
    yield from _changed({**document, "branch": None})


def _session_show(document: Document) -> Iterable[Block]:
    one = document["session"]
    yield _session(one)
    yield f"started {local_time(one['started_at_ms'])}, ended {local_time(one['ended_at_ms'])}"
    if one["predecessor"]:
        yield f"follows {one['predecessor']}"
    if one["outcome"]:
        yield from _lines_of("outcome: ", one["outcome"])
    yield claim_line(document["claim"]) if document["claim"] else "it has held nothing"
    checkpoint = document["checkpoint"]
    if checkpoint:
        yield _checkpoint(checkpoint)
        yield from _lines_of("  ", checkpoint["digest"])
        yield from (f"  open: {_cut(loop)}" for loop in checkpoint["open_loops"])
        yield from (
            f"  artifact: {kept['ref']}, sha256 {kept['sha256']}"
            for kept in checkpoint["artifacts"]
        )
    yield _revision(document)


def _sessions(document: Document) -> Iterable[Block]:
    leases = {
        one["session"]: "live" if one["state"] == "active" else "lease lapsed"
        for one in document["claims"]
    }
    rows = [
        (
            one["id"],
            one["agent"],
            one["work"],
            one["branch"],
            _state(one["state"]),
            leases.get(one["id"], "-"),
        )
        for one in document["sessions"]
    ]
    headers = ("session", "agent", "work", "branch", "state", "claim")
    yield Table(headers, rows) if rows else "no sessions"
    yield from _more(document)


def _claim_show(document: Document) -> Iterable[Block]:
    yield claim_line(document["claim"]) if document["claim"] else "nobody holds it"
    yield _revision(document)


def _clock(document: Document) -> Iterable[Block]:
    before, after = local_time(document["before_ms"]), local_time(document["after_ms"])
    yield f"the project's time was {before}, and goes on from {after}"
    yield f"{count(document['moved_claims'], 'claim')} got another end by that"
    yield from _changed(document)


def _branches(document: Document) -> Iterable[Block]:
    rows = [
        ("*" if one["selected"] else "", one["name"], one["state"]) for one in document["branches"]
    ]
    yield Table(("", "branch", "state"), rows)


def _events(document: Document) -> Iterable[Block]:
    rows = [
        (
            str(one["seq"]),
            local_time(one["at_ms"]),
            one["type"],
            one["work"] or "-",
            one["branch"] or "-",
            _cut(document_text(one["body"])),
        )
        for one in document["events"]
    ]
    headers = ("seq", "at", "type", "work", "branch", "body")
    yield Table(headers, rows) if rows else "no events"
    yield from _whole(document_text(one["body"]) for one in document["events"])
    yield from _more(document)


def _evidences(document: Document) -> Iterable[Block]:
    rows = [
        (
            one["id"],
            one["work"],
            one["branch"],
            one["currency"],
            one["kind"],
            _cut(one["summary"]),
            _cut("; ".join(one["covers"])) or "-",
        )
        for one in document["evidence"]
    ]
    headers = ("evidence", "work", "branch", "counts as", "kind", "summary", "covers")
    yield Table(headers, rows) if rows else "no evidence"
    yield from _more(document)


def _receipt(document: Document) -> Iterable[Block]:
    one = document["receipt"]
    yield f"request {one['request_id']}: {one['operation']} by {one['actor']}"
    yield f"done {local_time(one['at_ms'])}, at revision {one['revision']}"
    yield from _changed({**one["outcome"], "project_revision": document["project_revision"]})


def _scan(document: Document) -> Iterable[Block]:
    yield from (f"{one['path']}: {one['state']}" for one in document["files"])
    yield f"{count(document['items'], 'item')}, {count(document['goals'], 'goal')}"
    if document["fault_count"]:
        yield bad(count(document["fault_count"], "fault"))
        yield from (f"  {fault_line(one)}" for one in document["faults"])
    for edge in document["external"]:
        yield f"{edge['work']} depends on {edge['depends_on']}, which nobody has verified"
    if not document["indexed"] and not document["fault_count"]:
        yield Hint("callboard project source index")


def fault_line(one: Document) -> str:
    """A fault of a work file with its place."""
    where = f" {one['pointer']}" if one["pointer"] else ""
    return f"{one['file']}:{one['line']}:{one['column']}{where}: {one['message']}"


def _indexed(document: Document) -> Iterable[Block]:
    files = count(len(document["files"]), "file")
    yield f"{count(document['items'], 'item')} and {count(document['goals'], 'goal')} of {files}"
    yield _revision(document)


def _patched(document: Document) -> Iterable[Block]:
    proposal = document["proposal"]
    yield from proposal["diff"].splitlines() or ["the file says so already"]
    if document["accepted"]:
        yield f"wrote {proposal['file']}"
        yield _revision(document)
    else:
        yield Hint(f"the same with --accept --sha256 {proposal['sha256']}", "to write it: ")


def _doctor(document: Document) -> Iterable[Block]:
    yield "healthy" if document["healthy"] else bad("not healthy")
    for one in document["findings"]:
        said = f"{one['severity']}: {one['message']}"
        yield bad(said) if one["severity"] == "error" else said
        yield Hint(one["hint"], "  ")
        yield faint(f"  code: {one['code']}")


_WORDS: dict[Sequence[str], Callable[[Document], Iterable[Block]]] = {
    ("init",): _init,
    ("status",): _status,
    ("ready",): _ready,
    ("work", "list"): _work_list,
    ("work", "show"): _work,
    ("work", "complete"): _completed,
    ("session", "next"): _next,
    ("session", "show"): _session_show,
    ("session", "list"): _sessions,
    ("claim", "show"): _claim_show,
    ("branch", "list"): _branches,
    ("event", "list"): _events,
    ("evidence", "list"): _evidences,
    ("receipt", "show"): _receipt,
    ("source", "scan"): _scan,
    ("source", "index"): _indexed,
    ("source", "patch"): _patched,
    ("doctor",): _doctor,
    ("doctor", "repair", "clock"): _clock,
}
