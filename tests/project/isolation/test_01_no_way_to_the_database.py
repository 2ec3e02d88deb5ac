"""Condition 1: what callers hold offers observations and operations, and leads to no database."""

from __future__ import annotations

import inspect
import types
from collections.abc import Iterator
from itertools import islice
from typing import Any

import pytest

from callboard.errors import CallboardError
from callboard.project.project import Project
from callboard.project.store import Store
from callboard.project.unit import Scope
from tests.project.world import World

FOREIGN = ("sqlalchemy", "sqlite3", "alembic", "psycopg")
BUILT_IN = (
    types.BuiltinFunctionType,
    types.MethodWrapperType,
    types.WrapperDescriptorType,
    types.MethodDescriptorType,
    types.ClassMethodDescriptorType,
    types.GetSetDescriptorType,
    types.MemberDescriptorType,
)
LEAVES = (str, bytes, int, float, bool, types.NoneType, types.ModuleType, types.CodeType)


def found_from(start: object) -> Iterator[tuple[str, object]]:
    """Everything that can be reached from an object, with the way there.

    The globals of a function are not followed: from any function they lead to all modules there
    are. So a store is out of reach as long as no object holds it.
    """
    seen: dict[int, object] = {}
    rest: list[tuple[str, object]] = [("", start)]
    while rest:
        way, at = rest.pop()
        if id(at) in seen or isinstance(at, LEAVES):
            continue
        seen[id(at)] = at
        yield way, at
        rest += [(f"{way}.{name}", part) for name, part in parts_of(at)]


def parts_of(at: object) -> Iterator[tuple[str, object]]:
    """Attributes and slots, what functions close over and are bound to, members, error chains."""
    if isinstance(at, dict):
        yield from ((f"[{key!r}]", value) for key, value in at.items())
    elif isinstance(at, (list, tuple, set, frozenset)):
        yield from ((f"[{number}]", value) for number, value in enumerate(at))
    elif isinstance(at, types.FrameType):
        # The walk goes by frames of the wing only: those of the test hold the test.
        if "/src/callboard/" in at.f_code.co_filename:
            yield from at.f_locals.items()
    elif isinstance(at, types.CellType):
        yield "cell", at.cell_contents
    elif isinstance(at, types.FunctionType):
        for name in ("__closure__", "__defaults__", "__kwdefaults__", "__dict__"):
            yield name, getattr(at, name)
    elif isinstance(at, BUILT_IN):
        # Each of these makes new ones of its kind for ever; what it is bound to is all it holds.
        yield "__self__", getattr(at, "__self__", None)
    elif isinstance(at, type):
        yield from vars(at).items()
        yield "__mro__", at.__mro__
    else:
        yield "class", type(at)
        for name in dir(at):
            try:
                yield name, getattr(at, name)
            # A name without a value: a slot that is empty, or a property that has nothing to say.
            except (AttributeError, ValueError, TypeError, NotImplementedError):
                continue


def is_database(at: object) -> bool:
    """Whether it is a store, or something of a library for databases."""
    if isinstance(at, (Store, Scope)):
        return True
    kind = at if isinstance(at, type) else type(at)
    owner = str(getattr(at, "__module__", "")) if isinstance(at, types.FunctionType) else ""
    return f"{kind.__module__}.".startswith(FOREIGN) or owner.startswith(FOREIGN)


def leaks(start: object) -> list[str]:
    """The first ways to a database."""
    return list(islice((way for way, at in found_from(start) if is_database(at)), 1))


def used(world: World) -> list[object]:
    """One of every answer."""
    project = world.project
    one = project.sessions.start("A", "codex", claim=True, ttl_ms=1000, request_id="r1")
    session = one.session.id
    return [
        one,
        project.claims.renew(session, 2000),
        project.claims.show("A"),
        project.sessions.checkpoint(session, "half", "go on"),
        project.sessions.show(session),
        project.sessions.list(),
        project.events.append("note.taken", {"a": [1]}, session=session),
        project.events.list(),
        project.evidence.add("test", "green", session=session, covers=["it runs"]),
        project.evidence.list(),
        project.branches.create("side"),
        project.branches.list(),
        project.work.show("A"),
        project.work.list(),
        project.receipts.show("r1"),
        project.doctor.check(),
        project.sessions.handoff(session, "claude"),
        project.info(),
        project.status(),
    ]


def test_nothing_that_is_handed_out_leads_to_the_database(world: World) -> None:
    for thing in (world.project, Project, *used(world)):
        assert leaks(thing) == []


def test_a_refusal_leads_nowhere_either(world: World) -> None:
    refusals: list[CallboardError] = []
    for act in (
        lambda: world.project.sessions.show("s_nobody"),
        lambda: world.project.claims.release("s_nobody"),
        lambda: world.project.branches.create("Main"),
        lambda: Project.open(world.root.parent),
    ):
        with pytest.raises(CallboardError) as found:
            act()
        refusals.append(found.value)
    connection = world.raw()
    connection.execute("DROP TABLE claims")
    connection.close()
    with pytest.raises(CallboardError) as found:
        world.project.claims.show("A")
    assert found.value.code == "storage_failed"
    for refusal in (*refusals, found.value):
        assert refusal.__cause__ is None
        assert refusal.__context__ is None
        assert leaks(refusal) == []


def test_the_walk_finds_what_is_there_to_be_found(world: World) -> None:
    # The walk itself: each way by which somebody might hide a store leads to it.
    from callboard.project import access

    store = access._stores[world.project._key._word]

    class Slotted:
        __slots__ = ("held",)
        held: object

    slotted = Slotted()
    slotted.held = store
    for hiding in (
        store.read,
        lambda: store,
        slotted,
        [{"a": (store,)}],
        types.SimpleNamespace(a=store),
    ):
        assert leaks(hiding)


def test_callers_hand_in_no_callback(world: World) -> None:
    """No public method takes something to call inside of a transaction."""
    groups = [getattr(world.project, name) for name in Project.__slots__ if name[0] != "_"]
    for group in (Project, *groups):
        for name, method in inspect.getmembers(group, callable):
            if name.startswith("_"):
                continue
            for parameter in inspect.signature(method).parameters.values():
                assert "Callable" not in str(parameter.annotation), (group, name)
                assert "Connection" not in str(parameter.annotation)


def test_a_closed_project_is_refused(world: World) -> None:
    again = world.open()
    kept: Any = again.sessions
    again.close()
    with pytest.raises(CallboardError, match="project_closed"):
        kept.list()
