"""Derived identities: the same content gives the same name everywhere."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from callboard.board.protocol import identities
from callboard.board.protocol import operations as ops
from callboard.board.protocol.commit import FinishParameters
from tests.board import building as make


def sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def test_a_work_is_named_by_its_place() -> None:
    assert identities.work_id("g", "\u00e9") == sha('{"graph_id":"g","node_key":"\u00e9"}')
    assert identities.work_id("a", "b") != identities.work_id("b", "a")
    assert identities.work_id("ab", "c") != identities.work_id("a", "bc")


def test_an_independent_root_is_named_by_its_payload() -> None:
    assert identities.root_graph_id({"b": 1, "a": [None]}) == sha('{"a":[null],"b":1}')
    assert identities.ROOT_NODE_KEY == "root"


def test_commits_claims_and_groups_are_named_by_the_request() -> None:
    assert identities.commit_id(None, "r") == "q_" + sha("r")
    assert identities.commit_id("q_1", "r") == "q_" + sha("q_1\nr")
    assert identities.claim_id("r\u00e9", 256) == "c_" + sha("r\u00e9") + "_256"
    assert identities.dispatch_id("r", 1) == "d_" + sha("r") + "_1"
    assert identities.handle(16) == "h16"
    assert identities.epoch_id("r") == "p_" + sha("r")


def test_a_fingerprint_says_who_asks_for_what() -> None:
    actor = ops.Actor(role="producer", principal="7", repository="o/r")
    parameters = FinishParameters(dispatch_id="d", claim_handle="h1", outcome="completed")
    expected = sha(
        '{"actor":{"principal":"7","repository":"o/r","role":"producer"},"kind":"finish",'
        '"parameters":{"claim_handle":"h1","dispatch_id":"d","outcome":"completed"}}'
    )
    assert identities.fingerprint(actor, "finish", parameters) == expected


@pytest.mark.parametrize(
    "changes",
    [{"repository": "other/name"}, {"host": "github.com"}],
)
def test_display_coordinates_do_not_make_another_gate(changes: dict[str, Any]) -> None:
    gate = make.issue_gate()
    moved = ops.IssueDependency(resource=make.resource(**changes), condition="completed")
    assert identities.gate_identity(moved) == identities.gate_identity(gate)


@pytest.mark.parametrize(
    "other",
    [
        make.issue_gate(condition="closed"),
        make.issue_gate(8),
        ops.IssueDependency(resource=make.resource(host="git.example.org"), condition="completed"),
        ops.IssueDependency(resource=make.resource(repository_id="R_2"), condition="completed"),
        ops.PullRequestDependency(resource=make.resource(kind="pull_request"), condition="merged"),
    ],
)
def test_ids_and_condition_make_another_gate(other: ops.Gate) -> None:
    assert identities.gate_identity(other) != identities.gate_identity(make.issue_gate())


def test_a_gate_identity_is_canonical_text() -> None:
    assert identities.gate_identity(make.issue_gate()) == (
        '{"condition":"completed","host":"github.com","kind":"issue",'
        '"repository_id":"R_1","resource_id":"I_7"}'
    )
    seen = make.observation("o", make.issue_gate(), 1)
    assert identities.gate_identity(seen) == identities.gate_identity(make.issue_gate())
