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
DISGUISED = (
    "Claim.Expired",
    "CLAIM.EXPIRED",
    "ｃlaim.expired",
    "work．completed",
    "worK.completed",
)


@pytest.mark.parametrize("type", [*RESERVED, *DISGUISED])
def test_it_is_refused_in_every_spelling(world: World, type: str) -> None:
    before = world.everything()
    with refused("event_type_reserved") as found:
        world.project.events.append(type, {"claim": "c_1"})
    named = str(found.value.details["operation"])
    assert RESERVED.get(type, named) in named
    assert named in found.value.hint
    assert world.everything() == before


@pytest.mark.parametrize("type", ["note.taken", "work.noted", "claims.counted", "sessions.seen"])
def test_others_are_observations(world: World, type: str) -> None:
    found = world.project.events.append(type, {"n": 1})
    assert found.event.type == type


@pytest.mark.parametrize(
    "type", ["", "note", "note taken", "note.", ".note", "note.\x07", "Note.taken"]
)
def test_what_is_no_type_is_refused_too(world: World, type: str) -> None:
    before = world.everything()
    with pytest.raises(Exception, match=r"value_invalid|name_invalid"):
        world.project.events.append(type, {})
    assert world.everything() == before
