"""Several machines on one board through a remote: one authority, and each run judged at home."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from callboard.board.protocol import operations as ops
from tests.ambient import DEEP
from tests.repositories import git
from tests.system.machines import REMOTE, Machines
from tests.system.world import BOTH, HERE, WORKER, recipe
from tests.waiting import until

ROUNDS = 50 if DEEP else 4
CLAIMERS = 16


def check(machines: Machines) -> None:
    """Both machines see one valid history, in which everything happened once."""
    ledgers = {machine.ledger() for machine in machines.all}
    assert len(ledgers) == 1
    until(lambda: not any(machine.supervisors() for machine in machines.all))
    for machine in machines.all:
        machine.check_once()
    projection = machines.all[0].history().projection
    assert not projection.open_dispatches
    assert not projection.pending_deliveries
    for state in projection.works.values():
        assert state.barrier == "verified", (state.work.node_key, state.state, state.barrier)


def test_two_machines_share_the_work_of_one_board(machines: Machines) -> None:
    one, two = machines.all
    nodes = [{"key": f"n{number}", "contract": BOTH} for number in range(6)]
    one.submit(*nodes, {"key": "last", "after": [node["key"] for node in nodes], "contract": BOTH})
    started = [machine.start(workers=2, environment=machine.environment) for machine in (one, two)]
    for machine, process in zip((one, two), started, strict=True):
        machine.finish(process)
    check(machines)
    results = [one_ for one_ in one.operations() if isinstance(one_, ops.Result)]
    assert len(results) == 7
    refs = machines.refs()
    for result in results:
        for output in result.descriptor["outputs"]:
            if output["type"] == "artifact":
                assert refs[output["ref"]] == output["blob"]
            else:
                assert refs[f"refs/heads/{output['branch']}"] == output["commit"]
    runs = {machine.root.name: len(machine.rows()) for machine in (one, two)}
    assert sum(runs.values()) == 7


def test_a_successor_finds_its_inputs_on_another_machine(machines: Machines) -> None:
    one, two = machines.all
    one.submit({"key": "a", "contract": BOTH}, {"key": "b", "after": ["a"]})
    answer = one.finish(one.start("dispatch", workers=1, environment=one.environment))
    assert [status for _id, status in answer["launches"]] == ["launched"]
    until(lambda: one.works()["a"].barrier == "verified")
    two.finish(two.start(environment=two.environment))
    check(machines)
    assert len(two.rows()) == 1
    kept = git("for-each-ref", "--format=%(refname)", "refs/callboard", cwd=two.path).split()
    assert any(ref.startswith("refs/callboard/artifacts/") for ref in kept)
    assert any(ref.startswith("refs/callboard/inputs/") for ref in kept)
    heads = git("branch", "--format=%(refname:short)", cwd=two.path).split()
    assert heads == ["main"]


def test_a_run_of_another_machine_is_unknown_here_and_left_alone(machines: Machines) -> None:
    one, two = machines.all
    go = one.file("go")
    one.submit(
        {"key": "slow", "payload": {"first": [f"say {one.file('here')}", f"await {go}", "deliver",
                                             "completed"]}, "contract": BOTH},
    )  # fmt: skip
    process = one.start(environment=one.environment)
    one.wait_for(one.file("here"))
    summary = two.finish(two.start(environment=two.environment))
    assert summary["reason"] == "idle"
    assert [(left["node_key"], left["reason"]) for left in summary["left"]] == [
        ("slow", "run_unknown_here")
    ]
    assert two.rows() == []
    state = one.history().projection
    assert [state.dispatches[one_].state for one_ in state.open_dispatches] == ["bound"]
    go.touch()
    one.finish(process)
    check(machines)
    assert len(one.journal) == 1


def test_outputs_that_one_machine_sent_are_verified_on_another(
    machines: Machines,
) -> None:
    one, two = machines.all
    one.submit({"key": "a", "contract": BOTH})
    # The supervisor ends as it is about to tell of the Result; its machine does not come back.
    fault = one.fault("callboard.board.publishing.lifecycle:deliver", "before", role="supervisor")
    one.finish(one.start("dispatch", workers=1, fault=fault, environment=one.environment))
    one.wait_for(one.file("killed"))
    two.finish(two.start(environment=two.environment))
    projection = two.history().projection
    assert [state.barrier for state in projection.works.values()] == ["verified"]
    # The place of the run stays taken: nobody but its own machine knows that it is over.
    assert len(projection.open_dispatches) == 1
    one.finish(one.start(environment=one.environment))
    check(machines)


def test_a_finished_run_outlives_an_outage_of_the_remote(machines: Machines) -> None:
    one, go = machines.all[0], machines.all[0].file("go")
    script = [f"say {one.file('here')}", f"await {go}", "deliver", "completed"]
    one.submit({"key": "a", "payload": {"first": script}, "contract": BOTH})
    process = one.start(environment=one.environment)
    one.wait_for(one.file("here"))
    away = machines.hub.with_name("away")
    machines.hub.rename(away)
    go.touch()
    # The report is written before the end of the Claim is, which the remote does not take now.
    until(lambda: list(one.folders.state.glob("runs/*/report.json")))
    away.rename(machines.hub)
    summary = one.finish(process)
    assert summary["reason"] == "idle"
    check(machines)
    assert len(one.journal) == 1


def test_a_run_goes_on_when_an_outage_is_over(machines: Machines, tmp_path: Path) -> None:
    one, go = machines.all[0], machines.all[0].file("go")
    said = tmp_path / "said"
    wrapper = tmp_path / "bin" / "git"
    wrapper.parent.mkdir()
    wrapper.write_text(
        f'#!/bin/sh\n{shutil.which("git")} "$@"\ncode=$?\n'
        f'[ $code = 0 ] || echo "$PPID" >> {said}\nexit $code\n'
    )
    wrapper.chmod(0o755)
    path = f"{wrapper.parent}{os.pathsep}{os.environ['PATH']}"
    script = [f"say {one.file('here')}", f"await {go}", "deliver", "completed"]
    one.submit({"key": "a", "payload": {"first": script}, "contract": BOTH}, {"key": "b"})
    process = one.start(workers=1, environment={**one.environment, "PATH": path})
    one.wait_for(one.file("here"))
    away = machines.hub.with_name("away")
    machines.hub.rename(away)
    # The dispatcher itself has met the outage, and more than once.
    until(lambda: said.exists() and said.read_text().split().count(str(process.pid)) > 1)
    assert process.poll() is None
    away.rename(machines.hub)
    go.touch()
    summary = one.finish(process)
    assert summary["reason"] == "idle"
    assert summary["counts"]["remote_unreachable"] > 0
    assert {key: state.barrier for key, state in one.works().items()} == {
        "a": "verified",
        "b": "verified",
    }


def test_a_push_paused_and_a_machine_killed(tmp_path: Path) -> None:
    made = Machines(tmp_path, timeout_s=2)
    try:
        two = made.add("two")
        (one, _two), mark = made.all, tmp_path / "paused"
        one.submit(*[{"key": f"n{number}", "contract": BOTH} for number in range(6)])
        made.hook(
            "pre-receive",
            f'test "$MACHINE" = one || exit 0; mkdir {mark} 2> /dev/null && kill -STOP $$; exit 0',
        )
        running = one.start(workers=2, environment=one.environment)
        until(mark.exists)
        doomed = two.start(workers=2, environment=two.environment)
        until(two.supervisors)
        os.kill(doomed.pid, signal.SIGKILL)
        for supervisor in two.supervisors()[:1]:
            supervisor.kill()
        doomed.wait()
        again = two.start(workers=2, environment=two.environment)
        one.finish(running, timeout_s=120)
        two.finish(again, timeout_s=120)
        one.finish(one.start(workers=2, environment=one.environment))
        check(made)
        git("fsck", "--strict", cwd=made.hub)
    finally:
        made.end()


# --- a race for one turn ---------------------------------------------------------------------


def claimers(machines: Machines) -> list[subprocess.Popen[str]]:
    """Sixteen processes on four machines, all ready to ask."""
    while len(machines.all) < 4:
        machines.add(f"more{len(machines.all)}")
    started = []
    for number in range(CLAIMERS):
        machine = machines.all[number % 4]
        process = subprocess.Popen(
            [
                sys.executable, str(HERE / "claiming.py"), str(machine.path),
                str(machine.folders.config), str(machine.folders.state), str(number),
            ],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env={**os.environ, **machine.environment},
        )  # fmt: skip
        started.append(process)
    for process in started:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    return started


def test_one_turn_is_granted_once_however_many_ask(tmp_path: Path) -> None:
    # Nothing that is granted here is ever launched, so that every round takes a place for good.
    settings = REMOTE.format(timeout_s=60) + "[work_queue]\nconcurrency = 64\n"
    machines = Machines(tmp_path, settings=settings)
    one = machines.all[0]
    one.submit({"key": "n0"})
    asking = claimers(machines)
    try:
        for number in range(ROUNDS):
            if number:
                one.submit({"key": f"n{number}"})
            for process in asking:
                assert process.stdin is not None
                process.stdin.write(f"round{number}\n")
                process.stdin.flush()
            answers = []
            for process in asking:
                assert process.stdout is not None
                answers.append(json.loads(process.stdout.readline()))
            won = [answer for answer in answers if "claims" in answer]
            assert len(won) == 1, answers
            assert len(won[0]["claims"]) == 1
            lost = [answer for answer in answers if "claims" not in answer]
            assert lost == [{"nothing": "no_work"}] * (CLAIMERS - 1)
        claims = [each for each in one.operations() if isinstance(each, ops.Claim)]
        assert len(claims) == len({claim.work_id for claim in claims}) == ROUNDS
    finally:
        for process in asking:
            process.kill()
            process.communicate()
        machines.end()


def test_whoever_gets_a_turn_holds_it_in_the_own_name(machines: Machines) -> None:
    one, two = machines.all
    machines.add("three")
    one.submit({"key": "only", "payload": {"first": [f"await {one.file('go')}", "completed"]}})
    answers = {machine.root.name: machine.callboard("--json", "dispatch") for machine in (one, two)}
    assert sorted(answer.returncode for answer in answers.values()) == [0, 3]
    principals = {
        machine.root.name: json.loads(machine.callboard("--json", "whoami").stdout)["principal"]
        for machine in machines.all
    }
    winner = next(name for name, answer in answers.items() if answer.returncode == 0)
    history = one.history()
    actors = {
        history.commit(ordinal).actor.principal
        for ordinal in range(len(history.spans))
        if any(isinstance(op, ops.Claim) for op in history.commit(ordinal).operations)
    }
    assert actors == {principals[winner]}
    assert principals["three"].encode() not in one.ledger()
    one.file("go").touch()


# --- what a person is told -------------------------------------------------------------------


def test_a_refused_push_is_no_lost_race(machines: Machines) -> None:
    one, two = machines.all
    one.submit({"key": "a"})
    before = machines.refs()
    machines.hook("pre-receive", 'echo "GH006 protected branch" >&2; exit 1')
    answer = two.callboard("--json", "pause", "grants", "--reason", "test")
    assert answer.returncode == 1
    error = json.loads(answer.stdout)["error"]
    assert error["code"] == "push_refused"
    assert "GH006" in error["details"]["said"]
    assert machines.refs() == before
    refs = two.callboard("--json", "status")
    assert refs.returncode == 0


def test_status_tells_where_the_board_is_and_refuses_what_it_cannot_know(
    machines: Machines,
) -> None:
    one, two = machines.all
    one.submit({"key": "a"})
    document = json.loads(two.callboard("--json", "status").stdout)
    assert document["remote"] == "origin"
    assert document["provenance"] == "live"
    machines.hub.rename(machines.hub.with_name("away"))
    answer = two.callboard("--json", "status")
    assert answer.returncode == 1
    assert json.loads(answer.stdout)["error"]["code"] == "remote_unreachable"
    offline = json.loads(two.callboard("--offline", "--json", "status").stdout)
    assert offline["provenance"] == "snapshot"
    assert offline["tip"] == document["tip"]
    assert offline["fetched_at_ms"] > 0
    refused = json.loads(two.callboard("--offline", "--json", "pause", "grants", "--reason", "x")
                         .stdout)  # fmt: skip
    assert refused["error"]["code"] == "board_offline"


@pytest.mark.parametrize("options", [(), ("--single-branch", "--branch", "main")])
def test_a_clone_that_is_not_told_of_the_remote_says_what_to_type(
    tmp_path: Path, options: tuple[str, ...]
) -> None:
    made = Machines(tmp_path, settings="", recipes={"default": recipe(WORKER)})
    one = made.all[0]
    plan = one.file("plan.json")
    plan.write_text(json.dumps({"graph": "g", "nodes": [{"key": "a", "payload": {}}]}))
    assert one.callboard("--remote", "origin", "submit", str(plan)).returncode == 0
    plain = made.add("plain", *options)
    for words in (["status"], ["show", "a"], ["submit", str(plan)]):
        answer = plain.callboard("--json", *words)
        assert answer.returncode == 1, answer
        error = json.loads(answer.stdout)["error"]
        assert error["code"] == "queue_not_fetched"
        assert "callboard --remote origin status" in error["hint"]
    assert plain.callboard("--remote", "origin", "status").returncode == 0
    made.end()


def test_workers_are_never_pinned_where_others_cannot_fetch_them(machines: Machines) -> None:
    one, two = machines.all
    git("commit", "-q", "--allow-empty", "-m", "x", cwd=two.path)
    plan = two.file("plan.json")
    node = {"key": "a", "payload": {"journal": str(two.file("journal"))}}
    plan.write_text(json.dumps({"graph": "g", "nodes": [node]}))
    answer = two.callboard("--json", "submit", str(plan))
    error = json.loads(answer.stdout)["error"]
    assert error["code"] == "commit_unpushed"
    assert error["hint"] == "git push origin HEAD"
    git("push", "-q", "origin", "HEAD", cwd=two.path)
    assert two.callboard("submit", str(plan)).returncode == 0
    # The other machine lacks the commit, and brings it by itself.
    one.finish(one.start(environment=one.environment))
    assert one.works()["a"].barrier == "verified"


def test_workers_wait_for_a_head_that_only_this_clone_has_and_it_is_said(
    machines: Machines,
) -> None:
    one = machines.all[0]
    one.submit({"key": "a"})
    git("commit", "-q", "--allow-empty", "-m", "x", cwd=one.path)
    plan = one.file("plan.json")

    def submit(key: str) -> dict[str, Any]:
        plan.write_text(json.dumps({"graph": key, "nodes": [{"key": key, "payload": {}}]}))
        receipt: dict[str, Any] = json.loads(one.callboard("--json", "submit", str(plan)).stdout)
        return receipt

    kept = submit("b")["kept_back"]
    assert [(each["worker"], each["standing"]) for each in kept] == [("default", "unpushed")]
    plan.write_text(json.dumps({"graph": "c", "nodes": [{"key": "c", "payload": {}}]}))
    spoken = one.callboard("submit", str(plan)).stdout
    assert "worker default stays as it is until HEAD is pushed: git push" in spoken
    git("push", "-q", "origin", "HEAD", cwd=one.path)
    assert "kept_back" not in submit("d")


def test_a_machine_without_the_workers_does_not_take_turns(machines: Machines) -> None:
    one = machines.all[0]
    one.submit({"key": "a"})
    # A history that somebody has rewritten: the commit of the workers is nowhere on the remote.
    git("commit", "-q", "--amend", "-m", "other", cwd=one.path)
    git("push", "-qf", "origin", "main", cwd=one.path)
    git("reflog", "expire", "--all", "--expire=now", cwd=machines.hub)
    git("gc", "-q", "--prune=now", cwd=machines.hub)
    late = machines.add("late")
    summary = json.loads(late.callboard("--json", "run", "--until-idle").stdout)
    assert [(each["name"], each["reason"]) for each in summary["left"]] == [
        ("a", "worker_unavailable_here")
    ]
    answer = late.callboard("--json", "dispatch")
    assert answer.returncode == 1
    error = json.loads(answer.stdout)["error"]
    assert error["code"] == "worker_unavailable"
    assert "git push origin BRANCH" in error["hint"]
    assert not [each for each in one.operations() if isinstance(each, ops.Claim)]


@pytest.mark.parametrize(
    ("remote", "code"),
    [
        ("-u", "remote_invalid"),
        ("https://example.invalid/x.git", "remote_invalid"),
        ("elsewhere", "remote_unknown"),
    ],
)
def test_the_settings_name_a_remote_that_exists(tmp_path: Path, remote: str, code: str) -> None:
    made = Machines(tmp_path, settings=f"[board]\nremote = {json.dumps(remote)}\n")
    one = made.all[0]
    answer = one.callboard("--json", "status")
    assert answer.returncode == 1
    error = json.loads(answer.stdout)["error"]
    assert error["code"] == code
    assert repr(remote) in error["message"]
    assert one.callboard("--remote", "origin", "status").returncode == 0


def test_a_new_board_of_this_repository_needs_no_remote_that_answers(tmp_path: Path) -> None:
    made = Machines(tmp_path, settings="")
    made.hub.rename(made.hub.with_name("away"))
    assert made.all[0].callboard("status").returncode == 0
