"""`callboard summary` and `--summary`: the same facts for people, programs and pages."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from callboard.board.reading.summary import COUNTS
from tests.surfaces.cli.conftest import Person, shell

HOSTILE = '<img src=x onerror=alert(1)> [a](javascript:alert(1)) | ` @me #1 " onmouseover="x'
BATCH = """\
max_claims = 3
setup = ["true"]
command = ["sh", "-c", "for h in h1 h2 h3; do callboard worker finish completed --claim $h; done"]
"""


def plan(*keys: str) -> str:
    nodes = [{"key": key, "payload": {"task": key}} for key in keys]
    return json.dumps({"graph": "g", "nodes": nodes})


def counts(found: Any) -> dict[str, int]:
    return {name: found[name] for name in COUNTS if found[name]}


@pytest.fixture
def batched(person: Person) -> Person:
    """A person whose one run did three tasks."""
    (person.folder / ".callboard" / "workers" / "default.toml").write_text(BATCH)
    person.configure("")
    person.submit(plan("a", "b", HOSTILE), "--request-id", "s1")
    answer = shell(
        person, "run", "--until-idle", "--request-id", "r", "--summary", str(page_of(person))
    )
    assert answer.status == 0, answer
    return person


def page_of(person: Person) -> Path:
    return person.state.parent / "page.md"


def test_the_page_of_a_run_is_appended(batched: Person) -> None:
    page = page_of(batched).read_text()
    assert page.startswith("## Run of the board: completed\n")
    assert "| 256 | 3 | 3 | 3 | 3 | 0 | 0 | 0 | 0 |" in page
    assert "setup 0." in page
    assert ", shared by 3 claims; work " in page
    escaped = HOSTILE.replace("|", "\\x7c").replace("`", "\\x60")
    assert f"| `{escaped}` | `g` |" in page
    assert HOSTILE not in page
    before = page
    assert shell(batched, "run", "--until-idle", "--summary", str(page_of(batched))).status == 0
    assert page_of(batched).read_text() == before


def test_a_summary_is_asked_for_by_any_name(batched: Person) -> None:
    found = batched.ask("summary", "r.1")
    assert found["status"] == "completed"
    assert counts(found) == {
        "requested": 256, "granted": 3, "launched": 3, "completed": 3, "verified": 3
    }  # fmt: skip
    (launch,) = found["launches"]
    assert launch["timing"]["shared_by"] == 3
    assert all(one["waited_ms"] >= 0 for one in found["rows"])
    for word in (launch["dispatch_id"], launch["dispatch_id"][:12], launch["run_id"]):
        assert batched.ask("summary", word)["rows"] == found["rows"]
    assert counts(batched.ask("summary", "s1")) == {"submitted": 3}
    whole = batched.ask("summary")
    assert counts(whole) == counts(found) | {"submitted": 3}
    since = batched.ask(
        "summary", "--since", batched.ask("explain", "--request", "s1")["commit_id"]
    )
    assert since["rows"] == found["rows"]
    text = batched.done("summary", "r.1").stdout
    assert text.startswith("completed\n256 requested, 3 granted, 3 launched, 3 completed, 3 verif")
    assert ", shared by 3 claims; work " in text
    page = batched.done("summary", "r.1", "--markdown").stdout
    assert page.startswith("## Request `r.1`: completed\n")
    assert batched.done("summary", "--markdown", "--limit", "1").stdout.count("2 more claims") == 1


def test_show_and_logs_tell_what_was_shared(batched: Person) -> None:
    shown = batched.done("show", "a").stdout
    assert ", shared by 3 claims; work " in shown
    assert " after its grant\n" in shown
    (claim,) = batched.ask("show", "a")["claims"]
    assert set(claim["timing"]) == {"setup_ms", "worker_ms", "shared_by", "waited_ms"}
    lines = batched.done("logs", "a").stdout.splitlines()
    assert lines[0].startswith("run ")
    assert lines[1].startswith("setup 0.")
    assert set(batched.ask("logs", "a")["timing"]) == {"setup_ms", "worker_ms", "shared_by"}


def test_times_are_those_of_this_machine_alone(batched: Person) -> None:
    (claim,) = batched.ask("show", "a")["claims"]
    (Path(claim["run_folder"]) / "report.json").unlink()
    found = batched.ask("summary", "r.1")
    assert "timing" not in found["launches"][0]
    assert found["status"] == "completed"
    assert batched.ask("logs", "a")["timing"] == {}


def test_wrong_usage_and_unknown_names(person: Person) -> None:
    assert person.call("summary", "--json").error["code"] == "queue_missing"
    person.submit()
    assert person.call("summary", "nothing", "--json").error["code"] == "summary_subject_unknown"
    error = person.call("summary", "--since", "q_none", "--json").error
    assert error["code"] == "commit_unknown"
    for words in (["x", "--since", "y"], ["--markdown", "--json"], ["--limit", "0"]):
        assert person.call("summary", *words).status == 2


def test_what_changed_nothing_adds_no_page(person: Person) -> None:
    """Neither a request that got nothing, nor one that stood already."""
    person.submit()
    page = page_of(person)
    person.done("pause", "grants", "--reason", "test")
    assert person.call("dispatch", "--request-id", "d1", "--summary", page).status == 3
    assert page.read_text() == ""
    person.done("resume", "grants", "--reason", "test")
    words = ("dispatch", "--request-id", "d2", "--summary", str(page))
    assert shell(person, *words).status == 0
    text = page.read_text()
    assert text.startswith("## Dispatch request `d2`: ")
    assert shell(person, *words).status == 0
    assert page.read_text() == text
    shell(person, "run", "--until-idle")
    shell(person, "run", "--until-idle", "--summary", str(page))
    assert page.read_text() == text


def test_a_file_that_cannot_be_written_is_refused_before_anything_is_done(person: Person) -> None:
    person.submit()
    before = person.tip
    for place in (person.folder, person.folder / "none" / "page.md"):
        for verb in ("dispatch", "run"):
            error = person.call(verb, "--summary", place, "--json").error
            assert error["code"] == "summary_unwritable"
            assert str(place) in error["message"]
    assert person.tip == before


def test_a_page_that_cannot_be_written_at_the_end_takes_nothing_back(person: Person) -> None:
    if not os.path.exists("/dev/full"):
        pytest.skip("this system has no device that is always full")
    person.submit(plan("a"))
    answer = shell(person, "run", "--until-idle", "--summary", "/dev/full")
    assert answer.status == 1
    assert ": 1 done\n" in answer.stdout
    assert "code: summary_unwritable" in answer.stderr
    assert person.ask("status")["columns"]["done"]["count"] == 1
    person.submit(plan("b"))
    answer = shell(person, "run", "--until-idle", "--summary", "/dev/full", "--json")
    assert (answer.status, answer.json["reason"]) == (1, "idle")
    assert "code: summary_unwritable" in answer.stderr
