"""Posting plans: what is accepted, what is refused, and that a refusal writes nothing."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.surfaces.cli.conftest import PLAN, Person

KEYS = "[work_queue.accounting_weights]\nsecurity = 1\nplatform = 1\n"


def plan(*nodes: dict[str, Any], **more: Any) -> str:
    full = [{"payload": {}, "key": f"n{number}", **node} for number, node in enumerate(nodes)]
    return json.dumps({"graph": "g", "nodes": full, **more})


def test_a_plan_is_posted_once(person: Person) -> None:
    first = person.submit(PLAN, "--request-id", "r1")
    assert (first["status"], first["replayed"], first["request_id"]) == ("submitted", False, "r1")
    assert [(one["node_key"], one["column"]) for one in first["nodes"]] == [
        ("inspect", "ready"),
        ("code", "waiting"),
        ("review", "waiting"),
    ]
    again = person.submit(PLAN, "--request-id", "r1")
    assert (again["replayed"], again["commit_id"]) == (True, first["commit_id"])
    other = person.submit(PLAN)
    assert (other["status"], other["commit_id"]) == ("already_submitted", None)
    assert len(other["nodes"]) == 3
    assert person.ledger.count(b"\n") == 1


def test_a_request_id_stands_for_one_request(person: Person) -> None:
    person.submit(PLAN, "--request-id", "r1")
    other = plan({})
    refused = person.call("submit", "-", "--request-id", "r1", "--json", stdin=other).error
    assert refused["code"] == "request_conflict"


def test_an_empty_request_id_is_not_taken_for_none(person: Person) -> None:
    person.submit()
    before = person.tip
    for words in (
        ["submit", "-"],
        ["submit", "-", "--split"],
        ["cancel", "review", "--reason", "x"],
        ["pause", "grants", "--reason", "x"],
        ["resume", "grants", "--reason", "x"],
        ["dispatch"],
        ["run", "--until-idle"],
    ):
        answer = person.call(*words, "--request-id", "", "--json", stdin=plan({}))
        assert answer.error["code"] == "request_id_invalid", words
    assert person.tip == before


def test_people_read_what_was_posted(person: Person, tmp_path: Path) -> None:
    file = tmp_path / "plan.yaml"
    file.write_text(PLAN)
    text = person.done("submit", file).stdout
    assert text.startswith("posted 3 nodes of graph sdk\n1 ready, 2 waiting\n")
    assert text.endswith("next: callboard run\n")
    assert person.done("submit", file).stdout.startswith("nothing new: 3 nodes")


def test_independent_nodes_need_no_names(person: Person) -> None:
    found = person.submit('{"nodes":[{"payload":{"task":1}},{"payload":{"task":2}}]}')
    assert {one["node_key"] for one in found["nodes"]} == {"root"}
    assert len({one["graph_id"] for one in found["nodes"]}) == 2


def test_a_graph_grows(person: Person) -> None:
    person.submit()
    found = person.submit("graph: sdk\nnodes:\n- {key: ship, payload: {}, after: [review]}\n")
    assert found["nodes"][0]["column"] == "waiting"
    clash = "graph: sdk\nnodes:\n- {key: ship, payload: {changed: true}, after: [review]}\n"
    assert person.call("submit", "-", "--json", stdin=clash).error["code"] == "work_conflict"


BAD_PLANS: dict[str, tuple[str | bytes, str, str]] = {
    "unknown field": (
        plan({"paylod": {}}),
        "plan_invalid",
        "unknown field; did you mean 'payload'",
    ),
    "wrong type": (plan({"priority": "high"}), "plan_invalid", "'high' is not an integer"),
    "priority out of range": (plan({"priority": 9}), "plan_invalid", "9 is outside 1..5"),
    "cycle": (
        plan({"after": ["n1"]}, {"after": ["n2"]}, {"after": ["n0"]}),
        "dependency_cycle",
        "'n0' -> 'n1' -> 'n2' -> 'n0'",
    ),
    "self": (plan({"after": ["n0"]}), "dependency_self", "'n0' depends on itself"),
    "missing predecessor": (plan({"after": ["m0"]}, {}), "plan_invalid", "no node 'm0'"),
    "duplicate predecessor": (plan({}, {"after": ["n0", "n0"]}), "plan_invalid", "stands twice"),
    "duplicate key": (plan({"key": "a"}, {"key": "a"}), "plan_invalid", "'a' stands twice"),
    "unknown profile": (
        plan({"profile": "defualt"}),
        "plan_invalid",
        "no worker profile 'defualt'; did you mean 'default'",
    ),
    "unknown fairness key": (
        plan({"fairness_key": "securty"}),
        "plan_invalid",
        "no fairness key 'securty'; did you mean 'security'",
    ),
    "unknown pool": (
        plan({}, defaults={"pool": "dfault"}),
        "plan_invalid",
        "did you mean 'default'",
    ),
    "payload": (
        plan(
            {"payload": {"t": "x" * (16_385 - len('{"effect_contract":{"kind":"none"},"t":""}'))}}
        ),
        "payload_limit",
        "16385 bytes",
    ),
    "predecessors": (
        plan(*[{}] * 65, {"after": [f"n{number}" for number in range(65)]}),
        "plan_invalid",
        "/nodes/65/after: 65 members, at most 64",
    ),
    "nodes": (plan(*[{}] * 4097), "graph_limit", "4097 nodes"),
    "nodes of one request": (plan(*[{}] * 256), "plan_too_large", "256 nodes"),
    "no nodes": (plan(), "plan_invalid", "0 members"),
    "nan": ('{"nodes":[{"payload":{"x":NaN}}]}', "invalid_json", "NaN"),
    "yaml nan": ("nodes:\n- payload: {x: .nan}\n", "noncanonical_number", "nan"),
    "fraction": ('{"nodes":[{"payload":{"x":1.5}}]}', "noncanonical_number", "1.5"),
    "huge number": (
        '{"nodes":[{"payload":{"x":9007199254740992}}]}',
        "noncanonical_number",
        "9007",
    ),
    "duplicate json key": ('{"nodes":[{"payload":{"id":1,"id":2}}]}', "duplicate_key", "'id'"),
    "escaped duplicate key": (
        '{"nodes":[{"payload":{"id":1,"\\u0069d":2}}]}',
        "duplicate_key",
        "'id'",
    ),
    "duplicate yaml key": ("nodes:\n- payload: {a: 1, a: 2}\n", "plan_invalid", "duplicate key"),
    "aliases": (
        "a: &a [x, x]\nb: &b [*a, *a]\nnodes: [*b, *b]\n",
        "plan_invalid",
        "anchors and aliases",
    ),
    "tags": ("nodes:\n- payload: !!python/none {}\n", "plan_invalid", "tag"),
    "date": ("nodes:\n- payload: {when: 2026-01-01}\n", "plan_invalid", "not a plain value"),
    "number as a key": ("nodes:\n- payload: {1: a}\n", "invalid_json", "key 1 is not a string"),
    "broken yaml": ("nodes: [\n", "plan_invalid", "line 2"),
    "broken json": ('{"nodes": [}', "invalid_json", "byte 11"),
    "deep json": ('{"nodes":' + "[" * 80, "resource_limit", "64 levels"),
    "deep yaml": ("nodes: " + "[" * 80, "plan_invalid", "64 levels"),
    "dots": (plan({"key": "../a"}), "plan_invalid", "'..'"),
    "dots in the graph": (plan({}, graph=".."), "plan_invalid", "'..'"),
    "control": (plan({"key": "a\u0007"}), "plan_invalid", "/nodes/0/key"),
    "nul": (plan({"key": "a\u0000b"}), "plan_invalid", "/nodes/0/key"),
    "dash": (plan({"key": "-rf"}), "plan_invalid", "starts with '-'"),
    "empty": (plan({"key": ""}), "plan_invalid", "/nodes/0/key"),
    "long": (plan({"key": "é" * 129}), "plan_invalid", "258 UTF-8 bytes"),
    "no utf-8": (b"nodes:\n- payload: {a: \xff}\n", "invalid_unicode", "byte 22"),
    "no utf-8 in json": (b'{"nodes":[{"payload":{"a":"\xff"}}]}', "invalid_unicode", "byte 27"),
    "surrogate": ('{"nodes":[{"payload":{"a":"\\ud800"}}]}', "invalid_unicode", "ud800"),
    "gate": (plan({"gates": [{"issue": 1}]}), "resource_unverified", "/nodes/0/gates"),
    "subject": (plan({"subject": {"issue": 1}}), "resource_unverified", "/nodes/0/subject"),
    "no plan": ("3", "plan_invalid", "3 is not an object"),
    "nothing": ("", "plan_invalid", "null is not an object"),
    "bad contract": (
        plan({"contract": {"artifact": "one"}}),
        "plan_invalid",
        "/nodes/0/contract",
    ),
    "large yaml": ("# " + "x" * (2 * 1024 * 1024), "resource_limit", "bytes of YAML"),
    "large json": ('{"nodes":"' + "x" * (16 * 1024 * 1024), "resource_limit", "larger than"),
}


@pytest.mark.parametrize("name", BAD_PLANS)
def test_a_bad_plan_is_refused_with_what_was_found(person: Person, name: str) -> None:
    text, code, found = BAD_PLANS[name]
    person.configure(KEYS)
    answer = person.call("submit", "-", "--json", stdin=text)
    assert answer.error["code"] == code
    assert found in answer.error["message"]
    assert person.tip is None
    spoken = person.call("submit", "-", stdin=text)
    assert (spoken.status, spoken.stdout) == (1, "")
    assert f"code: {code}" in spoken.stderr


def test_a_bad_plan_leaves_a_board_with_history_as_it_was(person: Person) -> None:
    person.submit()
    before = person.tip
    for text, code, _found in BAD_PLANS.values():
        if code in ("plan_invalid", "dependency_cycle", "payload_limit", "duplicate_key"):
            assert person.call("submit", "-", stdin=text).status == 1
    assert person.tip == before


def test_all_faults_are_reported_at_once(person: Person) -> None:
    text = plan({"priority": 9}, {"color": "red"}, {"payload": 3})
    error = person.call("submit", "-", "--json", stdin=text).error
    assert [fault["pointer"] for fault in error["details"]["faults"]] == [
        "/nodes/0/priority",
        "/nodes/1/color",
        "/nodes/2/payload",
    ]
    spoken = person.call("submit", "-", stdin=text).stderr
    assert "/nodes/2/payload: 3 is not an object" in spoken


def test_files_are_plain_and_bounded(person: Person, tmp_path: Path) -> None:
    link, pipe, large = tmp_path / "link", tmp_path / "pipe", tmp_path / "large"
    (tmp_path / "plan").write_text(PLAN)
    link.symlink_to(tmp_path / "plan")
    os.mkfifo(pipe)
    with large.open("wb") as stream:
        stream.truncate(16 * 1024 * 1024 + 1)
    for path, code in (
        (link, "file_not_regular"),
        (pipe, "file_not_regular"),
        (tmp_path, "file_not_regular"),
        (large, "resource_limit"),
        (tmp_path / "none", "file_missing"),
        (Path("a\0b"), "file_missing"),
    ):
        assert person.call("submit", path, "--json").error["code"] == code
    assert person.tip is None


def test_a_larger_plan_is_posted_in_parts(person: Person) -> None:
    nodes = [{"after": [f"n{number - 1}"]} if number % 50 else {} for number in range(600)]
    text = plan(*nodes)
    found = person.submit(text, "--split", "--request-id", "big")
    assert [one["request_id"] for one in found["parts"]] == ["big.1", "big.2", "big.3"]
    assert [one["nodes"] for one in found["parts"]] == [255, 255, 90]
    assert len(found["nodes"]) == 600
    again = person.submit(text, "--split", "--request-id", "big")
    assert again["replayed"] is True
    assert person.ledger.count(b"\n") == 3


@pytest.mark.parametrize(
    ("last", "code"),
    [
        ({"payload": {"t": "x" * 17_000}}, "payload_limit"),
        ({"after": ["n0", "nowhere"]}, "plan_invalid"),
        ({"profile": "none"}, "plan_invalid"),
    ],
)
def test_a_plan_in_parts_is_refused_whole(person: Person, last: dict[str, Any], code: str) -> None:
    text = plan(*[{}] * 400, last)
    assert person.call("submit", "-", "--split", "--json", stdin=text).error["code"] == code
    assert person.tip is None


def test_a_cycle_across_parts_is_named_whole(person: Person) -> None:
    nodes = [{"after": [f"n{(number + 1) % 600}"]} for number in range(600)]
    error = person.call("submit", "-", "--split", "--json", stdin=plan(*nodes)).error
    assert error["code"] == "dependency_cycle"
    assert len(error["details"]["path"]) == 100
    assert person.tip is None


BAD_CONFIGS: dict[str, tuple[str | bytes, str]] = {
    "unknown setting": ("[work_queue]\nconcurency = 3\n", "did you mean 'concurrency'"),
    "wrong type": ('[work_queue]\nconcurrency = "3"\n', "/work_queue/concurrency: '3'"),
    "out of range": ("[work_queue]\nconcurrency = 0\n", "0 is outside 1..4096"),
    "mode": ('[work_queue]\nmode = "fifo"\n', "'fifo' is not one of"),
    "disabled": ("[work_queue]\nenabled = false\n", "scheduling cannot be switched off"),
    "a particular node": ('[work_queue]\nselect = "x"\n', "cannot pick a particular Work"),
    "default key": ('[work_queue.accounting_weights]\n"" = 2\n', "always has weight 1"),
    "unknown worker": (
        '[work_queue.pools.default]\nworkers = ["other"]\n',
        "worker 'other', which has no recipe",
    ),
    "unknown default": (
        '[work_queue.pools.default]\ndefault_worker = "other"\n',
        "'other', which is not one of its workers",
    ),
    "no toml": ("[work_queue\n", "not valid TOML"),
    "duplicate": ("[work_queue]\nconcurrency = 1\nconcurrency = 2\n", "not valid TOML"),
    "pool name": ("[work_queue.pools.'..']\n", "'..'"),
    "nan": ("[work_queue]\nconcurrency = nan\n", "nan is not an integer"),
    "no utf-8": (b"[work_queue] # \xff\n", "not valid TOML"),
}


@pytest.mark.parametrize("name", BAD_CONFIGS)
def test_a_bad_setting_is_named(person: Person, name: str) -> None:
    text, found = BAD_CONFIGS[name]
    person.configure(text)
    for words in (["submit", "-"], ["policy", "check"]):
        error = person.call(*words, "--json", stdin=PLAN).error
        assert error["code"] == "config_invalid"
        assert found in error["message"]
    assert person.tip is None


def test_a_huge_config_is_not_read(person: Person) -> None:
    person.configure("#" * 300_000)
    assert person.call("submit", "-", "--json", stdin=PLAN).error["code"] == "resource_limit"


def test_an_unborn_head_and_a_missing_worker_refuse(stranger: Person) -> None:
    stranger.done("init")
    assert stranger.call("submit", "-", "--json", stdin=PLAN).error["code"] == "head_unborn"


def test_without_an_identity_nothing_is_posted(person: Person, tmp_path: Path) -> None:
    other = Person(person.folder, tmp_path / "other", tmp_path / "state")
    error = other.call("submit", "-", "--json", stdin=PLAN).error
    assert (error["code"], error["hint"]) == ("identity_missing", "make one: callboard init")
    assert person.tip is None
