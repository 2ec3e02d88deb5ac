"""What a hint says can be pasted, and acts on the same board."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from callboard.surfaces.cli.chosen import BOARD_VERBS, Chosen
from callboard.surfaces.cli.render import with_hints
from callboard.surfaces.cli.verbs import VERBS
from tests.repositories import git
from tests.surfaces.cli.conftest import PLAN, RECIPE, Person


def hints(text: str) -> list[str]:
    return re.findall(r"(?m)^ *(?:next|then): (.*)$", text)


def test_the_verbs_that_act_on_a_board_are_known() -> None:
    assert set(BOARD_VERBS) == set(VERBS) - {"worker", "outputs"}


@pytest.mark.parametrize(
    ("hint", "pasted"),
    [
        ("callboard run", "callboard --repo '/a b' --branch x run"),
        ("as `callboard show N` says", "as `callboard --repo '/a b' --branch x show N` says"),
        ("callboard --branch NAME submit PLAN", "callboard --branch NAME submit PLAN"),
        ("write .callboard/workers/x.toml", "write .callboard/workers/x.toml"),
        ("stage them with callboard worker", "stage them with callboard worker"),
        ("callboard runs", "callboard runs"),
        (
            "git add .callboard && git commit -m x",
            "git -C '/a b' add .callboard && git -C '/a b' commit -m x",
        ),
    ],
)  # fmt: skip
def test_typed_options_are_kept(hint: str, pasted: str) -> None:
    assert Chosen(repo="/a b", branch="x").pasteable(hint) == pasted
    assert Chosen().pasteable(hint) == hint


def test_what_was_posted_is_never_taken_for_a_hint() -> None:
    chosen = Chosen(branch="x")
    own = {"next": "callboard run", "hint": "callboard run"}
    document = {"work": {"payload": own}, "next": "callboard run", "line": {"next": ["a"]}}
    said = with_hints(document, chosen.pasteable)
    assert said["work"] == {"payload": own}
    assert said["next"] == "callboard --branch x run"


def test_hints_stay_with_the_board_that_was_named(person: Person) -> None:
    person.configure("[work_queue.retry]\nmax_attempts = 1\n")
    options = ["--repo", str(person.folder), "--branch", "board2"]
    said = person.done(*options, "submit", "-", stdin=PLAN).stdout
    (hint,) = hints(said)
    assert hint == f"callboard {shlex.join(options)} run"
    person.done("cancel", "inspect", "--reason", "x", "--branch", "board2")
    for text in (
        person.done(*options, "status").stdout,
        person.done("explain", "code", *options).stdout,
        person.done("show", "code", *options).stdout,
    ):
        for one in hints(text):
            assert one == f"callboard {shlex.join(options)} show inspect"
            assert person.done(*shlex.split(one)[1:]).stdout.startswith("inspect\n")
    found = person.ask("explain", "code", "--branch", "board2")
    assert found["next"] == "callboard --branch board2 show inspect"
    error = person.call("explain", "--request", "none", "--branch", "board2", "--json").error
    assert error["hint"].endswith("callboard --branch board2 ledger log")


def test_a_paused_board_says_how_to_go_on(person: Person) -> None:
    person.submit()
    person.done("pause", "admission", "--reason", "freeze")
    (hint,) = [one for one in hints(person.done("status").stdout) if "resume" in one]
    assert hint == "callboard resume admission --reason CODE"
    person.done(*hint.split()[1:])


def test_the_request_ids_of_the_log_can_be_explained(person: Person) -> None:
    person.submit(PLAN, "--request-id", "first")
    person.done("cancel", "review", "--reason", "late", "--request-id", "second")
    header, *rows = person.done("ledger", "log").stdout.splitlines()
    assert header.split()[-1] == "request"
    assert [row.split()[-1] for row in rows] == ["first", "second"]
    text = person.done("explain", "--request", "second").stdout
    assert "cancel_work second: committed" in text
    assert ": late" in text


def test_the_way_to_a_first_plan_is_shown_step_by_step(stranger: Person) -> None:
    git("commit", "-q", "--allow-empty", "-m", "first", cwd=stranger.folder)
    for answer in (
        stranger.done("status").stdout,
        stranger.done("run", "--until-idle").stdout,
    ):
        assert hints(answer) == ["callboard init"]
    stranger.done("init")
    refused = stranger.call("submit", "-", stdin=PLAN)
    assert "code: worker_missing" in refused.stderr
    (hint,) = hints(refused.stderr)
    assert hint == "git add .callboard && git commit -m 'Set up the board'"
    assert hints(stranger.done("status").stdout) == [hint]
    again = stranger.done("init").stdout
    assert hints(again)[0].startswith("git add .callboard/config.toml .callboard/workers")
    git("add", ".callboard", cwd=stranger.folder)
    git("commit", "-q", "-m", "board", cwd=stranger.folder)
    for answer in (stranger.done("init").stdout, stranger.done("status").stdout):
        assert hints(answer) == ["callboard submit PLAN"]
    assert hints(stranger.done("submit", "-", stdin=PLAN).stdout) == ["callboard run"]


def test_init_writes_the_branch_that_is_named(stranger: Person) -> None:
    stranger.done("init", "--branch", "board3")
    git("add", ".callboard", cwd=stranger.folder)
    git("commit", "-q", "-m", "board", cwd=stranger.folder)
    stranger.submit()
    assert stranger.ask("whoami")["branch"] == "board3"
    assert stranger.ask("status")["branch"] == "board3"
    kept = stranger.done("init", "--branch", "board4").stdout
    assert 'for another one: branch = "board4"' in kept


def test_a_worker_newer_than_the_board_is_called_so(person: Person) -> None:
    person.submit()
    (person.folder / ".callboard" / "workers" / "tested.toml").write_text(RECIPE)
    person.configure("")
    text = json.dumps({"graph": "h", "nodes": [{"key": "x", "payload": {}, "profile": "tested"}]})
    error = person.call("submit", "-", "--json", stdin=text).error
    assert error["code"] == "plan_invalid"
    assert error["hint"].startswith("tested.toml is newer than this board's policy")
    person.done("--branch", "board2", "submit", "-", stdin=text)
    said = person.done("policy", "check").stdout
    assert ["tested", "default", "new"] in [line.split() for line in said.splitlines()]
    assert "callboard policy install --from-config" in said


def test_nodes_that_no_worker_can_deliver_are_all_named(person: Person) -> None:
    nodes = [{"key": f"n{number}", "payload": {}} for number in range(300)]
    for number in (2, 298):
        nodes[number]["contract"] = {"artifact": 1}
    for words, text in (
        ([], {"graph": "g", "nodes": nodes[:3] + nodes[297:]}),
        (["--split"], {"graph": "g", "nodes": nodes}),
    ):
        error = person.call("submit", "-", *words, "--json", stdin=json.dumps(text)).error
        assert error["code"] == "output_not_declared"
        places = [1 + text["nodes"].index(nodes[at]) - 1 for at in (2, 298)]
        assert [fault["pointer"] for fault in error["details"]["faults"]] == [
            f"/nodes/{at}/contract" for at in places
        ]
        assert "node 'n298'" in error["details"]["faults"][1]["message"]
        assert "worker 'default' can deliver nothing" in error["hint"]
    assert person.tip is None


def test_a_reused_request_id_is_never_a_false_done(person: Person) -> None:
    person.submit()
    first = person.ask("cancel", "review", "--reason", "a1", "--request-id", "c1")
    for words in (["code", "--reason", "a1"], ["review", "--reason", "other"]):
        error = person.call("cancel", *words, "--request-id", "c1", "--json").error
        assert error["code"] == "request_conflict"
    again = person.ask("cancel", "review", "--reason", "a1", "--request-id", "c1")
    assert (again["replayed"], again["works"], again["reason"]) == (True, first["works"], "a1")
    said = person.done("cancel", "review", "--reason", "a1", "--request-id", "c1").stdout
    assert said == "this request stood already: ended review: a1\n"
    assert person.ask("explain", "code")["column"] == "waiting"
    person.done("pause", "grants", "--reason", "p", "--request-id", "pp")
    error = person.call("resume", "grants", "--reason", "p", "--request-id", "pp", "--json").error
    assert error["code"] == "request_conflict"
    assert person.ask("status")["paused"]["grants"] is True


def test_nodes_without_a_graph_show_none(person: Person, tmp_path: Path) -> None:
    said = person.done("submit", "-", stdin='{"nodes":[{"payload":{"a":1}}]}').stdout
    assert said.startswith("posted 1 node\n")
    text = person.done("show", "root").stdout
    assert "graph " not in text
    assert 'payload   {"a":1}\n' in text
    again = person.done("submit", "-", stdin='{"nodes":[{"payload":{"a":1}}]}').stdout
    assert again.startswith("nothing new: 1 node stands on the board already\n")
    assert "request" not in again
    one = "graph: g\nnodes:\n- {key: x, payload: {}}\n"
    assert person.done("submit", "-", stdin=one).stdout.startswith("posted 1 node of graph g\n")
