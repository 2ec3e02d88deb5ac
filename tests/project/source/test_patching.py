"""Reviewed changes through the façade: shown first, written on a yes, never over foreign bytes."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from callboard.canonical import sha256_hex
from callboard.errors import CallboardError
from callboard.project.project import Project
from callboard.project.source.answers import AddItem, Change, SetFields
from tests.ambient import ROOT
from tests.project.source.scene import project, put, refused

DATA = """\
# The plan
goals:
- {id: G, title: Ship}
work_items:
- id: A   # first
  title: One
  depends_on: [B, other-repo:42]   # both
- id: B
  title: Two
"""


def set_to(work: str, **values: Any) -> Change:
    return SetFields(work=work, values=values)


def text(folder: Path) -> str:
    return (folder / "work.yaml").read_bytes().decode()


def test_a_proposal_shows_the_difference_and_writes_nothing(tmp_path: Path) -> None:
    with project(tmp_path, DATA) as made:
        before = made.info().revision
        answer = made.source.patch([set_to("A", status="done")])
        assert made.info().revision == before
    assert text(tmp_path) == DATA
    assert not answer.accepted
    assert answer.events == ()
    assert answer.proposal.sha256 == sha256_hex(DATA.encode())
    assert answer.proposal.diff == (
        "--- a/work.yaml\n"
        "+++ b/work.yaml\n"
        "@@ -5,5 +5,6 @@\n"
        " - id: A   # first\n"
        "   title: One\n"
        "   depends_on: [B, other-repo:42]   # both\n"
        "+  status: done\n"
        " - id: B\n"
        "   title: Two\n"
    )


def test_an_accepted_change_is_written_and_indexed_under_one_revision(tmp_path: Path) -> None:
    with project(tmp_path, DATA) as made:
        before = made.info().revision
        answer = made.source.patch(
            [set_to("B", status="done"), AddItem(values={"id": "C", "title": "Three"})], accept=True
        )
        assert made.info().revision == answer.project_revision == before + 1
        assert [event.type for event in answer.events] == ["source.indexed", "source.patched"]
        assert {event.revision for event in answer.events} == {before + 1}
        assert made.work.show("B").work.status == "done"
        assert made.work.show("C").work.title == "Three"
        assert made.source.scan().indexed
    assert text(tmp_path) == DATA + "  status: done\n- id: C\n  title: Three\n"
    assert sha256_hex(text(tmp_path).encode()) == answer.proposal.changed_sha256
    # The edge to the other repository is still there.
    assert "[B, other-repo:42]   # both" in text(tmp_path)


@pytest.mark.parametrize("fingerprint", [False, True])
def test_a_file_that_changed_since_it_was_reviewed_is_left_alone(
    tmp_path: Path, fingerprint: bool
) -> None:
    foreign = DATA + "# somebody was here\n"
    with project(tmp_path, DATA) as made:
        shown = made.source.patch([set_to("A", status="done")]).proposal.sha256
        put(tmp_path / "work.yaml", foreign)
        before = made.info().revision
        error = refused(
            "source_conflict",
            lambda: made.source.patch(
                [set_to("A", status="done")], sha256=shown if fingerprint else None, accept=True
            ),
        )
        assert error.details["expected"] == shown
        assert error.details["actual"] == sha256_hex(foreign.encode())
        assert made.info().revision == before
        assert text(tmp_path) == foreign
        # A conflict comes before anything that is said of the foreign bytes.
        put(tmp_path / "work.yaml", DATA + "what: 1\n")
        if fingerprint:
            refused(
                "source_conflict",
                lambda: made.source.patch([set_to("A", status="done")], sha256=shown),
            )


def test_a_change_that_was_reviewed_needs_no_index(tmp_path: Path) -> None:
    put(tmp_path / "work.yaml", DATA)
    with Project.create(tmp_path, key="demo") as made:
        changes = [set_to("A", owner="Ann")]
        refused("source_conflict", lambda: made.source.patch(changes, accept=True))
        shown = made.source.patch(changes).proposal.sha256
        made.source.patch(changes, sha256=shown, accept=True)
        assert made.work.show("A").work.owner == "Ann"


def test_a_request_is_carried_out_once(tmp_path: Path) -> None:
    with project(tmp_path, DATA) as made:
        changes = [AddItem(values={"id": "C", "title": "Three"})]
        first = made.source.patch(changes, accept=True, request_id="r-1")
        put(tmp_path / "work.yaml", "nothing: any more\n")
        assert made.source.patch(changes, accept=True, request_id="r-1") == first
        refused(
            "request_conflict",
            lambda: made.source.patch([set_to("A", owner="B")], accept=True, request_id="r-1"),
        )
        assert text(tmp_path) == "nothing: any more\n"


def test_an_expected_revision_that_is_past_changes_nothing(tmp_path: Path) -> None:
    with project(tmp_path, DATA) as made:
        refused(
            "revision_conflict",
            lambda: made.source.patch(
                [set_to("A", owner="Ann")], accept=True, expected_revision=made.info().revision - 1
            ),
        )
    assert text(tmp_path) == DATA


def test_what_would_make_the_files_faulty_is_refused_with_every_fault(tmp_path: Path) -> None:
    with project(tmp_path, DATA) as made:
        error = refused(
            "source_invalid",
            lambda: made.source.patch([set_to("B", depends_on=["A", "Z"], goal="H")], accept=True),
        )
        listed = error.details["faults"]
        assert isinstance(listed, list)
        assert sorted(one["message"] for one in listed) == [
            "a cycle: A -> B -> A",
            "depends on 'Z', which no work item has",
            "no goal has the id 'H'",
        ]
        assert text(tmp_path) == DATA


@pytest.mark.parametrize(
    ("code", "changes"),
    [
        ("source_change_invalid", []),
        ("source_change_invalid", [set_to("A")]),
        ("source_change_invalid", [set_to("A", id="Z")]),
        ("source_change_invalid", [AddItem(values={"id": "C"})]),
        ("source_change_invalid", [AddItem(values={"id": "C", "title": "x"}, file="other.yaml")]),
        ("source_change_invalid", ["A"]),
        ("source_change_invalid", [SetFields(work=7, values={"owner": "x"})]),  # type: ignore[arg-type]
        ("source_change_invalid", [AddItem(values={"id": "C", "title": "x"}, file=7)]),  # type: ignore[arg-type]
        ("field_unknown", [SetFields(work="A", values={7: "x"})]),  # type: ignore[dict-item]
        ("source_change_invalid", [set_to("A", owner="x")] * 101),
        ("source_invalid", [AddItem(values={"id": "a", "title": "x"})]),
        ("not_found", [set_to("a", status="done")]),
        ("field_unknown", [set_to("A", colour="red")]),
        ("value_invalid", [set_to("A", status="finished")]),
        ("value_invalid", [set_to("A", status=True)]),
        ("value_invalid", [set_to("A", title=None)]),
        ("value_invalid", [set_to("A", title="a\nb")]),
        ("value_invalid", [set_to("A", title="a\x1b[31m")]),
        ("value_invalid", [set_to("A", title="a\ud800")]),
        ("value_invalid", [set_to("A", owner=" x")]),
        ("value_invalid", [set_to("A", priority=True)]),
        ("value_invalid", [set_to("A", priority=6)]),
        ("value_invalid", [set_to("A", priority=1.0)]),
        ("value_invalid", [set_to("A", tags="a")]),
        ("value_invalid", [set_to("A", tags=["a", "a"])]),
        ("value_invalid", [set_to("A", tags=[1])]),
        ("value_invalid", [set_to("A", tags=["t"] * 201)]),
        ("value_invalid", [set_to("A", paths=["../x"])]),
        ("value_invalid", [set_to("A", depends_on=["x:"])]),
    ],
)
def test_what_is_no_change_is_refused_before_anything_is_written(
    tmp_path: Path, code: str, changes: list[Any]
) -> None:
    with project(tmp_path, DATA) as made:
        for accept in (False, True):
            error = refused(code, lambda: made.source.patch(changes, accept=accept))  # noqa: B023
            assert error.message.isprintable()
    assert text(tmp_path) == DATA


def test_a_change_goes_to_the_file_that_has_the_item(tmp_path: Path) -> None:
    more = "work_items:\r\n- id: C   # far\r\n  title: Three\r\n"
    put(tmp_path / "more.yaml", more)
    with project(tmp_path, "sources: [more.yaml]\n" + DATA) as made:
        answer = made.source.patch([set_to("C", owner="Ann")], accept=True)
        assert answer.proposal.file == "more.yaml"
        assert (tmp_path / "more.yaml").read_bytes() == more.encode() + b"  owner: Ann\r\n"
        added = AddItem(values={"id": "D", "title": "Four"}, file="more.yaml")
        made.source.patch([added], accept=True)
        assert made.work.show("D").work.source_file == "more.yaml"
        refused(
            "source_change_invalid",
            lambda: made.source.patch([set_to("A", owner="x"), set_to("C", owner="x")]),
        )


def test_a_link_put_in_the_place_of_the_file_is_not_written_through(tmp_path: Path) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside.yaml"
    root.mkdir()
    put(outside, DATA)
    with project(root, DATA) as made:
        (root / "work.yaml").unlink()
        (root / "work.yaml").symlink_to(outside)
        refused("source_unsafe", lambda: made.source.patch([set_to("A", owner="x")], accept=True))
        refused("source_unsafe", made.source.index)
        refused("source_unsafe", made.source.scan)
    assert outside.read_text() == DATA


@pytest.mark.parametrize("table", ["projects", "events", "receipts"])
def test_a_change_that_the_database_refuses_leaves_the_file(tmp_path: Path, table: str) -> None:
    """Whatever row cannot be written, the revision's and the receipt's included."""
    verb = "UPDATE" if table == "projects" else "INSERT"
    with project(tmp_path, DATA) as made:
        file = tmp_path / ".callboard" / "project.db"
        with sqlite3.connect(file) as connection:
            connection.execute(
                f"CREATE TRIGGER stop BEFORE {verb} ON {table} BEGIN SELECT RAISE(ABORT, 'no'); END"
            )
        connection.close()
        change = [set_to("A", owner="Ann")]
        with pytest.raises(CallboardError):
            made.source.patch(change, accept=True, request_id="one")
        assert text(tmp_path) == DATA
        assert made.work.show("A").work.owner is None
        with sqlite3.connect(file) as connection:
            connection.execute("DROP TRIGGER stop")
        connection.close()
        made.source.patch(change, accept=True, request_id="one")
        assert "owner: Ann" in text(tmp_path)
        assert made.work.show("A").work.owner == "Ann"


def test_scanning_tells_what_became_of_each_file(tmp_path: Path) -> None:
    put(tmp_path / "b.yaml", "goals: []\n")
    put(tmp_path / "c.yaml", "goals: []\n")
    with project(tmp_path, "sources: [b.yaml, c.yaml]\n" + DATA) as made:
        put(tmp_path / "c.yaml", "goals:\n- 1\n")
        put(tmp_path / "d.yaml", "goals: []\n")
        put(tmp_path / "work.yaml", "sources: [c.yaml, d.yaml]\n" + DATA)
        before = made.info().revision
        found = made.source.scan()
        assert [(file.path, file.state) for file in found.files] == [
            ("work.yaml", "changed"),
            ("c.yaml", "changed"),
            ("d.yaml", "new"),
            ("b.yaml", "gone"),
        ]
        assert [fault.file for fault in found.faults] == ["c.yaml"]
        assert not found.indexed
        (edge,) = found.external
        assert (edge.work, edge.depends_on, edge.state) == ("A", "other-repo:42", "unverified")
        assert made.info().revision == before
        error = refused("source_invalid", made.source.index)
        assert error.details["count"] == 1
        assert made.work.show("A").work.title == "One"


def test_indexing_is_one_change_and_can_be_repeated(tmp_path: Path) -> None:
    with project(tmp_path, DATA) as made:
        before = made.info().revision
        first = made.source.index(request_id="r-1")
        assert (first.items, first.goals, first.project_revision) == (2, 1, before + 1)
        assert first.files[0].sha256 == sha256_hex(DATA.encode())
        put(tmp_path / "work.yaml", "nothing: any more\n")
        assert made.source.index(request_id="r-1") == first


# --- two processes at once ------------------------------------------------------------------------

_PATCHER = """
import sys
from callboard.errors import CallboardError
from callboard.project.project import Project
from callboard.project.source.answers import SetFields

folder, work, rounds = sys.argv[1], sys.argv[2], int(sys.argv[3])
print("ready", flush=True)
sys.stdin.readline()
with Project.open(folder, busy_ms=60_000) as project:
    done = 0
    while done < rounds:
        change = SetFields(work=work, values={"next_action": f"step {done + 1}"})
        try:
            seen = project.source.patch([change]).proposal.sha256
            project.source.patch([change], sha256=seen, accept=True)
            done += 1
        except CallboardError as error:
            if error.code not in ("source_conflict", "source_busy"):
                raise
            print(error.code, flush=True)
print("done", flush=True)
"""


def test_processes_that_patch_one_file_at_once_lose_nothing(tmp_path: Path) -> None:
    rounds = 12
    project(tmp_path, DATA).close()
    peers = [
        subprocess.Popen(
            [sys.executable, "-c", _PATCHER, str(tmp_path), work, str(rounds)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for work in ("A", "B")
    ]
    for peer in peers:
        assert peer.stdout is not None
        assert peer.stdout.readline() == "ready\n"
    outs = []
    for peer in peers:
        assert peer.stdin is not None
        peer.stdin.write("go\n")
        peer.stdin.flush()
    for peer in peers:
        out, _ = peer.communicate(timeout=200)
        assert peer.returncode == 0
        outs.append(out.splitlines())
    assert all(out[-1] == "done" for out in outs)
    with Project.open(tmp_path) as made:
        assert made.source.scan().indexed
        assert [made.work.show(work).work.next_action for work in "AB"] == [f"step {rounds}"] * 2
        patched = made.events.list(type="source.patched", limit=500).events
        assert len(patched) == 2 * rounds
        # Each change began from the bytes that the one before had left.
        steps = [(event.body["before_sha256"], event.body["sha256"]) for event in patched]
        assert all(one[1] == two[0] for one, two in pairwise(steps))
    last = text(tmp_path)
    assert last.count(f"next_action: step {rounds}\n") == 2
    assert last.replace(f"  next_action: step {rounds}\n", "") == DATA
    assert sorted(path.name for path in tmp_path.iterdir()) == [".callboard", "work.yaml"]
