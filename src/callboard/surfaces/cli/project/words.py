"""What the project's commands say to a person: lines and tables from their JSON documents.

Pure wording; `--json` has all of it. Text of others is made plainly visible where it is written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from callboard.faults import fault_line
from callboard.project.operation import Operation
from callboard.surfaces.cli.project.lines import (
    Document,
    branch_line,
    checkpoint_line,
    claim_line,
    claim_state,
    cut,
    cut_lines,
    event_line,
    evidence_line,
    how_to_see_all,
    more_line,
    remark_lines,
    revision_line,
    session_line,
    state_text,
)
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


def blocks_of(operation: Operation, document: Document) -> Iterable[Block]:
    """What to say of the answer of an operation."""
    return _WORDS.get(operation.words, _changed)(document)


def _changed(document: Document) -> Iterable[Block]:
    """The answer of a change: what it made, in a line each."""
    for name, say in _THINGS.items():
        if document.get(name):
            yield say(document[name])
    for one in document.get("closed_claims", ()):
        yield claim_line(one)
    yield from remark_lines(document)
    yield revision_line(document)
    if document.get("session") and document.get("claim", "none was asked for") is None:
        yield Hint(
            f"callboard project claim acquire --session {document['session']['id']}",
            "it holds nothing; to hold its work: ",
        )


_THINGS: dict[str, Callable[[Any], str]] = {
    "session": session_line,
    "claim": claim_line,
    "branch": lambda one: branch_line(one) if isinstance(one, Mapping) else f"on branch {one}",
    "checkpoint": checkpoint_line,
    "evidence": evidence_line,
    "event": event_line,
}


def _status(document: Document) -> Iterable[Block]:
    whose = document["project"]
    yield heading(f"project {whose['key']}, branch {document['branch']}")
    yield revision_line(document)
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
        (one["key"], "-" if one["priority"] is None else str(one["priority"]), cut(one["title"]))
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
    yield from remark_lines(document)
    if not document["accepted"]:
        yield Hint("callboard project init --accept")
    elif document["project"]:
        yield from _status(document)


def _work_list(document: Document) -> Iterable[Block]:
    rows = [
        (one["key"], one["status"], _standing(one), one["source_file"], cut(one["title"]))
        for one in document["work"]
    ]
    headers = ("work", "status", f"on {document['branch']}", "file", "title")
    if rows:
        yield Table(headers, rows)
    elif document["status"]:
        yield f"no work has the status {document['status']}"
    else:
        yield "no work is indexed"
    yield from more_line(document)


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
            yield f"{name.replace('_', ' ')}: {cut(one[name])}"
    for name in ("acceptance", "depends_on", "external", "paths", "tags"):
        if one[name]:
            yield f"{name.replace('_', ' ')}:"
            yield from (f"  {cut(entry)}" for entry in one[name])
    yield revision_line(document)


def _completed(document: Document) -> Iterable[Block]:
    yield f"{document['work']['key']} is complete on branch {document['branch']}"
    yield revision_line(document)


def _next(document: Document) -> Iterable[Block]:
    if document["session"] is None:
        yield f"nothing is ready on branch {document['branch']}"
        yield _STANDING
        return
    yield heading(f"{document['work']['key']}: {document['work']['title']}")
    yield from _changed({**document, "branch": None})


def _session_show(document: Document) -> Iterable[Block]:
    one = document["session"]
    yield session_line(one)
    yield f"started {local_time(one['started_at_ms'])}, ended {local_time(one['ended_at_ms'])}"
    if one["predecessor"]:
        yield f"follows {one['predecessor']}"
    if one["outcome"]:
        yield from cut_lines("outcome: ", one["outcome"])
    yield claim_line(document["claim"]) if document["claim"] else "it has held nothing"
    checkpoint = document["checkpoint"]
    if checkpoint:
        yield checkpoint_line(checkpoint)
        yield from cut_lines("  ", checkpoint["digest"])
        yield from (f"  open: {cut(loop)}" for loop in checkpoint["open_loops"])
        yield from (
            f"  artifact: {kept['ref']}, sha256 {kept['sha256']}"
            for kept in checkpoint["artifacts"]
        )
    yield revision_line(document)


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
            state_text(one["state"]),
            leases.get(one["id"], "-"),
        )
        for one in document["sessions"]
    ]
    headers = ("session", "agent", "work", "branch", "state", "claim")
    yield Table(headers, rows) if rows else "no sessions"
    yield from more_line(document)


def _claim_show(document: Document) -> Iterable[Block]:
    yield claim_line(document["claim"]) if document["claim"] else "nobody holds it"
    yield revision_line(document)


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
            cut(document_text(one["body"])),
        )
        for one in document["events"]
    ]
    headers = ("seq", "at", "type", "work", "branch", "body")
    yield Table(headers, rows) if rows else "no events"
    yield from how_to_see_all(document_text(one["body"]) for one in document["events"])
    yield from more_line(document)


def _evidences(document: Document) -> Iterable[Block]:
    rows = [
        (
            one["id"],
            one["work"],
            one["branch"],
            one["currency"],
            one["kind"],
            cut(one["summary"]),
            cut("; ".join(one["covers"])) or "-",
        )
        for one in document["evidence"]
    ]
    headers = ("evidence", "work", "branch", "counts as", "kind", "summary", "covers")
    yield Table(headers, rows) if rows else "no evidence"
    yield from more_line(document)


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
        yield from (f"  {fault_line(**one)}" for one in document["faults"])
    for edge in document["external"]:
        yield f"{edge['work']} depends on {edge['depends_on']}, which nobody has verified"
    if not document["indexed"] and not document["fault_count"]:
        yield Hint("callboard project source index")


def _indexed(document: Document) -> Iterable[Block]:
    files = count(len(document["files"]), "file")
    yield f"{count(document['items'], 'item')} and {count(document['goals'], 'goal')} of {files}"
    yield revision_line(document)


def _patched(document: Document) -> Iterable[Block]:
    proposal = document["proposal"]
    yield from proposal["diff"].splitlines() or ["the file says so already"]
    if document["accepted"]:
        yield f"wrote {proposal['file']}"
        yield revision_line(document)
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
