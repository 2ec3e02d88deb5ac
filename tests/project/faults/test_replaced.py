"""A database that is taken away, or exchanged for another one, while somebody has it open."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from callboard.project import access
from callboard.project.answers import BranchChanged
from callboard.project.operations import branches
from callboard.project.project import Project
from callboard.project.store import Order
from callboard.project.unit import Scope, Unit
from tests.project.world import World, refused

ASKED: dict[str, Callable[[Project], object]] = {
    "info": lambda project: project.info(),
    "status": lambda project: project.status(),
    "events": lambda project: project.events.list(),
    "append": lambda project: project.events.append("note.taken", {}),
    "branch": lambda project: project.branches.create("side"),
    "doctor": lambda project: project.doctor.check(),
}


def take_away(world: World) -> None:
    shutil.rmtree(world.file.parent)


def make_anew(world: World) -> None:
    take_away(world)
    Project.create(world.root, key="demo").close()


def exchange(world: World) -> None:
    copy = world.file.with_name("copy.db")
    raw = world.raw()
    raw.execute("VACUUM INTO ?", (str(copy),))
    raw.close()
    copy.replace(world.file)


@pytest.mark.parametrize("read_only", [False, True])
@pytest.mark.parametrize("lose", [take_away, make_anew, exchange])
def test_nothing_is_answered_from_a_lost_database(
    world: World, lose: Callable[[World], None], read_only: bool
) -> None:
    opened = world.open(read_only=read_only)
    opened.status()
    lose(world)
    for name, act in ASKED.items():
        code = "project_replaced"
        if read_only and name in ("append", "branch"):
            code = "project_readonly"
        with refused(code):
            act(opened)
    if lose is not take_away:
        with world.open() as again:
            again.branches.create("side")
            assert again.doctor.check().healthy


def test_a_claim_in_a_lost_database_is_not_renewed(world: World) -> None:
    session = world.project.sessions.start("A", "codex", claim=True, ttl_ms=900_000).session.id
    make_anew(world)
    with refused("project_replaced"):
        world.project.claims.renew(session, 900_000)


def test_it_is_looked_at_once_more_at_the_end(world: World, tmp_path: Path) -> None:
    store = access.store_of(world.project._key)
    aside = tmp_path / "aside"

    def lose(scope: Scope) -> BranchChanged:
        if isinstance(scope, Unit):
            branches.create(scope, "side")
        world.file.parent.rename(aside)
        return BranchChanged(project_revision=0, branch=None, event=None)  # type: ignore[arg-type]

    acts: tuple[Callable[[], object], ...] = (
        lambda: store.read(lose),
        lambda: store.write(Order("branch create"), BranchChanged, lose),
    )
    for act in acts:
        with refused("project_replaced"):
            act()
        aside.rename(world.file.parent)
        assert [one.name for one in world.project.branches.list().branches] == ["main"]


def test_a_database_lost_before_a_change_takes_nothing(world: World, tmp_path: Path) -> None:
    peer = world.peer()
    peer.ask("open")
    peer.bring("branches.create", "side")
    aside = tmp_path / "aside"
    world.file.parent.rename(aside)
    peer.let_go()
    assert peer.answer()["error"]["code"] == "project_replaced"
    aside.rename(world.file.parent)
    assert [one.name for one in world.project.branches.list().branches] == ["main"]
    assert peer.ask("branches.create", "side")["answer"]["branch"]["name"] == "side"
