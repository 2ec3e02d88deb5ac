"""For each operation that changes a project, a state in which it can be carried out, and the call.

Nothing but the façade is used, so these fit any kind of store, and a call is plain JSON, so it can
be carried out by another process. What must come of a call is stated here, independently of the
code. An operation of the table without a scenario fails
`isolation/test_07_one_revision.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, cast

from callboard.clock import FixedClock
from callboard.project.project import Project
from callboard.project.source.answers import AddItem, SetFields
from tests.project.world import World

WORK = """\
work_items:
  - id: A  # first
    title: One
  - {id: B, title: Two, depends_on: [A]}
"""
PATCHED = WORK.replace("title: One", "title: One and all")


class Scene(Protocol):
    """An open project with the work of `tests.project.world`, its clock and its folder."""

    root: Path
    clock: FixedClock
    project: Project


def at(root: Path, clock_ms: int) -> Project:
    """The project in a folder, opened at that time."""
    return World(root, FixedClock(clock_ms), cast(Project, None)).open()


@dataclass(frozen=True)
class Call:
    """A call of the façade; everything in it is JSON."""

    method: str
    arguments: tuple[Any, ...] = ()
    named: dict[str, Any] = field(default_factory=dict)

    def on(self, project: Project, **more: Any) -> Any:
        """Carry it out."""
        act: Any = project
        for name in self.method.split("."):
            act = getattr(act, name)
        arguments = self.arguments
        if self.method == "source.patch":
            arguments = ([_change(one) for one in arguments[0]],)
        return act(*arguments, **self.named | more)


def _change(one: dict[str, Any]) -> SetFields | AddItem:
    if "work" in one:
        return SetFields(work=one["work"], values=one["values"])
    return AddItem(values=one["values"], file=one.get("file"))


@dataclass(frozen=True)
class Scenario:
    """A change that can be made.

    `told`: the types of the events of its one revision, in order. `again`: the code with which the
    very same call is refused when it is made once more as another request; None: it is carried out
    once more.
    """

    operation: str
    told: tuple[str, ...]
    again: str | None
    prepare: Callable[[Scene], Call]


SCENARIOS: dict[str, Scenario] = {}
"""By name; the name begins with the words of the operation."""

WITHOUT_PROJECT = {"init"}
"""Changing operations that make the project itself; tests of them prepare a folder."""


def scenario(
    name: str, *told: str, again: str | None
) -> Callable[[Callable[[Scene], Call]], Callable[[Scene], Call]]:
    """The function that follows brings a project there, and says what to call then."""

    def keep(prepare: Callable[[Scene], Call]) -> Callable[[Scene], Call]:
        assert name not in SCENARIOS
        SCENARIOS[name] = Scenario(name.partition(":")[0], told, again, prepare)
        return prepare

    return keep


def _held(scene: Scene, work: str = "A", ttl_ms: int | None = 900_000) -> str:
    answer = scene.project.sessions.start(work, "codex", claim=True, ttl_ms=ttl_ms)
    return answer.session.id


# --- sessions -----------------------------------------------------------------------------------


@scenario("session start", "session.started", again=None)
def _start(_scene: Scene) -> Call:
    return Call("sessions.start", ("A", "claude"), {"provider": "p", "model": "m"})


@scenario(
    "session start: takeover",
    "session.started",
    "claim.expired",
    "claim.acquired",
    again="claim_held",
)
def _takeover(scene: Scene) -> Call:
    _held(scene, ttl_ms=1000)
    scene.clock.advance(2000)
    return Call("sessions.start", ("A", "claude"), {"claim": True, "ttl_ms": 5000})


@scenario("session next", "session.started", "claim.acquired", again=None)
def _next(_scene: Scene) -> Call:
    return Call("sessions.next", ("claude",), {"ttl_ms": 5000})


@scenario("session checkpoint", "session.checkpointed", again=None)
def _checkpoint(scene: Scene) -> Call:
    session = _held(scene)
    return Call(
        "sessions.checkpoint", (session, "half of it", "the rest"), {"open_loops": ["who reads?"]}
    )


@scenario(
    "session handoff",
    "session.started",
    "claim.transferred",
    "claim.acquired",
    "session.handed_off",
    again="successor_exists",
)
def _handoff(scene: Scene) -> Call:
    return Call("sessions.handoff", (_held(scene), "claude"))


@scenario(
    "session resume: of one that nobody can ask",
    "session.interrupted",
    "session.started",
    "claim.transferred",
    "claim.acquired",
    "session.resumed",
    again="successor_exists",
)
def _resume_active(scene: Scene) -> Call:
    return Call("sessions.resume", (_held(scene), "claude"), {"ttl_ms": 7000})


@scenario(
    "session resume",
    "session.started",
    "claim.acquired",
    "session.resumed",
    again="successor_exists",
)
def _resume(scene: Scene) -> Call:
    session = _held(scene)
    scene.project.sessions.interrupt(session)
    return Call("sessions.resume", (session, "claude"), {"ttl_ms": 7000})


@scenario("session interrupt", "claim.released", "session.interrupted", again="session_not_active")
def _interrupt(scene: Scene) -> Call:
    return Call("sessions.interrupt", (_held(scene),))


@scenario("session end", "claim.released", "session.ended", again="session_not_active")
def _end(scene: Scene) -> Call:
    return Call("sessions.end", (_held(scene),), {"outcome": "all done"})


# --- claims -------------------------------------------------------------------------------------


@scenario("claim acquire", "claim.acquired", again="claim_held")
def _acquire(scene: Scene) -> Call:
    session = scene.project.sessions.start("A", "codex").session.id
    return Call("claims.acquire", (session,), {"ttl_ms": 5000})


@scenario("claim renew", "claim.renewed", again=None)
def _renew(scene: Scene) -> Call:
    return Call("claims.renew", (_held(scene, ttl_ms=1000), 9000))


@scenario("claim release", "claim.released", again="claim_not_holder")
def _release(scene: Scene) -> Call:
    return Call("claims.release", (_held(scene),))


@scenario("doctor repair expire-claim", "claim.expired", again="revision_conflict")
def _repair(scene: Scene) -> Call:
    claim = scene.project.sessions.start("A", "codex", claim=True, ttl_ms=1000).claim
    assert claim is not None
    scene.clock.advance(1000)
    seen = scene.project.info().revision
    return Call("doctor.expire_claim", (claim.id, "it is over"), {"expected_revision": seen})


# --- branches, history --------------------------------------------------------------------------


@scenario("branch create", "branch.created", again="name_taken")
def _create(_scene: Scene) -> Call:
    return Call("branches.create", ("side",))


@scenario("branch select", "branch.selected", again=None)
def _select(scene: Scene) -> Call:
    scene.project.branches.create("side")
    return Call("branches.select", ("side",))


@scenario("branch close", "branch.closed", again="branch_closed")
def _close(scene: Scene) -> Call:
    scene.project.branches.create("side")
    return Call("branches.close", ("side",))


@scenario("event append", "note.taken", again=None)
def _append(scene: Scene) -> Call:
    return Call("events.append", ("note.taken", {"n": 1}), {"session": _held(scene)})


@scenario("evidence add", "evidence.added", again=None)
def _add(scene: Scene) -> Call:
    session = _held(scene)
    return Call("evidence.add", ("test", "seen"), {"session": session, "covers": ["it runs"]})


# --- work and its files -------------------------------------------------------------------------


@scenario("work complete", "work.completed", again="work_not_ready")
def _complete(scene: Scene) -> Call:
    session = _held(scene)
    scene.project.evidence.add("t", "s", session=session, covers=["it runs", "it is told of"])
    return Call("work.complete", ("A",), {"session": session})


@scenario("doctor repair clock", "project.clock_repaired", again="revision_conflict")
def _repair_clock(scene: Scene) -> Call:
    scene.clock.advance(5000)
    seen = scene.project.events.append("note.taken", {}).project_revision
    scene.clock.advance(-5000)
    return Call("doctor.correct_clock", ("it was ahead",), {"expected_revision": seen})


@scenario("source index", "source.indexed", again=None)
def _index(scene: Scene) -> Call:
    (scene.root / "work.yaml").write_text(WORK)
    return Call("source.index")


@scenario("source patch", "source.indexed", "source.patched", again="source_conflict")
def _patch(scene: Scene) -> Call:
    (scene.root / "work.yaml").write_text(WORK)
    scene.project.source.index()
    changes = [{"work": "A", "values": {"title": "One and all"}}]
    seen = scene.project.source.scan().files[0].sha256
    return Call("source.patch", (changes,), {"sha256": seen, "accept": True})
