"""Small ledgers filled to the brim and drained again: closing always fits, engine and model agree.

Each limit of a policy is met to the byte or to the count, and named where it is passed.
"""

from __future__ import annotations

import random
from typing import Any

import pytest

from callboard.board.ledger import replay
from callboard.board.projection.state import Projection
from callboard.board.protocol.envelope import read_line
from callboard.errors import CallboardError
from tests.ambient import DEEP
from tests.board.ledger.comparison import engine_apply, line_of, plain
from tests.model import writing
from tests.model.brim import Brim, padded
from tests.model.canon import Doc, Refused, size
from tests.model.desk import Desk, plain_policy
from tests.model.model import Board
from tests.model.policies import CEILINGS

SEEDS = range(300) if DEEP else range(0, 300, 25)


class Engine:
    """The engine as a reader of commits."""

    def __init__(self) -> None:
        self.projection = Projection()

    def apply(self, commit: Doc) -> str | None:
        return engine_apply(self.projection, commit)

    def sums(self) -> tuple[int, int]:
        if self.projection.tip is None:
            return 0, 0
        return self.projection.ledger_bytes, self.projection.reserve_bytes


def tight_policy(chance: random.Random, github: bool) -> Doc:
    """A policy with room for a dozen Work and a few groups."""
    path = ".github/workflows/w.lock.yml" if github else ".callboard/workers/w.toml"
    limits = {
        **CEILINGS,
        "ledger_bytes": chance.choice([60_000, 150_000, 300_000]),
        "recovery_bytes": chance.choice([300_000, 600_000, 900_000]),
        "result_bytes": chance.choice([2, 300, 4096]),
        "evidence_bytes": chance.choice([700, 1024]),
    }
    return plain_policy(
        {
            "default": {
                "workflow": path,
                "max_claims": chance.choice([1, 3, 16]),
                "share_keys": chance.random() < 0.5,
            }
        },
        limits=limits,
        retry={"max_attempts": chance.randint(1, 3), "backoff_ms": chance.choice([1, 2000])},
        reconciliation={"max_attempts": chance.randint(1, 4), "deadline_ms": 5000},
        accounting_weights={"": 1, "a": 3},
        allowed_repositories=[writing.REPOSITORY, writing.OTHER_REPOSITORY],
    )


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("wordy", [False, True])
@pytest.mark.parametrize("host", ["local", "github"])
def test_what_was_opened_closes_at_the_brim(seed: int, wordy: bool, host: str) -> None:
    chance = random.Random(f"{seed} {host}")
    engine = Engine()
    policy = tight_policy(chance, host == "github")
    brim = Brim(seed, policy, engine, wordy)
    brim.fill(claims_first=chance.random() < 0.7)
    if chance.random() < 0.7:
        brim.stuff()
    assert plain(engine.projection) == brim.board.state()
    brim.drain()
    brim.reopen()
    assert plain(engine.projection) == brim.board.state()
    assert brim.verdicts["submit: ledger_limit"] > 0


# --- each limit ---------------------------------------------------------------------------------


class Pair:
    """One board read by the model and by the engine, which must always say the same."""

    def __init__(self, nodes: list[Doc], **limits: int) -> None:
        path = limits.pop("github", 0) and ".github/workflows/w.lock.yml"
        extra = {"workflow": path} if path else {}
        self.policy = plain_policy(
            {"default": extra},
            limits={**CEILINGS, **limits},
            allowed_repositories=[writing.REPOSITORY, writing.OTHER_REPOSITORY],
        )
        self.nodes = nodes
        self.model = Board()
        self.engine = Projection()
        self.count = 0
        op = {"kind": "Policy", "epoch": "p1", "policy": self.policy}
        self.must("submit", PRODUCER, [op, *nodes], {"nodes": nodes})

    def say(
        self, kind: str, actor: Doc, operations: list[Doc], parameters: Doc | None = None
    ) -> CallboardError | None:
        """Write one commit; the refusal with which both turn it down leaves no trace."""
        self.count += 1
        given = parameters or {"operations": operations}
        tip = self.model.tables()["tip"]
        request_id = f"r{self.count}"
        commit = writing.seal(tip, kind, actor, given, operations, 1000, request_id, "p1")
        before = self.model.state() if tip else None
        code = None
        try:
            self.model.apply(commit)
        except Refused as refusal:
            code = refusal.reason
        error = None
        try:
            replay.apply(self.engine, read_line(line_of(commit)[:-1]))
        except CallboardError as refusal:
            error = refusal
        assert (error.code if error else None) == code
        if before is not None and error is not None:
            assert plain(self.engine) == before
        return error

    def must(self, *said: Any) -> None:
        error = self.say(*said)
        assert error is None, error

    def submit(self, *nodes: Doc) -> CallboardError | None:
        return self.say("submit", PRODUCER, list(nodes), {"nodes": list(nodes)})

    def grant(self) -> CallboardError | None:
        parameters: Doc = {"max_claims": 1, "max_dispatches": 1, "max_bytes": 49_152}
        name = f"r{self.count + 1}"
        found = self.model.plan("default", 1000, 1, 1, 49_152, name)
        given = {"pool": "default", **parameters}
        return self.say("dispatch_next", ADMIN, found["operations"], given)

    def group(self) -> Doc:
        """The newest worker group."""
        return dict(list(self.model.tables()["dispatches"].values())[-1])

    def completed(self) -> Doc:
        """Grant, launch and complete; what a Result must name."""
        assert self.grant() is None
        group = self.group()
        claim = group["claims"][0]
        sender = writing.running("dispatcher", "201", "42", ".callboard/dispatch")
        op = {"kind": "Dispatch", "dispatch_id": group["dispatch_id"]}
        start = {**op, "state": "started", "sender": sender, "credential_principal": "7"}
        self.must("dispatch", sender, [start])
        ran = writing.run(self.group(), "7", "501")
        self.must("dispatch", RECONCILER, [{**op, "state": "bound", "run": ran}])
        names = {"work_id": claim["work_id"], "claim_id": claim["claim_id"]}
        completion = {"kind": "Completion", **names, "dispatch_id": group["dispatch_id"]}
        completion.update(claim_handle="h1", run_id="501", run_attempt=1)
        asked = {"dispatch_id": group["dispatch_id"], "claim_handle": "h1"}
        asked["outcome"] = "completed"
        self.must("finish", writing.worker(group, ran, "h1"), [completion], asked)
        return {**names, "completion_id": self.model.tables()["tip"]}


PRODUCER = writing.person("producer", "101")
ADMIN = writing.person("administrator", "900")
RECONCILER = writing.person("reconciler", "301")


def plain_work(key: str, **fields: Any) -> Doc:
    return writing.work(plain_policy(), fields.pop("graph", key), key, "default", 0, **fields)


def edges(*nodes: Doc) -> list[Doc]:
    return [{"kind": "work", "work_id": node["work_id"]} for node in nodes]


def named(error: CallboardError | None, code: str, *numbers: int) -> None:
    """The refusal has that code, and message and details tell the numbers."""
    assert error is not None
    assert error.code == code
    for number in numbers:
        assert str(number) in error.message, error.message
        assert number in error.details.values(), error.details
    assert error.hint


def test_payload_bytes() -> None:
    room = 100 - len('{"effect_contract":{"kind":"none"},"pad":""}')
    none = {"effect_contract": {"kind": "none"}}
    pair = Pair([plain_work("a", payload={**none, "pad": "x" * room})], payload_bytes=100)
    named(
        pair.submit(plain_work("b", payload={**none, "pad": "x" * (room + 1)})),
        "payload_limit",
        101,
        100,
    )


def test_graph_nodes() -> None:
    nodes = [plain_work(f"n{number}", graph="g") for number in range(5)]
    pair = Pair(nodes[:2], graph_nodes=3)
    named(pair.submit(nodes[2], nodes[3]), "graph_limit", 4, 3)
    assert pair.submit(nodes[2]) is None
    named(pair.submit(nodes[3]), "graph_limit", 4, 3)
    assert pair.submit(plain_work("other")) is None


def test_predecessors() -> None:
    nodes = [plain_work(f"n{number}", graph="g") for number in range(3)]
    pair = Pair(nodes, predecessors=2)
    join = plain_work("join", graph="g", depends_on=edges(*nodes))
    named(pair.submit(join), "predecessor_limit", 3, 2)
    assert pair.submit({**join, "depends_on": edges(*nodes[:2])}) is None


def test_pending_nodes() -> None:
    nodes = [plain_work(f"n{number}") for number in range(4)]
    pair = Pair(nodes[:2], pending_nodes=3)
    named(pair.submit(*nodes[2:]), "pending_limit", 4, 3)
    assert pair.submit(nodes[2]) is None
    named(pair.submit(nodes[3]), "pending_limit", 4, 3)
    end = {"kind": "WorkCancellation", "work_id": nodes[0]["work_id"], "reason": "obsolete"}
    pair.must("cancel_work", ADMIN, [end])
    assert pair.submit(nodes[3]) is None


def test_operations() -> None:
    nodes = [plain_work(f"n{number}") for number in range(5)]
    pair = Pair(nodes[:1], operations=3)
    named(pair.submit(*nodes[1:]), "operation_limit", 4, 3)
    assert pair.submit(*nodes[1:4]) is None


def test_assignment_bytes() -> None:
    """The longest request id counts, and a whole result for a predecessor without one."""
    first = plain_work("first", graph="g")
    join = plain_work("join", graph="g", depends_on=edges(first), payload={"pad": "x" * 200})
    tries = [limit for limit in range(5000, 6000) if fits(first, join, limit)]
    assert len(tries) == 6000 - tries[0]
    exact = Pair([first], assignment_bytes=tries[0])
    assert exact.submit(join) is None
    short = Pair([first], assignment_bytes=tries[0] - 1)
    named(short.submit(join), "assignment_limit", tries[0], tries[0] - 1)


def fits(first: Doc, join: Doc, limit: int) -> bool:
    """Whether the model takes both under such a limit."""
    desk = Desk(plain_policy(limits={**CEILINGS, "assignment_bytes": limit}), [first])
    try:
        desk.submit(join)
    except Refused:
        return False
    return True


def test_result_bytes() -> None:
    pair = Pair([plain_work("a")], result_bytes=50)
    ids = pair.completed()
    proof = writing.evidence(pair.group(), "delivery", "7", 1000, run_id="501", run_attempt=1)
    result = {"kind": "Result", **ids, "evidence": proof}
    named(
        pair.say("result", RECONCILER, [{**result, "descriptor": padded(51)}]),
        "result_limit",
        51,
        50,
    )
    pair.must("result", RECONCILER, [{**result, "descriptor": padded(50)}])


def test_evidence_bytes() -> None:
    pair = Pair([plain_work("a")], evidence_bytes=300)
    assert pair.grant() is None
    group = pair.group()
    claim = group["claims"][0]
    back = {"kind": "ClaimCancellation", "work_id": claim["work_id"], "reason": "lost"}
    back.update(claim_id=claim["claim_id"], retry_not_before=31_000)
    proof = writing.evidence(group, "prelaunch", "900", 1000, receipt="")
    for length, fine in ((301, False), (300, True)):
        receipt = "x" * (length - size(proof))
        release = {"kind": "Release", "dispatch_id": group["dispatch_id"]}
        release["evidence"] = {**proof, "receipt": receipt}
        error = pair.say("release", RECONCILER, [back, release])
        if fine:
            assert error is None
        else:
            named(error, "evidence_limit", 301, 300)


def seen(pair: Pair, name: str) -> Doc:
    gate = {"kind": "issue", "condition": "closed", "resource": ISSUE}
    return writing.observation(name, gate, "waiting", "initial", 1000)


ISSUE: Doc = {
    "kind": "issue",
    "host": "github.com",
    "repository": writing.OTHER_REPOSITORY,
    "repository_id": "77",
    "resource_id": "9001",
    "number": "1",
}


def test_observation_writes() -> None:
    pair = Pair([plain_work("a")], observation_writes=2)
    assert pair.say("observe", ADMIN, [seen(pair, "o1")]) is None
    error = pair.say("observe", ADMIN, [seen(pair, "o2"), seen(pair, "o3")])
    named(error, "ledger_limit", 2)
    assert error is not None
    assert error.details["limit"] == "observation_writes"
    assert pair.say("observe", ADMIN, [seen(pair, "o2")]) is None


def test_ledger_bytes() -> None:
    """Past the watermark nothing is admitted or observed, and everything else goes on."""
    pair = Pair([plain_work("a")], ledger_bytes=4000)
    while pair.model.tables()["ledger_bytes"] <= 4000:
        op = {"kind": "Control", "control": "grants_paused", "value": False, "reason": "x"}
        pair.must("control", ADMIN, [op])
    for error in (
        pair.submit(plain_work("b")),
        pair.grant(),
        pair.say("observe", ADMIN, [seen(pair, "o1")]),
    ):
        assert error is not None
        named(error, "ledger_limit", int(str(error.details["ledger_bytes"])))
        assert "4000" in error.message
        assert error.details["limit"] == "ledger_bytes"
    end = {"kind": "WorkCancellation", "work_id": pair.nodes[0]["work_id"], "reason": "obsolete"}
    pair.must("cancel_work", ADMIN, [end])


def test_recovery_bytes_bind_where_a_worker_runs_on_github() -> None:
    """One open Work keeps 55,296 bytes."""
    pair = Pair([plain_work("a")], recovery_bytes=2 * 55_296, github=1)
    assert pair.submit(plain_work("b")) is None
    error = pair.submit(plain_work("c"))
    named(error, "ledger_limit", 3 * 55_296)
    assert error is not None
    assert error.details["limit"] == "recovery_bytes"
    assert (str(2 * 55_296) in error.message, error.details["open_work"]) == (True, 3)
    # On another host the free bytes of the ledger serve as well.
    other = Pair([plain_work("a")], recovery_bytes=2 * 55_296)
    assert other.submit(plain_work("b"), plain_work("c")) is None


def test_written_and_kept_bytes_together_never_pass_the_whole() -> None:
    pair = Pair([plain_work("a")], ledger_bytes=60_000, recovery_bytes=60_000)
    error = pair.submit(plain_work("b"))
    assert error is None
    error = pair.submit(plain_work("c"))
    named(error, "ledger_limit", 3 * 55_296)
    assert error is not None
    assert error.details["limit"] == "ledger_bytes + recovery_bytes"
    assert "120000" in error.message


def test_a_board_full_of_work_grants_again_once_enough_of_it_has_ended() -> None:
    """A Claim keeps 135,168 bytes beyond its Work's 55,296: beside it only two Work fit here."""
    nodes = [plain_work(f"n{number}") for number in range(6)]
    pair = Pair(nodes[:5], recovery_bytes=300_000, github=1)
    named(pair.submit(nodes[5]), "ledger_limit", 6 * 55_296)
    for ended, node in enumerate(nodes[:3]):
        named(pair.grant(), "ledger_limit", (5 - ended) * 55_296 + 135_168)
        end = {"kind": "WorkCancellation", "work_id": node["work_id"], "reason": "obsolete"}
        pair.must("cancel_work", ADMIN, [end])
    assert pair.grant() is None
