"""Files are reached through open folders alone, and every change is whole and durable or none."""

from __future__ import annotations

import errno
import os
import socket
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from callboard.layers.disk import Disk
from tests.board.building import refused
from tests.layers.killing import Killed, killing_where
from tests.layers.trees import everything

Act = Callable[[Disk, str], object]


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A folder that no place leads to."""
    folder = tmp_path / "outside"
    folder.mkdir(mode=0o755)
    return folder


@pytest.fixture(autouse=True)
def nothing_left(disk: Disk) -> Iterator[None]:
    """No descriptor stays open, and no temporary file stays."""
    before = set(os.listdir("/proc/self/fd"))
    yield
    assert set(os.listdir("/proc/self/fd")) == before
    assert not [path for path in disk.root.rglob("*") if path.name.endswith(".tmp")]


WRITES: dict[str, Act] = {
    "make_folder": lambda disk, place: disk.make_folder(place),
    "publish": lambda disk, place: disk.publish(place, b"new"),
    "publish_new": lambda disk, place: disk.publish_new(place, b"new"),
    "append": lambda disk, place: disk.append(place, b"new"),
    "move from": lambda disk, place: disk.move(place, "moved"),
    "move to": lambda disk, place: disk.move("whole", place),
    "remove": lambda disk, place: disk.remove(place),
    "remove_tree": lambda disk, place: disk.remove_tree(place),
}
READS: dict[str, Act] = {
    "kind": lambda disk, place: disk.kind(place),
    "read": lambda disk, place: disk.read(place, 100),
}
FOLDER_READS: dict[str, Act] = {
    "names": lambda disk, place: disk.names(place),
    "entries": lambda disk, place: disk.entries(place),
}


# --- what is done ---------------------------------------------------------------------------------


def test_files_and_folders_come_and_go(disk: Disk) -> None:
    assert disk.path("a/b") == disk.root / "a" / "b"
    assert disk.kind("a") is None
    assert disk.kind("a/b/c") is None
    assert disk.names("a") == []
    assert disk.entries("a") == []
    disk.make_folder("a/b")
    disk.make_folder("a/b")
    disk.publish("a/b/c", b"1")
    disk.publish("a/b/c", b"2")
    assert disk.read("a/b/c", 1) == b"2"
    assert disk.publish_new("a/b/c", b"3") is False
    assert disk.publish_new("a/b/d", b"4") is True
    disk.append("a/b/d", b"5")
    disk.append("a/b/e", b"6")
    assert [disk.read(f"a/b/{name}", 9) for name in "cde"] == [b"2", b"45", b"6"]
    assert (disk.kind("a/b"), disk.kind("a/b/c")) == ("folder", "file")
    assert disk.entries("a/b") == [("c", "file"), ("d", "file"), ("e", "file")]
    disk.move("a/b/c", "a/c")
    disk.move("a/b", "a/d")
    assert disk.names("a") == ["c", "d"]
    disk.remove("a/c")
    disk.remove("a/c")
    disk.remove("none/at/all")
    disk.remove_tree("none/at/all")
    disk.remove_tree("a")
    assert everything(disk.root) == {}


def test_what_is_published_may_be_read_by_others(disk: Disk) -> None:
    before = os.umask(0o022)
    try:
        disk.make_folder("a")
        disk.publish("a/b", b"")
        disk.publish_new("a/c", b"")
        disk.append("a/d", b"")
    finally:
        os.umask(before)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in disk.root.rglob("*")}
    assert modes == {"a": 0o755, "b": 0o644, "c": 0o644, "d": 0o644}


def test_ten_megabytes_are_written_whole_and_read_only_where_allowed(disk: Disk) -> None:
    data = os.urandom(1024) * 10_240
    disk.publish("a", data)
    assert disk.read("a", len(data)) == data
    assert refused(disk.read, "a", len(data) - 1).code == "resource_limit"


def test_a_survey_tells_all_that_is_there(disk: Disk) -> None:
    disk.make_folder("a/b/c")
    disk.publish("a/b/d", b"")
    (disk.root / "a" / "l").symlink_to("b")
    survey = disk.survey("a")
    assert survey.folders == {
        "a": [("b", "folder"), ("l", "other")],
        "a/b": [("c", "folder"), ("d", "file")],
        "a/b/c": [],
    }
    assert survey.refused == {}
    assert disk.survey("none").refused["none"].code == "file_missing"
    assert disk.survey("a/l").refused["a/l"].code == "path_invalid"


def test_a_survey_of_a_bottomless_folder_ends(disk: Disk) -> None:
    descriptor = os.open(disk.root, os.O_RDONLY)
    for _ in range(300):
        os.mkdir("d", dir_fd=descriptor)
        deeper = os.open("d", os.O_RDONLY, dir_fd=descriptor)
        os.close(descriptor)
        descriptor = deeper
    os.close(descriptor)
    survey = disk.survey("d")
    assert len(survey.folders) == 256
    assert [error.code for error in survey.refused.values()] == ["path_invalid"]


# --- places ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("act", [*WRITES.values(), *READS.values(), *FOLDER_READS.values()])
def test_no_place_leads_out(disk: Disk, outside: Path, act: Act) -> None:
    disk.publish("whole", b"whole")
    disk.make_folder("a")
    before = everything(disk.root.parent)
    for place in (
        "..", ".", "../outside", "a/../../outside/x", "/etc/x", "a//b", "a/", "./a", "a/./b",
        "a\0b", "\0", str(outside / "x"), "\ud800", "a/" * 300 + "b", "x" * 300,
    ):  # fmt: skip
        assert refused(act, disk, place).code == "path_invalid", place
    assert everything(disk.root.parent) == before


@pytest.mark.parametrize("act", [*WRITES.values(), *READS.values()])
def test_the_folder_itself_is_no_file(disk: Disk, act: Act) -> None:
    disk.publish("whole", b"whole")
    if act is WRITES["make_folder"]:
        act(disk, "")
    else:
        assert refused(act, disk, "").code == "path_invalid"
    assert disk.names("") == ["whole"]


@pytest.mark.parametrize(
    "name", ["é", "e\u0301", "a b", "設計", "\udcff", "a\nb", "..a", "a" * 255]
)
def test_any_other_name_is_a_name(disk: Disk, name: str) -> None:
    disk.make_folder(f"d/{name}")
    disk.publish(f"d/{name}/{name}", b"1")
    assert disk.read(f"d/{name}/{name}", 1) == b"1"
    assert disk.names("d") == [name]
    disk.remove_tree(f"d/{name}")
    assert disk.names("d") == []


# --- links, pipes, devices ------------------------------------------------------------------------


@pytest.mark.parametrize("dangling", [True, False])
@pytest.mark.parametrize("act", [*WRITES.values(), *READS.values()])
def test_a_link_is_never_a_folder_on_the_way(
    disk: Disk, outside: Path, act: Act, dangling: bool
) -> None:
    disk.publish("whole", b"whole")
    target = outside / "none" if dangling else outside
    (disk.root / "link").symlink_to(target)
    (disk.root / "inner").mkdir()
    (disk.root / "near").symlink_to("inner")
    before = everything(disk.root.parent)
    for place in ("link/x", "link/x/y", "near/x"):
        assert refused(act, disk, place).code == "path_invalid", place
    assert everything(disk.root.parent) == before
    assert stat.S_IMODE(outside.stat().st_mode) == 0o755
    assert os.listdir(outside) == []


@pytest.mark.parametrize("dangling", [True, False])
def test_a_link_is_never_written_or_read_through(disk: Disk, outside: Path, dangling: bool) -> None:
    target = outside / "target"
    if not dangling:
        target.write_bytes(b"secret")
        target.chmod(0o600)
    link = disk.root / "link"
    before = everything(outside)

    def again() -> None:
        link.unlink(missing_ok=True)
        link.symlink_to(target)

    again()
    assert disk.kind("link") == "other"
    assert refused(disk.read, "link", 100).code == "file_not_regular"
    assert refused(disk.append, "link", b"x").code == "path_invalid"
    assert refused(disk.make_folder, "link").code == "path_invalid"
    assert refused(disk.names, "link").code == "path_invalid"
    assert disk.publish_new("link", b"x") is False
    assert link.is_symlink()
    # What replaces or removes a name replaces or removes the link.
    disk.publish("link", b"mine")
    assert disk.read("link", 10) == b"mine"
    for act in (disk.remove, disk.remove_tree):
        again()
        act("link")
        assert not link.is_symlink()
    again()
    disk.move("link", "moved")
    assert (disk.root / "moved").is_symlink()
    assert everything(outside) == before


def test_removing_a_tree_follows_no_link(disk: Disk, outside: Path) -> None:
    (outside / "kept").write_bytes(b"kept")
    disk.make_folder("a/b")
    (disk.root / "a" / "b" / "link").symlink_to(outside)
    os.mkfifo(disk.root / "a" / "pipe")
    disk.remove_tree("a")
    assert disk.names("") == []
    assert os.listdir(outside) == ["kept"]


def test_pipes_sockets_folders_and_devices_are_no_files(disk: Disk) -> None:
    os.mkfifo(disk.root / "pipe")
    (disk.root / "folder").mkdir()
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(disk.root / "socket"))
        names = ["pipe", "folder", "socket"]
        try:
            os.mknod(disk.root / "device", stat.S_IFCHR | 0o666, os.makedev(1, 3))
            names.append("device")
        except PermissionError:
            # Making devices is for a privileged user.
            pass
        for name in names:
            assert disk.kind(name) == ("folder" if name == "folder" else "other")
            # A device may be refused by the file system before it is looked at.
            refusals = ("file_not_regular", "file_unreadable")
            assert refused(disk.read, name, 100).code in refusals, name
            assert refused(disk.append, name, b"x").code in (
                "path_invalid", "storage_failed", "file_unreadable",
            ), name  # fmt: skip
            assert disk.publish_new(name, b"x") is False


def test_a_pipe_with_a_reader_gets_nothing(disk: Disk) -> None:
    os.mkfifo(disk.root / "pipe")
    reader = os.open(disk.root / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    try:
        assert refused(disk.append, "pipe", b"x").code == "path_invalid"
        assert os.read(reader, 10) == b""
    finally:
        os.close(reader)


def test_a_folder_in_the_place_of_a_file_stays(disk: Disk) -> None:
    disk.make_folder("a/b")
    disk.publish("c", b"c")
    for error in (
        refused(disk.publish, "a", b"x"), refused(disk.remove, "a"), refused(disk.move, "c", "a"),
    ):  # fmt: skip
        assert error.code in ("storage_failed", "file_unreadable")
    assert refused(disk.make_folder, "c").code == "path_invalid"
    assert refused(disk.publish, "c/d", b"x").code == "path_invalid"
    assert refused(disk.move, "none", "x").code == "file_missing"
    assert refused(disk.publish, "none/x", b"x").code == "file_missing"
    assert disk.entries("") == [("a", "folder"), ("c", "file")]


# --- a folder that is exchanged -------------------------------------------------------------------


@pytest.mark.parametrize("name", ["publish", "publish_new"])
@pytest.mark.parametrize("steps", ["a/x", "a/b/x"])
def test_a_folder_that_becomes_a_link_meanwhile_is_not_left(
    disk: Disk, outside: Path, name: str, steps: str
) -> None:
    disk.make_folder("a/b")
    (outside / "b").mkdir()

    def exchange(step: str, _place: str) -> None:
        if step == "write":
            (disk.root / "a").rename(disk.root / "old")
            (disk.root / "a").symlink_to(outside)

    WRITES[name](Disk(disk.root, exchange), steps)
    # The write went to the folder that was opened, by whatever name it goes now.
    assert (disk.root / "old" / steps.removeprefix("a/")).read_bytes() == b"new"
    assert everything(outside) == {"b": (stat.S_IFDIR | 0o755, b"")}
    assert refused(disk.read, steps, 10).code == "path_invalid"


def test_removing_a_tree_that_is_exchanged_leaves_what_a_link_leads_to(
    disk: Disk, outside: Path
) -> None:
    (outside / "y").write_bytes(b"kept")
    disk.make_folder("a/b")
    disk.publish("a/b/x", b"")
    disk.publish("a/b/y", b"")

    def exchange(step: str, place: str) -> None:
        if (step, place) == ("unlink", "a/b/x"):
            (disk.root / "a" / "b").rename(disk.root / "old")
            (disk.root / "a" / "b").symlink_to(outside)

    assert refused(Disk(disk.root, exchange).remove_tree, "a").code == "path_invalid"
    assert (outside / "y").read_bytes() == b"kept"


@pytest.mark.parametrize("levels", [29, 31, 32, 300, 1500])
def test_a_tree_is_taken_away_however_deep_it_is(disk: Disk, levels: int) -> None:
    disk.make_folder("a/beside")
    deepest = os.open(disk.root / "a", os.O_RDONLY)
    for level in range(levels):
        for name in ("f", "g"):
            os.close(os.open(name, os.O_WRONLY | os.O_CREAT, dir_fd=deepest))
        if level % 7 == 0:
            os.mkdir("beside" if level else "other", dir_fd=deepest)
        os.mkdir("d" * 200, dir_fd=deepest)
        deeper = os.open("d" * 200, os.O_RDONLY, dir_fd=deepest)
        os.close(deepest)
        deepest = deeper
    os.symlink("/etc", "link", dir_fd=deepest)
    os.close(deepest)
    disk.remove_tree("a")
    assert os.listdir(disk.root) == []
    assert os.path.isdir("/etc")


# --- durability -----------------------------------------------------------------------------------


@pytest.fixture
def syncs(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was synced, in order, by the path that it has at that moment."""
    found: list[str] = []
    real = os.fsync

    def fsync(descriptor: int) -> None:
        found.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    return found


def _watched(disk: Disk, syncs: list[str]) -> Disk:
    return Disk(disk.root, lambda step, place: syncs.append(f"{step} {place}"))


@pytest.mark.parametrize(("name", "step"), [("publish", "rename"), ("publish_new", "link")])
def test_a_file_is_durable_before_its_name_and_its_name_before_success(
    disk: Disk, syncs: list[str], name: str, step: str
) -> None:
    disk.make_folder("a")
    syncs.clear()
    WRITES[name](_watched(disk, syncs), "a/x")
    folder = str(disk.root / "a")
    assert syncs[0].startswith(f"{folder}/.x.")
    assert syncs[0].endswith(".tmp")
    assert syncs[1:] == ["write a/x", f"{step} a/x", folder]


def test_every_other_change_is_durable_too(disk: Disk, syncs: list[str]) -> None:
    root = str(disk.root)
    watched = _watched(disk, syncs)
    watched.make_folder("a/b")
    assert syncs == ["make a", root, "make a/b", f"{root}/a"]
    syncs.clear()
    watched.append("a/x", b"1")
    assert syncs == [f"{root}/a/x", "append a/x", f"{root}/a"]
    syncs.clear()
    watched.move("a/x", "a/b/x")
    assert syncs == ["rename a/b/x", f"{root}/a/b", f"{root}/a"]
    syncs.clear()
    watched.remove("a/b/x")
    assert syncs == ["unlink a/b/x", f"{root}/a/b"]
    syncs.clear()
    watched.remove_tree("a")
    assert syncs == ["rmdir a/b", f"{root}/a", "rmdir a", root]


def test_a_folder_whose_maker_was_killed_before_it_was_durable_is_made_so(
    disk: Disk, syncs: list[str]
) -> None:
    root = str(disk.root)

    def killed_at(place: str) -> Disk:
        return Disk(disk.root, killing_where(lambda *effect: effect == ("make", place)))

    with pytest.raises(Killed):
        killed_at("a/b").make_folder("a/b/c")
    syncs.clear()
    disk.make_folder("a/b/c")
    assert syncs == [f"{root}/a/b", f"{root}/a"]
    with pytest.raises(Killed):
        killed_at("a/b/c/d").make_folder("a/b/c/d")
    syncs.clear()
    disk.make_folder("a/b/c/d")
    assert syncs == [f"{root}/a/b/c"]


def test_a_file_that_is_there_already_is_durable_too(disk: Disk, syncs: list[str]) -> None:
    with pytest.raises(Killed):
        Disk(disk.root, killing_where(lambda step, _place: step == "link")).publish_new(
            "x", b"first"
        )
    syncs.clear()
    assert not disk.publish_new("x", b"second")
    assert syncs[-1] == str(disk.root)


# --- faults ---------------------------------------------------------------------------------------


def _fail(monkeypatch: pytest.MonkeyPatch, call: str, number: int, code: int) -> None:
    """The call of this name fails the `number`th time."""
    real: Callable[..., Any] = getattr(os, call)
    count = 0

    def failing(*arguments: Any, **named: Any) -> Any:
        nonlocal count
        count += 1
        if count == number:
            if call == "write":
                # A disk that fills up takes what still fits.
                real(arguments[0], bytes(arguments[1])[:2])
            raise OSError(code, os.strerror(code))
        return real(*arguments, **named)

    monkeypatch.setattr(os, call, failing)


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EIO])
@pytest.mark.parametrize(
    ("name", "call", "number"),
    [
        ("publish", "write", 1), ("publish", "fsync", 1), ("publish", "rename", 1),
        ("publish_new", "write", 1), ("publish_new", "fsync", 1), ("publish_new", "link", 1),
        ("append", "write", 1), ("append", "fsync", 1), ("make_folder", "mkdir", 2),
        ("move from", "rename", 1), ("remove", "unlink", 1),
    ],
)  # fmt: skip
def test_a_full_or_broken_disk_leaves_what_was_there(
    disk: Disk, monkeypatch: pytest.MonkeyPatch, name: str, call: str, number: int, code: int
) -> None:
    place = "a/new" if name in ("publish_new", "make_folder") else "a/old"
    disk.make_folder("a")
    disk.publish("a/old", b"old")
    before = everything(disk.root)
    with monkeypatch.context() as patched:
        _fail(patched, call, number, code)
        error = refused(WRITES[name], disk, place)
    assert error.code == ("storage_failed" if code == errno.EIO else "disk_full")
    assert place in error.message or "moved" in error.message
    assert everything(disk.root) == before
    WRITES[name](disk, place)


def test_a_disk_that_takes_little_at_a_time_gets_all(
    disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.write
    with monkeypatch.context() as patched:
        patched.setattr(os, "write", lambda to, data: real(to, bytes(data)[:3]))
        disk.publish("a", b"0123456789")
        disk.append("a", b"abcdefg")
    assert disk.read("a", 100) == b"0123456789abcdefg"


class _Stopped(Exception):
    pass


@pytest.mark.parametrize("name", ["publish", "publish_new"])
def test_temporary_files_are_hidden_and_never_end_in_json(disk: Disk, name: str) -> None:
    seen: list[str] = []

    def look(step: str, _place: str) -> None:
        if step == "write":
            seen.extend(disk.names(""))
            raise _Stopped

    for place in ("a.json", "x" * 255, "é" * 127, ".json"):
        with pytest.raises(_Stopped):
            WRITES[name](Disk(disk.root, look), place)
    assert len(seen) == 4
    for found in seen:
        assert found.startswith(".")
        assert found.endswith(".tmp")
    assert disk.names("") == []


def test_a_process_that_was_killed_leaves_only_a_hidden_file(disk: Disk) -> None:
    disk.publish("a.json", b"old")
    child = os.fork()
    if child == 0:
        # Nothing of the test may run in this process once it is done.
        Disk(disk.root, lambda _step, _place: os._exit(0)).publish("a.json", b"new")
        os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
    [left] = [name for name in disk.names("") if name != "a.json"]
    assert left.startswith(".a.json.")
    assert left.endswith(".tmp")
    assert disk.read("a.json", 10) == b"old"
    disk.remove(left)
