"""What the reading verbs say, in JSON and to people."""

from __future__ import annotations

import re

import pytest

from callboard.board.board import Board, Folders
from callboard.board.publishing.config import read_settings
from callboard.board.publishing.recipe import parse_recipe
from callboard.clock import FixedClock
from callboard.surfaces.cli.init import STARTER_CONFIG, STARTER_WORKER
from tests.surfaces.cli.conftest import PLAN, Person

STAMP = {"tip", "evaluated_at_ms", "provenance"}


def claims(person: Person, key: str) -> list[str]:
    return [one["claim_id"] for one in person.ask("show", key)["claims"]]


@pytest.fixture
def granted(person: Person) -> Person:
    """A person whose first node is granted, but not launched."""
    person.submit()
    folders = Folders(person.config, person.state)
    with Board.open(person.folder, folders) as board:
        board.grant(max_claims=2, max_dispatches=2, request_id="g1")
    return person


def test_an_empty_board_is_an_ordinary_answer(person: Person) -> None:
    document = person.ask("status")
    assert document["tip"] is None
    assert document["columns"]["ready"] == {"count": 0, "works": []}
    assert person.done("status").stdout == "the board is empty\nnext: callboard submit PLAN\n"
    said = person.done("run", "--until-idle").stdout
    assert said.endswith(": there is no board yet\nnext: callboard submit PLAN\n")


def test_what_needs_a_history_says_so(person: Person) -> None:
    for words in (
        ["show", "a"],
        ["explain", "a"],
        ["trace", "a"],
        ["cancel", "a", "--reason", "x"],
        ["pause", "grants", "--reason", "x"],
        ["dispatch"],
        ["policy", "show"],
        ["ledger", "verify"],
        ["ledger", "log"],
        ["ledger", "replay"],
        ["ledger", "plan", "--pool", "default", "--at-ms", "0"],
    ):
        assert person.call(*words, "--json").error["code"] == "queue_missing", words
    assert person.tip is None


def test_every_read_carries_its_stamp(granted: Person) -> None:
    (claim,) = claims(granted, "inspect")
    dispatch = granted.ask("show", "inspect")["claims"][0]["dispatch_id"]
    for words in (
        ["status"],
        ["show", "code"],
        ["explain", "code"],
        ["explain", "--request", "g1"],
        ["explain", "--before-claim", claim],
        ["trace", "inspect"],
        ["trace", "--claim", claim],
        ["trace", "--dispatch", dispatch],
        ["policy", "show"],
        ["policy", "check"],
        ["ledger", "log"],
        ["ledger", "verify"],
    ):
        document = granted.ask(*words)
        assert set(document) >= STAMP, words
        assert document["provenance"] == "live"
        text = granted.done(*words).stdout
        assert text.strip(), words
        assert "\x1b" not in text


def test_status_shows_columns_reasons_and_who_is_next(person: Person) -> None:
    person.submit()
    lines = person.done("status").stdout.splitlines()
    assert lines[0] == "waiting 2   ready 1   running 0   done 0   stuck 0"
    assert any(
        line.split() == ["inspect", "3", "-", *"nothing in its way".split()] for line in lines
    )
    assert any("waits for code <- inspect" in line for line in lines)
    assert "1. inspect  (the oldest)" in lines
    assert lines[1] == "places taken: 0 of 16 for runs, 0 of 16 for Claims"
    assert "local/repository, branch work-queue, live at " in lines[-1]
    assert re.search(r", tip q_[0-9a-f]{10}$", lines[-1])
    assert not any(line.startswith("nobody now") for line in lines)


def test_the_line_is_shown_although_a_pause_lets_nobody_go(person: Person) -> None:
    person.submit()
    person.done("pause", "grants", "--reason", "maintenance")
    lines = person.done("status").stdout.splitlines()
    assert "1. inspect  (the oldest)" in lines
    assert "nobody now: grants are paused" in lines
    assert any(re.match(r"grants paused: maintenance, since \d\d:\d\d", line) for line in lines)
    assert "next: callboard resume grants --reason CODE" in lines
    said = person.ask("status")["pauses"]["grants"]
    assert (said["reason"], said["principal"]) == ("maintenance", person.ask("whoami")["principal"])


def test_what_is_stuck_says_why_and_what_to_type(person: Person) -> None:
    person.submit()
    said = person.done("cancel", "inspect", "--reason", "not_needed").stdout
    assert said == "ended inspect: not_needed\nwhat waits for it is stuck: code\n"
    document = person.ask("status")
    first, second = document["columns"]["stuck"]["works"]
    assert (first["name"], first["reason"]) == ("code", "dependency_failed")
    assert second["evidence"]["path"] == ["review", "code", "inspect"]
    assert second["next"] == "callboard show inspect"
    lines = person.done("status").stdout.splitlines()
    at = lines.index("stuck 2")
    assert lines[at + 1 : at + 3] == [
        "code: waits for inspect, which was cancelled: not_needed",
        "  next: callboard show inspect",
    ]
    assert at < lines.index("done 1")
    assert person.done(*first["next"].split()[1:]).stdout.startswith("inspect\n")


def test_shares_are_shown_where_keys_compete(person: Person) -> None:
    person.configure("[work_queue.accounting_weights]\na = 1\nb = 3\n")
    nodes = "".join(
        f"- {{key: {key}{number}, payload: {{}}, fairness_key: {key}}}\n"
        for key in "ab"
        for number in range(4)
    )
    person.submit(f"graph: g\nnodes:\n{nodes}")
    (pool,) = person.ask("status")["shares"]
    assert [(row["key"], row["weight"]) for row in pool["classes"][0]["keys"]] == [
        ("a", 1),
        ("b", 3),
    ]
    text = person.done("status").stdout
    assert "turns by key, priority 3, pool default" in text
    assert "a    1       0.0  0" in text


def test_explain_names_the_path_and_the_line(person: Person) -> None:
    person.submit()
    text = person.done("explain", "review").stdout
    assert text.startswith("review is waiting: waits for code <- inspect\n")
    assert "  it is next" in person.done("explain", "inspect").stdout
    person.done("pause", "grants", "--reason", "lunch")
    text = person.done("explain", "inspect").stdout
    assert "inspect is ready: grants are paused\n" in text
    assert "grants_paused" not in text
    assert "before    code  (waiting)" in person.done("show", "inspect").stdout


def test_the_receipt_of_a_request_stays_to_be_had(granted: Person) -> None:
    document = granted.ask("explain", "--request", "g1")
    assert (document["status"], document["limiting_reason"]) == (
        "partial_batch",
        "no_eligible_work",
    )
    text = granted.done("explain", "--request", "g1").stdout
    assert "granted 1 of 2 Claims in 1 of 2 runs, no more: no node is ready" in text
    error = granted.call("explain", "--request", "g9", "--json").error
    assert error["code"] == "request_unknown"


def test_a_decision_is_explained_from_the_state_it_was_taken_on(granted: Person) -> None:
    (claim,) = claims(granted, "inspect")
    document = granted.ask("explain", "--before-claim", claim)
    assert document["winner"]["node_key"] == "inspect"
    assert document["winner"]["basis"] == ["fifo_default"]
    assert document["capacity"]["logical"] == {"before": 0, "after": 1, "limit": 16}
    assert granted.ask("explain", "--before-claim", claim[:14])["winner"] == document["winner"]
    text = granted.done("explain", "--before-claim", claim).stdout
    assert text.startswith("inspect won: the oldest\n")
    assert "places for Claims: 0 taken before, 1 after, of 16" in text
    error = granted.call("explain", "--before-claim", "c_none_such", "--json").error
    assert error["code"] == "claim_unknown"


def test_a_trace_is_in_order_with_local_times(granted: Person) -> None:
    document = granted.ask("trace", "inspect")
    kinds = [one["kind"] for commit in document["commits"] for one in commit["operations"]]
    assert kinds == ["Work", "Claim"]
    lines = granted.done("trace", "inspect", TZ="UTC").stdout.splitlines()
    assert lines[0].split() == ["time", "what", "node", "then", "facts", "by", "commit"]
    assert re.match(r"\d\d:\d\d:\d\d  Work   inspect  ready ", lines[1])


def test_ambiguous_names_list_their_meanings(person: Person) -> None:
    person.submit()
    person.submit(PLAN.replace("sdk", "other"))
    answer = person.call("show", "code")
    assert answer.status == 1
    assert "other:code" in answer.stderr
    assert "sdk:code" in answer.stderr
    error = person.call("show", "code", "--json").error
    assert error["code"] == "selector_ambiguous"
    assert len(error["details"]["candidates"]) == 2
    assert person.ask("show", "other:code")["graph_id"] == "other"


def test_policy_check_shows_what_would_change_and_what_has_no_effect(person: Person) -> None:
    before = person.ask("policy", "check")
    assert before["installed_epoch"] is None
    assert before["proposed"]["pools"]["default"]["logical_limit"] == 16
    person.submit()
    assert person.ask("policy", "check")["differences"] == []
    assert "the installed policy is the same" in person.done("policy", "check").stdout
    person.configure("[work_queue]\nconcurrency = 3\nissues = true\n")
    document = person.ask("policy", "check")
    changed = {one["pointer"]: one for one in document["differences"]}
    assert changed["/pools/default/logical_limit"] == {
        "pointer": "/pools/default/logical_limit",
        "installed": 16,
        "proposed": 3,
    }
    assert "/pools/default/profiles/default/ref" in changed
    rows = [line.split() for line in person.done("policy", "check").stdout.splitlines()]
    assert ["/pools/default/logical_limit", "16", "3"] in rows
    assert ["default", "default", "another", "commit"] in rows
    assert [one["setting"] for one in document["without_effect"]] == ["work_queue.issues"]
    text = person.done("policy", "check").stdout
    assert "without effect: work_queue.issues" in text
    assert person.ask("policy", "show")["policy"]["pools"]["default"]["logical_limit"] == 16
    assert "open Claims at most 16" in person.done("policy", "show").stdout


def test_pausing_and_resuming(person: Person) -> None:
    person.submit()
    said = person.ask("pause", "admission", "--reason", "freeze", "--request-id", "p1")
    assert (said["what"], said["paused"], said["replayed"]) == ("admission", True, False)
    assert person.ask("pause", "admission", "--reason", "freeze", "--request-id", "p1")["replayed"]
    assert person.ask("pause", "admission", "--reason", "freeze")["status"] == "already_set"
    more = "graph: h\nnodes:\n- {key: x, payload: {}}\n"
    assert person.call("submit", "-", "--json", stdin=more).error["code"] == "admission_paused"
    assert "admission paused" in person.done("status").stdout
    assert person.done("resume", "admission", "--reason", "done").stdout == (
        "admission: open, done\n"
    )
    person.submit(more)
    error = person.call("pause", "grants", "--reason", "two words", "--json").error
    assert "two words" in error["message"]


def test_cancelling_is_all_or_nothing_and_idempotent(person: Person) -> None:
    person.submit()
    before = person.tip
    answer = person.call("cancel", "review", "nobody", "--reason", "x", "--json")
    assert answer.error["code"] == "work_unknown"
    assert person.tip == before
    first = person.ask("cancel", "review", "code", "--reason", "x", "--request-id", "c1")
    assert len(first["works"]) == 2
    assert person.ask("cancel", "review", "code", "--reason", "x", "--request-id", "c1")["replayed"]
    assert person.ask("cancel", "review", "--reason", "x")["status"] == "already_cancelled"


def test_init_writes_starters_once_and_nothing_of_gits(stranger: Person) -> None:
    before = sorted((stranger.folder / ".git").rglob("*"))
    first = stranger.ask("init")
    assert first["principal_made"] is True
    assert first["written"] == [".callboard/config.toml", ".callboard/workers/default.toml"]
    (stranger.folder / ".callboard" / "config.toml").write_text("# mine\n")
    again = stranger.ask("init")
    assert (again["principal"], again["written"]) == (first["principal"], [])
    assert (stranger.folder / ".callboard" / "config.toml").read_text() == "# mine\n"
    assert sorted((stranger.folder / ".git").rglob("*")) == before
    assert stranger.ask("whoami")["principal"] == first["principal"]


def test_init_leads_no_link_out_of_the_work_tree(stranger: Person) -> None:
    outside = stranger.folder.parent / "outside"
    outside.mkdir()
    (stranger.folder / ".callboard").symlink_to(outside)
    assert stranger.call("init", "--json").error["code"] == "path_invalid"
    assert list(outside.iterdir()) == []


def test_the_starters_are_valid_and_their_worker_runs(person: Person) -> None:
    assert read_settings(STARTER_CONFIG.encode()) == read_settings(None)
    assert parse_recipe(STARTER_WORKER.encode(), name="default").command[:3] == (
        "callboard",
        "worker",
        "exec",
    )
    uncommented = re.sub(r"(?m)^# (?=\[|\w+ = )", "", STARTER_CONFIG)
    settings = read_settings(uncommented.encode()).work_queue
    assert settings.concurrency == 16
    assert settings.accounting_weights == {"platform": 1, "security": 1}


def test_whoami_names_the_board(person: Person) -> None:
    document = person.ask("whoami")
    assert document["repository"] == "local/repository"
    assert (document["branch"], document["tip"]) == ("work-queue", None)
    assert str(document["principal"]).isdecimal()
    text = person.done("whoami").stdout
    assert "branch work-queue  (no history yet)" in text


def test_a_board_ahead_of_this_machine_says_so(
    person: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    person.submit()
    at_ms = person.ask("status")["evaluated_at_ms"]
    assert "ahead" not in person.done("status").stdout
    behind = FixedClock(at_ms - 3_600_000)
    monkeypatch.setattr("callboard.surfaces.cli.stamp.SystemClock", lambda: behind)
    lines = person.done("status").stdout.splitlines()
    (said,) = [line for line in lines if "ahead" in line]
    assert said.startswith("the board's time is 1 h 0 min ahead of this machine's")
    assert lines[lines.index(said) + 1] == (
        "next: compare the clocks of the machines that write to this board"
    )
