"""Ledgers read again: anywhere, in any order, bit by bit, from a checkpoint, they mean the same."""

from __future__ import annotations

import hashlib
import json
import random
from pathlib import Path
from typing import Any

import pytest

from callboard.board.board import Accepted
from callboard.board.ledger.history import History
from callboard.board.projection.document import state_document
from callboard.board.protocol import commit as wire
from callboard.board.protocol import operations as ops
from callboard.board.reading.decisions import before_claim
from callboard.board.reading.view import View
from callboard.errors import CallboardError
from tests.acceptance.desk import Desk
from tests.acceptance.rereading import reread
from tests.board import building as make
from tests.board.boards import Board
from tests.board.building import refused, work
from tests.golden.expected import FOLDER as GOLDEN
from tests.surfaces.cli.conftest import Person

# Sorted as UTF-8; in UTF-16 the last two would change places.
NAMES = ["", "Z", "z", "é", "\u2028", "\uffee", "😀"]


def golden(name: str) -> tuple[bytes, dict[str, Any]]:
    """A ledger on file and what was recorded of it."""
    recorded: dict[str, Any] = json.loads((GOLDEN / f"{name}.json").read_text())
    return (GOLDEN / f"{name}.jsonl").read_bytes(), recorded


def spelled(value: object) -> bytes:
    """Canonical JSON by the standard library alone: code points sort as UTF-8 does."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True).encode()


# --- anywhere -------------------------------------------------------------------------------------


def test_cross_language_parity(person: Person) -> None:
    """Bytes, sorting and passes by values written down here, digests by those on file."""
    document = {name: number for number, name in enumerate(reversed(NAMES))}
    said = json.dumps(document)
    answer = person.done("ledger", "canonical", stdin=said).stdout
    assert answer == ('{"":6,"Z":5,"z":4,"é":3,"\u2028":2,"\uffee":1,"😀":0}\n')
    data, recorded = golden("unicode")
    lines, digest = recorded["states"][-1]
    state = person.ask("ledger", "replay", "-", stdin=data)
    assert lines == data.count(b"\n")
    assert hashlib.sha256(spelled(state)).hexdigest() == digest
    # Weights 1, 2, 3, 5, 7 have the scale 210; each key was served once, at its first pass.
    clock = state["clocks"]["プール"]["keys"]["3"]
    assert clock["pass"] == {
        "\u2028": "60", "😀": "84", "\uffee": "140", "é": "210", "": "420"
    }  # fmt: skip
    assert clock["v"] == "210"
    # Where passes are equal, bytes decide.
    keys = make.batching(accounting_weights=dict.fromkeys(["", *NAMES], 1))
    equal = Board([work(f"n{n}", account=name) for n, name in enumerate(reversed(NAMES))], keys)
    order = [equal.work(key).work.fairness_key for key in equal.grant(len(NAMES))]
    assert order == NAMES


@pytest.mark.parametrize("name", ["unicode", "plain", "github", "history-long", "foreign-ids"])
def test_cross_language_parity_of_ledgers(person: Person, name: str) -> None:
    """Each line, and the state that the lines mean, as a reader of another make spells them."""
    data, recorded = golden(name)
    for line in data.splitlines():
        assert spelled(json.loads(line)) == line
    state = person.ask("ledger", "replay", "-", stdin=data)
    assert hashlib.sha256(spelled(state)).hexdigest() == recorded["states"][-1][1]


def test_cross_language_parity_of_vectors(person: Person, vectors: Path | None) -> None:
    """Spellings that others have fixed, where there are any, through the command line."""
    found = (
        []
        if vectors is None
        else json.loads((vectors / "canonical.json").read_text("utf-8"))["valid"]
    )
    for case in found:
        answer = person.done("ledger", "canonical", stdin=case["input"].encode())
        assert answer.stdout == case["expected"] + "\n", case["name"]
    assert vectors is None or len(found) >= 8


# --- again ----------------------------------------------------------------------------------------


def contest() -> Board:
    """Three keys of weights 3, 2, 1, granted one, then four, then two at a time."""
    document = make.batching(accounting_weights={"": 1, "a": 3, "b": 2, "c": 1})
    nodes = [work(f"{key}{n}", account=key) for n in range(4) for key in "abc"]
    board = Board(nodes, document)
    for size in (1, 4, 2):
        board.grant(size)
    return board


# Passes 1/3, 1/2, 1: a, b, a, then a, b, c meet at 1, and a at 4/3.
TURNS = ["a0", "b0", "a1", "a2", "b1", "c0", "a3"]


def test_commit_replay() -> None:
    """From each prefix follow the next choice and its explanation; another choice is no history."""
    board = contest()
    found: list[str] = []
    for number, one in enumerate(board.commits[1:], start=1):
        before = reread(board, number)
        claims = [each.claim_id for each in one.operations if isinstance(each, ops.Claim)]
        plan = before.plan(len(claims), request_id=one.request.id)
        assert [claim.claim_id for claim in plan.claims] == claims
        found += [winner.state.work.node_key for winner in plan.winners]
    assert found == TURNS
    history = History.read(board.data)
    view = View(history, board.at)
    told = [
        before_claim(view, claim, limit=9, offset=0) for claim in view.projection.claims.values()
    ]
    assert [one["winner"]["node_key"] for one in told] == TURNS
    # 6 is the scale of 3, 2 and 1: the passes at which each was served.
    passes = [one["winner"]["key_pass"] for one in told]
    assert passes == ["2", "3", "4", "6", "6", "6", "8"]
    swapped = list(board.plan(2, request_id="r").claims)[::-1]
    parameters = wire.DispatchNextParameters(
        pool="default", max_claims=2, max_dispatches=256, max_bytes=49_152
    )
    error = refused(
        board.say, "dispatch_next", swapped, make.DISPATCHER,
        parameters=parameters, request_id="r",
    )  # fmt: skip
    assert error.code == "selection_mismatch"


@pytest.mark.parametrize(
    ("name", "cause"),
    [
        ("fork", "fork"), ("second-root", "second_root"), ("cycle", "chain_cycle"),
        ("predecessor-missing", "predecessor_missing"), ("selection", "selection_mismatch"),
        ("short-selection", "selection_mismatch"), ("fingerprint", "fingerprint_mismatch"),
    ],
)  # fmt: skip
def test_commit_replay_of_what_is_no_history(person: Person, name: str, cause: str) -> None:
    data, recorded = golden(f"refused-{name}")
    answer = person.call("ledger", "verify", "-", "--json", stdin=data)
    assert answer.status == 1
    details = answer.json["error"]["details"]
    assert details["cause"] == cause
    assert (details["line"], details["byte"]) == (recorded["line"], recorded["byte"])


def test_compaction(desk: Desk) -> None:
    """A line for the whole state, in the place of the log: what stands, what was answered, and who
    is next are as before."""
    desk.commit("[work_queue.accounting_weights]\na = 3\nb = 2\n")
    for key in "ab":
        desk.post(*({"key": f"{key}{n}", "fairness_key": key} for n in range(20)))
    for number in range(6):
        assert desk.grant(request_id=f"r{number}")
    desk.cancel(*(f"b{n}" for n in range(8, 18)))
    before = state_document(desk.projection)
    lines = desk.data.count(b"\n")
    desk.board().checkpoint()
    assert desk.data.count(b"\n") < lines
    after = state_document(desk.projection)
    for name in ("works", "claims", "dispatches", "clocks", "policy", "cancellations"):
        assert after[name] == before[name], name
        assert before[name]
    again = desk.board().grant(request_id="r5", max_dispatches=256)
    assert isinstance(again, Accepted)
    assert again.replayed
    # Passes in sixths: a 2, b 3, a 4, a and b 6, a 8; then b 9, a 10, a and b 12.
    turns = ["a0", "b0", "a1", "a2", "b1", "a3", "b2", "a4", "a5", "b3"]
    assert desk.grant(4) == turns[6:]


@pytest.mark.parametrize("name", ["plain", "history-7", "history-long", "unicode", "replacement"])
def test_compaction_of_nothing_but_order(person: Person, name: str) -> None:
    """Lines in any order, some of them twice: the state, the answers and the next choice stay."""
    data, recorded = golden(name)
    chance = random.Random(8)
    rows = data.splitlines(keepends=True)
    mixed = rows + chance.choices(rows, k=5)
    chance.shuffle(mixed)
    state = person.ask("ledger", "replay", "-", stdin=b"".join(mixed))
    assert hashlib.sha256(spelled(state)).hexdigest() == recorded["states"][-1][1]
    pools = History.read(data).projection.pools
    for pool in pools:
        asked = ["ledger", "plan", "-", "--json", "--pool", pool, "--at-ms", "9000000000000",
                 "--max-claims", "5", "--max-dispatches", "5", "--request-id", "r"]  # fmt: skip
        straight, crooked = (person.call(*asked, stdin=one) for one in (data, b"".join(mixed)))
        assert (straight.status, straight.stdout) == (crooked.status, crooked.stdout)


@pytest.mark.parametrize("name", ["plain", "history-20", "gates", "deployment", "checkpoint"])
def test_incremental_replay(name: str) -> None:
    """Line by line, all at once, or after another ledger altogether: one meaning, one refusal."""
    data, recorded = golden(name)
    rows = data.splitlines(keepends=True)
    foreign = History.read(golden("batches")[0])
    kept = History()
    for count in range(1, len(rows) + 1):
        part = b"".join(rows[:count])
        kept = kept.continued(part)
        cold = spelled(state_document(History.read(part).projection))
        assert spelled(state_document(kept.projection)) == cold
        assert spelled(state_document(foreign.continued(part).projection)) == cold
    assert hashlib.sha256(cold).hexdigest() == recorded["states"][-1][1]
    # What is known of a shorter one, or of one that went another way, authorises nothing.
    stale = kept.continued(b"".join(rows[:-1]))
    assert stale.projection.tip != kept.projection.tip
    with pytest.raises(CallboardError, match="ledger_invalid"):
        kept.continued(data + rows[-1].replace(b'"version":3', b'"version":2'))
