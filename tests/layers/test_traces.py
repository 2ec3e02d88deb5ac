"""Traces are sealed with all that is in them, compared byte by byte, exported and pruned."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import tarfile
from pathlib import Path

import pytest

from callboard.layers import sealing, traces
from callboard.layers.disk import Disk
from callboard.layers.exporting import export
from callboard.layers.records.attempt import TraceSeal
from callboard.layers.records.state import Task
from callboard.layers.sealing import seal
from callboard.layers.tree import Layer
from tests.board.building import refused
from tests.layers import trees
from tests.layers.killing import Killed, killing

FILES = {
    "stdout.log": b"out\n",
    "stderr.log": b"",
    ".cache/note": b"a",
    "a/b/c.txt": b"c" * 3_000_000,
    "ünï code.txt": b"u",
}


@pytest.fixture
def layer(disk: Disk) -> Layer:
    return trees.start(disk)


def folder_of(disk: Disk, layer: Layer, attempt: str) -> Path:
    return disk.path(f"{layer.trace_place}/attempts/{attempt}")


def left(
    disk: Disk, layer: Layer, iteration: int = 1, *, finished: bool = True, at_ms: int = trees.NOW
) -> TraceSeal:
    """The sealed trace of an attempt, with files of many kinds."""
    attempt = f"{iteration:04d}_planner"
    folder = folder_of(disk, layer, attempt)
    for name, data in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    (folder / ".stdout.log.run_1.tmp").write_bytes(b"half")
    (folder / "link").symlink_to("/etc/passwd")
    (folder / "out").symlink_to("/etc")
    os.mkfifo(folder / "a" / "pipe")
    (folder / "a" / "esc\x1b[0m").write_bytes(b"")
    if finished:
        trees.attempt(disk, layer, iteration)
    return seal(disk, layer, attempt, git_before=None, git_after=None, now_ms=at_ms)


def test_a_manifest_names_everything_and_follows_nothing(disk: Disk, layer: Layer) -> None:
    made = left(disk, layer)
    folder = folder_of(disk, layer, "0001_planner")
    data = (folder / "manifest.json").read_bytes()
    found = json.loads(data)
    assert [(file["path"], file["sha256"], file["size_bytes"]) for file in found["files"]] == [
        (name, "sha256:" + hashlib.sha256(FILES[name]).hexdigest(), len(FILES[name]))
        for name in (".cache/note", "a/b/c.txt", "stderr.log", "stdout.log", "ünï code.txt")
    ]
    assert found["skipped"] == [
        {"path": "a/esc\\x1b[0m", "reason": "name"},
        {"path": "a/pipe", "reason": "special"},
        {"path": "link", "reason": "link"},
        {"path": "out", "reason": "link"},
    ]
    assert found["complete"] is True
    place = disk.path(layer.file("trace_seals", "0001_planner.json"))
    assert json.loads(place.read_bytes()) == {
        "schema_version": 1, "attempt_id": "0001_planner", "files": 5, "size_bytes": 3_000_006,
        "manifest_sha256": "sha256:" + hashlib.sha256(data).hexdigest(),
        "sealed_at_ms": trees.NOW,
    }  # fmt: skip
    assert made.files == 5


def test_bounds_of_a_manifest(disk: Disk, layer: Layer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sealing, "MAX_FILES", 6)
    monkeypatch.setattr(sealing, "MAX_TRACE_BYTES", 1_000)
    left(disk, layer)
    found = json.loads((folder_of(disk, layer, "0001_planner") / "manifest.json").read_bytes())
    assert found["complete"] is False
    assert len(found["files"]) + len(found["skipped"]) == 6
    inspected = traces.inspect(disk, layer, "0001_planner")
    assert (inspected.is_sound, inspected.complete, inspected.added) == (True, False, ())
    monkeypatch.setattr(sealing, "MAX_FILES", 100)
    seal(disk, layer, "0001_planner", git_before=None, git_after=None, now_ms=1)
    found = json.loads((folder_of(disk, layer, "0001_planner") / "manifest.json").read_bytes())
    assert {"path": "a/b/c.txt", "reason": "size"} in found["skipped"]
    assert found["complete"] is True


def test_a_trace_that_is_as_it_was_sealed_is_sound(disk: Disk, layer: Layer) -> None:
    left(disk, layer)
    found = traces.inspect(disk, layer, "0001_planner")
    assert found.is_sound
    assert found.skipped == ("a/esc\\x1b[0m", "a/pipe", "link", "out")


def test_every_difference_is_told(disk: Disk, layer: Layer) -> None:
    left(disk, layer)
    folder = folder_of(disk, layer, "0001_planner")
    (folder / "stdout.log").write_bytes(b"Out\n")
    (folder / "stderr.log").unlink()
    (folder / "a/b/c.txt").unlink()
    (folder / "a/b/c.txt").symlink_to(folder / "stdout.log")
    (folder / "new").write_bytes(b"")
    (folder / "link").unlink()
    (folder / "another").symlink_to("x")
    found = traces.inspect(disk, layer, "0001_planner")
    assert found.changed == ("a/b/c.txt", "stdout.log")
    assert found.missing == ("link", "stderr.log")
    assert found.added == ("another", "new")
    assert found.manifest_is_sealed
    assert not found.is_sound


@pytest.mark.parametrize("how", ["edited", "missing", "damaged"])
def test_a_manifest_that_is_not_the_sealed_one_is_told(disk: Disk, layer: Layer, how: str) -> None:
    left(disk, layer)
    manifest = folder_of(disk, layer, "0001_planner") / "manifest.json"
    if how == "edited":
        manifest.write_bytes(manifest.read_bytes() + b"\n")
    elif how == "missing":
        manifest.unlink()
    else:
        manifest.write_bytes(b"{}")
    found = traces.inspect(disk, layer, "0001_planner")
    assert not found.manifest_is_sealed
    assert not found.is_sound


def test_traces_are_listed_with_how_they_stand(disk: Disk, layer: Layer) -> None:
    left(disk, layer, 1)
    left(disk, layer, 2, at_ms=trees.NOW + 1)
    left(disk, layer, 3, finished=False)
    folder_of(disk, layer, "0004_planner").mkdir()
    traces.prune(disk, [layer], sealed_before_ms=trees.NOW + 1)
    assert [
        (one.attempt_id, one.standing, one.finished, one.files, one.sealed_at_ms)
        for one in traces.traces_of(disk, layer)
    ] == [
        ("0001_planner", "pruned", True, 5, trees.NOW),
        ("0002_planner", "sealed", True, 5, trees.NOW + 1),
        ("0003_planner", "sealed", False, 5, trees.NOW),
        ("0004_planner", "open", False, None, None),
    ]
    for attempt, code in (
        ("0001_planner", "trace_pruned"),
        ("0004_planner", "trace_unsealed"),
        ("0005_planner", "trace_missing"),
        ("../0001_planner", "trace_missing"),
        ("", "trace_missing"),
    ):
        assert refused(traces.inspect, disk, layer, attempt).code == code
        assert refused(export, disk, layer, attempt, disk.root / "x.tar.gz").code == code


# --- exporting ------------------------------------------------------------------------------------


def test_an_export_has_the_sealed_files_and_nothing_of_the_machine(
    disk: Disk, layer: Layer, tmp_path: Path
) -> None:
    left(disk, layer)
    target = tmp_path / "trace.tar.gz"
    assert export(disk, layer, "0001_planner", target) == target.stat().st_size
    with tarfile.open(target) as archive:
        found = {}
        for member in archive:
            assert member.isreg()
            assert (member.uid, member.gid, member.uname, member.mtime, member.mode) == (
                0, 0, "", 0, 0o644
            )  # fmt: skip
            content = archive.extractfile(member)
            assert content is not None
            found[member.name] = content.read()
    manifest = folder_of(disk, layer, "0001_planner") / "manifest.json"
    assert found == {
        "0001_planner/manifest.json": manifest.read_bytes(),
        **{f"0001_planner/{name}": data for name, data in FILES.items()},
    }
    assert str(tmp_path).encode() not in gzip.decompress(target.read_bytes())
    again = tmp_path / "again.tar.gz"
    export(disk, layer, "0001_planner", again)
    assert again.read_bytes() == target.read_bytes()


def test_an_export_replaces_nothing(disk: Disk, layer: Layer, tmp_path: Path) -> None:
    left(disk, layer)
    target = tmp_path / "trace.tar.gz"
    target.write_bytes(b"mine")
    assert refused(export, disk, layer, "0001_planner", target).code == "export_failed"
    assert target.read_bytes() == b"mine"
    nowhere = tmp_path / "no" / "such.tar.gz"
    assert refused(export, disk, layer, "0001_planner", nowhere).code == "export_failed"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["repository", "trace.tar.gz"]


@pytest.mark.parametrize("how", ["edited", "longer", "shorter", "missing", "link", "manifest"])
def test_what_is_not_as_sealed_is_not_exported(
    disk: Disk, layer: Layer, tmp_path: Path, how: str
) -> None:
    left(disk, layer)
    folder = folder_of(disk, layer, "0001_planner")
    path = folder / "stdout.log"
    if how in ("missing", "link"):
        path.unlink()
    if how == "link":
        path.symlink_to(folder / "stderr.log")
    if how in ("edited", "longer", "shorter"):
        path.write_bytes({"edited": b"Out\n", "longer": b"out\n\n", "shorter": b"out"}[how])
    if how == "manifest":
        with (folder / "manifest.json").open("ab") as stream:
            stream.write(b"\n")
    target = tmp_path / "trace.tar.gz"
    assert refused(export, disk, layer, "0001_planner", target).code == "trace_changed"
    assert [path.name for path in tmp_path.iterdir()] == ["repository"]


# --- pruning --------------------------------------------------------------------------------------


def there(disk: Disk, layer: Layer) -> list[str]:
    return disk.names(f"{layer.trace_place}/attempts")


def test_pruning_goes_by_age_and_by_count(disk: Disk, layer: Layer) -> None:
    for iteration in (1, 2, 3, 4):
        left(disk, layer, iteration, at_ms=trees.NOW + iteration)
    assert traces.prune(disk, [layer]) == []
    assert traces.prune(disk, [layer], sealed_before_ms=trees.NOW) == []
    pruned = traces.prune(disk, [layer], sealed_before_ms=trees.NOW + 4, keep=2)
    assert [one.attempt_id for one in pruned] == ["0002_planner", "0001_planner"]
    assert there(disk, layer) == ["0003_planner", "0004_planner"]
    pruned = traces.prune(disk, [layer], keep=1)
    assert [one.attempt_id for one in pruned] == ["0003_planner"]
    assert len(disk.names(layer.file("trace_seals"))) == 4


def test_a_count_is_of_all_layers_together(disk: Disk, layer: Layer) -> None:
    child = trees.grow(disk, layer, "C")
    left(disk, layer, 1, at_ms=trees.NOW)
    left(disk, child, 1, at_ms=trees.NOW + 1)
    pruned = traces.prune(disk, [layer, child], keep=1)
    assert [(one.session_id, one.attempt_id) for one in pruned] == [("R", "0001_planner")]
    assert there(disk, child) == ["0001_planner"]


def test_only_sealed_traces_of_finished_attempts_are_taken(disk: Disk, layer: Layer) -> None:
    left(disk, layer, 1, finished=False)
    trees.attempt(disk, layer, 2)
    folder_of(disk, layer, "0002_planner").mkdir()
    left(disk, layer, 3)
    task = Task(
        attempt_id="0003_planner", role="planner", iteration=3, assignment_sha256=trees.sha(b"")
    )
    trees.change(disk, layer, task=task)
    assert traces.prune(disk, [layer], keep=0) == []
    assert there(disk, layer) == ["0001_planner", "0002_planner", "0003_planner"]


def test_what_another_prune_took_meanwhile_is_not_told(disk: Disk, layer: Layer) -> None:
    left(disk, layer)
    # Found twice: at its second turn it has gone.
    assert [one.attempt_id for one in traces.prune(disk, [layer, layer], keep=0)] == [
        "0001_planner"
    ]


def test_a_link_in_a_trace_is_taken_and_not_followed(
    disk: Disk, layer: Layer, tmp_path: Path
) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "kept").touch()
    left(disk, layer)
    (folder_of(disk, layer, "0001_planner") / "away").symlink_to(tmp_path / "outside")
    traces.prune(disk, [layer], keep=0)
    assert there(disk, layer) == []
    assert (tmp_path / "outside" / "kept").exists()


def test_a_prune_that_was_killed_is_finished_by_the_next(disk: Disk, layer: Layer) -> None:
    left(disk, layer)
    steps: list[str] = []
    traces.prune(Disk(disk.root, lambda step, _: steps.append(step)), [layer], keep=0)
    assert len(steps) > 10
    for last in range(1, len(steps)):
        left(disk, layer)
        with pytest.raises(Killed):
            traces.prune(Disk(disk.root, killing(last)), [layer], keep=0)
        assert [one.standing for one in traces.traces_of(disk, layer)] == ["pruned"]
        assert traces.prune(disk, [layer], keep=0) == []
        assert there(disk, layer) == []
