"""Evidence, on every kind of store: what it covers, where it counts, and how it is listed."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.project import indexing
from tests.project.contract.stores import Opened
from tests.project.world import ITEMS, NOW_MS, SHA, item, refused


def test_it_has_the_documented_form(opened: Opened) -> None:
    project = opened.project
    session = project.sessions.start("A", "codex").session.id
    answer = project.evidence.add(
        "test-run", "all green", session=session, covers=["it runs"], ref="ci/12", sha256=SHA
    )
    document = msgspec.to_builtins(answer.evidence)
    wanted = {
        "id": answer.evidence.id,
        "work": "A",
        "branch": "main",
        "session": session,
        "agent": "codex",
        "kind": "test-run",
        "summary": "all green",
        "covers": ("it runs",),
        "ref": "ci/12",
        "sha256": SHA,
        "at_ms": NOW_MS,
        "revision": answer.project_revision,
        "currency": "current",
    }
    assert document == wanted
    assert answer.event.type == "evidence.added"
    assert answer.event.body == {
        "evidence": answer.evidence.id,
        "kind": "test-run",
        "covers": 1,
        "sha256": SHA,
    }
    page = opened.open().evidence.list(work="A")
    assert page.evidence == (answer.evidence,)
    assert page.next is None


def test_it_counts_on_its_own_branch(opened: Opened) -> None:
    project = opened.project
    project.branches.create("side")
    here = project.evidence.add("t", "here", work="A", branch="main").evidence.id
    there = project.evidence.add("t", "there", work="A", branch="side").evidence.id

    def listed(**more: Any) -> list[tuple[str, str]]:
        return [(one.id, one.currency) for one in project.evidence.list(**more).evidence]

    assert listed() == [(here, "current"), (there, "historical")]
    assert listed(branch="side") == [(here, "historical"), (there, "current")]
    assert listed(current=True) == [(here, "current")]
    assert listed(branch="side", current=True) == [(there, "current")]
    project.branches.select("side")
    assert listed(current=True) == [(there, "current")]
    # A closed branch keeps what was seen on it.
    project.branches.close("side")
    assert listed(current=True) == [(there, "current")]
    with refused("not_found"):
        listed(branch="nowhere")


def test_it_is_of_a_session_or_of_work(opened: Opened) -> None:
    project = opened.project
    project.branches.create("side")
    session = project.sessions.start("A", "codex", branch="side").session.id
    before = project.info()
    with refused("value_invalid"):
        project.evidence.add("t", "of nothing")
    with refused("session_mismatch"):
        project.evidence.add("t", "s", session=session, work="B")
    with refused("session_mismatch"):
        project.evidence.add("t", "s", session=session, branch="main")
    with refused("not_found"):
        project.evidence.add("t", "s", work="Z")
    with refused("not_found"):
        project.evidence.add("t", "s", session="s_1")
    with refused("not_found"):
        project.evidence.add("t", "s", work="A", branch="nowhere")
    for digest in ("", "ab", "AB" * 32, "g" * 64, 5):
        with refused("value_invalid"):
            project.evidence.add("t", "s", work="A", sha256=digest)  # type: ignore[arg-type]
    assert project.info() == before
    assert project.evidence.add("t", "s", session=session, work="A").evidence.branch == "side"
    without = project.evidence.add("t", "s", work="A").evidence
    assert (without.session, without.agent, without.branch) == (None, None, "main")


def test_a_criterion_is_spelled_as_the_work_does(opened: Opened) -> None:
    project = opened.project
    indexing.replace(project, [*ITEMS, item("D", depends_on=("other-repo:42", "A"))])
    for covers in (["It runs"], ["it runs", "it flies"], ["A"]):
        with refused("criterion_unknown") as found:
            project.evidence.add("t", "s", work="A", covers=covers)
        assert found.value.details["acceptance"] == ["it runs", "it is told of"]
        assert found.value.details["criterion"] == covers[-1]
    assert project.evidence.list().evidence == ()
    # A text alone would be a list of its letters.
    for wrong in ("it runs", ["x"] * 201):
        with refused("value_invalid"):
            project.evidence.add("t", "s", work="A", covers=wrong)
    # An edge to elsewhere is confirmed so; one to work that is here is not.
    reasons = [one.kind for one in project.work.show("D").work.readiness.reasons]
    assert reasons == ["dependency_unverified", "dependency_open"]
    project.evidence.add("t", "s", work="D", covers=["other-repo:42"])
    reasons = [one.kind for one in project.work.show("D").work.readiness.reasons]
    assert reasons == ["dependency_open"]
    with refused("criterion_unknown"):
        project.evidence.add("t", "s", work="D", covers=["A"])


@pytest.mark.parametrize("limit", [1, 2, 500])
def test_it_goes_by_pages_from_the_oldest(opened: Opened, limit: int) -> None:
    project = opened.project
    ids = [project.evidence.add("t", f"{number}", work="A").evidence.id for number in range(5)]
    project.evidence.add("t", "of other work", work="B")
    found: list[str] = []
    after = None
    while True:
        page = project.evidence.list(work="A", after=after, limit=limit)
        assert len(page.evidence) <= limit
        found += [one.id for one in page.evidence]
        after = page.next
        if after is None:
            break
    assert found == ids


def test_evidence_of_another_branch_completes_nothing(opened: Opened) -> None:
    project = opened.project
    project.branches.create("side")
    session = project.sessions.start("A", "codex", claim=True).session.id
    for criterion in ("it runs", "it is told of"):
        project.evidence.add("t", "s", work="A", branch="side", covers=[criterion])
    with refused("acceptance_uncovered") as found:
        project.work.complete("A", session=session)
    assert found.value.details["work"] == "A"
    assert project.events.list(type="work.completed").events == ()
