"""Sixteen processes at one project: nothing but typed conflicts, nothing lost, all come on.

Half a minute in every run. They are nice to whatever else runs, so other tests keep their time; on
a busy machine they go on for longer, as who came on how far says little after a few changes.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from threading import Event
from time import monotonic
from typing import Any

from callboard.project import records
from tests.ambient import ROOT
from tests.project.world import World

PROCESSES = 16
SECONDS = 30
MOST_SECONDS = 150
ENOUGH = 100
"""Changes a process, on average, by which they are compared."""
CONFLICTS = {"claim_held", "claim_not_holder", "revision_conflict"}


def contend(world: World) -> list[dict[str, Any]]:
    """What each of them was answered."""
    program = [sys.executable, "-m", "tests.project.contending", str(world.root)]
    processes = [
        subprocess.Popen(
            [*program, f"agent-{number}", str(number)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(PROCESSES)
    ]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    say(processes, "go")
    begun = monotonic()
    first = world.project.info().revision
    pause = Event()
    while (passed := monotonic() - begun) < MOST_SECONDS:
        made = world.project.info().revision - first
        if passed >= SECONDS and made >= ENOUGH * PROCESSES:
            break
        pause.wait(0.25)
    say(processes, "enough")
    said = []
    for process in processes:
        output, _nothing = process.communicate()
        assert process.returncode == 0
        said.append(json.loads(output))
    return said


def say(processes: list[subprocess.Popen[str]], word: str) -> None:
    for process in processes:
        assert process.stdin is not None
        process.stdin.write(word + "\n")
        process.stdin.flush()


def test_many_processes_at_once(world: World) -> None:
    before = world.project.info().revision
    said = contend(world)
    assert {code for one in said for code in one["refused"]} <= CONFLICTS
    # They did contend.
    assert {code for one in said for code in one["refused"]} >= {"claim_held", "claim_not_holder"}
    done = [change for one in said for change in one["done"]]
    # No revision was given twice, and none is there that nobody was answered.
    assert sorted(revision for revision, _events, _acquired in done) == list(
        range(before + 1, before + 1 + len(done))
    )
    assert world.project.info().revision == before + len(done)
    history = events(world)
    check_events(history, done, before)
    check_claims(world, history, done)
    for number, one in enumerate(said):
        notes = [
            event.body["n"]
            for event in history
            if event.type == "note.taken" and event.body["by"] == f"agent-{number}"
        ]
        assert notes == list(range(one["notes"]))
    counts = [len(one["done"]) for one in said]
    mean = sum(counts) / PROCESSES
    assert min(counts) * 3 >= mean, counts
    found = world.project.doctor.check().findings
    assert [one for one in found if one.severity == "error"] == []


def events(world: World) -> list[records.Event]:
    """The whole history."""
    found: list[records.Event] = []
    after = None
    while True:
        page = world.project.events.list(after=after, limit=500)
        found += page.events
        after = page.next
        if after is None:
            return found


def check_events(history: list[records.Event], done: list[Any], before: int) -> None:
    """Each event that was answered is there under its revision, and there is none besides."""
    answered = {
        (seq, id, type, revision) for revision, made, _acquired in done for seq, id, type in made
    }
    assert len(answered) == sum(len(made) for _revision, made, _acquired in done)
    stored = {(one.seq, one.id, one.type, one.revision) for one in history}
    assert len(stored) == len(history)
    assert {one for one in stored if one[3] > before} == answered
    assert [one.seq for one in history] == list(range(1, 1 + len(history)))


def check_claims(world: World, history: list[records.Event], done: list[Any]) -> None:
    """No work was ever held twice, by what the events say, and fences rose by one."""
    answered = Counter(
        (work, fence) for _revision, _events, acquired in done for work, fence in acquired
    )
    holder: dict[str, str | None] = {}
    fences: Counter[str] = Counter()
    for event in history:
        if event.type == "claim.acquired":
            assert event.work is not None
            assert event.work not in holder
            holder[event.work] = event.session
            fences[event.work] += 1
            assert event.body["fence"] == fences[event.work]
        elif event.type.startswith("claim."):
            assert event.work is not None
            assert holder.pop(event.work) == event.session
    # Each fence was answered to one process.
    expected = {(work, fence) for work, last in fences.items() for fence in range(1, last + 1)}
    assert answered == dict.fromkeys(expected, 1)
    for work in "ABC":
        claim = world.project.claims.show(work).claim
        assert (None if claim is None else claim.session) == holder.get(work)
        assert claim is None or claim.fence == fences[work]
