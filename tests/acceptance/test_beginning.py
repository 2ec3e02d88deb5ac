"""How a board begins, what its records always have, and that nothing goes around its scheduler."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.installing import install
from tests.board import building as make
from tests.board.building import work
from tests.golden.expected import FOLDER as GOLDEN
from tests.repositories import git
from tests.surfaces.cli.conftest import PLAN, Person, shell

ONE_NODE = '{"graph": "g", "nodes": [{"key": "a", "payload": {"task": 1}}]}'
# Ways of the command line to look at a board, to post on it, to grant from it, and to rule it.
DOORS = (
    ["status"],
    ["explain", "a"],
    ["submit", "-"],
    ["dispatch"],
    ["pause", "grants", "--reason", "x"],
)


def records(person: Person) -> list[dict[str, Any]]:
    """The commits of the ledger, as a stranger's JSON reader sees them."""
    return [json.loads(line) for line in person.ledger.splitlines()]


def refused_everywhere(person: Person, data: bytes) -> set[str]:
    """The causes for which every door refuses these bytes; not one of them touches the branch."""
    revision = install(person.folder, data)
    causes = set()
    for words in DOORS:
        error = person.call(*words, "--json", stdin=ONE_NODE).error
        assert error["code"] == "ledger_invalid", words
        causes.add(error["details"]["cause"])
    assert person.tip == revision
    assert person.ledger.rstrip(b"\n") == data.rstrip(b"\n")
    return causes


def test_mandatory_initialization(person: Person) -> None:
    """A repository without settings gets the default economics, written down in full."""
    answer = shell(person, "ledger", "log")
    assert (answer.status, person.tip) == (1, None)
    person.submit(ONE_NODE)
    (first,) = records(person)
    installed, node = first["operations"]
    assert (installed["kind"], node["kind"]) == ("Policy", "Work")
    policy = installed["policy"]
    assert (policy["mode"], policy["class_weights"]) == ("weighted-priority", [8, 4, 2, 1, 1])
    assert policy["accounting_weights"] == {"": 1}
    (pool,) = policy["pools"].values()
    assert (pool["logical_limit"], pool["native_limit"]) == (16, 16)
    assert pool["retry"] == {"max_attempts": 3, "backoff_ms": 30_000}
    assert pool["reconciliation"] == {"max_attempts": 5, "deadline_ms": 300_000}
    assert [one["max_claims"] for one in pool["profiles"].values()] == [1]


def test_mandatory_initialization_mends_nothing(person: Person) -> None:
    """A ledger that has Work and no policy is refused at every door, and stays as it is."""
    without = (GOLDEN / "refused-no-policy.jsonl").read_bytes()
    assert refused_everywhere(person, without) == {"policy_missing"}


OPT_OUTS = (
    "enabled = false", "disabled = true", 'scheduler = "none"', "scheduling = false",
    'mode = "fifo"', 'mode = "unscheduled-fifo"', 'mode = "advisory"', 'mode = ""',
    "advisory = true", 'storage = "labels"', 'prefer = "a"', 'select = ["a"]',
)  # fmt: skip


@pytest.mark.parametrize("setting", OPT_OUTS)
def test_no_opt_out(person: Person, setting: str) -> None:
    person.configure(f"[work_queue]\n{setting}\n")
    for words in (["submit", "-"], ["policy", "check"]):
        error = person.call(*words, "--json", stdin=ONE_NODE).error
        assert error["code"] == "config_invalid"
        (fault,) = error["details"]["faults"]
        assert fault["pointer"] == f"/work_queue/{setting.split()[0]}"
    assert person.tip is None


def test_no_opt_out_by_the_command_line(person: Person) -> None:
    """There is no word for taking a node by its name, nor for a grant without the planner."""
    person.submit(PLAN)
    before = person.tip
    for words in (
        ["claim", "code"],
        ["grant", "code"],
        ["dispatch", "code"],
        ["dispatch", "--work", "code"],
        ["dispatch", "--no-schedule"],
        ["run", "--fifo"],
        ["submit", "-", "--claim"],
    ):
        assert person.call(*words, stdin=PLAN).status == 2, words
    assert person.tip == before


def other_versions() -> Iterator[tuple[dict[str, Any], str]]:
    """A sound first line with something of another time in it, and why it is refused."""
    sound = json.loads(make.line_of(make.genesis([work("a")])))
    for version, cause in ((1, "u"), (2, "u"), (4, "u"), ("3", "u"), (None, "u"), (True, "u")):
        yield {**sound, "version": version}, f"{cause}nsupported_protocol"
    yield (
        {name: value for name, value in sound.items() if name != "version"},
        ("unsupported_protocol"),
    )
    for name in ("id", "previous", "request", "actor", "policy_epoch", "at", "operations"):
        yield {key: value for key, value in sound.items() if key != name}, "record_invalid"
    yield {**sound, "lease": 60}, "record_invalid"
    policy, node = sound["operations"]
    yield {**sound, "operations": [policy, {**node, "kind": "Job"}]}, "record_invalid"
    for name in ("priority", "fairness_key", "pool", "worker_profile", "batch_trust_domain",
                 "enqueued", "depends_on", "payload"):  # fmt: skip
        less = {key: value for key, value in node.items() if key != name}
        yield {**sound, "operations": [policy, less]}, "record_invalid"
        yield {**sound, "operations": [policy, {**node, name: None}]}, "record_invalid"


def test_current_only_protocol(person: Person) -> None:
    found = {cause: 0 for _document, cause in other_versions()}
    for document, cause in other_versions():
        data = json.dumps(document).encode() + b"\n"
        revision = install(person.folder, data)
        error = person.call("status", "--json").error
        assert (error["code"], error["details"]["cause"]) == ("ledger_invalid", cause), document
        assert person.tip == revision
        found[cause] += 1
    assert found == {"unsupported_protocol": 7, "record_invalid": 25}
    # Nothing is upgraded or made up on the way of a write, either.
    old = json.dumps({**json.loads(make.line_of(make.genesis([work("a")]))), "version": 2})
    assert refused_everywhere(person, old.encode() + b"\n") == {"unsupported_protocol"}


def test_submission_defaults(person: Person) -> None:
    person.submit(ONE_NODE)
    (first,) = records(person)
    node = first["operations"][1]
    given = {name: node[name] for name in ("node_key", "graph_id", "depends_on")}
    assert given == {"node_key": "a", "graph_id": "g", "depends_on": []}
    assert node["payload"] == {"task": 1, "effect_contract": {"kind": "none"}}
    assert {name: node[name] for name in (
        "pool", "priority", "fairness_key", "worker_profile", "batch_trust_domain"
    )} == {
        "pool": "default", "priority": 3, "fairness_key": "", "worker_profile": "default",
        "batch_trust_domain": "default",
    }  # fmt: skip
    assert node["enqueued"] == first["at"]
    # A default that is written down is the same node.
    said = json.loads(ONE_NODE)
    said["nodes"][0] |= {"priority": 3, "fairness_key": "", "profile": "default"}
    assert person.submit(json.dumps(said))["status"] == "already_submitted"
    said["nodes"][0]["priority"] = 2
    error = person.call("submit", "-", "--json", stdin=json.dumps(said)).error
    assert error["code"] == "work_conflict"


def test_backend_gating(person: Person, tmp_path: Path) -> None:
    """Where appends cannot be put in one order, there is no board, and nothing in its stead."""
    git("bundle", "create", "-q", str(tmp_path / "main.bundle"), "main", cwd=person.folder)
    git("remote", "add", "frozen", str(tmp_path / "main.bundle"), cwd=person.folder)
    refused = {
        ("--remote", "frozen"): "push_refused",
        ("--remote", "https://example.invalid/x.git"): "remote_invalid",
        ("--branch", "main"): "queue_branch_refused",
        ("--branch", "refs/heads/x"): "queue_branch_refused",
    }
    for options, code in refused.items():
        error = person.call("submit", "-", *options, "--json", stdin=ONE_NODE).error
        assert error["code"] == code, options
    branches = git("for-each-ref", "--format=%(refname)", "refs/heads", cwd=person.folder)
    assert branches == "refs/heads/main"
    git("config", "core.repositoryformatversion", "1", cwd=person.folder)
    git("config", "extensions.refstorage", "reftable", cwd=person.folder)
    for words in DOORS:
        error = person.call(*words, "--json", stdin=ONE_NODE).error
        assert error["code"] == "repository_invalid"
    assert sorted(path.name for path in (person.folder / ".git/refs/heads").iterdir()) == ["main"]
