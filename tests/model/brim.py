"""Fills a small ledger to the brim with Work and Claims, and then brings all of it to its end.

The model predicts every verdict and every sum; whoever else reads the commits, the peer, must say
the same. Nothing here knows the peer; that closing always fits is asserted, never arranged.
"""

import random
from collections import Counter
from collections.abc import Callable
from typing import Any, Protocol

from .budget import reserve
from .canon import Doc, Refused, size
from .history import STEERING, Story
from .policies import CEILINGS
from .writing import person, seal, work

QUOTES = '"' * 256
DIGITS = "9" * 256
REASON = "r" * 128

# What may stop a step other than the bytes of the ledger.
OTHER = (
    "lifecycle_limit",
    "pending_limit",
    "grants_paused",
    "admission_paused",
    "graph_limit",
    "result_limit",
)


class Peer(Protocol):
    """Another reader of the same commits."""

    def apply(self, commit: Doc) -> str | None:
        """Take a commit, or say with which code it is refused."""

    def sums(self) -> tuple[int, int]:
        """Bytes written, bytes kept for closing."""


class Brim(Story):
    """A story that fills a board and drains it; a wordy one says all of it at full length."""

    def __init__(self, seed: int, policy: Doc, peer: Peer, wordy: bool) -> None:
        super().__init__(random.Random(seed))
        self.policy = policy
        self.peer = peer
        self.wordy = wordy
        self.must_fit = False
        self.code: str | None = None
        self.verdicts: Counter[str] = Counter()

    # One step

    def publish(
        self,
        kind: str,
        actor: Doc,
        operations: list[Doc],
        at: int,
        parameters: Doc | None = None,
        request_id: str | None = None,
    ) -> bool:
        """Let the model and the peer judge one commit; False where both refuse it."""
        if self.wordy:
            actor = stretched_actor(actor)
            operations = [self.stretched(op, kind, actor) for op in operations]
        commit = self.sealed(kind, actor, operations, at, parameters, request_id)
        if self.wordy:
            trace = {"trace_id": QUOTES, "span_id": QUOTES, "publisher_attempt": 4096}
            commit["trace"] = trace
        before = self.peer.sums()
        self.code = None
        try:
            self.board.apply(commit)
        except Refused as refusal:
            self.code = refusal.reason
        told = self.peer.apply(commit)
        where = (kind, self.code, told, len(self.commits))
        assert (self.code is None) == (told is None), where
        self.verdicts[f"{kind}: {self.code}"] += 1
        if self.code is not None:
            assert self.code == told or "ledger_limit" not in (self.code, told), where
            assert self.peer.sums() == before, where
            assert not (self.must_fit and self.code == "ledger_limit"), where
            assert self.code in ("ledger_limit", *OTHER), where
            return False
        self.commits.append(commit)
        self.check_sums()
        assert not self.must_fit or sum(self.peer.sums()) <= sum(before), where
        return True

    def check_sums(self) -> None:
        """The sums agree, and what is open could still be closed."""
        tables = self.board.tables()
        limits = tables["policy"]["limits"]
        written, kept = tables["ledger_bytes"], reserve(tables)
        assert self.peer.sums() == (written, kept)
        assert written + kept <= limits["ledger_bytes"] + limits["recovery_bytes"]

    def name(self, prefix: str) -> str:
        """A name nobody used yet, as long as a name may be where it is one of a request."""
        made = super().name(prefix)
        if self.wordy and prefix in ("r-", "p_"):
            return made + QUOTES[len(made) :]
        return made

    def commit_id(self, request_id: str) -> str | None:
        """A wordy history names its commits after its requests."""
        return request_id if self.wordy else None

    def stretched(self, op: Doc, kind: str, actor: Doc) -> Doc:
        """The operation with everything in it as long as the limits allow."""
        limits = self.policy["limits"]
        made = dict(op)
        if "evidence" in made:
            made["evidence"] = stretched_evidence(made["evidence"], limits["evidence_bytes"])
        if "reason" in made and kind != "finish":
            made["reason"] = REASON
        if made["kind"] == "Result":
            made["descriptor"] = padded(limits["result_bytes"])
        if made.get("state") == "started":
            made["sender"] = actor
        return made

    # Filling

    def fill(self, claims_first: bool) -> None:
        """Submit and grant, with life going on, until neither Work nor Claims fit any more."""
        self.begin()
        for _ in range(self.rng.randint(5, 40)):
            deeds = [self.submit, self.submit, self.grant, self.settle, self.settle, self.deliver]
            self.rng.choice([*deeds, *self.steering()])()
        orders = [self.grant_all, self.submit_all]
        for deed in orders if claims_first else orders[::-1]:
            deed()
        if not claims_first:
            self.grant_all()
        self.submit_all()

    def submit_all(self) -> None:
        """One plain Work after the other, until bytes are what stops it."""
        while True:
            at, label = self.moment(), self.rng.choice(list(self.policy["pools"]))
            node = work(self.policy, self.name("g"), "root", label, at)
            producer = person("producer", "101")
            if not self.publish("submit", producer, [node], at, {"nodes": [node]}):
                assert self.code == "ledger_limit", self.code
                return

    def grant_all(self) -> None:
        """One Claim after the other, until bytes or the lack of Work stops it."""
        while self.one_grant():
            pass

    def one_grant(self) -> bool:
        """One more Claim, if any Work may have it."""
        for label in self.policy["pools"]:
            at, request_id = self.moment(), self.name("r-")
            parameters: Doc = {
                "pool": label,
                "max_claims": 1,
                "max_dispatches": 1,
                "max_bytes": 49152,
            }
            found = self.board.plan(
                at=at, request_id=request_id, commit_id=self.commit_id(request_id), **parameters
            )
            if not found["operations"]:
                continue
            admin = person("administrator", "900")
            planned = found["operations"]
            if self.publish("dispatch_next", admin, planned, at, parameters, request_id):
                return True
        return False

    def steering(self) -> list[Callable[[], bool]]:
        """What may be done beside the life of Work."""
        return [getattr(self, deed) for _, deed in STEERING]

    def stuff(self) -> None:
        """Records that need no room of their own, until not even one of those fits."""
        value = False
        while True:
            value = not value
            op = {"kind": "Control", "control": "admission_paused", "value": value, "reason": "x"}
            if not self.publish("control", person("administrator", "900"), [op], self.moment()):
                return

    # Draining

    def drain(self) -> int:
        """Close all that is open in random order; every single step must fit."""
        self.draining = True
        steps = 0
        while self.open():
            steps += 1
            deeds = [self.settle, self.settle, self.deliver, self.cancel_claim, self.cancel_some]
            if self.rng.random() < 0.1:
                self.try_something()
                continue
            self.must_fit = True
            done = self.rng.choice(deeds)()
            self.must_fit = False
            if not done and self.code == "lifecycle_limit":
                self.end_a_silent_group()
            assert steps < 20_000
        assert self.peer.sums()[1] == 0
        return steps

    def reopen(self) -> None:
        """A roomier Policy goes onto the drained board, and Work goes on."""
        roomier = {**self.policy, "limits": dict(CEILINGS)}
        op = {"kind": "Policy", "epoch": self.name("p_"), "policy": roomier}
        admin = person("administrator", "900")
        assert self.publish("policy", admin, [op], self.moment()), self.code
        self.policy = roomier
        resume = {"kind": "Control", "control": "admission_paused", "value": False, "reason": "x"}
        assert self.publish("control", admin, [resume], self.moment()), self.code
        node = work(self.policy, self.name("g"), "root", next(iter(roomier["pools"])), self.now)
        producer = person("producer", "101")
        assert self.publish("submit", producer, [node], self.now, {"nodes": [node]}), self.code

    def open(self) -> bool:
        """Whether anything still waits for its end."""
        tables = self.board.tables()
        states = [work["state"] in ("available", "claimed") for work in tables["works"].values()]
        barriers = [work["barrier"] == "pending" for work in tables["works"].values()]
        groups = [not dispatch["released"] for dispatch in tables["dispatches"].values()]
        return any(states) or any(barriers) or any(groups)

    def end_a_silent_group(self) -> None:
        """Release a group that may not be written about any more."""
        tables = self.board.tables()
        kinds = {"reserved": "prelaunch", "bound": "terminal_run"}
        for dispatch in list(tables["dispatches"].values()):
            most = self.policy["pools"][dispatch["pool"]]["reconciliation"]["max_attempts"] + 4
            if not dispatch["released"] and dispatch["lifecycle_writes"] >= most:
                self.must_fit = True
                assert self.release(dispatch, kinds.get(dispatch["state"], "nonlaunch"))
                self.must_fit = False

    def cancel_some(self) -> bool:
        """End a few Work that wait."""
        found = [w for w in self.board.tables()["works"].values() if w["state"] == "available"]
        if not found:
            return False
        operations = []
        for node in self.rng.sample(found, min(len(found), self.rng.choice([1, 1, 2, 6]))):
            op = {"kind": "WorkCancellation", "work_id": node["work_id"], "reason": "obsolete"}
            operations.append(op)
        return self.publish("cancel_work", person("producer", "101"), operations, self.moment())

    def try_something(self) -> None:
        """What is no closing may be refused, as long as all agree."""
        deeds = [*self.steering(), self.one_grant]
        if self.rng.random() < 0.5:
            self.rng.choice(deeds)()
            return
        value = self.rng.random() < 0.3
        name = self.rng.choice(["grants_paused", "admission_paused"])
        op = {"kind": "Control", "control": name, "value": value, "reason": "operator"}
        self.publish("control", person("administrator", "900"), [op], self.moment())

    def sealed(self, kind: str, actor: Doc, operations: list[Doc], at: int, *given: Any) -> Doc:
        """The commit on the present tip."""
        parameters, request_id = given
        tables = self.board.tables()
        if parameters is None:
            parameters = {"operations": operations}
        epoch = tables["policy_epoch"]
        if operations[0]["kind"] == "Policy":
            epoch = operations[0]["epoch"]
        request_id = request_id or self.name("r-")
        name = self.commit_id(request_id)
        return seal(tables["tip"], kind, actor, parameters, operations, at, request_id, epoch, name)


def padded(most: int) -> Doc:
    """An object of exactly that many bytes, or an empty one where that is too few."""
    room = most - size({"k": ""})
    return {"k": "x" * room} if room >= 0 else {}


def stretched_evidence(proof: Doc, most: int) -> Doc:
    """The evidence with a conclusion and a receipt that use up what it may have."""
    made = {**proof, "receipt": "x", "conclusion": "c"}
    room = most - size(made)
    if room < 0:
        return proof
    quotes = min(255, room // 2)
    made["receipt"] = "x" + QUOTES[:quotes]
    made["conclusion"] = "c" + "c" * min(127, room - 2 * quotes)
    return made


def stretched_actor(actor: Doc) -> Doc:
    """The actor with every field it may have; a worker is what its run is."""
    if actor["role"] == "worker":
        return actor
    long = {"workflow": QUOTES, "run_id": DIGITS, "run_attempt": 4096}
    return {**actor, **long, "dispatch_id": QUOTES, "claim_handle": QUOTES}
