"""The next work, and what can be begun, on every kind of store."""

from __future__ import annotations

from tests.project import indexing
from tests.project.contract.stores import Opened
from tests.project.world import NOW_MS, item, refused


def test_the_next_work_is_the_most_urgent_that_is_ready(opened: Opened) -> None:
    project = opened.project
    indexing.replace(
        project,
        [
            item("last"),
            item("second", priority=5),
            item("third", priority=5),
            item("first", priority=1),
            item("waits", priority=0, depends_on=("last",)),
            item("closed", priority=0, status="done"),
            item("stuck", priority=0, status="blocked"),
        ],
    )
    order = ["first", "second", "third", "last"]
    assert [one.key for one in project.work.ready().ready] == order
    taken = []
    for number in range(4):
        answer = project.sessions.next(f"agent-{number}", provider="p", model="m", ttl_ms=1000)
        assert answer.work is not None
        assert answer.session is not None
        assert answer.claim is not None
        assert answer.session.work == answer.claim.work == answer.work.key
        assert answer.claim.expires_at_ms == NOW_MS + 1000
        assert (answer.session.agent, answer.session.provider) == (f"agent-{number}", "p")
        assert [one.type for one in answer.events] == ["session.started", "claim.acquired"]
        taken.append(answer.work.key)
    assert taken == order


def test_where_nothing_is_ready_nothing_is_written(opened: Opened) -> None:
    project = opened.project
    indexing.replace(project, [item("A")])
    project.sessions.next("codex", ttl_ms=1000)
    before = project.info()
    answer = project.sessions.next("claude", request_id="r-1")
    assert (answer.work, answer.session, answer.claim, answer.events) == (None, None, None, ())
    assert (answer.branch, answer.project_revision) == ("main", before.revision)
    assert project.info() == before
    # So the same request takes what is ready by then.
    opened.clock.advance(1000)
    answer = project.sessions.next("claude", request_id="r-1")
    assert answer.claim is not None
    assert answer.claim.fence == 2
    assert [one.type for one in answer.events] == [
        "session.started",
        "claim.expired",
        "claim.acquired",
    ]


def test_what_can_be_begun_is_shown_as_far_as_asked(opened: Opened) -> None:
    project = opened.project
    indexing.replace(project, [item(f"W{number:02}") for number in range(25)])
    page = project.work.ready(limit=3)
    assert [one.key for one in page.ready] == ["W00", "W01", "W02"]
    assert page.more
    everything = project.work.ready(limit=25)
    assert (len(everything.ready), everything.more) == (25, False)
    glance = project.status()
    assert (len(glance.ready), glance.more) == (20, True)
    assert glance.counts["work"] == {"open": 25}
    for limit in (0, 501, -1, True, 1.0, "5"):
        with refused("value_invalid"):
            project.work.ready(limit=limit)  # type: ignore[arg-type]


def test_work_is_shown_as_a_session_sees_it(opened: Opened) -> None:
    project = opened.project
    project.branches.create("side")
    own = project.sessions.start("A", "codex", branch="side", claim=True).session.id
    assert not project.work.show("A").work.readiness.ready
    shown = project.work.show("A", session=own)
    assert (shown.branch, shown.work.readiness.ready) == ("side", True)
    assert shown.work.claim is not None
    with refused("session_mismatch"):
        project.work.show("B", session=own)
    with refused("session_mismatch"):
        project.work.show("A", session=own, branch="main")
    with refused("not_found"):
        project.work.show("A", session="s_1")
    listed = {one.key: one.claim is not None for one in project.work.list(status="open").work}
    assert listed == {"A": True, "B": False, "C": False}
    assert project.work.list(status="done").work == ()
