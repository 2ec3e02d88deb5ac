"""`callboard dispatch` and `run` with real processes, from the plan to the verified board."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess

import pytest

from tests.repositories import fingerprint, git
from tests.surfaces.cli.conftest import PROGRAM, Person, environment, shell
from tests.waiting import until


def test_nothing_to_grant_ends_with_3_and_the_reason(person: Person) -> None:
    person.submit()
    person.done("pause", "grants", "--reason", "test")
    before = person.tip
    answer = person.call("dispatch", "--json")
    assert answer.status == 3
    document = answer.json
    assert (document["grant_status"], document["limiting_reason"]) == (
        "nothing_granted",
        "grants_paused",
    )
    spoken = person.call("dispatch")
    assert (spoken.status, spoken.stdout.splitlines()[0]) == (
        3,
        "nothing granted: grants are paused",
    )
    assert person.tip == before


def test_bounds_of_a_request_are_usage(person: Person) -> None:
    for words in (["--max-claims", "0"], ["--max-dispatches", "257"], ["--max-bytes", "49153"]):
        assert person.call("dispatch", *words).status == 2


def test_a_dispatch_is_launched_once_and_its_receipt_follows_it(person: Person) -> None:
    person.submit()
    first = shell(person, "dispatch", "--max-claims", "2", "--request-id", "d1", "--json")
    assert (first.status, first.stderr) == (0, "")
    receipt = first.json
    assert (receipt["requested_claims"], receipt["granted_claims"]) == (2, 1)
    assert receipt["grant_status"] == "partial_batch"
    assert receipt["limiting_reason"] == "no_eligible_work"
    assert [one["status"] for one in receipt["launches"]] == ["launched"]
    again = shell(person, "dispatch", "--max-claims", "2", "--request-id", "d1", "--json").json
    assert (again["replayed"], again["commit_id"]) == (True, receipt["commit_id"])
    assert again["claims"][0]["claim_ref"] == receipt["claims"][0]["claim_ref"]
    until(lambda: person.ask("status")["columns"]["done"]["count"] == 1)


def test_a_plan_is_run_to_its_end_and_the_checkout_stays_as_it_was(person: Person) -> None:
    checkout = {
        path: mark
        for path, mark in fingerprint(person.folder).items()
        if not path.startswith(".git/")
    }
    person.submit()
    answer = shell(person, "run", "--until-idle", "--workers", "2")
    assert answer.status == 0, answer
    assert re.fullmatch(r"idle after \d+ s: 3 done\n", answer.stdout)
    told = [line.split()[1:3] for line in answer.stderr.splitlines()]
    for key in ("inspect", "code", "review"):
        assert ["granted", key] in told
        assert ["verified", key] in told
    status = person.ask("status")
    assert status["columns"]["done"]["count"] == 3
    after = fingerprint(person.folder)
    assert checkout == {k: v for k, v in after.items() if not k.startswith(".git/")}
    assert shell(person, "run", "--until-idle", "--json").json["reason"] == "idle"


def test_watching_without_a_terminal_is_plain_lines(person: Person) -> None:
    person.submit("nodes:\n- payload: {task: one}\n")
    answer = shell(person, "run", "--until-idle", "--watch")
    assert answer.status == 0, answer
    assert "\x1b" not in answer.stdout
    assert any("verified" in line for line in answer.stdout.splitlines())


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_run_stops_when_asked(person: Person, number: signal.Signals, status: int) -> None:
    person.submit("nodes:\n- payload: {task: one}\n")
    process = subprocess.Popen(
        [*PROGRAM, "run", "--json"],
        cwd=person.folder,
        env=environment(person),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    until(lambda: person.ask("status")["columns"]["done"]["count"] == 1)
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert process.returncode == status, err
    document = json.loads(out)
    assert document["reason"] == "stopped"
    assert document["counts"]["verified"] == 1
    assert "verified" in err


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no device that is always full")
@pytest.mark.parametrize(
    "words", [["2>/dev/full"], ["--json", "2>/dev/full"], ["--watch", ">/dev/full"]]
)
def test_a_run_that_cannot_log_stops_and_leaves_the_board_sound(
    person: Person, words: list[str]
) -> None:
    person.submit()
    *options, where = words
    ended = subprocess.run(
        ["sh", "-c", f'exec "$@" {where}', "sh", *PROGRAM, "run", "--until-idle", *options],
        cwd=person.folder,
        env=environment(person),
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 1
    if "--watch" in options:
        assert "code: system_refused" in ended.stderr
    if "--json" in options:
        assert json.loads(ended.stdout)["error"]["code"] == "system_refused"
    # What it had launched goes on, and the next dispatcher sees all of it to its end.
    after = shell(person, "run", "--until-idle", "--json").json
    assert (after["reason"], after["stuck"]["count"]) == ("idle", 0)
    status = person.ask("status")
    assert status["columns"]["done"]["count"] == 3
    assert person.ask("show", "inspect")["attempts"] == 1


def test_watching_on_a_terminal_draws_the_board(person: Person) -> None:
    person.submit("graph: g\nnodes:\n- {key: only-one, payload: {}}\n")
    leader, follower = os.openpty()
    process = subprocess.Popen(
        [*PROGRAM, "run", "--until-idle", "--watch"],
        cwd=person.folder,
        env={**environment(person), "TERM": "xterm", "NO_COLOR": "", "COLUMNS": "80"},
        stdin=subprocess.DEVNULL,
        stdout=follower,
        stderr=subprocess.PIPE,
    )
    os.close(follower)
    drawn = b""
    with contextlib.suppress(OSError):  # how Linux tells that a terminal's other end is closed
        while piece := os.read(leader, 65_536):
            drawn += piece
    os.close(leader)
    _out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, b"")
    assert b"\x1b[" in drawn
    assert b"only-one" in drawn
    assert b"done 1" in drawn


def test_two_askers_for_one_node_get_one_grant(person: Person) -> None:
    person.submit("nodes:\n- payload: {task: one}\n")
    askers = [
        subprocess.Popen(
            [*PROGRAM, "dispatch", "--json", "--request-id", f"asker{number}"],
            cwd=person.folder,
            env=environment(person),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        for number in range(2)
    ]
    answers = {}
    for asker in askers:
        out, err = asker.communicate(timeout=60)
        assert err == b""
        answers[asker.returncode] = json.loads(out)
    assert set(answers) == {0, 3}
    assert answers[0]["granted_claims"] == 1
    assert answers[3]["limiting_reason"] == "no_work"
    principal = person.ask("whoami")["principal"]
    trace = person.ask("trace", "root")
    assert {commit["principal"] for commit in trace["commits"]} == {principal}
    until(lambda: person.ask("status")["columns"]["done"]["count"] == 1)


def test_a_patch_says_which_node_it_is_of(person: Person) -> None:
    script = "echo more > more.txt; callboard worker patch"
    recipe = f'command = ["callboard", "worker", "exec", "--", "sh", "-c", "{script}"]\n'
    path = person.folder / ".callboard" / "workers" / "default.toml"
    path.write_text(recipe + 'outputs = ["patch"]\n')
    person.configure("")
    person.submit("graph: dia\nnodes:\n- {key: m, payload: {}, contract: {patch: 1}}\n")
    assert shell(person, "run", "--until-idle").status == 0
    (branch,) = git(
        "branch", "--list", "callboard/*", "--format=%(refname:short)", cwd=person.folder
    ).split()
    message = git("log", "-1", "--format=%B", branch, cwd=person.folder)
    assert message.splitlines()[0] == "m (graph dia), attempt 1"
    assert "Dispatch: d_" in message
