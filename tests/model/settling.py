"""The half of a random history that brings granted Work to its end.

Launches, runs, finishes, cancellations, releases and the settling of deliveries; what is possible
is read off the board, what happens is chance.
"""

import random

from .canon import Doc
from .lifecycle import launch_principal
from .model import Board
from .tables import open_claims_of
from .writing import evidence, person, run, running, terminal, worker


class Settling:
    """What a story does with worker groups and deliveries."""

    rng: random.Random
    board: Board
    policy: Doc
    draining: bool

    def publish(
        self,
        kind: str,
        actor: Doc,
        operations: list[Doc],
        at: int,
        parameters: Doc | None = None,
        request_id: str | None = None,
    ) -> bool:
        """Seal and apply one commit."""
        raise NotImplementedError

    def moment(self) -> int:
        """The clock of the next commit."""
        raise NotImplementedError

    def name(self, prefix: str) -> str:
        """A name nobody used yet."""
        raise NotImplementedError

    def reconciler(self) -> Doc:
        """Somebody who establishes what became of runs."""
        if self.rng.random() < 0.5:
            return person("reconciler", "301")
        return running("reconciler", "301", "43", ".callboard/reconcile")

    def settle(self) -> bool:
        """Move one worker group that is not released a step on."""
        tables, rng = self.board.tables(), self.rng
        live = [d for d in tables["dispatches"].values() if not d["released"]]
        if not live:
            return False
        dispatch = rng.choice(live)
        state, luck = dispatch["state"], rng.random()
        if state == "reserved":
            if tables["grants_paused"] or luck < 0.15:
                return self.release(dispatch, "prelaunch")
            return self.start(dispatch)
        if state == "bound":
            return self.run_on(dispatch, luck)
        if state == "rejected":
            return self.release(dispatch, "nonlaunch")
        return self.find_out(dispatch, luck)

    def start(self, dispatch: Doc) -> bool:
        """Write the marker that comes before the one launch."""
        sender = running("dispatcher", "201", self.rng.choice(["42", "44"]), ".callboard/dispatch")
        op: Doc = {
            "kind": "Dispatch",
            "dispatch_id": dispatch["dispatch_id"],
            "state": "started",
            "sender": sender,
        }
        if "principal" not in dispatch["profile"]:
            op["credential_principal"] = str(self.rng.randint(7000, 7003))
        return self.publish("dispatch", sender, [op], self.moment())

    def find_out(self, dispatch: Doc, luck: float) -> bool:
        """A launch was sent; learn, or fail to learn, what came of it."""
        tables, at = self.board.tables(), self.moment()
        principal = launch_principal(tables, dispatch)
        op: Doc = {"kind": "Dispatch", "dispatch_id": dispatch["dispatch_id"]}
        if luck < 0.62:
            found = run(dispatch, principal, str(10**20 + int(self.name("")) * 7))
            actor = self.rng.choice([self.reconciler(), worker(dispatch, found, None)])
            if self.rng.random() < 0.3:
                actor = running("dispatcher", "201", "42", ".callboard/dispatch")
            return self.publish("dispatch", actor, [{**op, "state": "bound", "run": found}], at)
        if luck < 0.67:
            return self.release(dispatch, "nonlaunch")
        if luck < 0.75:
            proof = evidence(dispatch, "nonlaunch", principal, at)
            rejected = {**op, "state": "rejected", "evidence": proof, "reason": "http_422"}
            return self.publish("dispatch", self.reconciler(), [rejected], at)
        if dispatch["state"] == "unresolved" or (dispatch["state"] == "uncertain" and luck < 0.9):
            pool = tables["policy"]["pools"][dispatch["pool"]]
            tried = pool["reconciliation"]["max_attempts"]
            proof = evidence(dispatch, "reconciliation", principal, at, attempts=tried)
            lost = {**op, "state": "unresolved", "evidence": proof, "reason": "no_match"}
            return self.publish("dispatch", self.reconciler(), [lost], at)
        return self.publish(
            "dispatch", self.reconciler(), [{**op, "state": "uncertain", "reason": "timeout"}], at
        )

    def run_on(self, dispatch: Doc, luck: float) -> bool:
        """A run is bound: its members finish, or it ends."""
        claims = open_claims_of(self.board.tables(), dispatch["dispatch_id"])
        if luck < 0.03:
            op = {
                "kind": "Dispatch",
                "dispatch_id": dispatch["dispatch_id"],
                "state": "bound",
                "run": dispatch["run"],
            }
            return self.publish("dispatch", self.reconciler(), [op], self.moment())
        if claims and luck < 0.8:
            return self.finish(dispatch, self.rng.choice(claims))
        return self.release(dispatch, "terminal_run")

    def finish(self, dispatch: Doc, claim: Doc) -> bool:
        """One member says how it ended."""
        tables, at = self.board.tables(), self.moment()
        outcome = self.rng.choice(["completed", "completed", "completed", "cancelled"])
        node = tables["works"][claim["work_id"]]
        names = {"work_id": claim["work_id"], "claim_id": claim["claim_id"]}
        operations: list[Doc]
        if outcome == "completed":
            completion = {
                "kind": "Completion",
                **names,
                "dispatch_id": dispatch["dispatch_id"],
                "claim_handle": claim["handle"],
                "run_id": dispatch["run"]["run_id"],
                "run_attempt": 1,
            }
            operations = [completion]
        else:
            retry = self.policy["pools"][node["pool"]]["retry"]
            cancellation = {
                "kind": "ClaimCancellation",
                **names,
                "reason": "worker_cancelled",
                "retry_not_before": at + retry["backoff_ms"],
            }
            operations = [cancellation]
            operations += self.exhausted(node, "attempts_exhausted")
        parameters = {
            "dispatch_id": dispatch["dispatch_id"],
            "claim_handle": claim["handle"],
            "outcome": outcome,
        }
        actor = worker(dispatch, dispatch["run"], claim["handle"])
        return self.publish("finish", actor, operations, at, parameters)

    def exhausted(self, node: Doc, reason: str) -> list[Doc]:
        """The cancellation a Work needs when no attempt is left."""
        most = self.policy["pools"][node["pool"]]["retry"]["max_attempts"]
        if node["attempts"] < most:
            return []
        return [{"kind": "WorkCancellation", "work_id": node["work_id"], "reason": reason}]

    def closing(self, claim: Doc, at: int, reason: str) -> tuple[list[Doc], list[Doc]]:
        """How to close an open Claim from outside: its cancellation and its Work's, if due."""
        node = self.board.tables()["works"][claim["work_id"]]
        backoff = self.policy["pools"][node["pool"]]["retry"]["backoff_ms"]
        cancellation = {
            "kind": "ClaimCancellation",
            "work_id": claim["work_id"],
            "claim_id": claim["claim_id"],
            "reason": reason,
            "retry_not_before": at + backoff + self.rng.choice([0, 0, 1, 999]),
        }
        return [cancellation], self.exhausted(node, "attempts_exhausted")

    def release(self, dispatch: Doc, kind: str) -> bool:
        """Give the worker slot back and close the members that are still open."""
        tables, rng, at = self.board.tables(), self.rng, self.moment()
        first: list[Doc] = []
        last: list[Doc] = []
        for claim in open_claims_of(tables, dispatch["dispatch_id"]):
            if rng.random() < 0.1:
                ended = {
                    "kind": "WorkCancellation",
                    "work_id": claim["work_id"],
                    "reason": "unrecoverable",
                    "claim_id": claim["claim_id"],
                }
                last.append(ended)
                continue
            claims, works = self.closing(claim, at, "run_ended")
            first += claims
            last += works
        principal = launch_principal(tables, dispatch)
        checked = at - rng.choice([0, 0, 0, 50])
        if kind == "terminal_run":
            proof = terminal(dispatch, principal, checked, conclusion="failure")
        else:
            proof = evidence(dispatch, kind, principal, checked)
        op = {"kind": "Release", "dispatch_id": dispatch["dispatch_id"], "evidence": proof}
        return self.publish("release", self.reconciler(), [*first, *last, op], at)

    def cancel_claim(self) -> bool:
        """Take one Claim away from a worker."""
        tables, at = self.board.tables(), self.moment()
        found = [claim for claim in tables["claims"].values() if claim["state"] == "open"]
        if not found:
            return False
        claims, works = self.closing(self.rng.choice(found), at, "superseded")
        return self.publish("cancel_claim", self.reconciler(), [*claims, *works], at)

    def deliver(self) -> bool:
        """Settle the delivery of a completed Work, one way or the other."""
        tables, rng = self.board.tables(), self.rng
        pending = [w for w in tables["works"].values() if w["barrier"] == "pending"]
        if not pending:
            return False
        node = rng.choice(pending)
        claim = tables["claims"][node["claim_id"]]
        dispatch = tables["dispatches"][claim["dispatch_id"]]
        at, principal = self.moment(), launch_principal(tables, dispatch)
        names = {
            "work_id": node["work_id"],
            "claim_id": node["claim_id"],
            "completion_id": node["completion_id"],
        }
        if "effect_contract" not in node["payload"] or rng.random() < 0.15:
            return self.give_up(node, dispatch, names, at, principal)
        ran = {"run_id": dispatch["run"]["run_id"], "run_attempt": 1}
        proof = evidence(dispatch, "delivery", principal, at, receipt="seen", **ran)
        descriptor = rng.choice([{}, {"sum": 3}, {"artifact": "x" * 40, "size": 12}])
        op = {"kind": "Result", **names, "descriptor": descriptor, "evidence": proof}
        return self.publish("result", self.reconciler(), [op], at)

    def give_up(self, node: Doc, dispatch: Doc, names: Doc, at: int, principal: str) -> bool:
        """Write a delivery off, once the budget for finding it is spent."""
        rule = self.policy["pools"][node["pool"]]["reconciliation"]
        waited = at - self.board.tables()["completion_times"][node["work_id"]]
        disposition = self.rng.choice(["none", "partial", "unknown", "unknown"])
        extra: Doc = {}
        if waited < rule["deadline_ms"] or self.rng.random() < 0.3:
            extra["attempts"] = rule["max_attempts"] + self.rng.choice([0, 1])
        if disposition != "unknown" or self.rng.random() < 0.5:
            extra["effects"] = disposition
        if disposition == "none":
            extra["receipt"] = "never-began"
        op = {
            "kind": "DeliveryFailure",
            **names,
            "reason": "not_found",
            "disposition": disposition,
            "evidence": terminal(dispatch, principal, at, **extra),
        }
        return self.publish("delivery_failure", self.reconciler(), [op], at)
