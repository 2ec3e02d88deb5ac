"""Processes that complete at once, and what a doctor meets where a work file was.

Processes that are killed in between are in `tests/project/faults/test_kills.py`.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.project.peers import all_at_once
from tests.project.source.scene import project
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


@pytest.mark.parametrize("name", ["folder", "pipe", "link"])
def test_the_doctor_is_not_held_up_by_what_took_the_files_place(tmp_path: Path, name: str) -> None:
    with project(tmp_path, DATA) as made:
        file = tmp_path / "work.yaml"
        file.unlink()
        {"folder": file.mkdir, "pipe": lambda: os.mkfifo(file)}.get(
            name, lambda: file.symlink_to("/dev/zero")
        )()
        assert "source_gone" in [one.code for one in made.doctor.check().findings]
