"""One request, one outcome: repeated it is answered again, and nobody else learns of it."""

from __future__ import annotations

import json

from tests.project.contract.stores import Opened
from tests.project.world import refused


def test_a_repeated_request_gets_the_first_answer(opened: Opened) -> None:
    first = opened.project.sessions.start("A", "codex", claim=True, ttl_ms=500, request_id="r1")
    opened.clock.advance(10_000)
    again = opened.open().sessions.start("A", "codex", claim=True, ttl_ms=500, request_id="r1")
    assert again == first
    # What has become of it since is another question.
    claim = opened.project.claims.show("A").claim
    assert claim is not None
    assert claim.state == "expired"


def test_the_order_of_keys_is_no_other_intent(opened: Opened) -> None:
    append = opened.project.events.append
    first = append("note.taken", {"a": 1, "b": {"c": [1, 2], "d": None}}, request_id="r1")
    again = append("note.taken", {"b": {"d": None, "c": [1, 2]}, "a": 1}, request_id="r1")
    assert again == first
    with refused("request_conflict"):
        append("note.taken", {"a": 1, "b": {"c": [2, 1], "d": None}}, request_id="r1")


def test_the_expected_revision_is_no_part_of_it(opened: Opened) -> None:
    seen = opened.project.info().revision
    first = opened.project.branches.create("side", expected_revision=seen, request_id="r1")
    again = opened.project.branches.create("side", expected_revision=seen, request_id="r1")
    assert again == first
    again = opened.project.branches.create("side", expected_revision=seen + 1, request_id="r1")
    assert again == first


def test_another_intent_is_refused_and_changes_nothing(opened: Opened) -> None:
    project = opened.project
    first = project.branches.create("side", request_id="r1")
    before = project.info()
    with refused("request_conflict") as found:
        project.branches.create("other", request_id="r1")
    assert found.value.details == {
        "request_id": "r1",
        "operation": "branch create",
        "revision": first.project_revision,
    }
    with refused("request_conflict"):
        project.branches.select("side", request_id="r1")
    assert project.info() == before


def test_another_actor_learns_nothing(opened: Opened) -> None:
    mine = opened.open(actor="ann")
    mine.events.append("note.taken", {"secret": "pearl"}, request_id="r1")
    other = opened.open(actor="bob")
    for body in ({"secret": "pearl"}, {"secret": "other"}):
        with refused("request_conflict") as found:
            other.events.append("note.taken", body, request_id="r1")
        assert found.value.details == {"request_id": "r1"}
        told = json.dumps(found.value.document())
        assert "pearl" not in told
        assert "ann" not in told
        assert "append" not in told
    with refused("not_found"):
        other.receipts.show("r1")
    assert mine.receipts.show("r1").receipt.operation == "event append"


def test_a_refused_request_may_be_asked_again(opened: Opened) -> None:
    project = opened.project
    holder = project.sessions.start("A", "codex", claim=True).session.id
    with refused("claim_held"):
        project.sessions.start("A", "claude", claim=True, request_id="r1")
    project.claims.release(holder)
    answer = project.sessions.start("A", "claude", claim=True, request_id="r1")
    assert answer.claim is not None
    shown = project.receipts.show("r1")
    assert shown.project_revision == answer.project_revision
    receipt = shown.receipt
    assert receipt.revision == answer.project_revision
    assert receipt.outcome["session"]["id"] == answer.session.id


def test_a_request_id_is_a_plain_name(opened: Opened) -> None:
    for wrong in ("", "a b", "-x", "x" * 129, "a\n", "ä"):
        with refused("request_id_invalid"):
            opened.project.branches.create("side", request_id=wrong)
