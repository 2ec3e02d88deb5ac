"""Why a node failed: said where a person looks, on the log of the run and by `show`."""

from __future__ import annotations

import contextlib
import json
import re
import signal
import subprocess
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.surfaces.cli.conftest import PROGRAM, Person, environment, shell, supervisors
from tests.waiting import until

EXEC = '["callboard", "worker", "exec", "--"'
RECIPES = {
    "seven": f'command = {EXEC}, "sh", "-c", "exit 7"]\n',
    "nothing": 'command = ["no-such-program"]\n',
    "slow": 'command = ["sleep", "60"]\ntimeout_s = 1\n',
    "silent": 'command = ["sh", "-c", "exit 3"]\n',
    "forgetful": f'command = {EXEC}, "true"]\noutputs = ["artifact"]\n',
    "shot": 'command = ["sh", "-c", "kill -9 $$"]\n',
    "unprepared": f'command = {EXEC}, "true"]\nsetup = ["false"]\n',
}
WHY = {
    "seven": ("exit 7", "the command exited with 7"),
    "nothing": ("there is no program 'no-such-program'",) * 2,
    "slow": ("stopped at its time limit", "the command was stopped at its time limit, after"),
    "silent": ("exit 3", "no finish was staged; the command exited with 3"),
    "forgetful": (
        "0 of 1 artifact outputs are there",
        "output_missing, 0 of 1 artifact outputs are there; the command exited with 0",
    ),
    "shot": ("ended by SIGKILL", "the command was ended by SIGKILL"),
    "unprepared": ("setup: exit 1", "setup exited with 1"),
}


def set_up(person: Person, attempts: int = 1, backoff_s: int = 1) -> None:
    for name, text in RECIPES.items():
        (person.folder / ".callboard" / "workers" / f"{name}.toml").write_text(text)
    person.configure(
        f"[work_queue.retry]\nmax_attempts = {attempts}\nbackoff_seconds = {backoff_s}\n"
    )


def plan(*names: str, **more: Any) -> str:
    nodes = [{"key": name, "payload": {}, "profile": name, **more} for name in names]
    for one in nodes:
        if one["key"] == "forgetful":
            one["contract"] = {"artifact": 1}
    return json.dumps({"graph": "g", "nodes": nodes})


@pytest.fixture
def failed(person: Person) -> tuple[Person, str]:
    """A board on which each worker failed once, and the log of the run."""
    set_up(person)
    person.submit(plan(*RECIPES))
    answer = shell(person, "run", "--until-idle", "--workers", "8")
    assert answer.status == 0, answer
    return person, answer.stdout + answer.stderr


def test_every_failure_says_why(failed: tuple[Person, str]) -> None:
    person, log = failed
    assert "worker_cancelled" not in log
    lines = log.splitlines()
    for name, (short, full) in WHY.items():
        (line,) = [line for line in lines if re.search(rf"  failed +{name}  ", line)]
        assert f"({short}" in line
        assert "again at" not in line
        assert any(re.search(rf"gave up +{name}  \(after 1 attempt\)", line) for line in lines)
        text = person.done("show", name).stdout
        assert f"attempt 1 failed: {full}" in text
        folder = re.search(r"logs in (.+)", text)
        assert folder is not None
        assert (Path(folder[1]) / "report.json").is_file()
        assert f"next: callboard show {name}" in person.done("explain", name).stdout
        assert f"next: callboard show {name}" not in text
    assert re.search(r"idle after \d+ s: 7 failed attempts, 7 stuck\n", log)
    assert "the exit status is 0 also where nodes are stuck" in log


def test_the_codes_stand_in_json(failed: tuple[Person, str]) -> None:
    person, _log = failed
    (claim,) = person.ask("show", "forgetful")["claims"]
    assert (claim["attempt"], claim["cancellation_reason"]) == (1, "worker_cancelled")
    assert claim["ending"]["reason"] == "output_missing"
    assert (claim["ending"]["exit_code"], claim["ending"]["ended"]) == (0, "exited")
    (claim,) = person.ask("show", "nothing")["claims"]
    assert (claim["ending"]["program"], claim["ending"]["start_error"]) == (
        "no-such-program",
        "ENOENT",
    )
    complaint = (Path(claim["run_folder"]) / "worker.stderr.log").read_text()
    assert complaint == "callboard: 'no-such-program' could not be started: ENOENT\n"


@pytest.mark.parametrize("damage", [b"", b"[]", b"\xff", b'{"claims":3,"commands":[[]]}', None])
def test_a_report_that_is_gone_or_damaged_is_no_hindrance(
    person: Person, damage: bytes | None
) -> None:
    set_up(person)
    person.submit(plan("seven"))
    shell(person, "run", "--until-idle")
    (claim,) = person.ask("show", "seven")["claims"]
    report = Path(claim["run_folder"]) / "report.json"
    report.unlink()
    if damage is not None:
        report.write_bytes(damage)
    text = person.done("show", "seven").stdout
    assert "gave it up" not in text
    said = "not completed, and no report of its run is here that says why"
    assert f"attempt 1 failed: {said}\n" in text


def test_a_wait_for_a_retry_is_announced_once(person: Person) -> None:
    set_up(person, attempts=2, backoff_s=2)
    person.submit(plan("seven"))
    lines = shell(person, "run", "--until-idle").stderr.splitlines()
    (waits,) = [line for line in lines if "waiting" in line]
    assert re.search(r"waiting +seven  \(tried again at \d\d:\d\d:\d\d\)$", waits)
    failed = [line for line in lines if re.search(r"  failed ", line)]
    assert re.search(r"\(exit 7, again at \d\d:\d\d:\d\d\)$", failed[0])
    assert failed[1].endswith("(exit 7)")
    assert lines[lines.index(failed[1]) + 1].endswith("(after 2 attempts)")
    text = person.done("show", "seven").stdout
    assert "attempt 1 failed" in text
    assert "attempt 2 failed" in text


def test_what_a_run_left_running_is_named(person: Person) -> None:
    path = person.folder / "left"
    line = f"setsid sleep 600 & echo $! > '{path}'"
    text = f'command = {EXEC}, "sh", "-c", {json.dumps(line)}]\n'
    (person.folder / ".callboard" / "workers" / "default.toml").write_text(text)
    person.configure("")
    person.submit('{"graph":"g","nodes":[{"key":"a","payload":{}}]}')
    person.done("run", "--until-idle")
    left = psutil.Process(int(path.read_text()))
    try:
        (claim,) = person.ask("show", "a")["claims"]
        assert [one["pid"] for one in claim["survivors"]] == [left.pid]
        said = person.done("show", "a").stdout
        assert f"still running when it had ended: process {left.pid}, sleep 600\n" in said
    finally:
        left.kill()


def test_a_run_without_its_supervisor_is_told_and_a_cancelled_one_keeps_its_place(
    person: Person,
) -> None:
    text = 'command = ["sleep", "60"]\n'
    (person.folder / ".callboard" / "workers" / "default.toml").write_text(text)
    person.configure("")
    person.submit('{"graph":"g","nodes":[{"key":"a","payload":{}},{"key":"b","payload":{}}]}')
    assert shell(person, "dispatch", "--max-claims", "2", "--max-dispatches", "2").status == 0
    launched = until(lambda: running(person, 2))
    try:
        assert "supervisor" not in person.ask("explain", "a")
        said = person.done("cancel", "b", "--reason", "late").stdout
        assert said == (
            "ended b: late\nthe run of b goes on and keeps its place until it ends\n"
            "  to end it and all it holds, on the machine that runs it: callboard stop b\n"
        )
        (kept,) = person.ask("status")["kept_places"]["runs"]
        assert (kept["names"], kept["stage"]) == (["b"], "bound")
        assert kept["next"] == f"callboard stop --dispatch {kept['dispatch_id']}"
        said = person.done("status").stdout
        assert "a place is kept by the run of b, which was cancelled; since " in said
        assert f"  next: {kept['next']}\n" in said
        assert "places taken: 2 of 16 for runs, 1 of 16 for Claims" in person.done("status").stdout
        for one in launched:
            one.send_signal(signal.SIGKILL)
        until(lambda: person.ask("explain", "a").get("supervisor") == "gone")
        for words in (["explain", "a"], ["show", "a"], ["status"]):
            said = person.done(*words).stdout
            assert "its supervisor is gone; the next reconciliation ends it" in said, words
            assert "next: callboard reconcile" in said
    finally:
        for one in launched:
            with contextlib.suppress(psutil.NoSuchProcess):
                one.kill()
        process = subprocess.Popen(
            [*PROGRAM, "run"],
            cwd=person.folder,
            env=environment(person),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        until(lambda: not running(person, 1))
        until(lambda: person.ask("status")["pools"][0]["unreleased_dispatches"] == 0)
        process.terminate()
        process.wait(30)


def running(person: Person, count: int) -> list[psutil.Process]:
    """The supervisors of that person's runs, once so many hold a running node."""
    if person.ask("status")["pools"][0]["unreleased_dispatches"] < count:
        return []
    found = supervisors(person)
    return found if len(found) >= count else []
