"""Graphs of nodes: whole or refused, ready by verified results alone, failed for good."""

from __future__ import annotations

import json

from msgspec import UNSET, structs

from callboard.board.board import Board, Folders
from callboard.board.protocol import operations as ops
from tests.acceptance.installing import install
from tests.board import building as make
from tests.board.boards import Board as Ledger
from tests.board.building import refused, work
from tests.board.execution.failing import fail
from tests.repositories import git
from tests.surfaces.cli.conftest import Person
from tests.system.world import BOTH, World
from tests.waiting import until

ISSUE, MERGE = make.issue_gate(), make.merge_gate()
APPEND = "callboard.board.storage.git:GitStore.append"


def plan(graph: str, **after: str) -> str:
    """A plan of nodes by key, each after the keys that its text has."""
    nodes = [{"key": key, "payload": {}, "after": names.split()} for key, names in after.items()]
    return json.dumps({"graph": graph, "nodes": nodes})


# --- admission ------------------------------------------------------------------------------------


def test_dag_admission(person: Person) -> None:
    """A plan may name what comes later in it; one bad edge, and nothing of it is posted."""
    person.submit(plan("g", last="mid first", mid="first", first=""))
    stages = {one["node_key"]: one["column"] for one in person.submit(plan("g", first=""))["nodes"]}
    assert stages == {"first": "ready"}
    shown = {key: person.ask("show", key)["column"] for key in ("mid", "last")}
    assert shown == {"mid": "waiting", "last": "waiting"}
    before = person.tip
    bad = {
        plan("g", x="", y="nowhere"): ("plan_invalid", "'nowhere'"),
        plan("g", x="", y="y"): ("dependency_self", "'y'"),
        plan("g", x="z", y="x", z="y"): ("dependency_cycle", "'x' -> 'z' -> 'y' -> 'x'"),
        plan("g", x="", y="x x"): ("plan_invalid", "stands twice"),
        # What stands keeps the edges that it has.
        plan("g", x="", mid="x"): ("work_conflict", "'mid'"),
        plan("h", x="", y="first"): ("plan_invalid", "'first'"),
    }
    for text, (code, word) in bad.items():
        error = person.call("submit", "-", "--json", stdin=text).error
        assert error["code"] == code, text
        assert word in error["message"], error
        assert error["hint"]
    assert person.tip == before
    assert person.call("show", "x", "--json").error["code"] == "work_unknown"


def test_dag_node_kinds(person: Person) -> None:
    """A gate that several nodes share is one vertex of its graph, and takes nobody's turn; a node
    that is about an issue does not wait for it. People are told which issue or merge it is."""
    document = make.policy(limits=make.limits(graph_nodes=6))
    nodes = [
        work("a", gates=[ISSUE]),
        work("b", gates=[ISSUE, MERGE]),
        work("c", after=["a"]),
        work("about", subject=make.resource()),
    ]
    board = Ledger(nodes, document)
    assert board.projection.counters.nodes == 6
    error = refused(board.submit, [work("d", gates=[ISSUE])])
    assert (error.code, error.details["count"]) == ("graph_limit", 7)
    assert board.grant(9) == ["about"]
    assert (board.projection.counters.claims, board.projection.counters.unreleased) == (1, 1)
    install(person.folder, board.data)
    for key, words in (("a", ["issue example/library#7"]),
                       ("b", ["issue example/library#7", "pull request example/library#81"]),
                       ("c", ["a"])):  # fmt: skip
        told = person.done("explain", key).stdout
        for word in words:
            assert word in told, told
    assert person.ask("show", "b")["gates"] == 2
    assert person.ask("show", "about")["stage"] == "granted"


# --- what makes a node ready ----------------------------------------------------------------------


def test_ready_frontier() -> None:
    """Only what has every result and every gate competes; the rest takes no turn and no place."""
    board = Ledger(
        [
            work("a"),
            work("b", after=["a"]),
            work("c", gates=[ISSUE]),
            work("d", after=["a"], gates=[MERGE]),
            work("e", after=["b", "c"]),
        ]
    )
    assert board.grant(9) == ["a"]
    clocks = board.projection.clocks
    assert board.plan(9).winners == []
    board.observe(make.observation("o1", MERGE, board.at))
    assert board.plan(9).winners == []
    board.complete("a")
    assert board.plan(9).winners == []
    board.verify("a")
    assert board.projection.clocks == clocks
    assert board.grant(9) == ["b", "d"]
    board.settle("b")
    board.observe(make.observation("o2", ISSUE, board.at))
    assert board.grant(9) == ["c"]
    board.settle("c")
    assert board.grant(9) == ["e"]


def test_fork_join(world: World) -> None:
    """Four siblings run beside each other once their fork is done; the join waits for each."""
    siblings = [f"s{n}" for n in range(4)]
    waits = {"first": [f"await {world.file('go')}", "completed"]}
    world.submit(
        {"key": "fork"},
        *({"key": key, "after": ["fork"], "payload": waits} for key in siblings[:3]),
        {"key": "s3", "after": ["fork"], "payload": {"first": ["exit 1"]}},
        {"key": "join", "after": siblings},
    )
    process = world.start(workers=4)
    until(lambda: [world.works()[key].state for key in siblings] == [*3 * ["claimed"], "available"])
    assert world.works()["join"].attempts == 0
    world.file("go").touch()
    world.finish(process)
    world.check_settled()
    works = world.works()
    assert {key: works[key].attempts for key in siblings} == {"s0": 1, "s1": 1, "s2": 1, "s3": 2}
    # In the ledger the join's Claim comes after the last sibling's Result.
    operations = world.operations()
    results = [at for at, one in enumerate(operations) if isinstance(one, ops.Result)]
    (claim,) = [
        at for at, one in enumerate(operations)
        if isinstance(one, ops.Claim) and one.work_id == works["join"].work.work_id
    ]  # fmt: skip
    assert len([at for at in results if at < claim]) == 5


def test_result_barrier(world: World) -> None:
    """The run dies right after its Completion: whoever needs it still waits, until somebody
    publishes what was promised, and reads it back. Nothing is executed twice."""
    world.submit({"key": "task", "contract": BOTH}, {"key": "next", "after": ["task"]})
    fault = world.fault(APPEND, "after", role="supervisor", match="Request: finish_")
    world.run(fault={**fault, "action": "kill_both"})
    works = world.works()
    assert (works["task"].state, works["task"].barrier) == ("completed", "pending")
    assert works["next"].blocked == 1
    with world.open() as board:
        board.grant()
    assert world.works()["next"].attempts == 0
    world.run()
    world.check_settled()
    works = world.works()
    assert (works["task"].barrier, works["next"].barrier) == ("verified", "verified")
    assert [line["work_id"] for line in world.journal].count(works["task"].work.work_id) == 1
    assert works["task"].attempts == 1


def test_delivery_failure() -> None:
    """A delivery is decided once: by a Result, or by a failure whose looks are used up and whose
    run has ended. A failed one gives nobody anything, and no record opens it again."""
    board = Ledger([work("a"), work("b", after=["a"]), work("c", after=["b"])])
    board.grant()
    board.complete("a")
    few = board.evidence(board.group("a"), "terminal_run", attempts=4)
    assert refused(board.fail_delivery, "a", evidence=few).code == "reconciliation_pending"
    alive = structs.replace(few, attempts=5, status=UNSET)
    assert refused(board.fail_delivery, "a", evidence=alive).code == "evidence_invalid"
    board.fail_delivery("a")
    state = board.work("a")
    assert (state.state, state.barrier, state.attempts) == ("completed", "failed", 1)
    assert refused(board.verify, "a").code == "barrier_closed"
    assert refused(board.cancel_work, "a").code == "work_closed"
    board.release(board.group("a"), "terminal_run")
    for _wait in range(3):
        board.pass_ms(10**8)
        assert board.plan(9).winners == []
    assert board.projection.counters.claims == 1
    assert (board.work("b").state, board.work("b").blocked) == ("available", 1)
    # The other way about: what is verified cannot fail.
    other = Ledger([work("a")])
    other.grant()
    other.complete("a")
    other.verify("a")
    assert refused(other.fail_delivery, "a").code == "barrier_closed"


VERIFIER = """\
command = ["sh", "-c", 'echo "{\\"disposition\\": \\"compensated\\", \\"receipt\\": \\"x\\"}"']
dispositions = ["compensated"]
"""
DELIVERING = 'command = ["callboard", "worker", "exec", "--", "true"]\noutputs = ["artifact"]\n'


def test_replacement(person: Person) -> None:
    """A new node in the place of one that failed: same account, last in line, only where somebody
    proves that its effects are dealt with; who waited for the old one waits on."""
    person.configure("[work_queue.accounting_weights]\nteam = 2\n")
    worker = person.folder / ".callboard" / "workers" / "default.toml"
    worker.write_text(DELIVERING)
    verifiers = person.folder / ".callboard" / "verifiers"
    verifiers.mkdir()
    (verifiers / "undone.toml").write_text(VERIFIER)
    git("add", "-A", cwd=person.folder)
    git("commit", "-q", "-m", "more", cwd=person.folder)
    node = {"payload": {}, "fairness_key": "team", "contract": {"artifact": 1}, "priority": 2}
    nodes = [{"key": "a", **node}, {"key": "b", "payload": {}, "after": ["a"]}]
    person.submit(json.dumps({"graph": "g", "nodes": nodes}))
    with Board.open(person.folder, Folders(person.config, person.state)) as board:
        fail(board, "unknown")
    person.submit(json.dumps({"graph": "g", "nodes": [{"key": "later", "payload": {}}]}))
    error = person.call("replace", "a", "--json").error
    assert error["code"] == "remediation_verifier_required"
    words = ["replace", "a", "--verifier", "undone"]
    error = person.call(*words, "--disposition", "idempotent", "--json").error
    assert error["code"] == "remediation_unproven"
    (made,) = person.ask(*words)["nodes"]
    last = json.loads(person.ledger.splitlines()[-1])["operations"][-1]
    assert {name: last[name] for name in ("fairness_key", "priority", "pool")} == {
        "fairness_key": "team", "priority": 2, "pool": "default"
    }  # fmt: skip
    assert last["replacement_of"]["disposition"] == "compensated"
    with Board.open(person.folder, Folders(person.config, person.state)) as board:
        places = {one.work.node_key: one.place for one in board.history().projection.works.values()}
    assert max(places, key=lambda key: places[key]) == made["node_key"] == "a-r2"
    assert person.ask("explain", "b")["reason"] == "dependency_delivery_failed"
    # The old one can be neither replaced twice nor wired anew.
    assert person.call(*words, "--json").error["code"] == "replacement_exists"
    rewired = {"graph": "g", "nodes": [{"key": "b", "payload": {}, "after": ["a-r2"]}]}
    error = person.call("submit", "-", "--json", stdin=json.dumps(rewired)).error
    assert error["code"] == "work_conflict"
