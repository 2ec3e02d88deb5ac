"""Issues and pull requests that nodes wait for, as ledgers of hosts that have them say it.

Nothing here can ask such a host, so plans that name one are refused; a ledger that was written
where there is one is read, judged and explained by the same rules.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec import UNSET, structs

from callboard.board.ledger.history import History
from callboard.board.protocol import operations as ops
from callboard.board.scheduling.explanation import Explainer
from tests.acceptance.rereading import begun
from tests.board import building as make
from tests.board.boards import Board
from tests.board.building import refused, work
from tests.surfaces.cli.conftest import Person

ISSUE, MERGE = make.issue_gate(), make.merge_gate()


def reason(board: Board, key: str = "a") -> str:
    """Why the node stands where it stands."""
    return Explainer(board.projection, board.at).standing(make.work_id(key)).reason


def seen(identity: str, gate: ops.Gate, board: Board, **changes: Any) -> None:
    """Note what was seen of a gate, now."""
    board.observe(make.observation(identity, gate, board.at, **changes))


def test_typed_foreign_resources(person: Person) -> None:
    """Kind, host and ids must be those of the gate, however it is called; it grants no right."""
    board = Board([work("a", gates=[ISSUE])])
    other = ISSUE.resource
    strangers = [
        structs.replace(other, host="git.example.org"),
        structs.replace(other, repository_id="R_2"),
        structs.replace(other, resource_id="I_8"),
    ]
    for number, resource in enumerate(strangers):
        seen(f"o{number}", ISSUE, board, resource=resource)
        assert reason(board) == "external_unavailable", resource
        assert board.plan().winners == []
    renamed = structs.replace(other, repository="example/renamed")
    seen("renamed", ISSUE, board, resource=renamed)
    assert reason(board) == "ready"
    mistaken = structs.replace(other, kind="pull_request")
    said = make.observation("kind", ISSUE, board.at, resource=mistaken)
    assert refused(board.observe, said).code == "observation_invalid"
    outside = structs.replace(other, repository="example/elsewhere")
    gate = structs.replace(ISSUE, resource=outside)
    assert refused(board.submit, [work("b", gates=[gate])]).code == "repository_not_allowed"
    merge = structs.replace(MERGE, resource=structs.replace(MERGE.resource, kind="issue"))
    assert refused(board.submit, [work("b", gates=[merge])]).code in (
        "record_invalid", "work_invalid"
    )  # fmt: skip
    # From here nobody could look at them, so no plan may have them.
    for field in ("gates", "subject"):
        node = {"key": "a", "payload": {}, field: [{"issue": 7}] if field == "gates" else {}}
        text = json.dumps({"graph": "g", "nodes": [node]})
        error = person.call("submit", "-", "--json", stdin=text).error
        assert error["code"] == "resource_unverified"
    # Reading an issue of the library allows no effect there.
    seen("ready", ISSUE, board)
    board.grant()
    assert board.group("a").profile.effect_scope == make.REPOSITORY


CLOSED = make.issue_gate(condition="closed")
NOT_PLANNED = {"state": "failed", "state_reason": "not_planned"}
OPEN: dict[str, Any] = {"state": "waiting", "resource_state": "open", "state_reason": UNSET}
UNMERGED: dict[str, Any] = {"state": "failed", "merged": False, "merge_commit": UNSET}
UNKNOWN: dict[str, Any] = {"state": "unknown"}


@pytest.mark.parametrize(
    ("gate", "changes", "expected"),
    [
        (ISSUE, {}, "ready"),
        (CLOSED, {"state_reason": "not_planned"}, "ready"),
        (MERGE, {}, "ready"),
        (ISSUE, NOT_PLANNED, "external_wait"),
        (ISSUE, OPEN, "external_wait"),
        (MERGE, UNMERGED, "external_wait"),
        (ISSUE, {**UNKNOWN, "read_status": "timeout"}, "external_unavailable"),
        (MERGE, {**UNKNOWN, "merged": UNSET, "merge_commit": UNSET}, "external_unavailable"),
    ],
)
def test_github_conditions(gate: ops.Gate, changes: dict[str, Any], expected: str) -> None:
    board = Board([work("a", gates=[gate])])
    assert reason(board) == "external_unavailable"
    seen("o1", gate, board, **changes)
    assert reason(board) == expected
    assert bool(board.plan().winners) is (expected == "ready")
    # What is too old says nothing any more, whatever it said.
    board.pass_ms(60_001)
    assert board.plan().winners == []
    assert reason(board) == ("observation_stale" if expected == "ready" else expected)


def test_github_conditions_must_fit_what_was_read() -> None:
    """An observation cannot say that a gate is open of what does not open it."""
    board = Board([work("a", gates=[ISSUE]), work("b", gates=[MERGE])])
    lies: list[tuple[ops.Gate, dict[str, Any]]] = [
        (ISSUE, {"state_reason": "not_planned"}),
        (ISSUE, {"resource_state": "open"}),
        (ISSUE, {"read_status": "timeout"}),
        (MERGE, {"merged": False}),
        (MERGE, {"merge_commit": UNSET}),
    ]
    for number, (gate, changes) in enumerate(lies):
        made = make.observation(f"o{number}", gate, board.at, **changes)
        assert refused(board.observe, made).code == "observation_invalid", changes
    assert board.plan(9).winners == []


def test_mutable_observations() -> None:
    """An issue that is opened again shuts the gate for who comes next. A Claim names what it was
    granted on, by id and time, and goes on."""
    board = Board([work("a", gates=[ISSUE]), work("b", gates=[ISSUE])])
    seen("o1", ISSUE, board)
    first_seen = board.at
    assert board.grant() == ["a"]
    claim = board.projection.claims[str(board.work("a").claim_id)].claim
    assert claim.observations == ["o1"]
    board.pass_ms(10)
    seen("o2", ISSUE, board, **OPEN)
    assert (reason(board, "b"), board.plan().winners) == ("external_wait", [])
    board.settle("a")
    assert board.work("a").barrier == "verified"
    board.pass_ms(10)
    seen("o3", ISSUE, board)
    assert board.grant() == ["b"]
    again = History.read(begun(board)).projection
    found = {one.observation_id: one.observed_at for one in again.observation_ids.values()}
    assert found == {"o1": first_seen, "o2": first_seen + 10, "o3": first_seen + 20}
    claims = [state.claim.observations for state in again.claims.values()]
    assert claims == [["o1"], ["o3"]]
    # One that is read with a credential that was replaced opens nothing.
    board.submit([work("c", gates=[ISSUE])])
    board.control("credential_generation", "second")
    assert reason(board, "c") == "observation_stale"
