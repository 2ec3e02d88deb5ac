"""The limits of a tree at their very edges: what they allow can be made, read and gone on with."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from callboard.errors import CallboardError
from callboard.layers import tree
from callboard.layers.layers import Layers
from callboard.layers.records.base import encode
from callboard.layers.records.requests import MAX_INDEX_BYTES, ChildEntry, ChildrenIndex
from callboard.layers.records.session import Limits
from callboard.layers.records.state import RoleHistory, State, Usage
from tests.layers import trees
from tests.layers.requests.parent import PARENT_CRITERION, Parent, item, parent, write_sets

LARGEST = 2**53 - 1
WIDE = "\U0001f600" * 50
"""200 bytes of UTF-8, as long as a key may be."""


def entry(number: int, request_id: str | None = None) -> ChildEntry:
    """A child whose every field is as long as it may be."""
    key = f"{number:05d}" + WIDE[2:] + "a" * 3
    usage = Usage(
        attempts=LARGEST, duration_ms=LARGEST, input_tokens=LARGEST, output_tokens=LARGEST,
        cost_microusd=LARGEST,
    )  # fmt: skip
    return ChildEntry(
        request_id=request_id or key, session_id=f"{number:05d}" + "s" * 123, work_item_id=WIDE,
        body_sha256=trees.sha(b""), status="unresolvable_error", stop_reason="unresolvable_error",
        outcome_ref=f"session:/child_outcomes/{key}.json", usage=usage, accepted_at_ms=LARGEST,
    )  # fmt: skip


def have_made(made: Parent, count: int) -> None:
    """So many children, of which nothing but the layer's own records is left."""
    children = tuple(entry(one) for one in range(count))
    index = ChildrenIndex(schema_version=1, revision=1, children=children)
    made.path("children.json").write_bytes(encode(index))
    trees.change(made.disk, made.layer, children_made=count)


def test_the_index_of_as_many_children_as_are_allowed_can_be_read_again(tmp_path: Path) -> None:
    made = parent(tmp_path, limits=Limits(max_children=10_000, max_descendants=100_000))
    whole = ChildrenIndex(
        schema_version=1, revision=LARGEST, children=tuple(entry(one) for one in range(10_000))
    )
    assert 8_000_000 < len(encode(whole)) <= MAX_INDEX_BYTES
    made.path("children.json").write_bytes(encode(whole))
    assert tree.read_children(made.disk, made.layer) == whole


def test_the_state_of_a_layer_with_as_many_children_can_be_written(tmp_path: Path) -> None:
    made = parent(tmp_path)
    names = [f"{number:02d}".join("rr") + "x" * 60 for number in range(50)]
    history = RoleHistory(
        runs=LARGEST, successes=LARGEST, failures_in_row=LARGEST, last_iteration=LARGEST,
        seen_successes=dict.fromkeys(names, LARGEST),
    )  # fmt: skip
    trees.change(
        made.disk, made.layer,
        rolled_sessions=tuple(
            f"20260131_101500_{number:08x}_{number:08x}" for number in range(10_000)
        ),
        controls_seen=(trees.sha(b""),) * 1000,
        roles=dict.fromkeys(names, history), stop_detail="\U0001f600" * 4000,
    )  # fmt: skip
    state: State = made.state
    assert len(state.rolled_sessions) == 10_000


def test_the_last_child_that_is_allowed_is_made_and_no_other(tmp_path: Path) -> None:
    made = parent(tmp_path, limits=Limits(max_children=10_000, max_descendants=100_000))
    have_made(made, 9_999)
    made.put("last.json", made.request("last", made.attempt()))
    assert made.decide().child is not None, made.rejections()
    assert len(tree.read_children(made.disk, made.layer).children) == 10_000
    made.end_child()
    made.put("more.json", made.request("more", made.attempt(), supersedes="last"))
    made.decide()
    assert made.codes() == {"more.json": "children_limit"}


def test_a_root_that_claims_more_than_is_possible_is_held_to_what_is(tmp_path: Path) -> None:
    made = parent(tmp_path)
    trees.edit(
        made.disk, made.layer.file("session.json"),
        lambda one: one["limits"].update(max_children=10**9, max_descendants=10**9),
    )  # fmt: skip
    have_made(made, 10_000)
    made.put("more.json", made.request("more", made.attempt()))
    made.decide()
    assert made.codes() == {"more.json": "children_limit"}


# --- paths ----------------------------------------------------------------------------------------


def folder_of(tmp_path: Path, size: int) -> Path:
    """A folder whose `repository` has a path of exactly so many bytes."""
    size -= len("/repository")
    long = tmp_path
    while (left := size - len(os.fsencode(long))) > 0:
        # No step of one byte alone is left for the end.
        step = min(200, left - 1) if left <= 201 else 198
        long = long / ("d" * step)
    assert len(os.fsencode(long)) == size
    return long


def start(folder: Path, max_depth: int) -> Parent:
    made = Parent(folder / "repository")
    made.root_path.mkdir(parents=True, exist_ok=True)
    if not (made.root_path / ".callboard").exists():
        write_sets(made.root_path)
    Layers(made.around()).start(
        "Sell it", workflow_set="above", limits=Limits(max_depth=max_depth),
        completion_criteria=[PARENT_CRITERION],
    )  # fmt: skip
    made.ledger(item())
    return made


@pytest.mark.parametrize(
    ("size", "fits"),
    # 4096 bytes, less 61 for `/.callboard/layers/sessions/` and 33 of an id, less 400 for files of
    # a layer, less 43 for each level.
    [(3635, 0), (3593, 0), (3592, 1), (3549, 2), (3592 - 43 * 6, 7)],
)
def test_a_depth_that_is_allowed_at_the_start_can_be_used(
    tmp_path: Path, size: int, fits: int
) -> None:
    folder = folder_of(tmp_path, size)
    with pytest.raises(CallboardError) as found:
        start(folder, fits + 1)
    assert found.value.code == "path_too_long"
    assert f"max_depth of 0 to {fits}," in found.value.hint
    layer = start(folder, fits)
    for depth in range(fits):
        layer.ledger(item(workflow_set="above"))
        name = f"a{depth}"
        request = layer.request(name, layer.attempt(), workflow_set="above")
        data = layer.snapshot(name, workflow_set="above")
        request["inputs"][0]["sha256"] = trees.sha(data)
        layer.put("a.json", request)
        assert layer.decide().child is not None, layer.rejections()
        layer = layer.child()
    assignment = layer.begin()
    paths = json.loads(assignment.read_bytes())["paths"]
    # What an agent of the deepest layer writes, by the absolute paths that it is given.
    for name, most in (("child_requests", 100), ("project_state", 100), ("attempt_root", 100)):
        Path(paths[name], "x" * most).write_text("")
    (layer.path("child_requests", "pending") / ("x" * 100)).unlink()
    layer.ledger(item())
    layer.put("deeper.json", layer.request("deeper", layer.end()))
    layer.decide()
    assert layer.codes() == {"deeper.json": "depth_limit"}


def test_a_repository_that_moved_to_a_longer_path_makes_no_layer_there(tmp_path: Path) -> None:
    start(tmp_path / "short", 8)
    long = folder_of(tmp_path, 3600)
    long.parent.mkdir(parents=True)
    (tmp_path / "short").rename(long)
    made = Parent(long / "repository")
    made.put("a.json", made.request("a", made.attempt()))
    made.decide()
    assert made.codes() == {"a.json": "path_too_long"}


def test_a_path_that_leaves_no_room_for_a_root_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CallboardError) as found:
        start(folder_of(tmp_path, 3636), 0)
    assert found.value.code == "path_too_long"
    assert "no room for a layer" in found.value.message
