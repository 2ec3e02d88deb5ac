"""Checkpoints in tests: made at a prefix, and the rest of a history chained behind one."""

from __future__ import annotations

import random
from typing import Any

from callboard import canonical
from callboard.board.ledger import checkpoint
from callboard.board.ledger.history import History
from callboard.board.projection.state import Projection
from callboard.board.protocol.operations import Actor
from callboard.board.scheduling.packing import BatchRequest, plan_batch
from tests.board.projection import audit
from tests.model.canon import Doc

ADMINISTRATOR = "administrator"
SHA = "ab" * 20


def line_of(commit: Doc) -> bytes:
    return canonical.encode(commit) + b"\n"


def administrator(projection: Projection) -> Actor:
    return Actor(role="administrator", principal="900", repository=str(projection.repository))


def checkpoint_line(data: bytes, sha: str = SHA, at: int | None = None) -> bytes:
    """The one line that stands for the ledger `data`."""
    projection = History.read(data).projection
    made = checkpoint.make(
        data,
        projection,
        prior_git_sha=sha,
        at=projection.last_at if at is None else at,
        actor=administrator(projection),
    )
    return made.line


def rechained(root: bytes, rest: list[Doc]) -> list[bytes]:
    """The later commits of a history behind another root: their ids stay, and the first of them
    follows the checkpoint."""
    tip = canonical.decode(root[:-1])["id"]
    lines = []
    for number, commit in enumerate(rest):
        lines.append(line_of({**commit, "previous": tip} if number == 0 else commit))
    return lines


def comparable(projection: Projection) -> Doc:
    """The state apart from what a checkpoint changes: its own request, ordinal and byte counts."""
    state: Doc = canonical.decode(audit.document(projection), limit_bytes=canonical.MAX_PARSE_BYTES)
    return state


def without_checkpoints(state: Doc, full: Doc) -> Doc:
    """`state` as it would be had no checkpoint been made, next to that of the full history."""
    found = dict(state)
    requests = [one for one in state["requests"] if one["kind"] != "checkpoint"]
    made = [place for place, one in enumerate(state["requests"]) if one["kind"] == "checkpoint"]
    found["requests"] = requests
    found["stats"] = {**state["stats"], "transactions": state["stats"]["transactions"] - len(made)}
    found["ledger_bytes"] = full["ledger_bytes"]
    works = {}
    for key, work in state["works"].items():
        ordinal = work["position"]["commit"]
        before = sum(place < ordinal for place in made)
        position = {**work["position"], "commit": ordinal - before}
        works[key] = {**work, "position": position}
    found["works"] = works
    if found["requests"] and state["requests"][-1]["kind"] == "checkpoint":
        found["tip"], found["last_at"] = full["tip"], full["last_at"]
    return found


def selections(projection: Projection, at: int, count: int) -> list[str]:
    """The Work that the next `count` grants would go to, pool by pool."""
    found: list[str] = []
    for pool in sorted(projection.policy.pools):
        size = min(256, count)
        request = BatchRequest(pool, size, size, 49_152, "r_next", "q_next")
        plan = plan_batch(projection, request, at)
        found.extend(claim.work_id for claim in plan.claims)
        found.append(plan.stop.reason)
    return found


def shuffled(lines: list[bytes], chance: random.Random) -> bytes:
    mixed = [*lines, *chance.choices(lines, k=3)]
    chance.shuffle(mixed)
    return b"".join(mixed)


def commit_id_of(line: bytes) -> Any:
    return canonical.decode(line[:-1])["id"]
