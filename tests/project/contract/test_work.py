"""The projection of work: replaced as a whole, in the order of its files."""

from __future__ import annotations

from callboard.project.records import (
    Goal,
    SourceFile,
    WorkItem,
    WorkView,
)
from tests.project import indexing
from tests.project.contract.stores import Opened
from tests.project.world import SHA, item, refused


def test_it_is_replaced_as_a_whole(opened: Opened) -> None:
    project = opened.project
    files = [SourceFile(path="work.yaml", sha256=SHA, size_bytes=9)]
    goals = [Goal(key="G", title="The goal", source_file="work.yaml", source_sha256=SHA)]
    items = [
        item("Z", depends_on=("Y", "other-repo:42"), tags=("x",), priority=2, owner="ann"),
        item("Y", acceptance=("it runs",), paths=("src/**",), goal="G", workstream="w"),
    ]
    answer = indexing.replace(project, items, goals, files)
    assert (answer.items, answer.goals, answer.files) == (2, 1, tuple(files))
    assert answer.event.type == "source.indexed"
    assert [listed(one) for one in project.work.list().work] == items
    assert listed(project.work.show("Z").work) == items[0]


def listed(view: WorkView) -> WorkItem:
    """What the files say of a piece of work, without what the project knows of it."""
    return WorkItem(**{field: getattr(view, field) for field in WorkItem.__struct_fields__})


def test_claims_and_history_outlive_it(opened: Opened) -> None:
    project = opened.project
    session = project.sessions.start("A", "codex", claim=True).session.id
    indexing.replace(project, [item("N")])
    shown = project.sessions.show(session)
    assert shown.claim is not None
    assert shown.claim.state == "active"
    assert project.claims.release(session).claim.work == "A"
    assert project.events.list(work="A").events


def test_ten_thousand_pieces_go_by_pages(opened: Opened) -> None:
    project = opened.project
    indexing.replace(project, [item(f"W{number}") for number in range(10_000)])
    found = []
    after = None
    while True:
        page = project.work.list(after=after, limit=500)
        found += [one.key for one in page.work]
        after = page.next
        if after is None:
            break
    assert found == [f"W{number}" for number in range(10_000)]
    assert project.status().counts["work"] == {"open": 10_000}


def test_the_status_counts_a_lapsed_claim_as_expired(opened: Opened) -> None:
    project = opened.project
    project.sessions.start("A", "codex", claim=True, ttl_ms=100)
    project.sessions.start("B", "codex", claim=True)
    opened.clock.advance(100)
    assert project.status().counts["claims"] == {"active": 1, "expired": 1}


def test_the_status_tells_of_one_branch(opened: Opened) -> None:
    project = opened.project
    session = project.sessions.start("B", "codex", claim=True).session.id
    project.evidence.add("t", "s", session=session)
    project.work.complete("B", session=session)
    project.sessions.start("A", "kim", claim=True, ttl_ms=5)
    opened.clock.advance(5)
    project.branches.create("side")
    here, there = project.status(), project.status(branch="side")
    assert (here.branch, here.completed, here.lapsed) == ("main", 1, 1)
    assert (there.branch, there.completed, there.lapsed) == ("side", 0, 1)
    assert [one.key for one in here.ready] == ["A"]
    with refused("not_found"):
        project.status(branch="nowhere")


def test_an_unknown_status_is_refused(opened: Opened) -> None:
    listing = opened.project.work.list
    assert listing(status="done").work == ()
    assert listing(status="done").status == "done"
    assert listing().status is None
    with refused("value_invalid") as found:
        listing(status="foo")
    assert "'foo'" in found.value.message
    assert "in_progress" in found.value.hint


def test_taking_work_that_is_not_ready_is_remarked(opened: Opened) -> None:
    start = opened.project.sessions.start
    taken = start("C", "codex", claim=True)
    assert taken.claim is not None
    assert taken.remarks == ("the work is not ready: 'A' is open, not done",)
    assert start("A", "codex", claim=True).remarks == ()
    # Who takes nothing may look at anything.
    assert start("C", "kim").remarks == ()
