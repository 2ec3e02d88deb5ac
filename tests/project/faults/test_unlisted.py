"""A claim on work that its file no longer has, and one request that several make at once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from callboard.project.project import Project
from callboard.project.source.answers import SetFields, SourcePatched
from tests.project.scenarios import PATCHED, WORK
from tests.project.world import World, refused


def test_a_claim_on_work_that_is_gone_is_shown_and_told(world: World) -> None:
    project = world.project
    file = world.root / "work.yaml"
    session = project.sessions.start("A", "codex", claim=True, ttl_ms=900_000).session.id
    file.write_text("work_items: []\n")
    project.source.index()
    shown = project.claims.show("A").claim
    assert shown is not None
    assert (shown.session, shown.state) == (session, "active")
    found = [one for one in project.doctor.check().findings if one.subject == shown.id]
    assert [(one.code, one.severity) for one in found] == [("claim_unlisted", "warning")]
    assert f"session end --session {session}" in found[0].hint
    project.sessions.end(session)
    assert project.doctor.check().findings == ()
    with refused("not_found"):
        project.claims.show("A")


@pytest.mark.parametrize("time", range(4))
def test_one_request_of_many_is_answered_to_all(world: World, time: int) -> None:
    file = world.root / "work.yaml"
    file.write_text(WORK)
    world.project.source.index()
    opened = [world.open() for _ in range(6)]
    start = Barrier(len(opened))

    def patch(project: Project) -> SourcePatched:
        start.wait(60)
        change = [SetFields(work="A", values={"title": "One and all"})]
        return project.source.patch(change, accept=True, request_id=f"p{time}")

    before = world.project.info().revision
    with ThreadPoolExecutor(len(opened)) as pool:
        answers = list(pool.map(patch, opened))
    assert answers == [answers[0]] * len(opened)
    assert file.read_text() == PATCHED
    assert world.project.info().revision == before + 1


def test_what_was_not_carried_out_keeps_its_refusal(world: World) -> None:
    file = world.root / "work.yaml"
    file.write_text(WORK)
    world.project.source.index()
    file.write_text(WORK + "# more\n")
    change = [SetFields(work="A", values={"title": "One and all"})]
    before = world.everything()
    with refused("source_conflict"):
        world.project.source.patch(change, accept=True, request_id="p1", expected_revision=1)
    file.write_text("work_items: [")
    with refused("source_invalid"):
        world.project.source.index(request_id="p2")
    assert world.everything() == before
