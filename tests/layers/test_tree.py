"""Layers are found, read and made; what is damaged is refused with its file and what is wrong."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from callboard.layers import tree
from callboard.layers.disk import Disk
from callboard.layers.records.base import encode
from callboard.layers.records.requests import ChildrenIndex
from callboard.layers.records.session import Limits
from callboard.layers.records.state import Child, Task
from tests.board.building import refused
from tests.layers import trees
from tests.layers.killing import Killed, killing

FILES = (
    "session.json", "state.json", "children.json", "goal_contract.json", "workflow_contract.json",
)  # fmt: skip


Copied = Callable[[Callable[[Disk], object], Disk], None]


def read_all(disk: Disk, place: str) -> None:
    layer = tree.read_layer(disk, place)
    tree.read_state(disk, layer)
    tree.read_children(disk, layer)
    tree.read_goal(disk, layer)
    tree.read_contract(disk, layer)


# --- making ---------------------------------------------------------------------------------------


def test_a_layer_is_made_whole(disk: Disk) -> None:
    layer = trees.start(disk)
    assert layer.place == ".callboard/layers/sessions/R"
    assert layer.file("a", "b") == ".callboard/layers/sessions/R/a/b"
    assert layer.trace_place == ".callboard/layers/traces/R/sessions/R"
    assert disk.read(layer.file("goal.md"), 100) == b"Make the thing"
    assert tree.read_goal(disk, layer) == trees.goal_contract("R")
    assert tree.read_contract(disk, layer) == trees.contract()
    assert tree.read_children(disk, layer) == ChildrenIndex(
        schema_version=1, revision=1, children=()
    )
    state = tree.read_state(disk, layer)
    assert (state.revision, state.phase, state.changed_at_ms) == (1, "ready", 1_769_854_500_000)
    for folder in ("child_requests/pending", "inputs/artifacts", "children", "attempts"):
        assert disk.kind(layer.file(folder)) == "folder", folder


def test_session_json_is_the_last_file_that_is_made(disk: Disk) -> None:
    trees.start(disk)
    steps: list[tuple[str, str]] = []
    watched = Disk(disk.root, lambda step, place: steps.append((step, place)))
    trees.add(watched, "S", files={"inputs/artifacts/a": b"a"})
    building = ".callboard/layers/sessions/.S.building"
    assert [place for step, place in steps if step == "rename"][-2:] == [
        f"{building}/session.json", ".callboard/layers/sessions/S",
    ]  # fmt: skip
    assert disk.read(".callboard/layers/sessions/S/inputs/artifacts/a", 10) == b"a"


def test_making_is_killed_anywhere_and_done_again(disk: Disk) -> None:
    trees.start(disk)
    place = ".callboard/layers/sessions/S"
    for number in range(1, 200):
        try:
            trees.add(Disk(disk.root, killing(number)), "S")
        except Killed:
            if disk.kind(place) == "folder":
                break
            # What is being built is no layer to anybody.
            assert tree.roots(disk) == ["R"]
    assert number > 40
    read_all(disk, place)
    assert not [name for name in disk.names(tree.SESSIONS) if name.startswith(".")]


def test_a_layer_whose_digests_are_others_is_not_made(disk: Disk) -> None:
    session = trees.session("S", None)
    building = f"{tree.SESSIONS}/.S.building"
    error = refused(
        tree.create, disk, building, session, "another goal", trees.goal_contract("S"),
        trees.contract(), {}, 0,
    )  # fmt: skip
    assert error.code == "layer_corrupt"
    assert "goal.md" in error.message
    with pytest.raises(ValueError, match="building"):
        tree.create(
            disk, f"{tree.SESSIONS}/S", session, trees.GOAL, trees.goal_contract("S"),
            trees.contract(), {}, 0,
        )  # fmt: skip
    assert disk.names("") == []


# --- finding --------------------------------------------------------------------------------------


def test_roots_are_found(disk: Disk) -> None:
    assert tree.roots(disk) == []
    assert refused(tree.root, disk).code == "layer_missing"
    trees.start(disk, "S")
    assert tree.root(disk).session.session_id == "S"
    trees.start(disk, "R")
    disk.make_folder(f"{tree.SESSIONS}/.T.building")
    disk.publish(f"{tree.SESSIONS}/README", b"")
    disk.path(f"{tree.SESSIONS}/L").symlink_to(disk.path(f"{tree.SESSIONS}/R"))
    assert tree.roots(disk) == ["R", "S"]
    error = refused(tree.root, disk)
    assert error.code == "layer_ambiguous"
    assert error.details == {"candidates": ["R", "S"]}
    assert tree.root(disk, "R").session.session_id == "R"
    # A tree that is over needs no choice, as long as one other is at work.
    trees.change(disk, tree.root(disk, "S"), status="goal_met", stop_reason="goal_met")
    assert tree.root(disk).session.session_id == "R"
    trees.change(disk, tree.root(disk, "R"), status="stopped", stop_reason="user_stop")
    assert refused(tree.root, disk).code == "layer_ambiguous"


@pytest.mark.parametrize("name", ["X", "..", "../R", "/", "", ".S.building", "R/children/C", "é"])
def test_a_layer_that_is_not_there_is_missing(disk: Disk, name: str) -> None:
    root = trees.start(disk)
    assert refused(tree.root, disk, name).code == "layer_missing"
    assert refused(tree.child, disk, root, name).code == "layer_missing"


@pytest.mark.parametrize(
    "place", ["", "sessions/R", ".callboard/layers/sessions", ".callboard/layers/sessions/R/x",
              ".callboard/layers/sessions/../sessions/R", ".callboard/layers/sessions/R/children/"]
)  # fmt: skip
def test_only_the_place_of_a_layer_is_read_as_one(disk: Disk, place: str) -> None:
    trees.start(disk)
    assert refused(tree.read_layer, disk, place).code == "path_invalid"


def test_the_chain_leads_to_the_deepest_and_the_walk_everywhere(disk: Disk) -> None:
    root = trees.start(disk)
    ended = trees.grow(disk, root, "A")
    trees.end(disk, root, ended)
    child = trees.grow(disk, root, "B")
    trees.grow(disk, child, "A2")
    assert [layer.session.session_id for layer, _ in tree.chain(disk, root)] == ["R", "B", "A2"]
    assert [state.phase for _, state in tree.chain(disk, root)] == [
        "suspended", "suspended", "ready",
    ]  # fmt: skip
    assert [layer.session.session_id for layer in tree.walk(disk, root)] == ["R", "A", "B", "A2"]


def test_the_chain_reads_nothing_beside_itself(disk: Disk) -> None:
    root = trees.start(disk)
    ended = trees.grow(disk, root, "A")
    trees.end(disk, root, ended)
    trees.grow(disk, root, "B")
    disk.path(ended.file("session.json")).write_bytes(b"")
    assert len(tree.chain(disk, root)) == 2
    error = refused(list, tree.walk(disk, root))
    assert error.code == "layer_corrupt"
    assert error.details["file"] == ended.file("session.json")


def test_a_child_that_ended_stays_on_the_chain_until_its_parent_knows(disk: Disk) -> None:
    root = trees.start(disk)
    child = trees.grow(disk, root, "A")
    trees.change(disk, child, status="stopped", stop_reason="max_turns")
    assert [state.phase for _, state in tree.chain(disk, root)] == ["suspended", "terminal"]


def test_an_edge_on_which_the_sides_disagree_is_refused(disk: Disk) -> None:
    root = trees.start(disk, limits=Limits(max_depth=1))
    child = trees.grow(disk, root, "A")
    grandchild = trees.grow(disk, child, "B")
    assert refused(tree.chain, disk, root).code == "topology_broken"
    trees.change(disk, child, child=None)
    assert len(tree.chain(disk, root)) == 2
    for pointer in (
        Child(session_id="A", request_id="req.other"), Child(session_id="Z", request_id="req.A"),
    ):  # fmt: skip
        trees.change(disk, root, child=pointer)
        error = refused(tree.chain, disk, root)
        assert error.code == "topology_broken"
        assert error.details["session_id"] == pointer.session_id
    trees.change(disk, root, child=Child(session_id="A", request_id="req.A"))
    trees.edit(disk, child.file("session.json"), lambda d: d.update(repository_id="repo2"))
    assert refused(tree.chain, disk, root).code == "topology_broken"
    assert disk.kind(grandchild.place) == "folder"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("session_id", "B"), ("root_session_id", "A"), ("parent_session_id", "A"),
        ("parent_session_id", None), ("depth", 2), ("depth", 0), ("request_id", None),
        ("parent_work_item_id", None),
        ("limits", {"max_depth": 1, "max_children": 1, "max_descendants": 1}),
    ],
)  # fmt: skip
def test_a_session_that_lies_elsewhere_than_it_says_is_corrupt(
    disk: Disk, field: str, value: object
) -> None:
    root = trees.start(disk)
    child = trees.grow(disk, root, "A")
    trees.edit(disk, child.file("session.json"), lambda d: d.update({field: value}))
    error = refused(tree.child, disk, root, "A")
    assert error.code == "layer_corrupt"
    assert field in str(error.details["what"])
    assert refused(tree.chain, disk, root).code == "layer_corrupt"


def test_a_root_has_limits_and_no_parent(disk: Disk) -> None:
    root = trees.start(disk)
    trees.edit(disk, root.file("session.json"), lambda d: d.update(limits=None))
    assert "limits" in refused(tree.root, disk).message


# --- damage ---------------------------------------------------------------------------------------


def _zeros(path: Path) -> None:
    path.write_bytes(bytes(path.stat().st_size))


def _empty(path: Path) -> None:
    path.write_bytes(b"")


def _half(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def _gone(path: Path) -> None:
    path.unlink()


def _linked(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))
    path.symlink_to("elsewhere")


def _folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def _huge(path: Path) -> None:
    os.truncate(path, 64 * 1024 * 1024)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (_zeros, "zero bytes"), (_empty, "empty"), (_half, "no JSON document"),
        (_gone, "does not exist"), (_linked, "not a regular file"),
        (_folder, "not a regular file"), (_huge, "67108864 bytes"),
    ],
)  # fmt: skip
def test_a_damaged_file_is_told_and_never_guessed(
    disk: Disk, copied: Copied, name: str, damage: Callable[[Path], None], says: str
) -> None:
    copied(trees.start, disk)
    root = tree.root(disk)
    file = disk.path(root.file(name))
    # A whole one lies beside it, as a write that was killed would leave it.
    file.with_name(f".{name}.0123456789abcdef.tmp").write_bytes(file.read_bytes())
    damage(file)
    before = trees.everything(disk.root)
    error = refused(read_all, disk, root.place)
    assert error.code == "layer_corrupt"
    assert error.details["file"] == root.file(name)
    assert says in str(error.details["what"])
    assert name in error.message
    assert trees.everything(disk.root) == before


@pytest.mark.parametrize("name", ["goal_contract.json", "workflow_contract.json"])
def test_a_frozen_file_that_was_changed_is_told(disk: Disk, name: str) -> None:
    root = trees.start(disk)
    data = disk.read(root.file(name), 10_000)
    # The same document to a reader of JSON, and not the same bytes.
    disk.path(root.file(name)).write_bytes(data + b"\n")
    error = refused(read_all, disk, root.place)
    assert (error.code, error.details["file"]) == ("layer_corrupt", root.file(name))


# --- states ---------------------------------------------------------------------------------------


def test_a_state_follows_the_stored_one(disk: Disk) -> None:
    root = trees.start(disk)
    first = tree.read_state(disk, root)
    second = trees.change(disk, root, iteration=1)
    assert second.revision == 2
    assert tree.read_state(disk, root) == second
    assert refused(tree.write_state, disk, root, first).code == "state_conflict"
    assert refused(tree.write_state, disk, root, second).code == "state_conflict"
    assert tree.read_state(disk, root) == second


def test_an_index_follows_the_stored_one(disk: Disk) -> None:
    root = trees.start(disk)
    for revision in (1, 3):
        index = ChildrenIndex(schema_version=1, revision=revision, children=())
        assert refused(tree.write_children, disk, root, index).code == "state_conflict"
    index = ChildrenIndex(schema_version=1, revision=2, children=())
    tree.write_children(disk, root, index)
    assert tree.read_children(disk, root) == index


TASK = Task(
    attempt_id="0001_planner", role="planner", iteration=1, assignment_sha256=trees.sha(b"")
)
CHILD = Child(session_id="A", request_id="req.A")


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"session_id": "S"}, "session_id"),
        ({"task": TASK, "child": CHILD}, "both"),
        ({"stop_reason": "user_stop"}, "running"),
        ({"status": "stopped"}, "without a stop_reason"),
        ({"status": "stopped", "stop_reason": "user_stop", "task": TASK}, "task"),
        ({"status": "goal_met", "stop_reason": "goal_met", "child": CHILD}, "child"),
    ],
)
def test_a_state_that_contradicts_itself_is_neither_written_nor_read(
    disk: Disk, fields: dict[str, object], says: str
) -> None:
    root = trees.start(disk)
    error = refused(trees.change, disk, root, **fields)
    assert error.code == "state_conflict"
    assert says in error.message
    plain = {
        name: trees.document(value) if isinstance(value, (Task, Child)) else value
        for name, value in fields.items()
    }
    trees.edit(disk, root.file("state.json"), lambda d: d.update(plain))
    error = refused(tree.read_state, disk, root)
    assert (error.code, error.details["file"]) == ("layer_corrupt", root.file("state.json"))
    assert says in error.message


def test_a_state_that_could_not_be_read_again_is_not_written(disk: Disk) -> None:
    root = trees.start(disk)
    seen = tuple(f"sha256:{number:064x}" for number in range(15_000))
    assert refused(trees.change, disk, root, controls_seen=seen).code == "resource_limit"
    assert tree.read_state(disk, root).revision == 1


# --- size -----------------------------------------------------------------------------------------


def test_a_thousand_layers_are_walked_in_half_a_second(disk: Disk) -> None:
    root = trees.start(disk)
    parents = [root]
    sessions: list[tuple[str, bytes]] = []
    for number in range(999):
        parent = parents[number // 10]
        session = trees.session(f"S{number}", parent)
        place = parent.file("children", f"S{number}")
        parents.append(tree.Layer(place, session))
        sessions.append((place, encode(session)))
    for place, data in sessions:
        folder = disk.path(place)
        (folder / "children").mkdir(parents=True)
        (folder / "session.json").write_bytes(data)
    took: list[float] = []
    for _ in range(3):
        started = time.process_time()
        assert sum(1 for _ in tree.walk(disk, root)) == 1000
        took.append(time.process_time() - started)
    assert min(took) < 0.5
