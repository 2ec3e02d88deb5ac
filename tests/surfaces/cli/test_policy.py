"""What HEAD's recipes and settings would install is refused alike by the check and by the start."""

from __future__ import annotations

import json

import pytest

from tests.surfaces.cli.conftest import PLAN, RECIPE, Person

BOTH = (["policy", "check"], ["submit", "-"])


def workers(person: Person, **files: str) -> None:
    folder = person.folder / ".callboard" / "workers"
    for name, text in files.items():
        (folder / f"{name}.toml").write_text(text)
    person.configure("")


def test_a_faulty_recipe_keeps_a_board_from_beginning_without_it(person: Person) -> None:
    workers(person, default='command = "make"\n', zz=RECIPE)
    for words in BOTH:
        answer = person.call(*words, "--json", stdin=PLAN)
        assert (answer.status, list(answer.json)) == (1, ["error"])
        error = answer.json["error"]
        assert error["code"] == "recipe_invalid"
        assert error["message"].startswith(".callboard/workers/default.toml: /command: is 'make'")
        assert error["details"]["workers"] == ["default"]
        assert [one["pointer"] for one in error["details"]["faults"]] == ["/command"]
        spoken = person.call(*words, stdin=PLAN)
        assert (spoken.status, spoken.stdout) == (1, "")
    assert person.tip is None
    workers(person, default=RECIPE)
    person.submit()
    policy = person.ask("policy", "show")["policy"]
    assert policy["pools"]["default"]["default_profile"] == "default"


def test_every_faulty_recipe_is_named(person: Person) -> None:
    workers(person, aa="timeout_s = true\n", zz="x", **{"my worker": RECIPE})
    for words in BOTH:
        error = person.call(*words, "--json", stdin=PLAN).error
        assert error["code"] == "recipe_invalid"
        assert error["details"]["workers"] == ["aa", "my worker", "zz"]
        places = [one["pointer"] for one in error["details"]["faults"]]
        assert places == ["/aa/command", "/aa/timeout_s", "/my worker", "/zz"]
        spoken = person.call(*words, stdin=PLAN).stderr
        assert "/aa/timeout_s: is true, not an integer 1..86400" in spoken


def test_a_faulty_recipe_pauses_its_own_worker_and_nobody_else(person: Person) -> None:
    workers(person, steady=RECIPE)
    person.submit()
    workers(person, default="x", other="y")
    more = {
        "graph": "h",
        "nodes": [{"key": "x", "payload": {}}, {"key": "y", "payload": {}, "profile": "steady"}],
    }
    receipt = person.ask("submit", "-", stdin=json.dumps(more))
    assert {node["node_key"]: node["reason"] for node in receipt["nodes"]} == {
        "x": "worker_unavailable",
        "y": "ready",
    }
    granted = person.ask("dispatch", "--max-claims", "9")
    assert [claim["node_key"] for claim in granted["claims"]] == ["y"]
    workers(person, default=RECIPE)
    granted = person.ask("dispatch", "--max-claims", "1")
    assert granted["granted_claims"] == 1
    workers(person, default="x")
    assert person.call("policy", "check", "--json").error["code"] == "recipe_invalid"
    unknown = {"graph": "i", "nodes": [{"key": "x", "payload": {}, "profile": "other"}]}
    error = person.call("submit", "-", "--json", stdin=json.dumps(unknown)).error
    assert error["code"] == "plan_invalid"
    assert error["hint"].startswith("other.toml is newer than this board")


@pytest.mark.parametrize("text", [RECIPE, "x"])
def test_too_many_recipes_are_refused_alike(person: Person, text: str) -> None:
    # The starter is the 257th.
    workers(person, **{f"w{number}": text for number in range(256)})
    for words in BOTH:
        error = person.call(*words, "--json", stdin=PLAN).error
        assert error["code"] == "config_invalid"
        assert error["details"] == {"count": 257, "limit": 256}
        assert "257" in error["message"]
    assert person.tip is None


def test_as_many_recipes_as_are_allowed_begin_a_board(person: Person) -> None:
    workers(person, **{f"w{number}": RECIPE for number in range(255)})
    person.ask("policy", "check")
    person.submit()
    assert len(person.ask("policy", "show")["policy"]["pools"]["default"]["profiles"]) == 256
