"""References are read plainly and stay within their scope."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from callboard.layers import references, tree
from callboard.layers.disk import Disk
from callboard.layers.references import Reference, parse, place_for_child, place_of, read_ref
from tests.board.building import refused
from tests.layers import trees

R = ".callboard/layers/sessions/R"


PLACES = {
    "R": R, "A": f"{R}/children/A", "A1": f"{R}/children/A/children/A1", "B": f"{R}/children/B",
    "S": ".callboard/layers/sessions/S", "T": ".callboard/layers/sessions/S/children/T",
}  # fmt: skip


def grow(disk: Disk) -> None:
    root = trees.start(disk, "R")
    first = trees.grow(disk, root, "A")
    below = trees.grow(disk, first, "A1")
    trees.end(disk, first, below)
    trees.end(disk, root, first)
    trees.grow(disk, root, "B")
    trees.grow(disk, trees.start(disk, "S"), "T")


@pytest.fixture
def layers(
    disk: Disk, copied: Callable[[Callable[[Disk], object], Disk], None]
) -> dict[str, tree.Layer]:
    """R with the children A (and A1 in it) and B; another root S with a child T."""
    copied(grow, disk)
    return {name: tree.read_layer(disk, place) for name, place in PLACES.items()}


@pytest.mark.parametrize(
    ("ref", "parts"),
    [
        ("repo:/src/a.py", ("repo", None, "src/a.py")),
        ("session:/goal.md", ("session", None, "goal.md")),
        ("parent:/project_state/x.json", ("parent", None, "project_state/x.json")),
        ("root:/goal.md", ("root", None, "goal.md")),
        ("session:A1:/goal.md", ("session", "A1", "goal.md")),
        ("trace:A1:/attempts/0001_planner/stdout", ("trace", "A1", "attempts/0001_planner/stdout")),
        ("repo:/größe/100% sure.txt", ("repo", None, "größe/100% sure.txt")),
        ("repo:/a:b", ("repo", None, "a:b")),
    ],
)
def test_every_scheme_is_read(ref: str, parts: tuple[str, str | None, str]) -> None:
    reference = parse(ref)
    assert (reference.scheme, reference.session_id, reference.path) == parts
    assert isinstance(reference, Reference)
    assert str(reference) == ref


@pytest.mark.parametrize(
    "ref",
    [
        "", "/", "a", "a/b", "/etc/passwd", "repo:", "repo:/", "repo:a", "repo://a", "repo:/a/",
        "repo:/a//b", "repo:/.", "repo:/..", "repo:/../a", "repo:/a/../b", "repo:/a/./b",
        "repo:/...", "repo:/.. /a", "repo:/ ", "file:/etc/passwd", "http://x/y", "REPO:/a",
        " repo:/a", "repo :/a", "trace:/a", "trace::/a", "session::/a", "session:..:/a",
        "session:A/B:/a", "session:A:B:/a", "repo:A:/a", "parent:A:/a", "root:A:/a",
        "session:é:/a", "session:A :/a", "repo:/a\nb", "repo:/a\0b", "repo:/a\x7f", "repo:/\u202ea",
        "repo:/a\u200b", "repo:/\ud800", "repo:/a\\b", "repo:/..\\a", "repo:/%2e%2e/a",
        "repo:/%2E%2e/a", "repo:/a%2fb", "repo:/a%5Cb", "repo:/a%00", "repo:/%252e",
        "repo:/\uff0e\uff0e/a", "repo:/\u2025/a", "repo:/a\uff0fb", "repo:/\u2100",
        "repo:/" + "a" * 256, "repo:/" + "é" * 128, "repo:/" + "a/" * 512 + "a",
    ],
)  # fmt: skip
def test_what_has_another_form_is_refused(ref: str) -> None:
    error = refused(parse, ref)
    assert error.code == "reference_invalid"
    assert error.message.isprintable()
    assert len(error.message) < 1_000


@pytest.mark.parametrize(
    ("layer", "ref", "place"),
    [
        ("A1", "repo:/src/a.py", "src/a.py"),
        ("A1", "session:/goal.md", f"{R}/children/A/children/A1/goal.md"),
        ("A1", "parent:/goal.md", f"{R}/children/A/goal.md"),
        ("A1", "root:/goal.md", f"{R}/goal.md"),
        ("A", "parent:/goal.md", f"{R}/goal.md"),
        ("R", "root:/goal.md", f"{R}/goal.md"),
        ("R", "session:/children/A/goal.md", f"{R}/children/A/goal.md"),
        ("R", "session:A1:/goal.md", f"{R}/children/A/children/A1/goal.md"),
        ("B", "session:A1:/goal.md", f"{R}/children/A/children/A1/goal.md"),
        ("A1", "session:R:/goal.md", f"{R}/goal.md"),
        ("A1", "session:A:/goal.md", f"{R}/children/A/goal.md"),
        ("A1", "session:A1:/goal.md", f"{R}/children/A/children/A1/goal.md"),
        ("R", "trace:A1:/attempts/x", ".callboard/layers/traces/R/sessions/A1/attempts/x"),
        ("T", "root:/none/at/all", ".callboard/layers/sessions/S/none/at/all"),
    ],
)
def test_a_reference_means_a_place(
    disk: Disk, layers: dict[str, tree.Layer], layer: str, ref: str, place: str
) -> None:
    assert place_of(disk, layers[layer], ref) == place


@pytest.mark.parametrize(
    ("layer", "ref", "code"),
    [
        ("R", "parent:/goal.md", "reference_out_of_scope"),
        ("R", "session:S:/goal.md", "reference_out_of_scope"),
        ("A1", "session:T:/goal.md", "reference_out_of_scope"),
        ("A1", "trace:T:/attempts", "reference_out_of_scope"),
        ("R", "session:X:/goal.md", "layer_missing"),
        ("R", "trace:X:/attempts", "layer_missing"),
        ("R", "session:/children/X/goal.md", "layer_missing"),
        ("R", "repo:/.callboard/layers/sessions/S/goal.md", "reference_out_of_scope"),
        ("R", "repo:/.Callboard/LAYERS/sessions/S/goal.md", "reference_out_of_scope"),
        ("R", "repo:/.callboard/layers", "reference_out_of_scope"),
        ("R", "repo:/.git/config", "reference_out_of_scope"),
        ("R", "repo:/vendored/.GIT/config", "reference_out_of_scope"),
        ("R", "session:/.state.json.0.tmp", "reference_out_of_scope"),
        ("R", "session:/children/.C.building/goal.md", "reference_out_of_scope"),
    ],
)
def test_nothing_is_reached_beyond_the_scope(
    disk: Disk, layers: dict[str, tree.Layer], layer: str, ref: str, code: str
) -> None:
    assert refused(place_of, disk, layers[layer], ref).code == code
    assert refused(read_ref, disk, layers[layer], ref, 1000).code == code


def test_files_are_read_and_bounded(disk: Disk, layers: dict[str, tree.Layer]) -> None:
    assert read_ref(disk, layers["A1"], "root:/goal.md", 14) == b"Make the thing"
    assert refused(read_ref, disk, layers["A1"], "root:/goal.md", 13).code == "resource_limit"
    assert refused(read_ref, disk, layers["A1"], "root:/none", 13).code == "file_missing"
    assert refused(read_ref, disk, layers["A1"], "root:/inputs", 13).code == "file_not_regular"
    assert refused(read_ref, disk, layers["A1"], "repo:/none/at/all", 9).code == "file_missing"


def test_links_pipes_and_devices_are_out_of_scope(
    disk: Disk, layers: dict[str, tree.Layer]
) -> None:
    root = layers["R"]
    secret = disk.root.parent / "secret"
    secret.mkdir()
    (secret / "file").write_bytes(b"secret")
    inside = disk.path(root.file("project_state"))
    (inside / "file").symlink_to(secret / "file")
    (inside / "folder").symlink_to(secret)
    (inside / "near").symlink_to("work_items.md")
    (disk.root / "out").symlink_to(secret)
    os.mkfifo(inside / "pipe")
    for ref in (
        "session:/project_state/file", "session:/project_state/folder/file", "repo:/out/file",
        "session:/project_state/near", "session:/project_state/pipe", "repo:/out",
    ):  # fmt: skip
        assert refused(read_ref, disk, root, ref, 1000).code == "reference_out_of_scope", ref
        assert refused(place_of, disk, root, ref).code == "reference_out_of_scope", ref


def test_a_layer_that_is_a_link_to_another_tree_is_not_followed(
    disk: Disk, layers: dict[str, tree.Layer]
) -> None:
    disk.path(layers["R"].file("children", "T")).symlink_to(disk.path(layers["T"].place))
    for ref in ("session:/children/T/goal.md", "session:T:/goal.md"):
        code = refused(read_ref, disk, layers["R"], ref, 1000).code
        assert code in ("layer_corrupt", "reference_out_of_scope"), ref


@pytest.mark.parametrize("ref", ["session:A1:/goal.md", "session:/children/A/children/A1/goal.md"])
def test_a_broken_way_is_no_way(disk: Disk, layers: dict[str, tree.Layer], ref: str) -> None:
    place = layers["A"].file("session.json")
    whole = disk.read(place, 10_000)
    trees.edit(disk, place, lambda d: d.update(repository_id="repo2"))
    assert refused(place_of, disk, layers["R"], ref).code == "topology_broken"
    trees.edit(disk, place, lambda d: d.update(session_id="B"))
    assert refused(place_of, disk, layers["R"], ref).code == "layer_corrupt"
    disk.publish(place, whole)
    assert place_of(disk, layers["R"], ref).endswith("A1/goal.md")


def test_a_session_that_lies_twice_is_neither(disk: Disk, layers: dict[str, tree.Layer]) -> None:
    trees.add(disk, "A1", layers["B"])
    error = refused(place_of, disk, layers["R"], "session:A1:/goal.md")
    assert error.code == "topology_broken"
    assert error.details["places"] == [
        f"{R}/children/A/children/A1", f"{R}/children/B/children/A1",
    ]  # fmt: skip


def test_a_request_is_read_as_its_child_will_read_it(
    disk: Disk, layers: dict[str, tree.Layer]
) -> None:
    root, below = layers["R"], layers["A1"]
    assert place_for_child(disk, root, "parent:/goal.md") == f"{R}/goal.md"
    assert place_for_child(disk, below, "parent:/goal.md") == f"{below.place}/goal.md"
    assert place_for_child(disk, below, "root:/goal.md") == f"{R}/goal.md"
    assert place_for_child(disk, below, "session:B:/goal.md") == f"{R}/children/B/goal.md"
    assert place_for_child(disk, below, "repo:/a") == "a"
    assert refused(place_for_child, disk, below, "session:/a").code == "reference_out_of_scope"
    assert refused(place_for_child, disk, below, "session:T:/a").code == "reference_out_of_scope"


def test_the_reference_to_a_file_of_the_layer(layers: dict[str, tree.Layer]) -> None:
    layer = layers["A"]
    assert references.ref_to(layer, layer.file("eval_receipts", "x.json")) == (
        "session:/eval_receipts/x.json"
    )
    for place in (layer.place, layers["B"].file("x"), f"{layer.place}B/x", "x"):
        assert refused(references.ref_to, layer, place).code == "reference_out_of_scope", place
    assert refused(references.ref_to, layer, layer.file("..", "x")).code == "reference_invalid"
