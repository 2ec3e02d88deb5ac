"""Checkpoints in tests: made at a prefix, and the rest of a history chained behind them."""

from __future__ import annotations

import random

from msgspec import structs

from callboard import canonical
from callboard.board.ledger import checkpoint
from callboard.board.ledger.history import History
from callboard.board.projection.document import state_document
from callboard.board.projection.state import Projection
from callboard.board.protocol import identities
from callboard.board.protocol.operations import Actor
from callboard.board.scheduling.competition import Competition, Stop
from callboard.board.scheduling.packing import BatchRequest, plan_batch
from callboard.errors import CallboardError
from tests.model.canon import Doc
from tests.model.history import random_history

SHA = "ab" * 20


def line_of(commit: Doc) -> bytes:
    return canonical.encode(commit) + b"\n"


def plain(projection: Projection) -> Doc:
    """The state document as JSON."""
    state: Doc = canonical.decode(
        canonical.encode(state_document(projection)), limit_bytes=canonical.MAX_PARSE_BYTES
    )
    return state


def made(
    data: bytes, projection: Projection, sha: str = SHA, actor: Doc | None = None
) -> checkpoint.Made:
    who = Actor(role="administrator", principal="900", repository=str(projection.repository))
    return checkpoint.make(
        data,
        projection,
        prior_git_sha=sha,
        at=projection.last_at,
        actor=structs.replace(who, **(actor or {})),
    )


class Chain:
    """A ledger that grows and is compacted; keeps what its checkpoints stand for."""

    def __init__(self, commits: list[Doc]) -> None:
        self.lines = [line_of(one) for one in commits]
        self.kept: dict[str, bytes] = {}

    @property
    def data(self) -> bytes:
        return b"".join(self.lines)

    def read(self) -> History:
        return History.read(self.data, self.ledger_at)

    def ledger_at(self, revision: str) -> bytes:
        if revision not in self.kept:
            raise CallboardError("history_unavailable", revision, "", {"revision": revision})
        return self.kept[revision]

    def has_room(self, *rests: list[Doc]) -> bool:
        """Compact and extend by each of `rests`; False where a narrow policy has no room for it, as
        the state may be larger than the log."""
        try:
            for rest in rests:
                self.compact()
                self.extend(rest)
        except CallboardError as error:
            if error.details["cause"] != "ledger_limit":
                raise
            return False
        return True

    def compact(self) -> bytes:
        """One line in the place of all; answers it."""
        data = self.data
        sha = canonical.sha256_hex(data)[:40]
        self.kept[sha] = data
        self.lines = [made(data, History.read(data).projection, sha).line]
        self.read()
        return self.lines[0]

    def extend(self, commits: list[Doc]) -> None:
        """Chain later commits of the same history behind the tip; their ids stay."""
        for commit in commits:
            tip = canonical.decode(self.lines[-1][:-1])["id"]
            self.lines.append(line_of({**commit, "previous": tip}))
        self.read()


def without_checkpoints(state: Doc, full: Doc) -> Doc:
    """`state` as it would be had no checkpoint been made, next to that of the full history."""
    places = [place for place, one in enumerate(state["requests"]) if one["kind"] == "checkpoint"]
    kept = [one for one in state["requests"] if one["kind"] != "checkpoint"]
    found = {**state, "requests": kept, "ledger_bytes": full["ledger_bytes"]}
    transactions = state["stats"]["transactions"] - len(places)
    found["stats"] = {**state["stats"], "transactions": transactions}
    found["works"] = {
        key: {**work, "position": _moved(work["position"], places)}
        for key, work in state["works"].items()
    }
    if state["requests"][-1]["kind"] == "checkpoint":
        found["tip"], found["last_at"] = full["tip"], full["last_at"]
    return found


def _moved(position: Doc, places: list[int]) -> Doc:
    ordinal = position["commit"]
    return {**position, "commit": ordinal - sum(place < ordinal for place in places)}


def selections(projection: Projection, at: int, count: int = 1_000) -> list[object]:
    """The next batch of each pool and why it ends, and up to `count` winners with their passes if
    there were places enough."""
    found: list[object] = []
    for pool in sorted(projection.policy.pools):
        request = BatchRequest(pool, count, count, 49_152, "r_next", "q_next")
        plan = plan_batch(projection, request, at)
        found.extend(claim.work_id for claim in plan.claims)
        found.append(plan.stop.reason)
        competition = Competition(projection, pool, at, preview=True)
        for _turn in range(count):
            winner = competition.next()
            if isinstance(winner, Stop):
                found.append(winner.reason)
                break
            found.append((winner.state.work.work_id, winner.class_pass, winner.key_pass))
            competition.serve(winner)
    return found


def compare_what_is_kept(restored: Projection, prior: Projection) -> None:
    """What is rebuilt beside the document: times, principals, counts, what requests name."""
    for key, claim in restored.claims.items():
        assert claim == prior.claims[key]
    for key, group in restored.dispatches.items():
        known = prior.dispatches[key]
        undated: dict[str, object] = {"started_at": None, "released_at": None, "conclusion": None}
        undated["noted_id"] = None
        assert structs.replace(group, **undated) == structs.replace(known, **undated)
        for name in ("started_at", "released_at", "noted_id"):
            assert getattr(group, name) in (None, getattr(known, name))
    for key, work in restored.works.items():
        forgotten: dict[str, object] = {"failure_reason": None, "failure_commit_id": None}
        if work.is_settled:
            # It is never granted again, so that where it could run says nothing any more.
            forgotten["lane"] = work.lane
        assert work == structs.replace(prior.works[key], **forgotten)
    for key, request in restored.requests.items():
        known_request = prior.requests[key]
        assert structs.replace(request, works=()) == structs.replace(known_request, works=())
        assert set(request.works) <= set(known_request.works)


def shuffled(lines: list[bytes], chance: random.Random) -> bytes:
    mixed = [*lines, *chance.choices(lines, k=3)]
    chance.shuffle(mixed)
    return b"".join(mixed)


def altered(line: bytes, **fields: object) -> bytes:
    return canonical.encode_trusted({**canonical.decode(line), **fields})


def resealed(record: Doc) -> bytes:
    """A checkpoint record with digests, ids and fingerprint that fit its content, as a line."""
    (operation,) = record["operations"]
    state = operation["state"]
    if "requests" in state:
        operation["state_sha256"] = canonical.sha256_hex(canonical.encode_trusted(state))
    request = record["request"]
    names = ("prior_git_sha", "prior_tip", "history_sha256", "state_sha256")
    request["parameters"] = {name: operation[name] for name in names}
    request["id"] = identities.checkpoint_request_id(
        operation["prior_tip"], operation["prior_git_sha"]
    )
    asked = {"actor": record["actor"], "kind": "checkpoint", "parameters": request["parameters"]}
    request["fingerprint"] = canonical.sha256_hex(canonical.encode_trusted(asked))
    return canonical.encode_trusted(record) + b"\n"


def with_payload_depth(depth: int) -> Doc:
    """A first commit whose one Work has a payload of so many nested arrays."""
    commit = random_history(1, 1)[0]
    value: object = 1
    for _level in range(depth - 1):
        value = [value]
    policy, work = commit["operations"][0], dict(commit["operations"][1])
    work |= {"payload": {"deep": value}, "depends_on": [], "node_key": "deep"}
    work["work_id"] = identities.work_id(work["graph_id"], "deep")
    parameters = {"nodes": [work]}
    asked = {"actor": commit["actor"], "kind": "submit", "parameters": parameters}
    request = commit["request"] | {
        "parameters": parameters,
        "fingerprint": canonical.sha256_hex(canonical.encode_trusted(asked)),
    }
    return commit | {"operations": [policy, work], "request": request}
