"""A new project: proposed first, made on a yes, and nobody's file is ever changed."""

from __future__ import annotations

import os
import stat
from functools import partial
from pathlib import Path

import pytest

from callboard.project.project import Project
from callboard.project.source.place import Place
from callboard.project.source.reading import read_work
from tests.project.source.scene import put, refused


def contents(folder: Path) -> dict[str, bytes]:
    """All files below a folder, but for the database."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.name.startswith("project.db")
    }


def test_without_a_yes_nothing_is_made(tmp_path: Path) -> None:
    answer = Project.init(tmp_path, goal="Ship it")
    assert os.listdir(tmp_path) == []
    assert not answer.accepted
    assert answer.project is None
    assert [(file.path, file.action) for file in answer.files] == [
        ("work.yaml", "create"),
        (".callboard/.gitignore", "create"),
    ]
    assert "+    title: Ship it\n" in answer.files[0].diff


def test_on_a_yes_the_proposal_is_what_is_made(tmp_path: Path) -> None:
    proposed = Project.init(tmp_path, goal="Ship it")
    answer = Project.init(tmp_path, goal="Ship it", accept=True, key="demo")
    assert answer.files == proposed.files
    made = contents(tmp_path)
    assert sorted(made) == [".callboard/.gitignore", "work.yaml"]
    for file in proposed.files:
        lines = file.diff.splitlines()[3:]
        assert "".join(f"{line[1:]}\n" for line in lines).encode() == made[file.path]
    assert answer.project is not None
    assert (answer.project.key, answer.branch) == ("demo", "main")
    assert [one.key for one in answer.ready] == ["W-1"]
    assert answer.counts["work"] == {"open": 1}
    assert stat.S_IMODE((tmp_path / ".callboard").stat().st_mode) == 0o700
    with Project.open(tmp_path) as opened:
        assert opened.source.scan().indexed
        assert opened.info().revision == answer.project_revision


def test_a_project_that_is_there_is_left_as_it_is(tmp_path: Path) -> None:
    first = Project.init(tmp_path, accept=True)
    before = contents(tmp_path)
    for accept in (False, True):
        again = Project.init(tmp_path, goal="Another", accept=accept)
        assert {file.action for file in again.files} == {"keep"}
        assert {file.diff for file in again.files} == {""}
        assert again.project_revision == first.project_revision
        assert again.project == first.project
    assert contents(tmp_path) == before


def test_what_is_there_is_kept_and_indexed(tmp_path: Path) -> None:
    put(tmp_path / "work.yaml", "work_items:\n- {id: A, title: Mine}\n")
    put(tmp_path / ".gitignore", "*.log\n")
    (tmp_path / ".callboard").mkdir()
    put(tmp_path / ".callboard" / ".gitignore", "x\n")
    before = contents(tmp_path)
    answer = Project.init(tmp_path, accept=True)
    assert {file.action for file in answer.files} == {"keep"}
    assert [one.key for one in answer.ready] == ["A"]
    assert contents(tmp_path) == before


@pytest.mark.parametrize("accept", [False, True])
def test_a_faulty_work_file_is_told_and_nothing_is_made(tmp_path: Path, accept: bool) -> None:
    put(tmp_path / "work.yaml", "work_items:\n- {id: A}\n- {id: A, title: x}\n")
    error = refused("source_invalid", lambda: Project.init(tmp_path, accept=accept))
    assert error.details["count"] == 2
    assert os.listdir(tmp_path) == ["work.yaml"]


@pytest.mark.parametrize("accept", [False, True])
@pytest.mark.parametrize("goal", ["", " ", "a\nb", "a\x1b[1m", "x" * 501])
def test_a_goal_is_one_line_of_text(tmp_path: Path, goal: str, accept: bool) -> None:
    refused("value_invalid", lambda: Project.init(tmp_path, goal=goal, accept=accept))
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("goal", ["yes", "a: b", "- x", 'it\'s "so"', "# no", "🙂", "{a}", "@x"])
def test_any_goal_is_written_so_that_it_is_read_again(tmp_path: Path, goal: str) -> None:
    Project.init(tmp_path, goal=goal, accept=True)
    assert read_work(Place(tmp_path)).checked().goals[0].title == goal


@pytest.mark.parametrize("name", ["work.yaml", ".callboard"])
def test_links_are_not_followed(tmp_path: Path, name: str) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    root.mkdir()
    outside.mkdir()
    (root / name).symlink_to(outside / "x" if name == "work.yaml" else outside)
    refused("source_unsafe", lambda: Project.init(root, accept=True))
    assert os.listdir(outside) == []
    assert os.listdir(root) == [name]


# --- revisions and requests ---------------------------------------------------------------------


def test_what_is_expected_is_looked_at_before_anything_is_made(tmp_path: Path) -> None:
    error = refused(
        "revision_conflict", lambda: Project.init(tmp_path, accept=True, expected_revision=2)
    )
    assert error.details == {"expected": 2, "actual": 0}
    assert os.listdir(tmp_path) == []
    made = Project.init(tmp_path, accept=True, expected_revision=0)
    assert made.project_revision == 2
    put(tmp_path / "work.yaml", "work_items:\n- {id: A, title: Mine}\n")
    for stale in (0, 1, 3):
        error = refused(
            "revision_conflict",
            partial(Project.init, tmp_path, accept=True, expected_revision=stale),
        )
        assert error.details == {"expected": stale, "actual": 2}
    assert Project.init(tmp_path, accept=True, expected_revision=2).project_revision == 3


def test_a_request_is_carried_out_once(tmp_path: Path) -> None:
    first = Project.init(tmp_path, accept=True, key="demo", expected_revision=0, request_id="r1")
    assert [file.action for file in first.files] == ["create", "create"]
    put(tmp_path / "work.yaml", "work_items: no list")
    again = Project.init(tmp_path, accept=True, key="demo", expected_revision=0, request_id="r1")
    assert again == first
    with Project.open(tmp_path) as project:
        assert project.info().revision == 2
        receipt = project.receipts.show("r1").receipt
        assert (receipt.operation, receipt.revision) == ("init", 2)
        assert receipt.outcome["accepted"] is True
    refused(
        "request_conflict",
        lambda: Project.init(tmp_path, goal="Else", accept=True, key="demo", request_id="r1"),
    )
