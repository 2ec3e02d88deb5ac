"""Condition 1: what callers hold offers observations and operations, and leads to no database."""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

import pytest

from callboard.errors import CallboardError
from callboard.project import access
from callboard.project.project import Project
from callboard.project.records import Answer, Record
from callboard.project.store import Store
from callboard.project.unit import Scope
from tests.project.isolation.conftest import copy_of
from tests.project.scenarios import SCENARIOS
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


def public(project: Project) -> Iterator[tuple[str, Any]]:
    """All methods that callers have, with their names."""
    groups = [getattr(project, name) for name in Project.__slots__ if name[0] != "_"]
    for owner in (Project, *map(type, groups)):
        for name, method in inspect.getmembers(owner, callable):
            if name[0] != "_":
                yield f"{owner.__name__}.{name}", method


def promised(project: Project) -> set[type]:
    """Every type that a method says it answers with, and every kind of `Answer` there is."""
    found = set(_below(Answer))
    for _name, method in public(project):
        answer = get_type_hints(method).get("return")
        if isinstance(answer, type) and issubclass(answer, Record):
            found.add(answer)
    return found


def _below(kind: type[Any]) -> Iterator[type[Any]]:
    for one in kind.__subclasses__():
        yield one
        yield from _below(one)


def looked_at(project: Project) -> list[object]:
    """What the questions to a project are answered with."""
    session = project.sessions.start("B", "codex", claim=True, request_id="r1").session.id
    root = Path(access.store_of(project._key).backing.root)
    return [
        project.info(),
        project.status(),
        project.work.ready(),
        project.work.list(),
        project.work.show("A"),
        project.sessions.show(session),
        project.sessions.list(),
        project.claims.show("B"),
        project.branches.list(),
        project.events.list(),
        project.evidence.list(),
        project.source.scan(),
        project.receipts.show("r1"),
        project.doctor.check(),
        Project.init(root.parent / "new"),
    ]


def test_nothing_that_is_handed_out_leads_to_the_database(template: Path, tmp_path: Path) -> None:
    """One answer of each type, from every change and every question."""
    seen: set[type] = set()
    for number, scenario in enumerate(SCENARIOS.values()):
        world = copy_of(template, tmp_path / str(number) / "demo")
        (world.root.parent / "new").mkdir()
        call = scenario.prepare(world)
        found = [call.on(world.project)]
        if number == 0:
            check_the_walk(world)
            found += [world.project, Project, *looked_at(world.project)]
            wanted = promised(world.project)
        for thing in found:
            assert leaks(thing) == [], scenario.operation
        seen |= {type(thing) for thing in found}
        world.end()
    assert wanted - seen == set()


def check_the_walk(world: World) -> None:
    """Each way by which somebody might hide a store leads to it, or nothing found means nothing."""
    store = access.store_of(world.project._key)

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


PLAIN = (str, bytes, int, float, types.NoneType, Path, Record)
# What whoever opens a project may hand in, and no operation takes.
SURROUNDINGS = {
    f"Project.{opening}: {name}"
    for opening, names in (
        ("open", ("clock", "ids")),
        ("create", ("clock", "ids")),
        ("init", ("clock", "ids")),
        ("diagnose", ("clock",)),
    )
    for name in names
}


def is_plain(hint: Any) -> bool:
    """Whether a value of this kind is data alone, with nothing in it that could be called."""
    if get_origin(hint) is Literal:
        return True
    if get_args(hint):
        outer = get_origin(hint)
        known = outer in (types.UnionType, Mapping, Sequence, dict, list, tuple)
        return known and all(map(is_plain, get_args(hint)))
    # Anything at all is for a body, which is turned into JSON before somebody looks at it.
    return hint is Any or (isinstance(hint, type) and issubclass(hint, PLAIN))


def test_callers_hand_in_no_callback(world: World) -> None:
    """No public method takes something that could be called inside of a transaction."""
    assert not is_plain(Callable[[], int])
    assert not is_plain(Mapping[str, Callable[[], int]])
    taken = {
        f"{where}: {name}"
        for where, method in public(world.project)
        for name, hint in get_type_hints(method).items()
        if name != "return" and not is_plain(hint)
    }
    assert taken == SURROUNDINGS


def test_a_closed_project_is_refused(world: World) -> None:
    again = world.open()
    kept: Any = again.sessions
    again.close()
    with pytest.raises(CallboardError, match="project_closed"):
        kept.list()
