"""Work branches, on every kind of store: made, chosen, closed, and what each of them keeps."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from callboard.project.project import Project
from tests.project.contract.stores import Opened
from tests.project.world import NOW_MS, refused


def shown(project: Project) -> list[tuple[str, str, bool]]:
    return [(one.name, one.state, one.selected) for one in project.branches.list().branches]


def test_the_list_is_in_the_order_of_their_making(opened: Opened) -> None:
    project = opened.project
    assert shown(project) == [("main", "open", True)]
    for name in ("zebra", "ant"):
        project.branches.create(name)
    project.branches.select("ant")
    project.branches.close("zebra")
    assert shown(opened.open()) == [
        ("main", "open", False),
        ("zebra", "closed", False),
        ("ant", "open", True),
    ]
    assert project.branches.list().project_revision == project.info().revision


def test_a_branch_has_the_documented_form(opened: Opened) -> None:
    project = opened.project
    made = msgspec.to_builtins(project.branches.create("side"))
    wanted: dict[str, Any] = {
        "name": "side",
        "state": "open",
        "selected": False,
        "created_at_ms": NOW_MS,
        "closed_at_ms": None,
    }
    assert made["branch"] == wanted
    assert made["event"]["body"] == {"branch": "side"}
    assert (made["event"]["branch"], made["event"]["work"]) == ("side", None)
    opened.clock.advance(5)
    chosen = project.branches.select("side")
    assert msgspec.to_builtins(chosen.branch) == wanted | {"selected": True}
    assert chosen.event.body == {"branch": "side", "before": "main"}
    closed = project.branches.close("side")
    assert msgspec.to_builtins(closed.branch) == wanted | {
        "selected": True,
        "state": "closed",
        "closed_at_ms": NOW_MS + 5,
    }


def test_main_is_never_closed(opened: Opened) -> None:
    before = opened.project.info()
    with refused("branch_protected"):
        opened.project.branches.close("main")
    assert opened.project.info() == before


def test_what_is_closed_is_neither_chosen_nor_closed_again(opened: Opened) -> None:
    project = opened.project
    project.branches.create("side")
    project.branches.close("side")
    for act in (project.branches.select, project.branches.close):
        with refused("branch_closed") as found:
            act("side")
        assert found.value.details == {"branch": "side"}
    with refused("name_taken"):
        project.branches.create("side")
    for act in (project.branches.select, project.branches.close):
        with refused("not_found") as found:
            act("Side")
        assert found.value.details["similar"] == "side"


def test_a_closed_branch_refuses_what_begins_and_keeps_what_is_under_way(opened: Opened) -> None:
    project = opened.project
    project.branches.create("side")
    under_way = project.sessions.start("A", "codex", branch="side", claim=True).session.id
    project.branches.select("side")
    project.branches.close("side")
    for act in (
        lambda: project.sessions.start("B", "codex"),
        lambda: project.sessions.start("B", "codex", branch="side"),
        lambda: project.sessions.next("codex"),
        lambda: project.sessions.next("codex", branch="side"),
        lambda: project.sessions.handoff(under_way, "claude"),
        lambda: project.sessions.resume(under_way, "claude"),
        lambda: project.sessions.interrupt(under_way),
        lambda: project.claims.acquire(under_way),
        lambda: project.claims.renew(under_way, 1000),
        lambda: project.events.append("note.taken", {}),
        lambda: project.events.append("note.taken", {}, session=under_way),
        lambda: project.evidence.add("test", "x", session=under_way),
        lambda: project.evidence.add("test", "x", work="A", branch="side"),
        lambda: project.work.complete("A", session=under_way),
    ):
        before = project.info()
        with refused("branch_closed"):
            act()
        assert project.info() == before
    # It stays readable.
    assert project.status().branch == "side"
    assert project.work.ready(branch="side").branch == "side"
    assert project.sessions.list(branch="side").sessions[0].id == under_way
    assert project.events.list(branch="side").events
    project.sessions.checkpoint(under_way, "half", "the rest")
    assert project.claims.release(under_way).claim.state == "released"
    assert project.sessions.end(under_way).session.state == "ended"


@pytest.mark.parametrize("said", ["side", None])
def test_a_branch_that_is_not_said_is_the_chosen_one(opened: Opened, said: str | None) -> None:
    project = opened.project
    project.branches.create("side")
    if said is None:
        project.branches.select("side")
    begun = project.sessions.start("A", "codex", branch=said)
    assert begun.session.branch == "side"
    assert project.events.append("note.taken", {}, branch=said).event.branch == "side"
    assert project.evidence.add("t", "s", work="A", branch=said).evidence.branch == "side"
    assert project.sessions.next("claude", branch=said).branch == "side"
    assert project.sessions.show(agent="codex", branch=said).session == begun.session
    assert project.work.show("C", branch=said).branch == "side"
    assert project.work.list(branch=said).branch == "side"
    assert project.work.ready(branch=said).branch == "side"


def test_choosing_is_the_matter_of_everybody_who_opens_the_project(opened: Opened) -> None:
    opened.project.branches.create("side")
    other = opened.open(actor="ann")
    opened.project.branches.select("side")
    assert other.status().branch == "side"


def test_closing_the_selected_one_is_remarked(opened: Opened) -> None:
    project = opened.project
    project.branches.create("side")
    project.branches.create("other")
    assert project.branches.close("other").remarks == ()
    project.branches.select("side")
    (remark,) = project.branches.close("side").remarks
    assert "still the selected one" in remark
