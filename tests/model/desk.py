"""Boards made by hand: a roomy Policy and somebody who writes commits at times of one's choosing.

Nothing here judges a commit; what the model refuses comes out as `Refused`.
"""

from typing import Any

from .canon import Doc, Refused
from .model import Board
from .policies import CEILINGS
from .writing import evidence, person, run, running, seal, terminal, worker


def plain_policy(profiles: dict[str, Doc] | None = None, **fields: Any) -> Doc:
    """A roomy aw Policy with one pool; fields named here replace the pool's or the Policy's."""
    profile: Doc = {
        "workflow": ".callboard/workers/w.toml",
        "ref": "1" * 40,
        "trust_domain": "default",
        "credential_scope": "repository",
        "effect_scope": "example/board",
        "max_claims": 1,
        "share_keys": False,
    }
    names = profiles or {"default": {}}
    made: Doc = {
        "mode": "weighted-priority",
        "class_weights": [8, 4, 2, 1, 1],
        "accounting_weights": {"": 1},
        "authorization": "aw",
        "producers": {},
        "limits": dict(CEILINGS),
    }
    pool: Doc = {
        "default_profile": next(iter(names)),
        "profiles": {name: {**profile, **extra} for name, extra in names.items()},
        "logical_limit": 4096,
        "native_limit": 4096,
        "allowed_repositories": ["example/board"],
        "max_observation_age_ms": 60000,
        "retry": {"max_attempts": 3, "backoff_ms": 30000},
        "reconciliation": {"max_attempts": 5, "deadline_ms": 300000},
    }
    for name, value in fields.items():
        (made if name in made else pool)[name] = value
    made["pools"] = {"default": pool}
    return made


class Desk:
    """Writes commits to a board at times of the test's choosing."""

    def __init__(self, policy: Doc, nodes: list[Doc], at: int = 1000) -> None:
        self.board = Board()
        self.count = 0
        self.epoch = "p1"
        op = {"kind": "Policy", "epoch": "p1", "policy": policy}
        producer = person("producer", "101")
        self.write("submit", producer, [op, *nodes], at, {"nodes": nodes})

    def write(
        self, kind: str, actor: Doc, operations: list[Doc], at: int, parameters: Doc | None = None
    ) -> Doc:
        self.count += 1
        tip = self.board.tables()["tip"]
        given = parameters or {"operations": operations}
        request_id = f"r{self.count}"
        epoch = operations[0].get("epoch", self.epoch)
        commit = seal(tip, kind, actor, given, operations, at, request_id, epoch)
        self.board.apply(commit)
        self.epoch = epoch
        return commit

    def submit(self, *nodes: Doc, at: int = 1000) -> None:
        self.write("submit", person("producer", "101"), list(nodes), at, {"nodes": list(nodes)})

    def operate(self, kind: str, op: Doc, at: int = 1000) -> None:
        """A request of the administrator with one operation."""
        self.write(kind, person("administrator", "900"), [op], at)

    def refusal(self, kind: str, actor: Doc, op: Doc, at: int = 1000) -> str | None:
        """The code with which one operation would be refused; the board stays as it is."""
        before, count = self.board.copy(), self.count
        try:
            self.write(kind, actor, [op], at)
        except Refused as refusal:
            return refusal.reason
        finally:
            self.board, self.count = before, count
        return None

    def grant(self, at: int, **budget: int) -> Doc:
        parameters: Doc = {"max_claims": 1, "max_dispatches": 1, "max_bytes": 49152, **budget}
        request_id = f"r{self.count + 1}"
        found = self.board.plan("default", at, request_id=request_id, **parameters)
        actor = running("dispatcher", "201", "42", ".callboard/dispatch")
        given = {"pool": "default", **parameters}
        self.write("dispatch_next", actor, found["operations"], at, given)
        return found

    def launch(self, dispatch_id: str, run_id: str, at: int) -> Doc:
        actor = running("dispatcher", "201", "42", ".callboard/dispatch")
        start = {
            "kind": "Dispatch",
            "dispatch_id": dispatch_id,
            "state": "started",
            "sender": actor,
            "credential_principal": "7",
        }
        self.write("dispatch", actor, [start], at)
        ran = run(self.board.tables()["dispatches"][dispatch_id], "7", run_id)
        bound = {"kind": "Dispatch", "dispatch_id": dispatch_id, "state": "bound", "run": ran}
        self.write("dispatch", actor, [bound], at)
        return ran

    def complete(self, claim: Doc, ran: Doc, at: int) -> str:
        dispatch = self.board.tables()["dispatches"][claim["dispatch_id"]]
        completion = {
            "kind": "Completion",
            "work_id": claim["work_id"],
            "claim_id": claim["claim_id"],
            "dispatch_id": claim["dispatch_id"],
            "claim_handle": claim["handle"],
            "run_id": ran["run_id"],
            "run_attempt": 1,
        }
        parameters = {
            "dispatch_id": claim["dispatch_id"],
            "claim_handle": claim["handle"],
            "outcome": "completed",
        }
        actor = worker(dispatch, ran, claim["handle"])
        return str(self.write("finish", actor, [completion], at, parameters)["id"])

    def done(self, run_id: str, at: int) -> Doc:
        """Grant the next Work and complete it; what a delivery decision needs to name it."""
        claim: Doc = self.grant(at)["operations"][0]
        ran = self.launch(claim["dispatch_id"], run_id, at)
        name = self.complete(claim, ran, at)
        return {"work_id": claim["work_id"], "claim_id": claim["claim_id"], "completion_id": name}

    def deliver(self, ids: Doc, at: int) -> None:
        dispatch = self.dispatch_of(ids)
        ran = {"run_id": dispatch["run"]["run_id"], "run_attempt": 1}
        proof = evidence(dispatch, "delivery", "7", at, receipt="seen", **ran)
        op = {"kind": "Result", **ids, "descriptor": {}, "evidence": proof}
        self.write("result", person("reconciler", "301"), [op], at)

    def give_up(self, ids: Doc, at: int, disposition: str, **proof: Any) -> None:
        op = {
            "kind": "DeliveryFailure",
            **ids,
            "reason": "not_found",
            "disposition": disposition,
            "evidence": terminal(self.dispatch_of(ids), "7", at, **proof),
        }
        self.write("delivery_failure", person("reconciler", "301"), [op], at)

    def dispatch_of(self, ids: Doc) -> Doc:
        tables = self.board.tables()
        found: Doc = tables["dispatches"][tables["claims"][ids["claim_id"]]["dispatch_id"]]
        return found
