"""Random valid histories, written with the model at hand.

A history is a plain list of commits, the same for the same seed. A request the board has no room
for is dropped; any other refusal of a commit made here is a fault of the model or of this writer.
"""

import random

from . import faults_of_mirrors, faults_of_operators
from .canon import Doc, Refused, gate_identity
from .evolving import Evolving
from .model import Board
from .mutations import Mutation, mutations
from .tables import gates_of
from .writing import (
    OTHER_REPOSITORY,
    REPOSITORY,
    observation,
    person,
    policy,
    running,
    seal,
    work,
    worker,
)

__all__ = ["Mutation", "mutations", "random_history"]

# The catalogues fill the list of faults while they are imported.
CATALOGUES = (faults_of_operators, faults_of_mirrors)

# What a history may do beside the life of Work: the kind of request, how often, and the deed.
STEERING = (
    (4, "deploy"),
    (3, "reprioritise"),
    (3, "link"),
    (3, "comment"),
)

# The refusals that mean "no room" or "not now".
NO_ROOM = (
    "ledger_limit",
    "pending_limit",
    "graph_limit",
    "admission_paused",
    "lifecycle_limit",
    "assignment_limit",
)


def random_history(seed: int, steps: int = 60) -> list[Doc]:
    """About `steps` commits, each accepted by the model after the ones before it."""
    story = Story(random.Random(seed))
    story.begin()
    for _ in range(steps * 8):
        if len(story.commits) >= steps:
            break
        story.step(steps)
    return story.commits


class Story(Evolving):
    """The writer: what it does next is a matter of chance and of what the board holds."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.board = Board()
        self.commits: list[Doc] = []
        self.now = 1_700_000_000_000
        self.counter = 0
        self.draining = False
        self.drain_at = rng.choice([0.3, 0.45, 0.6, 2.0])
        self.foreign_ids = rng.random() < 0.2
        self.bursty = rng.random() < 0.4
        self.policy = policy(rng)
        self.gates = self.make_gates()

    def make_gates(self) -> list[Doc]:
        """A handful of Issues and pull requests that Work may wait for."""
        made = []
        for number, kind in enumerate(["issue", "issue", "pull_request", "pull_request"]):
            resource = {
                "kind": kind,
                "host": "github.com",
                "repository": self.rng.choice([REPOSITORY, OTHER_REPOSITORY]),
                "repository_id": "77",
                "resource_id": str(9000 + number),
                "number": str(1 + number),
            }
            condition = "merged" if kind == "pull_request" else ["completed", "closed"][number]
            made.append({"kind": kind, "resource": resource, "condition": condition})
        return made

    def name(self, prefix: str) -> str:
        """A name nobody used yet."""
        self.counter += 1
        return f"{prefix}{self.counter}"

    def moment(self) -> int:
        """The clock of the next commit; it jumps now and then and sometimes runs backward."""
        rng = self.rng
        self.now += rng.choice([0, 1, 40, 700, 1500, 1500, 6000])
        if rng.random() < 0.12:
            return self.now - rng.randint(1, 2500)
        return self.now

    def publish(
        self,
        kind: str,
        actor: Doc,
        operations: list[Doc],
        at: int,
        parameters: Doc | None = None,
        request_id: str | None = None,
    ) -> bool:
        """Seal and apply one commit; False when the board has no room for it."""
        tables = self.board.tables()
        if parameters is None:
            parameters = {"operations": operations}
        epoch = tables["policy_epoch"]
        if operations[0]["kind"] == "Policy":
            epoch = operations[0]["epoch"]
        request_id = request_id or self.name("r-")
        commit = seal(
            tables["tip"],
            kind,
            actor,
            parameters,
            operations,
            at,
            request_id,
            epoch,
            self.commit_id(request_id),
        )
        if self.rng.random() < 0.05:
            commit["trace"] = {"trace_id": "ab" * 16, "span_id": "cd" * 8, "publisher_attempt": 2}
        try:
            self.board.apply(commit)
        except Refused as refusal:
            if refusal.reason in NO_ROOM:
                return False
            raise
        self.commits.append(commit)
        return True

    def commit_id(self, request_id: str) -> str | None:
        """Readers take any unique id, so some histories use ids of another make."""
        return f"commit-of-{request_id}" if self.foreign_ids else None

    def begin(self) -> None:
        """The first submit of all, with the Policy before its Work."""
        op = {"kind": "Policy", "epoch": self.name("p_"), "policy": self.policy}
        producer = person("producer", "101")
        for _ in range(40):
            at = self.moment()
            nodes = self.graph(at)
            if self.publish("submit", producer, [op, *nodes], at, {"nodes": nodes}):
                return
        # Nothing as large fits: begin with one plain node.
        label = next(iter(self.policy["pools"]))
        node = work(self.policy, self.name("g"), "root", label, self.now)
        if not self.publish("submit", producer, [op, node], self.now, {"nodes": [node]}):
            raise AssertionError("no Work fits this Policy")

    def step(self, steps: int) -> None:
        """Do one thing that is possible now."""
        rng = self.rng
        done = len(self.commits) / steps
        if done >= self.drain_at and not self.draining:
            self.draining, self.drain_at = True, 2.0
        if self.draining and self.install():
            self.draining = False
            return
        actions = [
            (45, self.settle),
            (11, self.deliver),
            (6 if self.draining else 1, self.cancel_work),
            (1, self.cancel_claim),
            (2, self.control),
        ]
        if not self.draining:
            actions += [
                (7, self.submit),
                (4, self.extend),
                (3, self.replace),
                (6 if self.bursty else 30, self.grant),
                (3, self.observe),
                (12, self.worker_asks),
            ]
        actions += [(often, getattr(self, deed)) for often, deed in STEERING]
        weights = [weight for weight, _ in actions]
        rng.choices([action for _, action in actions], weights)[0]()

    # Grants

    def latest(self) -> int:
        """The last time any gate was looked at."""
        seen = self.board.tables()["observations"].values()
        return max((op["observed_at"] for op in seen), default=0)

    def looks(self, at: int, most: int) -> list[Doc]:
        """Observations of gates that Work waits for, as many as there is room for."""
        tables = self.board.tables()
        room = self.policy["limits"]["observation_writes"] - tables["observation_writes"]
        wanted: dict[str, Doc] = {}
        for node in tables["works"].values():
            if node["state"] == "available":
                for edge in gates_of(node):
                    wanted[gate_identity(edge["resource"], edge["condition"])] = edge
        found = []
        for edge in list(wanted.values())[: max(0, min(most, room))]:
            states = ["ready", "ready", "ready", "waiting", "unknown", "failed"]
            state = self.rng.choice(states)
            if state == "failed" and edge["condition"] == "closed":
                state = "waiting"
            generation = tables["credential_generation"]
            found.append(observation(self.name("o"), edge, state, generation, at))
        return found

    def observe(self) -> bool:
        """Look at gates and write down what was seen."""
        at = max(self.moment(), self.latest())
        operations = self.looks(at, 3)
        if not operations:
            return False
        actor = self.rng.choice(
            [
                person("administrator", "900"),
                running("dispatcher", "201", "42", ".callboard/dispatch"),
                running("reconciler", "301", "43", ".callboard/reconcile"),
            ]
        )
        return self.publish("observe", actor, operations, at)

    def grant(self, actor: Doc | None = None) -> bool:
        """Ask for grants; a request that gets none is not written."""
        rng, tables = self.rng, self.board.tables()
        at = max(self.moment(), self.latest())
        label = rng.choice(list(self.policy["pools"]))
        operations = []
        if not tables["grants_paused"] and rng.random() < 0.7:
            operations = self.looks(at, min(4, self.policy["limits"]["operations"] - 1))
        parameters: Doc = {
            "pool": label,
            "max_claims": rng.choice([1, 2, 3, 5, 256, 256]),
            "max_dispatches": rng.choice([1, 1, 2, 4, 256]),
            "max_bytes": rng.choice([49152, 49152, 49152, 1800, 1100, 800]),
        }
        if rng.random() < 0.15:
            names = list(self.policy["pools"][label]["profiles"])
            parameters["worker_profiles"] = rng.sample(names, rng.randint(1, len(names)))
        request_id = self.name("r-")
        found = self.board.plan(
            at=at,
            request_id=request_id,
            commit_id=self.commit_id(request_id),
            observations=operations,
            **parameters,
        )
        if not found["operations"]:
            return False
        if actor is None:
            actor = running("dispatcher", "201", "42", ".callboard/dispatch")
            if rng.random() < 0.2:
                actor = person("administrator", "900")
        operations = [*operations, *found["operations"]]
        return self.publish("dispatch_next", actor, operations, at, parameters, request_id)

    def worker_asks(self) -> bool:
        """A worker with a completed member adds Work below it, or asks for grants."""
        tables = self.board.tables()
        ready = []
        for claim in tables["claims"].values():
            node = tables["works"][claim["work_id"]]
            dispatch = tables["dispatches"][claim["dispatch_id"]]
            live = dispatch["state"] == "bound" and not dispatch["released"]
            if live and claim["state"] == "completed" and node["barrier"] == "pending":
                ready.append((claim, node, dispatch))
        if not ready:
            return False
        claim, node, dispatch = self.rng.choice(ready)
        actor = worker(dispatch, dispatch["run"], claim["handle"])
        if self.rng.random() < 0.3:
            return self.grant(actor)
        at = self.moment()
        graph, label, account = node["graph_id"], node["pool"], node["fairness_key"]
        child = self.node(graph, self.name("w"), label, account, at, [node])
        child["priority"] = self.rng.choice([node["priority"], node["priority"], 5])
        return self.publish("submit", actor, [child], at, {"nodes": [child]})

    # Operator

    def cancel_work(self) -> bool:
        """End Work by hand; while draining, much of it at once."""
        rng, tables = self.rng, self.board.tables()
        states = ["available"] if self.draining or rng.random() < 0.6 else ["claimed"]
        found = [w for w in tables["works"].values() if w["state"] in states]
        if not found:
            return False
        most = min(len(found), self.policy["limits"]["operations"])
        picked = rng.sample(found, most if self.draining else 1)
        operations = []
        for node in picked:
            op = {"kind": "WorkCancellation", "work_id": node["work_id"], "reason": "obsolete"}
            if "claim_id" in node and rng.random() < 0.5:
                op["claim_id"] = node["claim_id"]
            operations.append(op)
        role, principal = rng.choice(
            [("administrator", "900"), ("producer", "101"), ("reconciler", "301")]
        )
        return self.publish("cancel_work", person(role, principal), operations, self.moment())

    def control(self) -> bool:
        """Throw a switch; a pause is soon lifted."""
        tables, rng = self.board.tables(), self.rng
        name = rng.choice(["admission_paused", "grants_paused", "credential_generation"])
        for paused in ("admission_paused", "grants_paused"):
            if tables[paused]:
                name = paused
        value: bool | str = not tables[name]
        if name == "credential_generation":
            value = self.name("gen-")
        op = {"kind": "Control", "control": name, "value": value, "reason": "operator.request"}
        return self.publish("control", person("administrator", "900"), [op], self.moment())

    def install(self) -> bool:
        """A new Policy, once nothing is open."""
        fresh = policy(self.rng)
        fresh["limits"]["ledger_bytes"] = 67108864
        fresh["limits"]["observation_writes"] = 4096
        fresh["limits"]["recovery_bytes"] = 16777216
        op = {"kind": "Policy", "epoch": self.name("p_"), "policy": fresh}
        try:
            done = self.publish("policy", person("administrator", "900"), [op], self.moment())
        except Refused as refusal:
            if refusal.reason != "policy_not_quiescent":
                raise
            return False
        self.policy = fresh
        return done
