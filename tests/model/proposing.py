"""The part of a random history that brings new Work in.

Graphs with forward edges, growth below old graphs, old nodes said again, and remedies for what
could not be delivered.
"""

from .admission import definition
from .canon import Doc
from .lifecycle import launch_principal
from .routes import routes_of
from .settling import Settling
from .writing import OTHER_REPOSITORY, REPOSITORY, evidence, person, running, work


class Proposing(Settling):
    """What a story submits."""

    gates: list[Doc]
    bursty: bool

    def fields(self, label: str, key: str, at: int) -> Doc:
        """Random optional parts of a Work."""
        rng, pool = self.rng, self.policy["pools"][label]
        name = rng.choice(list(pool["profiles"]))
        made: Doc = {
            "priority": rng.randint(1, 5),
            "fairness_key": key,
            "worker_profile": name,
            "payload": self.payload(),
            "enqueued": max(0, at - rng.randint(0, 5000)),
        }
        made.update(self.promises(label, name))
        if rng.random() < 0.1:
            made["subject"] = rng.choice(self.gates)["resource"]
        if rng.random() < 0.1:
            made["backing_issue"] = self.mirror(rng.choice([REPOSITORY, OTHER_REPOSITORY]))
        return made

    def promises(self, label: str, name: str) -> Doc:
        """A pin to a registered revision and the contract of the one that counts, or neither."""
        rng, made = self.rng, {}
        tables = self.board.tables()
        route = tables["routes"].get(label, {}).get(name)
        if route is None or tables["policy"] is not self.policy:
            route = routes_of(self.policy)[label][name]
        ref = route["current"]
        if rng.random() < (0.15 if len(route["revisions"]) == 1 else 0.4):
            made["execution_ref"] = ref = rng.choice(list(route["revisions"]))
        profile = route["revisions"][ref]["profile"]
        if "logical_contract" in profile and rng.random() < 0.5:
            made["logical_contract"] = profile["logical_contract"]
        return made

    def mirror(self, repository: str) -> Doc:
        """An Issue nobody is tied to yet."""
        number = self.name("")
        return {
            "kind": "issue",
            "host": "github.com",
            "repository": repository,
            "repository_id": "77",
            "resource_id": f"8{number}",
            "number": number,
        }

    def payload(self) -> Doc:
        """Task inputs with all sorts of values; some name no contract for their outputs."""
        rng = self.rng
        made: Doc = {} if rng.random() < 0.12 else {"effect_contract": {"kind": "none"}}
        made["plan"] = rng.choice(["sum", 'say "hi"\n', "d\u00e9j\u00e0 \U0001f600", "\u2028"])
        made["n"] = rng.choice([0, -5, 9007199254740991, None, True, [1, [2, {}]]])
        if rng.random() < 0.3:
            made["pad"] = "x" * rng.randint(50, 350)
        return made

    def graph(self, at: int) -> list[Doc]:
        """A new graph in random order, so that some edges point forward in the submission."""
        rng = self.rng
        label = rng.choice(list(self.policy["pools"]))
        name = self.name("g")
        key = rng.choice(list(self.policy["accounting_weights"]))
        nodes: list[Doc] = []
        most = self.policy["limits"]["operations"] - 1
        for index in range(min(most, rng.choice([1, 2, 3, 4, 5, 6, 8]))):
            above = rng.sample(
                nodes, min(len(nodes), rng.choice([0, 0, 0, 0 if self.bursty else 1, 1, 2]))
            )
            nodes.append(self.node(name, f"n{index}", label, key, at, above))
        rng.shuffle(nodes)
        return nodes

    def node(
        self, graph: str, key: str, label: str, account: str, at: int, above: list[Doc]
    ) -> Doc:
        """A Work below some others, perhaps behind a gate."""
        edges: list[Doc] = [{"kind": "work", "work_id": other["work_id"]} for other in above]
        room = self.policy["limits"]["predecessors"] - len(edges)
        if room > 0 and self.rng.random() < 0.15:
            edges += self.rng.sample(self.gates, min(room, self.rng.choice([1, 1, 2])))
        self.rng.shuffle(edges)
        fields = self.fields(label, account, at)
        return work(self.policy, graph, key, label, at, depends_on=edges, **fields)

    def submitter(self) -> Doc:
        """Somebody who may submit."""
        if self.rng.random() < 0.15:
            return person("administrator", "900")
        if self.rng.random() < 0.3:
            return running("dispatcher", "201", "42", ".callboard/dispatch")
        return person("producer", "101")

    def submit(self) -> bool:
        """A new graph."""
        at = self.moment()
        nodes = self.graph(at)
        return self.publish("submit", self.submitter(), nodes, at, {"nodes": nodes})

    def extend(self) -> bool:
        """New nodes under an old graph, with some of its old nodes said again."""
        rng = self.rng
        works = list(self.board.tables()["works"].values())
        anchor = rng.choice(works)
        label = anchor["pool"]
        if (
            label not in self.policy["pools"]
            or anchor["fairness_key"] not in (self.policy["accounting_weights"])
        ):
            return False
        members = [other for other in works if other["graph_id"] == anchor["graph_id"]]
        at, graph, account = self.moment(), anchor["graph_id"], anchor["fairness_key"]
        most = min(3, self.policy["limits"]["predecessors"])
        above = rng.sample(members, min(len(members), rng.randint(1, most)))
        first = self.node(graph, self.name("x"), label, account, at, above)
        nodes = [first]
        if rng.random() < 0.4:
            nodes.append(self.node(graph, self.name("x"), label, account, at, [first]))
        if rng.random() < 0.5:
            nodes += [definition(other) for other in rng.sample(members, 1)]
        rng.shuffle(nodes)
        return self.publish("submit", self.submitter(), nodes, at, {"nodes": nodes})

    def replace(self) -> bool:
        """A remedy for a Work whose delivery failed."""
        tables = self.board.tables()
        failed = [
            w
            for w in tables["works"].values()
            if w["barrier"] == "failed" and w["pool"] in self.policy["pools"]
        ]
        if not failed:
            return False
        old = self.rng.choice(failed)
        if old["fairness_key"] not in self.policy["accounting_weights"]:
            return False
        dispatch = tables["dispatches"][tables["claims"][old["claim_id"]]["dispatch_id"]]
        at, principal = self.moment(), launch_principal(tables, dispatch)
        proof = evidence(dispatch, "reconciliation", principal, at, receipt="remedy-checked")
        node = work(
            self.policy,
            old["graph_id"],
            self.name("again"),
            old["pool"],
            at,
            fairness_key=old["fairness_key"],
            priority=old["priority"],
            replacement_of={
                "work_id": old["work_id"],
                "disposition": self.rng.choice(["idempotent", "compensated", "inspection"]),
                "evidence": proof,
            },
        )
        return self.publish("submit", person("producer", "101"), [node], at, {"nodes": [node]})
