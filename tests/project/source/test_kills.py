"""Processes that complete and patch at once, and ones that are killed in between."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from callboard.clock import FixedClock
from callboard.project.project import Project
from callboard.project.source.answers import SetFields
from tests.ambient import DEEP, ROOT
from tests.project.peers import all_at_once
from tests.project.source.scene import NOW, project
from tests.project.world import World

DATA = """\
work_items:
- {id: A, title: One}  # first
- {id: B, title: Two, depends_on: [A]}
"""


def test_of_many_processes_one_completes(world: World) -> None:
    session = world.project.sessions.start("A", "codex", claim=True).session.id
    world.project.evidence.add("t", "s", session=session, covers=["it runs", "it is told of"])
    peers = [world.peer() for _ in range(6)]
    for peer in peers:
        peer.ask("open")
    before = world.project.info().revision
    answers = all_at_once(peers, "work.complete", ["A"] * len(peers), session=session)
    codes = [one["error"]["code"] for one in answers if "error" in one]
    assert codes == ["work_not_ready"] * (len(peers) - 1)
    assert world.project.info().revision == before + 1
    assert len(world.project.events.list(type="work.completed").events) == 1


def test_a_process_killed_at_any_statement_completes_all_or_nothing(tmp_path: Path) -> None:
    def fresh(name: str) -> tuple[World, str]:
        folder = tmp_path / name
        folder.mkdir()
        clock = FixedClock(NOW)
        made = project(folder, DATA, clock=clock)
        session = made.sessions.start("A", "codex", claim=True).session.id
        made.evidence.add("t", "s", session=session)
        return World(folder, clock, made), session

    counting, session = fresh("counting")
    peer = counting.peer()
    peer.ask("open")
    peer.ask("crash_at", 0)
    assert "answer" in peer.ask("work.complete", "A", session=session)
    count = peer.ask("statements")["answer"]
    counting.end()
    for point in range(1, count + 1, 1 if DEEP else 4):
        dying, session = fresh(f"dying-{point}")
        before = dying.everything()
        peer = dying.peer()
        peer.ask("open")
        peer.ask("crash_at", point)
        assert peer.ask("work.complete", "A", session=session) == {"gone": -9}
        assert dying.everything() == before
        again = dying.peer()
        assert "answer" in again.ask("work.complete", "A", session=session)
        dying.end()


_DYING = """
import sys
from callboard.project.project import Project
from callboard.project.source.answers import SetFields
from tests.project.peers import SEEN, crash_at

with Project.open(sys.argv[1]) as project:
    project.info()
    crash_at(int(sys.argv[2]))
    change = SetFields(work="A", values={"status": "done"})
    project.source.patch([change], accept=True)
    print(len(SEEN))
"""


def test_a_process_killed_at_any_statement_leaves_a_whole_file(tmp_path: Path) -> None:
    first = tmp_path / "first"
    first.mkdir()
    project(first, DATA).close()
    after = DATA.replace("One}", "One, status: done}")

    def die(name: str, point: int) -> tuple[Path, subprocess.CompletedProcess[str]]:
        folder = tmp_path / name
        shutil.copytree(first, folder)
        argv = [sys.executable, "-c", _DYING, str(folder), str(point)]
        return folder, subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False)

    folder, whole = die("counting", 0)
    assert whole.returncode == 0, whole.stderr
    count = int(whole.stdout)
    assert (folder / "work.yaml").read_text() == after
    written = 0
    for point in [*range(1, count + 1, 1 if DEEP else 6), count]:
        folder, dead = die(f"dying-{point}", point)
        assert dead.returncode == -9
        text = (folder / "work.yaml").read_text()
        assert text in (DATA, after)
        with Project.open(folder) as made:
            assert made.work.show("A").work.status == "open"
            assert made.source.scan().indexed == (text == DATA)
            findings = [one.code for one in made.doctor.check().findings]
            assert ("source_changed" in findings) == (text == after)
            if text == after:
                written += 1
                made.source.index()
            else:
                made.source.patch([SetFields(work="A", values={"status": "done"})], accept=True)
            assert made.work.show("A").work.status == "done"
        assert (folder / "work.yaml").read_text() == after
    # The file is written last: only what advances the revision comes after it.
    assert written >= 1


@pytest.mark.parametrize("name", ["folder", "pipe", "link"])
def test_the_doctor_is_not_held_up_by_what_took_the_files_place(tmp_path: Path, name: str) -> None:
    with project(tmp_path, DATA) as made:
        file = tmp_path / "work.yaml"
        file.unlink()
        {"folder": file.mkdir, "pipe": lambda: os.mkfifo(file)}.get(
            name, lambda: file.symlink_to("/dev/zero")
        )()
        assert "source_changed" in [one.code for one in made.doctor.check().findings]
