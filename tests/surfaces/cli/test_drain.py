"""`callboard drain` and `cutover check`: what they say, and how they end, where nothing runs."""

from __future__ import annotations

import json

from tests.surfaces.cli.conftest import Person

REVISED = """\
graph: campaign-x
nodes:
- {key: r1/prepare, payload: {}}
- {key: r1/analyze, payload: {}, after: [r1/prepare]}
- {key: report, payload: {}, after: [r1/analyze]}
"""


def test_without_a_board_there_is_nothing_to_drain(person: Person) -> None:
    for words in (["drain"], ["drain", "--check"], ["cutover", "check", "--graph", "x"]):
        assert person.call(*words, "--json").error["code"] == "queue_missing"
    assert person.tip is None


def test_a_board_at_rest_is_drained_at_once(person: Person) -> None:
    person.submit()
    found = person.call("drain", "--check", "--json")
    assert (found.status, found.json["drained"], found.json["count"]) == (3, False, 0)
    answer = person.done("drain")
    assert answer.stdout.splitlines()[0] == "drained: nothing is in flight"
    assert answer.stdout.splitlines()[-1] == "next: callboard resume grants --reason CODE"
    assert answer.stderr == ""
    assert person.ask("status")["paused"] == {"admission": False, "grants": True}
    tip = person.tip
    document = person.ask("drain")
    assert (document["ending"], document["left"], document["handed_back"]) == ("drained", [], [])
    assert document["pauses"]["grants"]["reason"] == "drain"
    assert person.tip == tip


def test_a_pause_that_stands_is_kept_with_its_reason(person: Person) -> None:
    person.submit()
    person.done("pause", "grants", "--reason", "incident")
    document = person.ask("drain", "--reason", "upgrade", "--admission")
    reasons = {what: said["reason"] for what, said in document["pauses"].items()}
    assert reasons == {"grants": "incident", "admission": "upgrade"}


def test_a_look_says_what_a_drain_would_need(person: Person) -> None:
    person.submit()
    spoken = person.call("drain", "--check")
    assert spoken.status == 3
    assert spoken.stdout.splitlines() == ["not drained", "grants: open", "next: callboard drain"]
    person.done("drain")
    person.done("drain", "--check")
    spoken = person.call("drain", "--check", "--admission")
    assert spoken.status == 3
    assert spoken.stdout.splitlines()[-1] == "next: callboard drain --admission"
    before = person.ledger
    person.done("drain", "--check")
    assert person.ledger == before


def test_the_pauses_of_a_named_drain_are_requests_of_their_own(person: Person) -> None:
    person.submit()
    person.ask("drain", "--request-id", "d1", "--admission")
    requests = [one["request_id"] for one in person.ask("ledger", "log")["commits"]]
    assert requests[-2:] == ["d1.admission", "d1.grants"]
    person.done("resume", "grants", "--reason", "over")
    # The request stands, so that nothing is paused anew.
    again = person.call("drain", "--request-id", "d1", "--admission", "--json")
    assert (again.status, again.json["ending"]) == (3, "resumed")


def test_what_cannot_be_meant_is_refused(person: Person) -> None:
    person.submit()
    for words in (
        ["drain", "--check", "--reason", "x"],
        ["drain", "--check", "--timeout", "5"],
        ["drain", "--check", "--request-id", "r"],
        ["drain", "--timeout", "-1"],
        ["drain", "--timeout", "soon"],
        ["cutover", "check"],
        ["cutover", "check", "--graph", "sdk", "--old", ""],
    ):
        assert person.call(*words).status == 2, words
    assert person.call("drain", "--reason", "no spaces", "--json").error["code"] == "reason_invalid"
    assert not person.ask("status")["paused"]["grants"]


def test_a_cutover_is_told_step_by_step(person: Person) -> None:
    person.submit(REVISED)
    check = ["cutover", "check", "--graph", "campaign-x", "--old", "r1/"]
    answer = person.call(*check)
    assert answer.status == 3
    assert answer.stdout.splitlines() == [
        "cutover pending: graph campaign-x, keys r1/*: 4 things in its way",
        "2 old nodes: 1 ready, 1 waiting",
        "  admission: not paused",
        "    next: callboard pause admission --reason cutover",
        "  grants: not paused",
        "    next: callboard pause grants --reason cutover",
        "  r1/prepare: ready",
        "    next: callboard cancel r1/prepare --reason superseded",
        "  r1/analyze: waiting",
        "    next: callboard cancel r1/analyze --reason superseded",
    ]
    person.done("drain", "--admission")
    person.done("cancel", "r1/prepare", "r1/analyze", "--reason", "superseded")
    found = person.call(*check, "--json")
    assert found.status == 3
    assert [one["cause"] for one in found.json["violations"]] == ["r1/analyze"]
    person.done("cancel", "report", "--reason", "superseded")
    assert person.done(*check).stdout.splitlines()[0] == (
        "cutover complete: graph campaign-x, keys r1/*: 2 cancelled"
    )
    assert person.ask("cutover", "check", "--graph", "campaign-x")["nodes"]["count"] == 3


def test_graphs_and_prefixes_that_are_not_there_are_refused(person: Person) -> None:
    person.submit(REVISED)
    error = person.call("cutover", "check", "--graph", "campaign-y", "--json").error
    assert error["code"] == "cutover_graph_unknown"
    assert "campaign-x" in error["message"]
    error = person.call("cutover", "check", "--graph", "campaign-x", "--old", "r9/", "--json").error
    assert (error["code"], error["details"]["prefix"]) == ("cutover_nothing_old", "r9/")


def test_keys_in_any_writing_are_found_and_shown_plainly(person: Person) -> None:
    keys = ["\u65e7\u7248/a", "\u202eevil/b"]
    plan = {"graph": "g", "nodes": [{"key": key, "payload": {}} for key in keys]}
    person.submit(json.dumps(plan))
    answer = person.call("cutover", "check", "--graph", "g", "--old", "\u65e7")
    assert (answer.status, "  \u65e7\u7248/a: ready" in answer.stdout) == (3, True)
    answer = person.call("cutover", "check", "--graph", "g", "--old", "\u202e")
    assert "\u202e" not in answer.stdout
    assert "\\u202eevil/b: ready" in answer.stdout


def test_two_thousand_nodes_are_bounded_in_the_text_and_in_the_document(person: Person) -> None:
    person.configure("[work_queue]\nretry = {max_attempts = 1, backoff_seconds = 1}\n")
    nodes = [{"key": f"r1/{number:04}", "payload": {}} for number in range(2_000)]
    person.done("submit", "-", "--split", stdin=json.dumps({"graph": "g", "nodes": nodes}))
    found = person.call("cutover", "check", "--graph", "g", "--json").json
    assert (found["count"], len(found["violations"])) == (2_002, 100)
    said = person.call("cutover", "check", "--graph", "g").stdout.splitlines()
    assert said[-1] == "  and 1992 more"
    assert person.ask("drain")["drained"]
