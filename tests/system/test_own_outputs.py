"""A project's own output type in whole runs: the example package, with kills on the way."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from callboard.errors import CallboardError
from tests.board.outputs import zoo
from tests.own_outputs import install, install_example
from tests.repositories import git
from tests.system.machines import Machines
from tests.system.world import WORKER, World, make_world, recipe

ENTRY = "ledgerline.entry"
APPEND = "callboard.board.storage.git:GitStore.append"
HANDLER = "callboard.board.outputs.handlers.own:OwnHandler"
CONTRACT = {
    "version": 1,
    "outputs": [
        {
            "type": ENTRY,
            "min": 1,
            "max": 2,
            "verification": {"verifier_id": "ledgerline.amount", "expected": {"cents": 2000}},
        }
    ],
}
TWO = {ENTRY: {"min": 1, "max": 2}}


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The example and a broken handler, as installed for this process and the board's."""
    made = install_example(tmp_path / "site")
    points = {"callboard.outputs": {"zoo.dies": "zoo:Dies", "zoo.raises": "zoo:Raises"}}
    install(made, "zoo", Path(zoo.__file__).read_text(), points)
    monkeypatch.syspath_prepend(str(made))
    monkeypatch.setenv("PYTHONPATH", str(made))
    monkeypatch.setenv("LEDGERLINE_FOLDER", str(tmp_path / "books"))
    return made


@pytest.fixture
def books(tmp_path: Path) -> Path:
    return tmp_path / "books"


@pytest.fixture
def world(tmp_path: Path, site: Path) -> Iterator[World]:
    worker = recipe(WORKER, outputs=[ENTRY, "zoo.dies", "zoo.raises", "note"])
    made = make_world(tmp_path / "world", recipes={"default": worker})
    yield made
    made.end()


def book(amount: int) -> str:
    return f"own {ENTRY} " + json.dumps({"account": "travel", "amount": amount})


def node(key: str, *steps: str, contract: Any = None, **extra: Any) -> dict[str, Any]:
    payload = {"first": list(steps), "script": list(steps)}
    return {"key": key, "payload": payload, "contract": contract or TWO, **extra}


def booked(books: Path) -> list[int]:
    return sorted(json.loads(one.read_text())["amount"] for one in books.glob("*.json"))


def test_entries_are_booked_after_the_completion_and_verified(world: World, books: Path) -> None:
    world.submit(
        node("a", book(5), book(7), "completed"),
        node("given-up", book(11), "cancelled"),
        node("b", book(1), "completed", after=["a"]),
    )
    world.run()
    assert booked(books) == [1, 5, 7]
    result = world.works()["a"].result
    assert result is not None
    entries = dict(result)["outputs"]
    assert [(one["type"], one["output_type"]) for one in entries] == [("own", ENTRY)] * 2
    assert [one["data"]["amount"] for one in entries] == [5, 7]
    assert json.loads(git("cat-file", "blob", entries[0]["ref"], cwd=world.path))["amount"] == 5
    (begun,) = [line for line in world.journal if line["result_refs"]]
    assert begun["work_id"] == world.works()["b"].work.work_id
    world.check_settled()


@pytest.mark.parametrize(
    ("target", "when", "match"),
    [
        (APPEND, "before", "Completion"),
        (APPEND, "after", "Completion"),
        (f"{HANDLER}.prepare", "after", ""),
        (f"{HANDLER}.apply", "before", ""),
        (f"{HANDLER}.apply", "after", ""),
        (f"{HANDLER}.verify", "after", ""),
        ("callboard.board.outputs.own_call:ask", "after", "apply"),
        ("callboard.board.outputs.delivery:verify_delivery", "after", ""),
    ],
)
def test_a_kill_on_the_way_neither_loses_nor_doubles_an_entry(
    world: World, books: Path, target: str, when: str, match: str
) -> None:
    world.submit(node("a", book(5), "completed"))
    world.run(fault=world.fault(target, when, role="supervisor", match=match))
    assert world.file("killed").exists()
    world.run()
    assert booked(books) == [5]
    assert world.works()["a"].barrier == "verified"
    again = target.endswith("prepare") or (target, when) == (APPEND, "before")
    assert world.works()["a"].attempts == (2 if again else 1)
    world.check_settled()


def test_a_verifier_of_the_contract_can_withhold_the_result(world: World, books: Path) -> None:
    quick = CONTRACT
    world.submit(node("large", book(2001), "completed", contract=quick))
    world.submit(node("small", book(2000), "completed", contract=quick))
    with world.open() as board:
        assert board.history().projection.works
    world.run()
    works = world.works()
    assert works["small"].barrier == "verified"
    assert works["large"].barrier == "failed"
    assert works["large"].failure_reason == "verification_failed"
    # What was booked is booked: a verifier judges, it does not take anything back.
    assert booked(books) == [2000, 2001]


@pytest.mark.parametrize(
    ("step", "code"),
    [
        ('own zoo.dies {"die": "abort"}', "handler_failed"),
        ('own zoo.raises {"how": "exit"}', "handler_failed"),
        (f'own {ENTRY} {{"account": "travel", "amount": "5"}}', "output_refused"),
    ],
)
def test_a_broken_handler_ends_the_attempt_and_nothing_else(
    world: World, books: Path, step: str, code: str
) -> None:
    name = step.split()[1]
    world.submit(node("a", step, "completed", contract={name: 1}), node("b", book(3), "completed"))
    world.run()
    works = world.works()
    assert (works["a"].state, works["a"].attempts) == ("cancelled", 3)
    assert works["b"].barrier == "verified"
    assert booked(books) == [3]
    with world.open() as board:
        runs = board.site.folders.state / "runs"
        reports = [json.loads(one.read_text()) for one in runs.glob("*/report.json")]
    codes = [
        refusal["code"]
        for report in reports
        for claim in report["claims"]
        for refusal in claim["refusals"]
    ]
    assert codes == [code] * 3
    world.check_settled()


def test_an_effect_that_fails_is_given_up_within_bounds(world: World) -> None:
    world.submit(node("a", 'own zoo.raises {"say": "x"}', "completed", contract={"zoo.raises": 1}))
    world.run()
    state = world.works()["a"]
    assert (state.barrier, state.failure_reason) == ("failed", "handler_failed")
    world.check_nothing_open()


def test_work_that_nothing_here_could_deliver_is_not_admitted(world: World) -> None:
    with pytest.raises(CallboardError) as refused:
        world.submit(node("a", "completed", contract={"acme.ticket": 1}))
    assert refused.value.code == "output_not_declared"
    path = world.path / ".callboard" / "workers" / "default.toml"
    path.write_text(recipe(WORKER, outputs=["acme.ticket"]))
    git("commit", "-qam", "tickets", cwd=world.path)
    with pytest.raises(CallboardError) as refused:
        world.submit(node("a", "completed", contract={"acme.ticket": 1}))
    assert refused.value.code == "handler_missing"
    assert "'acme.ticket' in the group 'callboard.outputs'" in refused.value.message
    assert not os.path.exists(world.folders.state / "runs.sqlite3")


def test_what_a_handler_keeps_travels_with_the_board(tmp_path: Path, site: Path) -> None:
    points = {"callboard.outputs": {"zoo.good": "zoo:Good"}}
    install(site, "more", "", points)
    machines = Machines(tmp_path, recipes={"default": recipe(WORKER, outputs=["zoo.good"])})
    one, two = machines.all[0], machines.add("two")
    try:
        one.submit(node("a", 'own zoo.good {"say": "x"}', "completed", contract={"zoo.good": 1}))
        fault = one.fault(
            "callboard.board.publishing.lifecycle:deliver", "before", role="supervisor"
        )
        one.finish(one.start("dispatch", workers=1, fault=fault, environment=one.environment))
        one.wait_for(one.file("killed"))
        two.finish(two.start(environment=two.environment))
        state = two.works()["a"]
        assert state.barrier == "verified"
        folder = f"refs/callboard/own/{state.claim_id}"
        kept = {f"{folder}/kept-1", f"{folder}/zoo.good-001"}
        assert {ref for ref in machines.refs() if ref.startswith("refs/callboard/own/")} == kept
        assert git("cat-file", "blob", f"{folder}/kept-1", cwd=two.path) == "x"
    finally:
        machines.end()


def test_the_worker_cannot_bring_code_into_the_supervisor(world: World, books: Path) -> None:
    """What lies in the run's folder is never imported by whoever ends the run."""
    evil = f"import os; os.makedirs({str(world.root / 'evil')!r}, exist_ok=True)"
    steps = [
        f"plant ../ledgerline_outputs.py {evil}",
        f"plant ../tempfile.py {evil}",
        f"plant ../select.py {evil}",
        book(9),
        "completed",
    ]
    world.submit(node("a", *steps))
    world.run()
    assert booked(books) == [9]
    assert not (world.root / "evil").exists()
