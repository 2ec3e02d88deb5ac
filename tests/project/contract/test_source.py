"""Work files and what is known of them, on every kind of store: scan, index, patch, init."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

import pytest

from callboard.project.project import Project
from callboard.project.source.answers import AddItem, SetFields
from tests.project.contract.stores import Opened
from tests.project.world import SHA, SOURCE, refused

WORK = """\
goals:
  - {id: G, title: The goal}
work_items:
  - id: A  # first
    title: One
    goal: G
  - {id: B, title: Two, depends_on: [A, "other-repo:42"]}
"""


def of(text: str | bytes) -> str:
    return sha256(text.encode() if isinstance(text, str) else text).hexdigest()


def put(opened: Opened, text: str = WORK, name: str = "work.yaml") -> Path:
    path = opened.root / name
    path.write_text(text)
    return path


def test_a_scan_tells_what_changed_and_changes_nothing(opened: Opened) -> None:
    project = opened.project
    before = project.info()
    put(opened)
    found = project.source.scan()
    assert found.project_revision == before.revision
    (file,) = found.files
    assert (file.path, file.state, file.sha256, file.indexed_sha256, file.size_bytes) == (
        "work.yaml",
        "changed",
        of(WORK),
        SHA,
        len(WORK),
    )
    assert (found.items, found.goals, found.fault_count, found.indexed) == (2, 1, 0, False)
    (edge,) = found.external
    assert (edge.work, edge.depends_on, edge.line, edge.state) == (
        "B",
        "other-repo:42",
        7,
        "unverified",
    )
    assert project.info() == before
    project.source.index()
    again = project.source.scan()
    assert [one.state for one in again.files] == ["same"]
    assert again.indexed


def test_a_scan_tells_every_fault_and_an_index_takes_none(opened: Opened) -> None:
    project = opened.project
    before = project.work.list()
    put(opened, "work_items:\n- {id: A, title: One, depends_on: [Z]}\n- {id: A, title: ''}\n")
    found = project.source.scan()
    assert found.fault_count == len(found.faults)
    assert {(one.line, one.pointer) for one in found.faults} >= {(2, "/work_items/0/depends_on/0")}
    assert not found.indexed
    with refused("source_invalid") as error:
        project.source.index()
    assert error.value.details["count"] == found.fault_count
    with refused("source_invalid"):
        project.source.patch([SetFields(work="A", values={"title": "x"})])
    assert project.work.list() == before
    (opened.root / "work.yaml").unlink()
    for act in (project.source.scan, project.source.index):
        with refused("source_missing"):
            act()


def test_an_index_is_what_the_files_say(opened: Opened) -> None:
    project = opened.project
    put(opened, "sources: [more.yaml]\n" + WORK)
    put(opened, "work_items:\n  - {id: M, title: More}\n", "more.yaml")
    answer = project.source.index()
    assert (answer.items, answer.goals) == (3, 1)
    assert [one.path for one in answer.files] == ["work.yaml", "more.yaml"]
    assert answer.event.body["items"] == 3
    assert [one.key for one in project.work.list().work] == ["A", "B", "M"]
    put(opened)
    states = {one.path: one.state for one in project.source.scan().files}
    assert states == {"work.yaml": "changed", "more.yaml": "gone"}
    project.source.index()
    assert [one.key for one in opened.open().work.list().work] == ["A", "B"]


def test_a_patch_is_shown_first_and_written_on_a_yes(opened: Opened) -> None:
    project = opened.project
    path = put(opened)
    before = project.source.index().project_revision
    changed = WORK.replace("title: One", "title: One and all")
    change = [SetFields(work="A", values={"title": "One and all"})]
    shown = project.source.patch(change)
    assert not shown.accepted
    assert (shown.proposal.sha256, shown.proposal.changed_sha256) == (of(WORK), of(changed))
    assert "-    title: One\n+    title: One and all\n" in shown.proposal.diff
    assert path.read_text() == WORK
    assert project.info().revision == before
    written = project.source.patch(change, sha256=of(WORK), accept=True)
    assert written.accepted
    assert written.proposal == shown.proposal
    assert path.read_text() == changed
    assert project.work.show("A").work.title == "One and all"
    assert written.events[-1].body == {
        "path": "work.yaml",
        "before_sha256": of(WORK),
        "sha256": of(changed),
    }
    # Without a fingerprint it is what was indexed that was reviewed.
    added = project.source.patch([AddItem(values={"id": "N", "title": "New"})], accept=True)
    assert added.project_revision == before + 2
    assert [one.key for one in project.work.list().work] == ["A", "B", "N"]


def test_a_patch_leaves_foreign_bytes(opened: Opened) -> None:
    project = opened.project
    path = put(opened)
    project.source.index()
    change = [SetFields(work="A", values={"title": "Mine"})]
    foreign = WORK.replace("Two", "Theirs")
    put(opened, foreign)
    before = project.info()
    with refused("source_conflict") as found:
        project.source.patch(change, accept=True)
    assert (found.value.details["expected"], found.value.details["actual"]) == (
        of(WORK),
        of(foreign),
    )
    with refused("source_conflict"):
        project.source.patch(change, sha256=of(WORK))
    assert path.read_text() == foreign
    assert project.info() == before
    with refused("source_conflict"):
        session = project.sessions.start("A", "codex", claim=True).session.id
        project.work.complete("A", session=session)
    project.source.patch(change, sha256=of(foreign), accept=True)
    assert path.read_text() == foreign.replace("title: One", "title: Mine")


@pytest.mark.parametrize(
    ("code", "change"),
    [
        ("not_found", SetFields(work="Z", values={"title": "x"})),
        ("field_unknown", SetFields(work="A", values={"colour": "red"})),
        ("value_invalid", SetFields(work="A", values={"status": "lost"})),
        ("source_change_invalid", SetFields(work="A", values={})),
        ("source_change_invalid", SetFields(work="A", values={"id": "X"})),
        ("source_change_invalid", AddItem(values={"title": "without an id"})),
        ("source_change_invalid", AddItem(values={"id": "X", "title": "x"}, file="no.yaml")),
        ("source_invalid", AddItem(values={"id": "A", "title": "twice"})),
    ],
)
def test_a_change_that_is_none_is_refused(
    opened: Opened, code: str, change: SetFields | AddItem
) -> None:
    path = put(opened)
    opened.project.source.index()
    before = opened.project.info()
    for accept in (False, True):
        with refused(code):
            opened.project.source.patch([change], accept=accept)
    assert path.read_text() == WORK
    assert opened.project.info() == before


def test_init_takes_up_what_is_there(opened: Opened) -> None:
    project = opened.project
    put(opened)
    before = project.info().revision
    proposed = Project.init(opened.root)
    assert not proposed.accepted
    assert proposed.project == project.info()
    assert {one.path: one.action for one in proposed.files}["work.yaml"] == "keep"
    assert project.info().revision == before
    with refused("project_exists") as found:
        Project.init(opened.root, accept=True, key="other")
    assert found.value.details == {"key": "demo"}
    made = Project.init(opened.root, accept=True)
    assert (made.accepted, made.project_revision, made.branch) == (True, before + 1, "main")
    assert [one.key for one in made.ready] == ["A"]
    assert Project.init(opened.root, accept=True).project_revision == before + 1
    assert (opened.root / "work.yaml").read_text() == WORK


def test_the_doctor_sees_a_file_that_changed(opened: Opened) -> None:
    project = opened.project
    put(opened)
    (finding,) = project.doctor.check().findings
    assert (finding.code, finding.severity, finding.subject) == (
        "source_changed",
        "warning",
        "work.yaml",
    )
    assert finding.details == {"indexed_sha256": of(SOURCE), "sha256": of(WORK)}
    project.source.index()
    (finding,) = Project.diagnose(opened.root).findings
    assert (finding.code, finding.details) == (
        "dependency_external",
        {"depends_on": "other-repo:42"},
    )
