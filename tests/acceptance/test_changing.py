"""A board that is changed while it is used: its policy, its workers, its pauses, its limits."""

from __future__ import annotations

import json
from typing import Any

from msgspec import structs

from callboard.board.board import Board, Folders
from callboard.board.protocol import operations as ops
from callboard.board.protocol import policy as records
from callboard.errors import CallboardError
from tests.acceptance.rereading import reread
from tests.board import building as make
from tests.board.boards import Board as Ledger
from tests.board.building import refused, work
from tests.repositories import git
from tests.surfaces.cli.conftest import RECIPE, Person

OTHER_CONTRACT = RECIPE + 'env = ["LANG"]\n'


def plan(*keys: str, graph: str = "g", **fields: Any) -> str:
    """A plan of nodes that wait for nothing."""
    nodes = [{"key": key, "payload": {}, **fields} for key in keys]
    return json.dumps({"graph": graph, "nodes": nodes})


def commit(person: Person, recipe: str) -> str:
    """Commit another recipe; answers HEAD."""
    (person.folder / ".callboard" / "workers" / "default.toml").write_text(recipe)
    git("commit", "-q", "-a", "-m", "a recipe", cwd=person.folder)
    return git("rev-parse", "HEAD", cwd=person.folder)


def weights(**values: int) -> str:
    """Settings with these weights of keys."""
    rows = "".join(f"{key} = {value}\n" for key, value in values.items())
    return f"[work_queue.accounting_weights]\n{rows}"


# --- the policy -----------------------------------------------------------------------------------


def test_policy_epochs(person: Person) -> None:
    """Economics change on a board at rest, and then the turns begin anew; what was stays told."""
    person.configure(weights(a=1, b=1))
    person.submit(plan("a", fairness_key="a"))
    first = person.ask("policy", "show")["policy_epoch"]
    person.configure(weights(a=1, b=5))
    for _state in ("open", "granted"):
        error = person.call("policy", "install", "--from-config", "--json").error
        assert error["code"] == "policy_not_quiescent"
        assert error["details"]["unsettled"]
        person.call("dispatch")
    assert person.ask("policy", "show")["policy_epoch"] == first
    person.done("cancel", "a", "--reason", "done")
    before = person.ask("ledger", "replay")
    assert before["clocks"]["default"]["keys"]["3"]["pass"] == {"a": "2"}
    person.done("run", "--until-idle")
    person.done("policy", "install", "--from-config")
    after = person.ask("ledger", "replay")
    assert after["clocks"] == {}
    assert after["policy"]["accounting_weights"] == {"": 1, "a": 1, "b": 5}
    for name in ("claims", "cancellations"):
        assert after[name] == before[name]
    assert set(after["seen_epochs"]) == {first, person.ask("policy", "show")["policy_epoch"]}
    assert person.ask("trace", "a")["commits"][0]["policy_epoch"] == first


def test_policy_epochs_wait_for_deliveries() -> None:
    """A completed node whose delivery pends, and a run that is not over, are no rest either."""
    board = Ledger([work("a")])
    board.grant()

    def install() -> None:
        installed = ops.Policy(epoch="e2", policy=make.policy(mode="strict-priority"))
        board.say("policy", [installed], make.ADMINISTRATOR, epoch="e2")

    for step in (board.complete, board.verify):
        assert refused(install).code == "policy_not_quiescent"
        step("a")
    assert refused(install).code == "policy_not_quiescent"
    board.release(board.group("a"), "terminal_run")
    install()
    assert board.projection.policy.mode == "strict-priority"


# --- workers --------------------------------------------------------------------------------------


def test_worker_evolution(person: Person) -> None:
    """New code, same contract: what waits follows, what is pinned or launched stays. Another
    contract stops what was promised the old one, and nothing else."""
    person.submit(plan("old"))
    first = git("rev-parse", "HEAD", cwd=person.folder)
    launched = person.ask("dispatch")["dispatches"][0]
    person.submit(plan("waits", "pinned-soon"))
    clocks = person.ask("ledger", "replay")["clocks"]
    second = commit(person, RECIPE + "# better\n")
    person.submit(plan("pinned", execution_ref=first))
    state = person.ask("ledger", "replay")
    assert state["clocks"] == clocks
    assert state["deployments"]["default"]["default"]["current"] == second
    assert {person.ask("explain", key)["reason"] for key in ("waits", "pinned")} == {"ready"}
    commit(person, OTHER_CONTRACT)
    person.done("deploy", "--reason", "other_tools")
    person.submit(plan("new"))
    reasons = {key: person.ask("explain", key)["reason"] for key in ("waits", "pinned", "new")}
    assert reasons == {"waits": "worker_incompatible", "pinned": "ready", "new": "ready"}
    granted = [person.ask("dispatch")["claims"][0]["node_key"] for _turn in range(2)]
    assert granted == ["pinned", "new"]
    with Board.open(person.folder, Folders(person.config, person.state)) as board:
        dispatches = board.history().projection.dispatches
    refs = {name: one.profile.ref for name, one in dispatches.items()}
    assert refs[launched["dispatch_id"]] == first
    assert list(refs.values()).count(first) == 2


def test_worker_evolution_replayed() -> None:
    """A launch of the old revision is bound, delivered and freed after the new one; whoever reads
    the ledger at any point of it goes on the same."""
    profile = make.profile(logical_contract="1" * 64)
    document = make.with_pool(profiles={"default": profile})
    board = Ledger([work("a"), work("b", after=["a"]), work("c")], document)
    board.grant()
    newer = structs.replace(profile, ref="b" * 40)
    made = ops.Deployment(
        pool="default", worker_profile="default", expected_ref=profile.ref,
        expected_contract="1" * 64, profile=newer, available=True, reason="rollout",
    )  # fmt: skip
    board.say("deployment", [made], make.ADMINISTRATOR)
    board.settle("a")
    assert board.group("a").profile.ref == "a" * 40
    assert board.grant(9) == ["b", "c"]
    assert {board.group(key).profile.ref for key in "bc"} == {"b" * 40}
    for count in range(1, len(board.commits)):
        again = reread(board, count)
        for one in board.commits[count:]:
            again.put(one)
        assert again.document() == board.document()
    away = structs.replace(made, profile=newer, available=False, expected_ref="b" * 40)
    board.say("deployment", [away], make.ADMINISTRATOR)
    board.submit([work("d")])
    assert board.plan(9).winners == []
    for key in "bc":
        board.settle(key)


# --- pauses, credentials --------------------------------------------------------------------------


def test_operational_controls() -> None:
    """On a board in full swing: a pause stops what is new, a rotation what was read before; turns,
    places and whatever has to be closed go on."""
    board = Ledger([work(key) for key in "abc"] + [work("g", gates=[make.issue_gate()])])
    board.observe(make.observation("o1", make.issue_gate(), board.at))
    board.grant(2)
    board.bind("a")
    clocks, pool = board.projection.clocks, board.projection.pools["default"]
    board.control("grants_paused", True)
    board.control("admission_paused", True)
    board.control("credential_generation", "second")
    assert board.projection.clocks == clocks
    assert (pool.open_claims, pool.unreleased) == (2, 2)
    assert board.plan(9).stop.reason == "grants_paused"
    assert refused(board.submit, [work("d")]).code == "admission_paused"
    assert refused(board.start, "b").code == "grants_paused"
    # Closing, delivering and recovering need no resume.
    board.finish("a")
    board.verify("a")
    board.release(board.group("a"), "terminal_run")
    board.release(board.group("b"), "prelaunch", board.cancellations("b"))
    board.cancel_work("c")
    assert (pool.open_claims, pool.unreleased) == (0, 0)
    board.control("grants_paused", False)
    board.control("admission_paused", False)
    # b pauses before its next attempt; the gate wants to be read with the new credential.
    assert board.plan(9).stop.reason == "no_eligible_work"
    board.observe(
        make.observation("o2", make.issue_gate(), board.at, credential_generation="second")
    )
    board.submit([work("d")])
    assert board.grant(9) == ["g", "d"]


def test_operational_controls_by_the_command_line(person: Person) -> None:
    person.submit(plan("a", "b"))
    person.ask("dispatch")
    clocks = person.ask("ledger", "replay")["clocks"]
    for what in ("grants", "admission"):
        person.done("pause", what, "--reason", "rest")
    person.done("rotate-credentials", "second", "--reason", "yearly")
    assert person.call("dispatch").status == 3
    error = person.call("submit", "-", "--json", stdin=plan("c")).error
    assert error["code"] == "admission_paused"
    person.done("cancel", "b", "--reason", "not_needed")
    state = person.ask("ledger", "replay")
    assert (state["clocks"], state["credential_generation"]) == (clocks, "second")
    for what in ("grants", "admission"):
        person.done("resume", what, "--reason", "rested")
    person.submit(plan("c"))
    assert person.ask("dispatch")["claims"][0]["node_key"] == "c"
    person.done("rotate-credentials", "third", "--reason", "yearly")
    error = person.call("rotate-credentials", "second", "--reason", "again", "--json").error
    assert error["code"] == "credential_generation_reused"


# --- limits ---------------------------------------------------------------------------------------


def test_resource_limits(person: Person) -> None:
    """Each limit refuses before anything is written, and names what it counted."""
    frame = len('{"effect_contract":{"kind":"none"},"t":""}')
    refusals = {
        plan("a", payload={"t": "x" * (16_385 - frame)}): "payload_limit",
        plan(*(f"n{n}" for n in range(4_097))): "graph_limit",
        plan(*(f"n{n}" for n in range(256))): "plan_too_large",
        json.dumps({"graph": "g", "nodes": [
            *({"key": f"n{n}", "payload": {}} for n in range(65)),
            {"key": "join", "payload": {}, "after": [f"n{n}" for n in range(65)]},
        ]}): "plan_invalid",
        json.dumps({"graph": "g", "nodes": [
            *({"key": f"n{n}", "payload": {}} for n in range(12)),
            {"key": "join", "payload": {}, "after": [f"n{n}" for n in range(12)]},
        ]}): "assignment_limit",
    }  # fmt: skip
    for text, code in refusals.items():
        error = person.call("submit", "-", "--json", stdin=text).error
        assert error["code"] == code
        assert any(letter.isdigit() for letter in error["message"])
    assert person.tip is None
    person.submit(plan("a", payload={"t": "x" * (16_384 - frame)}))


def test_resource_limits_keep_room_to_close() -> None:
    """With runs under way a board is filled until it takes no more. Then all that is open is ended,
    within the room that was never given to new nodes."""
    limits = make.limits(ledger_bytes=200_000, recovery_bytes=2_000_000)
    once = make.pool(retry=records.Retry(max_attempts=1, backoff_ms=1))
    board = Ledger(
        [work(f"n{n}") for n in range(5)], make.policy(limits=limits, pools={"default": once})
    )
    assert board.grant(5) == [f"n{n}" for n in range(5)]
    number = 0
    error: CallboardError | None = None
    while error is None:
        number += 1
        try:
            board.submit([work(f"more{number}", graph=f"g{number}")])
        except CallboardError as caught:
            error = caught
    assert error.code == "ledger_limit"
    assert number > 10
    assert board.projection.ledger_bytes < 200_000
    for key in ("n0", "n1"):
        board.settle(key)
    for key in ("n2", "n3", "n4"):
        board.start(key)
        board.release(board.group(key), "nonlaunch", board.cancellations(key))
    for state in list(board.projection.works.values()):
        if state.state == "available":
            gone = ops.WorkCancellation(work_id=state.work.work_id, reason="closing")
            board.say("cancel_work", [gone], make.PRODUCER)
    assert (board.projection.reserve_bytes, board.projection.counters.unreleased) == (0, 0)
    assert {state.state for state in board.projection.works.values()} == {"completed", "cancelled"}
