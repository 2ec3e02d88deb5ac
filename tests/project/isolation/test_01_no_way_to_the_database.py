"""Condition 1: what callers hold offers observations and operations, and leads to no database."""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Literal, Protocol, Union, get_args, get_origin, get_type_hints

import pytest

import callboard
from callboard.clock import Clock, SystemClock
from callboard.errors import CallboardError
from callboard.project import access
from callboard.project.answers import Answer
from callboard.project.project import Project
from callboard.project.records import Artifact, Record
from callboard.project.source.answers import Begun, Change, SetFields
from callboard.project.store import Store
from callboard.project.unit import Scope
from tests.project.isolation.conftest import copy_of
from tests.project.scenarios import SCENARIOS
from tests.project.world import World

PACKAGE = Path(callboard.__file__).parent
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
        if Path(at.f_code.co_filename).is_relative_to(PACKAGE):
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
    # `init` keeps one kind in its receipt and answers with another.
    found = set(_below(Answer)) - {Begun}
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


PLAIN = (str, int, bool, types.NoneType, Path)
MANY = (Sequence, Mapping, list, tuple, dict)


def not_plain(annotation: Any) -> Iterator[str]:
    """What of an annotation is more than a value: anything that may bring methods of its own."""
    parts = get_args(annotation)
    origin = get_origin(annotation)
    if annotation in PLAIN:
        return
    if origin in (Union, types.UnionType):
        rest = parts
    elif origin is Literal:
        rest = tuple(type(part) for part in parts)
    elif origin in MANY:
        rest = tuple(part for part in parts if part is not Ellipsis)
        # JSON, which is copied before anything begins; see the test below.
        if origin in (Mapping, dict) and rest[1] is Any:
            rest = rest[:1]
    elif is_frozen_record(annotation):
        rest = tuple(get_type_hints(annotation).values())
    else:
        yield str(annotation)
        return
    for part in rest:
        yield from not_plain(part)


def is_frozen_record(kind: Any) -> bool:
    """Whether it is a record of the wing that cannot be changed."""
    return (
        isinstance(kind, type)
        and issubclass(kind, Record)
        and kind.__struct_config__.frozen
        and kind.__module__.startswith("callboard.project.")
    )


def handed_in(owner: object) -> Iterator[tuple[str, str]]:
    """All that the public methods of an object take and that is no plain value."""
    for name, method in inspect.getmembers(owner, callable):
        if name.startswith("_"):
            continue
        hints = get_type_hints(method)
        for parameter in inspect.signature(method).parameters:
            if parameter not in hints:
                yield name, f"{parameter} without a type"
                continue
            for found in not_plain(hints[parameter]):
                yield name, f"{parameter}: {found}"


def test_callers_hand_in_no_callback(world: World) -> None:
    """Public methods take plain values: nothing with a method that a transaction could call."""
    groups = [getattr(world.project, name) for name in Project.__slots__ if name[0] != "_"]
    check_the_walk_through_signatures()
    for owner in (world.project, *groups):
        assert list(handed_in(owner)) == []


class Ids(Protocol):
    def new(self, prefix: str) -> str: ...


class Loose(Record, kw_only=True, frozen=True):
    """A frozen record, but of somebody else."""

    name: str


class Before:
    """Methods as a project once had them, and others that it must never have."""

    def open(self, path: str | Path, *, clock: Clock | None = None) -> None: ...
    def create(self, path: str | Path, *, ids: Ids | None = None) -> None: ...
    def concrete(self, clock: SystemClock) -> None: ...
    def called(self, act: Callable[[], None]) -> None: ...
    def listed(self, clocks: Sequence[Clock]) -> None: ...
    def named(self, clocks: Mapping[str, Clock]) -> None: ...
    def anything(self, value: object) -> None: ...
    def any(self, value: Any) -> None: ...
    def foreign(self, value: Loose) -> None: ...
    def store(self, store: Store) -> None: ...
    def several(self, *values: Ids) -> None: ...
    def fine(self, body: Mapping[str, Any], change: Change, path: Path | None) -> None: ...


def check_the_walk_through_signatures() -> None:
    """It finds each kind of what must not be handed in."""
    found = [name for name, _what in handed_in(Before())]
    assert found == sorted({name for name in vars(Before) if name[0] != "_"} - {"fine"})
    assert len(found) == 11


class Nosy:
    """Values whose methods look, whenever they are called, for a database in the frames below."""

    def __init__(self) -> None:
        self.calls = 0
        self._is_looking = False
        self.seen: list[str] = []
        self.text: Any = self._kind(str)
        self.list: Any = self._kind(list)
        self.dict: Any = self._kind(dict)

    def flag(self) -> Any:
        """Something true that says so itself."""

        def told(_self: object) -> bool:
            self._look("bool")
            return True

        return type("Flag", (), {"__bool__": told})()

    def _kind(self, kind: type) -> type:
        made = {"__new__", "__init__", "__init_subclass__", "__subclasshook__", "__class__"}
        names = [name for name in dir(kind) if callable(getattr(kind, name)) and name not in made]
        return type("Nosy", (kind,), {name: self._method(kind, name) for name in names})

    def _method(self, kind: type, name: str) -> Any:
        real = getattr(kind, name)

        def method(*arguments: Any, **named: Any) -> Any:
            self._look(name)
            return real(*arguments, **named)

        return method

    def _look(self, name: str) -> None:
        if self._is_looking:
            return
        self._is_looking = True
        self.calls += 1
        frame = inspect.currentframe()
        while frame is not None:
            if any(is_database(value) for value in frame.f_locals.values()):
                self.seen.append(f"{name} from {frame.f_code.co_qualname}")
            frame = frame.f_back
        self._is_looking = False


def test_no_method_of_a_caller_runs_beside_the_database(tmp_path: Path) -> None:
    """Text, lists and flags of a caller's own class become plain ones before anything begins."""
    nosy = Nosy()
    text = nosy.text
    root = tmp_path / "demo"
    root.mkdir()
    Project.init(text(root), goal=text("Ship it"), key=text("demo"), accept=nosy.flag())
    with Project.open(text(root), actor=text("codex")) as project:
        start = {"work": text("W-1"), "agent": text("codex"), "request_id": text("r1")}
        session = project.sessions.start(
            **start, branch=text("main"), claim=nosy.flag(), ttl_ms=60_000
        ).session.id
        project.sessions.start(**start, branch=text("main"), claim=nosy.flag(), ttl_ms=60_000)
        project.sessions.checkpoint(
            text(session),
            text("half"),
            text("go on"),
            open_loops=nosy.list([text("why")]),
            artifacts=nosy.list([Artifact(ref=text("a.txt"), sha256=text("ab" * 32))]),
        )
        project.claims.renew(text(session), 60_000)
        project.events.append(text("note.taken"), nosy.dict({"a": nosy.list([1])}))
        page = project.events.list(limit=1, session=text(session))
        project.events.list(limit=1, session=text(session), after=text(page.next))
        project.sessions.list(active=nosy.flag(), work=text("W-1"))
        project.evidence.add(
            text("test"), text("green"), work=text("W-1"), covers=nosy.list(), ref=text("a.txt")
        )
        project.evidence.list(current=nosy.flag())
        values = nosy.dict({text("title"): text("Other"), "tags": nosy.list([text("x")])})
        change = SetFields(work=text("W-1"), values=values)
        shown = project.source.patch(nosy.list([change])).proposal
        project.source.patch(nosy.list([change]), sha256=text(shown.sha256), accept=nosy.flag())
        project.branches.create(text("side"))
        project.work.list(status=text("open"), branch=text("side"))
        project.receipts.show(text("r1"))
        successor = project.sessions.resume(text(session), text("eve"), claim=nosy.flag())
        project.sessions.end(text(successor.session.id), outcome=text("done"))
    assert nosy.calls > 50
    assert nosy.seen == []


def test_a_closed_project_is_refused(world: World) -> None:
    again = world.open()
    kept: Any = again.sessions
    again.close()
    with pytest.raises(CallboardError, match="project_closed"):
        kept.list()
