"""Reading and replacing files below one folder, whoever else is at work there."""

from __future__ import annotations

import errno
import os
import stat
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from callboard.canonical import sha256_hex
from callboard.project.source.place import Place
from tests.project.source.scene import refused

LIMIT = 1000


def replaced(place: Place, path: str, old: bytes, new: bytes) -> None:
    place.replace(path, sha256_hex(old), lambda _: new, LIMIT)


def names(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


def test_a_file_is_replaced_whole_and_keeps_its_mode(tmp_path: Path) -> None:
    file = tmp_path / "a" / "work.yaml"
    file.parent.mkdir()
    file.write_bytes(b"old")
    file.chmod(0o640)
    with file.open("rb") as reader:
        found = Place(tmp_path).replace("a/work.yaml", sha256_hex(b"old"), lambda _: b"new", LIMIT)
        assert reader.read() == b"old"
    assert file.read_bytes() == b"new"
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    assert (found.data, found.sha256) == (b"new", sha256_hex(b"new"))
    assert names(file.parent) == ["work.yaml"]


def test_a_file_that_changed_keeps_the_foreign_bytes(tmp_path: Path) -> None:
    file = tmp_path / "work.yaml"
    file.write_bytes(b"foreign")
    error = refused(
        "source_conflict", lambda: replaced(Place(tmp_path), "work.yaml", b"old", b"new")
    )
    assert error.details == {
        "file": "work.yaml",
        "expected": sha256_hex(b"old"),
        "actual": sha256_hex(b"foreign"),
    }
    assert file.read_bytes() == b"foreign"
    assert names(tmp_path) == ["work.yaml"]


def test_a_file_that_changes_during_the_change_keeps_the_foreign_bytes(tmp_path: Path) -> None:
    file = tmp_path / "work.yaml"
    file.write_bytes(b"old")

    def make(_: bytes) -> bytes:
        file.write_bytes(b"foreign")
        return b"new"

    refused(
        "source_conflict",
        lambda: Place(tmp_path).replace("work.yaml", sha256_hex(b"old"), make, LIMIT),
    )
    assert file.read_bytes() == b"foreign"
    assert names(tmp_path) == ["work.yaml"]


@pytest.mark.parametrize("what", ["link", "dangling", "folder", "pipe"])
def test_what_is_no_regular_file_is_neither_read_nor_replaced(tmp_path: Path, what: str) -> None:
    outside, root = tmp_path / "outside", tmp_path / "root"
    root.mkdir()
    outside.write_bytes(b"old")
    file = root / "work.yaml"
    if what == "link":
        file.symlink_to(outside)
    elif what == "dangling":
        file.symlink_to(tmp_path / "nothing")
    elif what == "folder":
        file.mkdir()
    else:
        os.mkfifo(file)
    refused("source_unsafe", lambda: Place(root).read("work.yaml", LIMIT))
    refused("source_unsafe", lambda: replaced(Place(root), "work.yaml", b"old", b"new"))
    assert not Place(root).create("work.yaml", b"new")
    assert outside.read_bytes() == b"old"
    assert names(tmp_path) == ["outside", "root"]


@pytest.mark.parametrize("dangling", [False, True])
def test_a_folder_that_is_a_link_leads_nowhere(tmp_path: Path, dangling: bool) -> None:
    outside, root = tmp_path / "outside", tmp_path / "root"
    root.mkdir()
    if not dangling:
        outside.mkdir()
        outside.chmod(0o755)
        (outside / "work.yaml").write_bytes(b"old")
    (root / "plans").symlink_to(outside)
    place = Place(root)
    refused("source_unsafe", lambda: place.read("plans/work.yaml", LIMIT))
    refused("source_unsafe", lambda: replaced(place, "plans/work.yaml", b"old", b"new"))
    refused("source_unsafe", lambda: place.create("plans/new.yaml", b"new"))
    if not dangling:
        assert names(outside) == ["work.yaml"]
        assert (outside / "work.yaml").read_bytes() == b"old"
        assert stat.S_IMODE(outside.stat().st_mode) == 0o755


@pytest.mark.parametrize("link", [False, True])
def test_a_folder_exchanged_between_check_and_write_is_noticed(tmp_path: Path, link: bool) -> None:
    outside, root = tmp_path / "outside", tmp_path / "root"
    for folder in (outside, root / "plans"):
        folder.mkdir(parents=True)
        (folder / "work.yaml").write_bytes(b"old")

    def make(_: bytes) -> bytes:
        (root / "plans").rename(tmp_path / "aside")
        if link:
            (root / "plans").symlink_to(outside)
        else:
            outside.rename(root / "plans")
        return b"new"

    refused(
        "source_unsafe",
        lambda: Place(root).replace("plans/work.yaml", sha256_hex(b"old"), make, LIMIT),
    )
    for folder in (tmp_path / "aside", outside if link else root / "plans"):
        assert names(folder) == ["work.yaml"]
        assert (folder / "work.yaml").read_bytes() == b"old"


@pytest.mark.parametrize(
    "path", ["", "/etc/passwd", "../x", "a/../../x", "a\0b", "/".join("a" * 40)]
)
def test_a_path_leads_down(tmp_path: Path, path: str) -> None:
    refused("source_unsafe", lambda: Place(tmp_path).read(path, LIMIT))
    refused("source_unsafe", lambda: Place(tmp_path).create(path, b""))


def test_a_file_has_a_limit(tmp_path: Path) -> None:
    (tmp_path / "work.yaml").write_bytes(b"x" * (LIMIT + 1))
    error = refused("resource_limit", lambda: Place(tmp_path).read("work.yaml", LIMIT))
    assert error.details["limit_bytes"] == LIMIT


def test_what_is_there_is_not_created_again(tmp_path: Path) -> None:
    place = Place(tmp_path)
    assert place.create("a/b/work.yaml", b"one")
    assert not place.create("a/b/work.yaml", b"two")
    assert (tmp_path / "a/b/work.yaml").read_bytes() == b"one"
    assert names(tmp_path / "a" / "b") == ["work.yaml"]


def test_of_many_writers_of_one_reading_one_wins(tmp_path: Path) -> None:
    file = tmp_path / "work.yaml"
    file.write_bytes(b"old")
    gate = threading.Barrier(8)
    outcomes: list[str] = []

    def write(number: int) -> None:
        gate.wait(30)
        act: Callable[[], None] = lambda: replaced(  # noqa: E731
            Place(tmp_path), "work.yaml", b"old", b"new %d" % number
        )
        try:
            act()
            outcomes.append("written")
        except Exception as error:  # noqa: BLE001 - its code is looked at below
            outcomes.append(getattr(error, "code", repr(error)))

    writers = [threading.Thread(target=write, args=(number,)) for number in range(8)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(60)
    assert sorted(outcomes) == ["source_conflict"] * 7 + ["written"]
    assert file.read_bytes().startswith(b"new ")
    assert names(tmp_path) == ["work.yaml"]


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "work.yaml").write_bytes(b"old")
    place = Place(tmp_path)

    def make(_: bytes) -> bytes:
        # What the disk says when it is full, at the place where it would say so.
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    error = refused(
        "source_unwritable", lambda: place.replace("work.yaml", sha256_hex(b"old"), make, LIMIT)
    )
    assert "No space left" in error.message
    assert (tmp_path / "work.yaml").read_bytes() == b"old"
    assert names(tmp_path) == ["work.yaml"]
