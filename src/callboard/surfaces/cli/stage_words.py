"""Plain words for how far something has come, and for the evidence behind what is stuck.

Pure wording, as in `words`: an unknown code is shown as it is, and nothing is decided here.
"""

from __future__ import annotations

from typing import Any

from callboard.surfaces.cli.render import clock, count, short

STAGES = {
    "waiting": "something comes before it",
    "ready": "can be granted, once there is a place",
    "granted": "has its turn and a place; nobody has begun its launch",
    "started": "its launch has begun; no run has shown itself yet",
    "uncertain": "it is in doubt whether its run began; its place stays taken",
    "unresolved": "the search for its run was given up; its place stays taken",
    "bound": "its one run is known and under way",
    "terminal": "as this machine knows and the board does not, its run has ended or is unwatched",
    "completed_pending": "completed; what it delivered is not verified yet",
    "verified": "completed, and what it delivered is verified",
    "failed": "completed, and what it delivered could not be verified",
    "cancelled": "ended for good without being completed",
    "released": "over; its place is free",
}
_DOUBTS = {
    "evidence_unavailable": "its host gives no evidence",
    "launch_pending": "its run was said to be on its way, and never showed itself",
    "launch_unanswered": "its host did not say whether a run began",
    "launch_timeout": "its host did not answer in time",
    "not_ruled_out": "its launch can neither be found nor ruled out",
    "run_unknown_here": "no run of it is known on the machine that looked",
    "sender_unknown_here": "the machine that looked has no record of its launch",
    "supervisor_unknown_here": "nothing is known of its supervisor where it was looked for",
    "host_unsupported": "its host cannot be asked by this version",
}
MAX_NAME = 60
_IN_DOUBT = frozenset({"uncertain", "unresolved"})
_UNBOUND = _IN_DOUBT | {"started"}


def name_text(name: str) -> str:
    """A node's name in a line or a table; of a very long one the start."""
    return name if len(name) <= MAX_NAME else f"{name[: MAX_NAME - 3]}..."


def stage_text(stage: str) -> str:
    """How far a node, an attempt or a launch has come."""
    return STAGES.get(stage, stage)


def evidence_text(one: dict[str, Any], now_ms: int) -> str:
    """What stands behind a stuck node: the last evidence, who sent its launch, and the record."""
    evidence = one.get("evidence", {})
    said: list[str] = []
    doubt = evidence.get("launch_reason")
    if doubt is not None and doubt != one["reason"] and one.get("stage") in _IN_DOUBT:
        said.append(_DOUBTS.get(doubt, doubt))
    if one.get("stage") in _UNBOUND and "sender" in evidence:
        said.append(_sender_text(evidence["sender"]))
    if "remark" in one:
        said.append(f"its supervisor noted: {one['remark']}")
    if "record" in evidence:
        said.append(_record_text(evidence["record"], now_ms))
    return "; ".join(said)


def _sender_text(sender: dict[str, Any]) -> str:
    """Who may have sent a launch, and so which machine has the evidence."""
    run = f"run {sender['run_id']} of " if "run_id" in sender else ""
    where = ""
    if "here" in sender:
        where = ", on record here" if sender["here"] else ", of which no record is here"
    return f"sent by {run}principal {sender['principal']}{where}"


def _record_text(record: dict[str, Any], now_ms: int) -> str:
    if "before_checkpoint" in record:
        return "recorded before the checkpoint"
    looks = f", after {count(record['attempts'], 'look')}" if "attempts" in record else ""
    who = f"{record['role']} {record['principal']}"
    return f"recorded {clock(record['at'], now_ms)} by {who}{looks}, {short(record['commit_id'])}"
