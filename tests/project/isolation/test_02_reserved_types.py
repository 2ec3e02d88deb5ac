"""Condition 2: nobody tells by hand what an operation tells; they are shown that operation."""

from __future__ import annotations

import pytest

from tests.project.world import World, refused

RESERVED = {
    "work.completed": "work complete",
    "claim.expired": "claim acquire",
    "claim.acquired": "claim acquire",
    "claim.anything": "claim acquire",
    "claim": "claim acquire",
    "session.ended": "session start",
    "branch.closed": "branch create",
    "handoff.accepted": "session handoff",
    "responsibility.accepted": "responsibility",
    "delivery.adopted": "deliveries",
    "graph.changed": "graph",
    "evidence.added": "evidence add",
    "source.indexed": "source index",
    "project.created": "init",
}
DISGUISED = {
    "Claim.Expired": "claim acquire",
    "CLAIM.EXPIRED": "claim acquire",
    "ｃlaim.expired": "claim acquire",
    "work．completed": "work complete",
    "worK.completed": "work complete",
}
SPELLINGS = RESERVED | DISGUISED


@pytest.mark.parametrize("type", SPELLINGS)
def test_it_is_refused_in_every_spelling(world: World, type: str) -> None:
    before = world.everything()
    with refused("event_type_reserved") as found:
        world.project.events.append(type, {"claim": "c_1"})
    named = str(found.value.details["operation"])
    assert SPELLINGS[type] in named
    assert named in found.value.hint
    assert world.everything() == before


@pytest.mark.parametrize("type", SPELLINGS)
def test_no_way_of_appending_takes_it(world: World, type: str) -> None:
    session = world.project.sessions.start("A", "codex", claim=True).session.id
    before = world.everything()
    with refused("event_type_reserved"):
        world.project.events.append(type, {}, session=session, request_id="r1")
    with refused("event_type_reserved"):
        world.project.events.append_in_branch("main", type, {}, session=session)
    assert world.everything() == before


@pytest.mark.parametrize("type", ["note.taken", "work.noted", "claims.counted", "sessions.seen"])
def test_others_are_observations(world: World, type: str) -> None:
    found = world.project.events.append(type, {"n": 1})
    assert found.event.type == type


NO_TYPES = {
    "": "name_invalid",
    "note": "value_invalid",
    "note taken": "value_invalid",
    "note.": "value_invalid",
    ".note": "value_invalid",
    "note.\x07": "name_invalid",
    "Note.taken": "value_invalid",
}


@pytest.mark.parametrize("type", NO_TYPES)
def test_what_is_no_type_is_refused_too(world: World, type: str) -> None:
    before = world.everything()
    with refused(NO_TYPES[type]):
        world.project.events.append(type, {})
    assert world.everything() == before
