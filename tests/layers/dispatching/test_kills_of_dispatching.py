"""A dispatcher killed after any one effect: it goes on to one child, by one request."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from callboard.errors import CallboardError
from callboard.layers.disk import Disk
from tests.layers.killing import Killed, killing
from tests.layers.requests.parent import Parent, item, parent

REPOSITORY = Path(__file__).resolve().parents[3]
KILLED = """
import os, signal, sys
from pathlib import Path
from tests.layers.requests.parent import Parent
left = int(sys.argv[3])
def effect(step, place):
    global left
    left -= 1
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)
Parent(Path(sys.argv[1])).dispatch(Path(sys.argv[2]), effect=effect)
"""


def files(made: Parent, *names: str) -> dict[str, bytes]:
    """Finished files alone: what a killed process left half is nobody's."""
    return {
        one.name: one.read_bytes()
        for one in made.path(*names).iterdir()
        if not one.name.startswith(".") and one.is_file()
    }


def end(made: Parent) -> dict[str, Any]:
    return {
        "children": made.children(),
        "snapshots": files(made, "project_state/dispatch_inputs"),
        "accepted": sorted(files(made, "child_requests/accepted")),
        "foreign": {one["code"] for one in made.rejections()} - {"request_foreign"},
        "ledger": made.ledger_text(),
    }


def whole(made: Parent, folder: Path) -> dict[str, Any]:
    """What it comes to where nothing is killed."""
    made = Parent(Path(shutil.copytree(made.root_path, folder)))
    made.dispatch(made.begin())
    made.end()
    made.decide()
    return end(made)


@pytest.mark.parametrize("again", ["in the same attempt", "in the next attempt"])
def test_killed_after_any_effect_there_is_one_child(tmp_path: Path, again: str) -> None:
    first = parent(tmp_path / "first")
    first.path("project_state/dispatch_inputs").rmdir()
    expected = whole(first, tmp_path / "whole")
    assert expected["children"] == ["part-r1"]
    for at in range(1, 100):
        made = Parent(Path(shutil.copytree(first.root_path, tmp_path / str(at))))
        assignment = Path(made.begin())
        before: dict[str, bytes] = {}
        try:
            made.dispatch(assignment, effect=killing(at))
        except Killed:
            kept = made.path("project_state/dispatch_inputs/part-r1.json")
            before = {kept.name: kept.read_bytes()} if kept.exists() else before
        else:
            break
        if again == "in the next attempt":
            made.end()
            if made.decide().child is not None:
                assert end(made)["children"] == ["part-r1"], at
                continue
            assignment = made.begin()
        made.dispatch(assignment)
        made.end()
        made.decide()
        assert end(made) == expected, at
        assert before.items() <= files(made, "project_state/dispatch_inputs").items()
    assert at > 8


@pytest.mark.parametrize("at", range(1, 10))
def test_a_killed_process_leaves_what_the_next_one_goes_on_from(tmp_path: Path, at: int) -> None:
    made = parent(tmp_path)
    expected = whole(made, tmp_path / "whole")
    assignment = made.begin()
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(made.root_path), str(assignment), str(at)],
        cwd="/", env={"PATH": os.environ["PATH"], "PYTHONPATH": str(REPOSITORY)},
        capture_output=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode in (-signal.SIGKILL, 0), done.stderr
    for name in made.names("pending"):
        if not name.startswith("."):
            json.loads(made.path("child_requests/pending", name).read_bytes())
    made.dispatch(assignment)
    made.end()
    made.decide()
    assert end(made) == expected


# --- what is refused when it is dispatched --------------------------------------------------------


def refused(made: Parent, item_id: str = "part") -> CallboardError:
    """The refusal, before which nothing was published."""
    assignment = made.begin()
    ledger = made.ledger_text()
    with pytest.raises(CallboardError) as caught:
        made.dispatch(assignment, item_id)
    assert files(made, "project_state/dispatch_inputs") == {}
    assert made.names("pending") == []
    assert made.ledger_text() == ledger
    return caught.value


HUGE = 'He said "go", `ls` and \\"more\\"\n\ttab, {goal} {assignment} ```yaml\n## x: y\n' * 3000


def test_a_text_of_200_kib_arrives_byte_for_byte(tmp_path: Path) -> None:
    text = HUGE[: 200 * 1024]
    made = parent(tmp_path)
    lines = "".join(f"    {line}\n" for line in text.split("\n"))
    scope = "goal: |2-\n" + lines.rstrip("\n")
    made.ledger(
        "## part: Large\n\n~~~~yaml\nstatus: selected\nscope:\n  "
        + scope
        + "\n  completion_criteria: [done]\n  stop_criteria: []\n  constraints: []\n"
        "  deliverables: []\n  required_evidence: []\nworkflow_set: below\n~~~~\n"
    )
    made.dispatch(made.begin())
    made.end()
    state = made.decide()
    assert state.child is not None, made.rejections()
    below = made.child()
    assert below.path("goal.md").read_bytes() == text.encode()
    prompt = below.begin("worker").with_name("prompt.md").read_text()
    assert text in prompt


def test_a_text_beyond_the_limit_is_refused_when_it_is_dispatched(tmp_path: Path) -> None:
    made = parent(tmp_path)
    made.ledger(item(scope={"goal": "x" * 262_145}))
    error = refused(made)
    assert error.code == "work_items_invalid"
    assert "262144" in error.message


def test_what_grows_past_a_request_is_refused_when_it_is_dispatched(tmp_path: Path) -> None:
    made = parent(tmp_path)
    for number in range(200):
        (made.root_path / f"f{number}").write_bytes(b"")
    made.ledger(item(inputs=[f"repo:/f{number}" for number in range(200)]))
    assert refused(made).code == "resource_limit"
    made.end()
    made.ledger(item(inputs=[f"repo:/f{number}" for number in range(199)]))
    made.dispatch(made.begin())
    made.end()
    assert made.decide().child is not None


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"status": "open"}, "work_item_not_selected"),
        ({"status": "accepted"}, "work_item_not_selected"),
        ({"scope": None}, "work_item_unscoped"),
        ({"supersedes": "part-r0"}, "request_lineage"),
        ({"inputs": ["repo:/missing"]}, "file_missing"),
        ({"inputs": ["parent:/a"]}, "reference_out_of_scope"),
        ({"inputs": ["repo:/../a"]}, "reference_invalid"),
        ({"inputs": ["repo:/a", "repo:/a"]}, "input_twin"),
        ({"decisions": ["decision 3"]}, "reference_invalid"),
        ({"evidence": ["file:///etc/passwd"]}, "reference_invalid"),
    ],
)  # fmt: skip
def test_an_item_that_would_be_refused_is_not_dispatched(
    tmp_path: Path, fields: dict[str, Any], code: str
) -> None:
    made = parent(tmp_path)
    (made.root_path / "a").write_bytes(b"")
    made.ledger(item(**{"status": "selected", **fields}))
    assert refused(made).code == code


@pytest.mark.parametrize(
    "item_id", ["x" * 100, "語" * 66, "é" * 100, "100%ab", "Größe", "a.b_c-d", "ﬁx"]
)
def test_an_item_of_any_id_comes_to_a_child(tmp_path: Path, item_id: str) -> None:
    made = parent(tmp_path)
    made.ledger(item(item_id))
    made.dispatch(made.begin(), item_id)
    made.end()
    assert made.decide().child is not None, made.rejections()


def test_an_item_that_is_a_twin_of_a_former_one_gets_an_id_apart(tmp_path: Path) -> None:
    made = parent(tmp_path)
    for item_id in ("Part", "part"):
        made.ledger(item(item_id))
        made.dispatch(made.begin(), item_id)
        made.end()
        assert made.decide().child is not None, made.rejections()
        made.end_child()
    assert made.children() == ["Part-r1", "part-r2"]


def test_a_request_that_is_refused_again_and_again_never_uses_an_id_twice(tmp_path: Path) -> None:
    made = parent(tmp_path)
    made.ledger(item(workflow_set="nowhere"))
    for _ in range(3):
        made.dispatch(made.begin())
        made.end()
        made.decide()
    ids = [one["request_id"] for one in made.rejections()]
    assert sorted(ids) == ["part-r1", "part-r2", "part-r3"]
    made.ledger(item())
    made.dispatch(made.begin())
    made.end()
    made.decide()
    assert made.children() == ["part-r4"]


def test_a_superseding_request_that_is_refused_is_asked_for_anew(tmp_path: Path) -> None:
    made = parent(tmp_path)
    made.dispatch(made.begin())
    made.end()
    made.decide()
    made.end_child()
    made.ledger(item(supersedes="part-r1", workflow_set="nowhere"))
    made.dispatch(made.begin())
    made.end()
    made.decide()
    made.ledger(made.ledger_text().replace("nowhere", "below"))
    found = made.dispatch(made.begin())
    assert (found.standing, found.request_id) == ("published", "part-r3")
    made.end()
    made.decide()
    assert made.children() == ["part-r1", "part-r3"]


@pytest.mark.parametrize("make", ["link", "fifo", "folder", "missing"])
def test_a_ledger_that_is_no_file_is_refused(tmp_path: Path, make: str) -> None:
    made = parent(tmp_path)
    assignment = made.begin()
    path = made.path("project_state/work_items.md")
    outside = tmp_path / "outside.md"
    outside.write_text(item())
    path.unlink()
    if make == "link":
        path.symlink_to(outside)
    elif make == "fifo":
        os.mkfifo(path)
    elif make == "folder":
        path.mkdir()
    with pytest.raises(CallboardError) as caught:
        made.dispatch(assignment)
    assert caught.value.code == ("file_missing" if make == "missing" else "file_not_regular")
    assert outside.read_text() == item()


@pytest.mark.parametrize("folder", ["child_requests/pending", "project_state/dispatch_inputs"])
@pytest.mark.parametrize("target", ["existing", "dangling"])
def test_a_folder_that_is_a_link_is_not_written_through(
    tmp_path: Path, folder: str, target: str
) -> None:
    made = parent(tmp_path)
    assignment = made.begin()
    outside = tmp_path / "outside"
    if target == "existing":
        outside.mkdir(mode=0o755)
    made.path(folder).rmdir()
    made.path(folder).symlink_to(outside)
    with pytest.raises(CallboardError) as caught:
        made.dispatch(assignment)
    assert caught.value.code == "path_invalid"
    assert not outside.exists() or list(outside.iterdir()) == []
    assert made.path(folder).is_symlink()


def test_a_folder_that_becomes_a_link_after_the_check_is_not_written_through(
    tmp_path: Path,
) -> None:
    made = parent(tmp_path)
    assignment = made.begin()
    outside = tmp_path / "outside"
    (outside / "child_requests/pending").mkdir(parents=True)
    (outside / "project_state").mkdir()
    layer = made.disk.path(made.layer.place)

    def swap(step: str, place: str) -> None:
        if step == "link" and place.endswith("part-r1.json"):
            layer.rename(layer.with_name("elsewhere"))
            layer.symlink_to(outside)

    with pytest.raises(CallboardError) as caught:
        made.dispatch(assignment, effect=swap)
    assert caught.value.code == "path_invalid"
    assert [one for one in outside.rglob("*") if one.is_file()] == []
    assert Disk(made.root_path).names(".callboard/layers/sessions")
