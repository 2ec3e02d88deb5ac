"""Whether work can be begun: one rule, with each reason, the item it names and the way there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from callboard.canonical import sha256_hex
from callboard.clock import FixedClock
from callboard.project.project import Project
from callboard.project.records import Claim, WorkItem
from callboard.project.source.fields import STATUSES
from callboard.project.source.readiness import MAX_DEPTH, MAX_REASONS, is_ready, readiness
from tests.ambient import DEEP
from tests.project import indexing
from tests.project.inner import around, create_project, diagnose
from tests.project.source.scene import NOW, project, put, refused

EMPTY = "goals: []\n"


def item(key: str, *depends_on: str, status: str = "open", **more: object) -> WorkItem:
    values: dict[str, Any] = {"acceptance": (), "priority": None} | more
    return WorkItem(
        key=key,
        title=key,
        status=status,
        depends_on=depends_on,
        source_file="work.yaml",
        source_sha256=sha256_hex(EMPTY.encode()),
        **values,
    )


def claim(work: str, session: str) -> Claim:
    return Claim(
        id="c_1",
        work=work,
        session=session,
        agent="Ann",
        branch="main",
        state="active",
        fence=1,
        acquired_at_ms=1,
        expires_at_ms=None,
        released_at_ms=None,
    )


@dataclass
class World:
    """Facts that are handed in."""

    items: Mapping[str, WorkItem]
    done: set[str] = field(default_factory=set)
    claims: dict[str, Claim] = field(default_factory=dict)
    seen: set[tuple[str, str]] = field(default_factory=set)

    def item(self, key: str) -> WorkItem | None:
        return self.items.get(key)

    def completed(self, key: str) -> bool:
        return key in self.done

    def claim(self, key: str) -> Claim | None:
        return self.claims.get(key)

    def confirmed(self, key: str, edge: str) -> bool:
        return (key, edge) in self.seen


def world(*items: WorkItem) -> World:
    return World({one.key: one for one in items})


def told(facts: World, key: str, session: str | None = None) -> list[tuple[str, str, str]]:
    """Kind, item and path of each reason."""
    work = facts.items[key]
    found = readiness(work, facts, session=session)
    assert found.ready == (not found.reasons) == is_ready(work, facts, session=session)
    return [(one.kind, one.item, " ".join(one.path)) for one in found.reasons]


@pytest.mark.parametrize(
    ("status", "kinds"),
    [
        ("open", []),
        ("in_progress", []),
        ("blocked", ["blocked"]),
        ("done", ["closed"]),
        ("cancelled", ["closed"]),
    ],
)
def test_the_status_of_the_work_itself(status: str, kinds: list[str]) -> None:
    facts = world(item("A", status=status))
    assert told(facts, "A") == [(kind, "A", "A") for kind in kinds]


def test_work_completed_on_the_branch_is_not_begun_again_and_lets_others_begin() -> None:
    facts = world(item("A"), item("B", "A"))
    assert told(facts, "B") == [("dependency_open", "A", "B A")]
    facts.done.add("A")
    assert told(facts, "A") == [("completed", "A", "A")]
    assert told(facts, "B") == []


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        ("open", "dependency_open"),
        ("in_progress", "dependency_open"),
        ("blocked", "dependency_blocked"),
        ("cancelled", "dependency_cancelled"),
        ("done", None),
    ],
)
def test_the_status_of_a_dependency(status: str, kind: str | None) -> None:
    facts = world(item("A", status=status), item("B", "A"))
    assert told(facts, "B") == ([(kind, "A", "B A")] if kind else [])


def test_a_dependency_that_is_gone_is_a_reason() -> None:
    assert told(world(item("A", "B")), "A") == [("dependency_missing", "B", "A B")]


def test_a_live_claim_of_somebody_else_is_a_reason() -> None:
    facts = world(item("A"))
    facts.claims["A"] = claim("A", "s_1")
    assert told(facts, "A") == [("claimed", "A", "A")]
    assert told(facts, "A", "s_2") == [("claimed", "A", "A")]
    assert told(facts, "A", "s_1") == []
    (reason,) = readiness(facts.items["A"], facts).reasons
    assert reason.claim == facts.claims["A"]
    assert "'Ann' in session s_1" in reason.message


def test_what_hinders_further_down_is_told_with_the_way_there() -> None:
    facts = world(
        item("A", "B", "C"),
        item("B", "D"),
        item("C", "D", status="done"),
        item("D", "E", "other:1"),
        item("E", status="blocked"),
    )
    assert told(facts, "A") == [
        ("dependency_open", "B", "A B"),
        ("dependency_blocked", "E", "A B D E"),
        ("dependency_unverified", "other:1", "A B D other:1"),
    ]


def test_an_edge_to_elsewhere_holds_until_evidence_of_the_item_speaks_of_it() -> None:
    facts = world(item("A", "other:1"), item("B", "other:1"))
    assert told(facts, "A") == [("dependency_unverified", "other:1", "A other:1")]
    facts.seen.add(("A", "other:1"))
    assert told(facts, "A") == []
    assert told(facts, "B") == [("dependency_unverified", "other:1", "B other:1")]


def test_reasons_are_bounded() -> None:
    many = world(item("A", *(f"x{number}" for number in range(200))))
    assert len(told(many, "A")) == MAX_REASONS
    chain = world(
        *(item(str(number), str(number + 1)) for number in range(20_000)),
        item("20000", status="blocked"),
    )
    assert told(chain, "0") == [("dependency_open", "1", "0 1")]
    near = str(20_000 - MAX_DEPTH)
    assert [kind for kind, *_ in told(chain, near)] == ["dependency_open", "dependency_blocked"]


# --- from the database ---------------------------------------------------------------------------

DATA = """\
work_items:
- {id: A, title: One, acceptance: [works]}
- {id: B, title: Two, depends_on: [A], priority: 1}
- {id: C, title: Three, priority: 2}
- {id: D, title: Four, depends_on: ["other-repo:42"]}
- {id: E, title: Five, status: blocked}
- {id: F, title: Six, depends_on: [E]}
"""


def keys(made: Project, **named: Any) -> list[str]:
    return [one.key for one in made.work.ready(**named).ready]


def test_what_is_ready_comes_by_priority_then_as_in_the_file(tmp_path: Path) -> None:
    with project(tmp_path, DATA) as made:
        assert keys(made) == ["C", "A"]
        status = made.status()
        assert [one.key for one in status.ready] == ["C", "A"]
        assert (status.branch, status.more, status.project.key) == ("main", False, "demo")
        first = made.work.ready(limit=1)
        assert ([one.key for one in first.ready], first.more) == (["C"], True)


def test_every_answer_tells_the_same(tmp_path: Path) -> None:
    with project(tmp_path, DATA) as made:
        session = made.sessions.start("A", agent="ann", claim=True).session
        ready = keys(made)
        for key in "ABCDEF":
            shown = made.work.show(key).work
            assert shown.readiness.ready == (key in ready)
        assert ready == ["C"]
        shown = made.work.show("A").work
        assert [one.kind for one in shown.readiness.reasons] == ["claimed"]
        assert shown.claim is not None
        assert shown.claim.session == session.id
        assert made.work.show("A", session=session.id).work.readiness.ready
        error = refused("session_mismatch", lambda: made.work.show("B", session=session.id))
        assert error.details["expected"] == "A"


def test_a_claim_counts_until_it_lapses(tmp_path: Path) -> None:
    clock = FixedClock(NOW)
    with project(tmp_path, DATA, clock=clock) as made:
        made.sessions.start("C", agent="ann", claim=True, ttl_ms=1000)
        assert keys(made) == ["A"]
        clock.advance(999)
        assert keys(made) == ["A"]
        clock.advance(1)
        assert keys(made) == ["C", "A"]
        shown = made.work.show("C").work
        assert shown.readiness.ready
        assert shown.claim is not None
        assert shown.claim.state == "expired"


def test_evidence_confirms_an_edge_to_elsewhere_on_its_branch(tmp_path: Path) -> None:
    with project(tmp_path, DATA) as made:
        shown = made.work.show("D").work
        assert shown.external == ("other-repo:42",)
        assert [one.kind for one in shown.readiness.reasons] == ["dependency_unverified"]
        made.branches.create("side")
        made.evidence.add("seen", "merged there", work="D", covers=["other-repo:42"], branch="side")
        assert keys(made, branch="side") == ["C", "A", "D"]
        assert keys(made) == ["C", "A"]
        assert made.work.show("D", branch="side").work.external == ("other-repo:42",)
        refused(
            "criterion_unknown",
            lambda: made.evidence.add("seen", "x", work="D", covers=["other-repo:43"]),
        )


def test_the_doctor_tells_of_edges_to_elsewhere_and_keeps_them(tmp_path: Path) -> None:
    clock = FixedClock(NOW)
    with project(tmp_path, DATA, clock=clock) as made:
        held = made.sessions.start("D", agent="ann", claim=True, ttl_ms=1000)
        clock.advance(2000)
        assert held.claim is not None
        found = diagnose(tmp_path, around(clock)).findings
        assert [(one.code, one.details["depends_on"]) for one in found if one.subject == "D"] == [
            ("dependency_external", "other-repo:42")
        ]
        made.doctor.expire_claim(
            held.claim.id, reason="lapsed", expected_revision=made.info().revision
        )
        made.source.index()
        assert made.work.show("D").work.depends_on == ("other-repo:42",)
    assert (tmp_path / "work.yaml").read_text() == DATA


def test_work_that_left_the_files_is_told_missing(tmp_path: Path) -> None:
    with project(tmp_path, DATA) as made:
        indexing.replace(made, [item("B", "A")])
        (reason,) = made.work.show("B").work.readiness.reasons
        assert (reason.kind, reason.path) == ("dependency_missing", ("B", "A"))


# --- the query never hides what is ready ---------------------------------------------------------

SIZE = 6
rows = st.tuples(
    st.sampled_from(STATUSES),
    st.sets(st.sampled_from([*map(str, range(SIZE)), "r:1", "gone"]), max_size=3),
    st.sampled_from(["", "claim", "lapsed", "completed", "confirmed"]),
    st.none() | st.integers(1, 5),
)


# Each example is a database of its own, so there are fewer of them than elsewhere.
@settings(max_examples=400 if DEEP else 25)
@given(st.lists(rows, min_size=1, max_size=SIZE))
def test_the_listing_is_what_the_rule_says_of_each_item(
    tmp_path_factory: pytest.TempPathFactory,
    drawn: list[tuple[str, set[str], str, int | None]],
) -> None:
    folder = tmp_path_factory.mktemp("world")
    clock = FixedClock(NOW)
    items = [
        item(
            str(number),
            *sorted(edge for edge in edges if not edge.isdigit() or int(edge) < number),
            status=status,
            acceptance=("works",),
            priority=priority,
        )
        for number, (status, edges, _, priority) in enumerate(drawn)
    ]
    put(folder / "work.yaml", EMPTY)
    with create_project(folder, around(clock), "demo") as made:
        facts = world(*items)
        indexing.replace(made, [item(one.key, acceptance=("works",)) for one in items])
        for one, (_, _, what, _) in zip(items, drawn, strict=True):
            if what == "completed":
                session = made.sessions.start(one.key, agent="a", claim=True).session.id
                made.evidence.add("test", "x", session=session, covers=["works"])
                made.work.complete(one.key, session=session)
                made.sessions.end(session)
                facts.done.add(one.key)
        indexing.replace(made, items)
        for one, (_, _, what, _) in zip(items, drawn, strict=True):
            if what == "confirmed" and "r:1" in one.depends_on:
                made.evidence.add("seen", "x", work=one.key, covers=["r:1"])
                facts.seen.add((one.key, "r:1"))
            elif what in ("claim", "lapsed"):
                ttl = 1000 if what == "lapsed" else None
                held = made.sessions.start(one.key, agent="a", claim=True, ttl_ms=ttl)
                if what == "claim":
                    assert held.claim is not None
                    facts.claims[one.key] = held.claim
        clock.advance(1000)
        expected = sorted(
            (one for one in items if is_ready(one, facts)),
            key=lambda one: (one.priority is None, one.priority or 0, int(one.key)),
        )
        assert keys(made) == [one.key for one in expected]
        for one in items:
            shown = made.work.show(one.key).work.readiness
            assert shown == readiness(one, facts)
        found = [made.work.ready(limit=size).ready for size in range(1, len(items) + 1)]
        assert all(list(part) == expected[: len(part)] for part in found)
