"""A new project: proposed first, made on a yes, and nobody's file is ever changed."""

from __future__ import annotations

import json
import os
import resource
import stat
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from callboard.project.project import Project
from callboard.project.source.place import Place
from callboard.project.source.reading import read_work
from tests.project.inner import around, create_project
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


def test_a_named_request_is_kept_also_where_nothing_is_to_be_made(tmp_path: Path) -> None:
    Project.init(tmp_path, accept=True, key="demo")
    first = Project.init(tmp_path, accept=True, request_id="r1")
    with Project.open(tmp_path) as project:
        assert project.receipts.show("r1").receipt.revision == first.project_revision == 3
    assert Project.init(tmp_path, accept=True, request_id="r1") == first
    refused(
        "request_conflict",
        lambda: Project.init(tmp_path, goal="Else", accept=True, request_id="r1"),
    )


def test_there_is_none_yet_is_looked_at_also_where_nothing_is_to_be_made(tmp_path: Path) -> None:
    Project.init(tmp_path, accept=True)
    error = refused(
        "revision_conflict", lambda: Project.init(tmp_path, accept=True, expected_revision=0)
    )
    assert error.details == {"expected": 0, "actual": 2}


# --- others at it, and ends halfway -------------------------------------------------------------

INIT = """
import json, resource, sys
from callboard.errors import CallboardError
from callboard.project.project import Project
folder, goal, limit = sys.argv[1:]
if limit != "none":
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(limit), int(limit)))
print("up", flush=True)
sys.stdin.readline()
try:
    found = Project.init(folder, goal=goal, accept=True, key="demo", request_id=goal,
                         expected_revision=0 if limit != "none" else None)
    print(json.dumps([file.action for file in found.files]))
except CallboardError as error:
    print(json.dumps([error.code, error.message, error.details.get("made", [])]))
"""


def starting(folder: Path, goal: str, limit: str = "none") -> subprocess.Popen[str]:
    """A process that is about to begin a project."""
    process = subprocess.Popen(
        [sys.executable, "-c", INIT, str(folder), goal, limit],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "up\n"
    return process


def answer_of(process: subprocess.Popen[str]) -> list[object]:
    """What it came to."""
    out, _ = process.communicate("go\n", timeout=60)
    found = json.loads(out)
    assert isinstance(found, list)
    return found


def test_of_many_at_once_one_makes_each_file(tmp_path: Path) -> None:
    goals = [f"G{number}" for number in range(6)]
    running = {goal: starting(tmp_path, goal) for goal in goals}
    for process in running.values():
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    answers = {goal: answer_of(process) for goal, process in running.items()}
    (goal,) = [goal for goal, files in answers.items() if files[0] == "create"]
    assert [files[1] for files in answers.values()].count("create") == 1
    assert read_work(Place(tmp_path)).checked().goals[0].title == goal


@pytest.mark.parametrize("made", [(), ("work.yaml",), ("work.yaml", ".callboard/.gitignore")])
def test_the_very_request_goes_on_from_what_is_there(tmp_path: Path, made: tuple[str, ...]) -> None:
    """A process was killed after the project, or a file too, and before work was indexed."""
    whole = tmp_path / "whole"
    whole.mkdir()
    Project.init(whole, goal="Ship it", accept=True, key="demo")
    root = tmp_path / "killed"
    root.mkdir()
    create_project(root, around(None), "demo").close()
    for name in made:
        put(root / name, (whole / name).read_bytes())
    begin = partial(
        Project.init,
        root,
        goal="Ship it",
        accept=True,
        key="demo",
        expected_revision=0,
        request_id="r1",
    )
    found = [one.code for one in Project.diagnose(root).findings]
    assert ("source_unindexed" in found) == bool(made)
    answer = begin()
    assert answer.project_revision == 2
    assert [one.key for one in answer.ready] == ["W-1"]
    assert contents(root) == contents(whole)
    assert begin() == answer
    assert Project.diagnose(root).findings == ()
    refused(
        "revision_conflict",
        lambda: Project.init(root, accept=True, key="demo", expected_revision=0),
    )


def test_a_full_disk_tells_what_is_there_by_then(tmp_path: Path) -> None:
    """The files have all the room they need but for the last page."""
    low, high = 0, 256
    last: list[object] = []
    root = tmp_path
    while high - low > 1:
        middle = (low + high) // 2
        folder = tmp_path / str(middle)
        folder.mkdir()
        found = answer_of(starting(folder, "Ship", str(middle * 4096)))
        if found == ["create", "create"]:
            high = middle
        else:
            low, last, root = middle, found, folder
    code, message, made = last
    assert code in ("disk_full", "storage_failed")
    assert made == [".callboard/project.db", "work.yaml", ".callboard/.gitignore"]
    assert "are there by now" in str(message)
    assert "nothing was" not in str(message)
    plenty = str(resource.getrlimit(resource.RLIMIT_FSIZE)[0])
    assert answer_of(starting(root, "Ship", plenty)) == ["keep", "keep"]


# --- what is said ------------------------------------------------------------------------------


@pytest.mark.parametrize("accept", [False, True])
@pytest.mark.parametrize("folder", [" lead", "x" * 220])
def test_a_folder_that_is_no_key_is_refused_before_anything(
    tmp_path: Path, folder: str, accept: bool
) -> None:
    root = tmp_path / folder
    root.mkdir()
    error = refused("name_invalid", lambda: Project.init(root, accept=accept))
    assert "--key" in error.hint
    assert os.listdir(root) == []
    assert Project.init(root, key="demo", accept=accept).accepted is accept


def test_the_hint_about_a_faulty_file_needs_no_project(tmp_path: Path) -> None:
    put(tmp_path / "work.yaml", "work_items:\n- {id: A}\n")
    error = refused("source_invalid", lambda: Project.init(tmp_path))
    assert "source scan" not in error.hint
    put(tmp_path / "work.yaml", "work_items:\n- {id: A, title: a}\n")
    Project.init(tmp_path, accept=True)
    put(tmp_path / "work.yaml", "work_items:\n- {id: A}\n")
    error = refused("source_invalid", lambda: Project.init(tmp_path, accept=True))
    assert "source scan" in error.hint


def test_the_doctor_tells_a_file_that_is_gone_apart(tmp_path: Path) -> None:
    Project.init(tmp_path, accept=True)
    (tmp_path / "work.yaml").unlink()
    (found,) = Project.diagnose(tmp_path).findings
    assert (found.code, found.subject) == ("source_gone", "work.yaml")
    assert found.hint.startswith("put the file back")
