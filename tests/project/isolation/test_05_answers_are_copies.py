"""Condition 5: changing what was returned changes nothing that is stored."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from callboard.project.records import Record
from tests.project.world import World


def test_a_body_is_the_callers_own(world: World) -> None:
    given: dict[str, Any] = {"list": [1], "inner": {"a": 1}}
    answer = world.project.events.append("note.taken", given, request_id="r1")
    given["list"].append(2)
    answer.event.body["inner"]["a"] = 99
    # Each has a copy of their own.
    assert answer.event.body["list"] == [1]
    assert given["inner"] == {"a": 1}
    for _look in range(2):
        stored = world.project.events.list(type="note.taken").events[0]
        assert stored.body == {"list": [1], "inner": {"a": 1}}
        stored.body.clear()
    again = world.project.events.append(
        "note.taken", {"inner": {"a": 1}, "list": [1]}, request_id="r1"
    )
    assert again.event.body == {"list": [1], "inner": {"a": 1}}
    assert again.event.id == answer.event.id


def below(kind: type[Record]) -> Iterator[type[Record]]:
    """All kinds of records, those of the source files too."""
    for one in kind.__subclasses__():
        yield one
        yield from below(one)


def test_records_are_frozen(world: World) -> None:
    answer = world.project.sessions.start("A", "codex", claim=True)
    before = world.everything()
    for record, field in (
        (answer, "project_revision"),
        (answer.session, "work"),
        (answer.claim, "expires_at_ms"),
        (answer.events[0], "type"),
        (world.project.work.show("A").work, "acceptance"),
    ):
        with pytest.raises(AttributeError):
            setattr(record, field, None)
    assert isinstance(world.project.work.show("A").work.acceptance, tuple)
    kinds = list(below(Record))
    assert type(answer) in kinds
    assert [one for one in kinds if not one.__struct_config__.frozen] == []
    assert world.everything() == before
