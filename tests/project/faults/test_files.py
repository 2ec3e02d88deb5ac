"""What is refused, with which code, where the file or its place is not as it should be."""

from __future__ import annotations

import os
import sqlite3
import stat
from pathlib import Path

import pytest

from callboard.project import mounts
from callboard.project.project import Project
from tests.project.inner import around, create_project, diagnose, open_project
from tests.project.world import World, make_world, refused
from tests.system.mounts import mount, own_mounts, unmount


def test_the_file_is_its_owners(world: World) -> None:
    world.project.events.append("note.taken", {})
    for path in world.file.parent.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path
    assert stat.S_IMODE(world.file.parent.stat().st_mode) == 0o700


def test_the_doctor_sees_who_may_look(world: World) -> None:
    world.file.chmod(0o644)
    world.file.parent.chmod(0o755)
    found = {one.subject: one.code for one in world.project.doctor.check().findings}
    assert found == {"project.db": "file_mode", ".callboard": "file_mode"}


def test_where_nothing_is(tmp_path: Path) -> None:
    for act in (Project.open, Project.diagnose):
        with refused("project_missing"):
            act(tmp_path)
    (tmp_path / ".callboard").mkdir()
    (tmp_path / ".callboard" / "project.db").touch()
    with refused("project_missing"):
        Project.open(tmp_path)
    with refused("database_unsupported"):
        Project.open("postgresql://somewhere/db")
    assert sorted(path.name for path in tmp_path.iterdir()) == [".callboard"]


def test_another_project_is_not_taken_for_this_one(world: World) -> None:
    with refused("project_exists") as found:
        Project.create(world.root, key="other")
    assert found.value.details == {"key": "demo"}
    with Project.create(world.root) as project:
        assert project.info() == world.project.info()


@pytest.mark.parametrize(
    "content", [b"no database at all\n" * 400, b"SQLite format 3\x00" + b"x" * 5000]
)
def test_what_is_no_database(tmp_path: Path, content: bytes) -> None:
    folder = tmp_path / ".callboard"
    folder.mkdir()
    (folder / "project.db").write_bytes(content)
    with refused("project_corrupt"):
        Project.open(tmp_path)
    with refused("project_corrupt"):
        Project.create(tmp_path, key="demo")
    diagnosis = Project.diagnose(tmp_path)
    assert not diagnosis.healthy
    assert "project_corrupt" in [finding.code for finding in diagnosis.findings]
    assert (folder / "project.db").read_bytes() == content


def test_another_programs_database_is_left_alone(tmp_path: Path) -> None:
    folder = tmp_path / ".callboard"
    folder.mkdir()
    file = folder / "project.db"
    connection = sqlite3.connect(file)
    connection.execute("CREATE TABLE mine (a)")
    connection.commit()
    connection.close()
    before = file.read_bytes()
    for act in (Project.open, lambda path: Project.create(path, key="demo")):
        with refused("project_foreign"):
            act(tmp_path)
    assert file.read_bytes() == before


def test_a_damaged_page_is_told_and_nothing_is_written(world: World) -> None:
    for number in range(200):
        world.project.events.append("note.taken", {"text": "x" * 200, "n": number})
    world.project.close()
    data = bytearray(world.file.read_bytes())
    pages = len(data) // 4096
    for page in range(pages // 2, pages):
        data[page * 4096 : page * 4096 + 4096] = b"\xff" * 4096
    world.file.write_bytes(data)
    diagnosis = Project.diagnose(world.root)
    assert not diagnosis.healthy
    assert {one.code for one in diagnosis.findings} & {"integrity", "project_corrupt"}
    with refused("project_corrupt"), Project.open(world.root) as project:
        project.events.list(limit=500)


def test_a_link_or_a_folder_is_no_file(tmp_path: Path, world: World) -> None:
    for name in ("link", "folder"):
        root = tmp_path / name
        (root / ".callboard").mkdir(parents=True)
        file = root / ".callboard" / "project.db"
        if name == "link":
            file.symlink_to(world.file)
        else:
            file.mkdir()
        for act in (Project.open, lambda path: Project.create(path, key="demo")):
            with refused("file_not_regular"):
                act(root)


def test_who_finds_it_taken_is_told_so(world: World) -> None:
    raw = world.raw()
    raw.execute("BEGIN IMMEDIATE")
    impatient = world.open(busy_ms=30)
    with refused("busy"):
        impatient.branches.create("side")
    # Reading goes on.
    assert impatient.status().branch == "main"
    raw.execute("ROLLBACK")
    raw.close()
    impatient.branches.create("side")


def test_opened_for_reading_it_is_only_read(world: World) -> None:
    looking = world.open(read_only=True)
    assert looking.status() == world.project.status()
    assert looking.doctor.check().healthy
    before = world.everything()
    with refused("project_readonly"):
        looking.branches.create("side")
    assert world.everything() == before


# --- places -------------------------------------------------------------------------------------

TABLE = """\
/dev/vda / ext4 rw 0 0
server:/home /home nfs4 rw 0 0
share /mnt/with\\040blank virtiofs rw 0 0
tmpfs /home/fast tmpfs rw 0 0
host /mnt/p 9p rw 0 0
/dev/vdb /mnt/p ext4 rw 0 0
someone /ssh fuse.sshfs rw 0 0
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/work/a", "ext4"),
        ("/home/ann/a", "nfs4"),
        ("/homes/ann", "ext4"),
        ("/mnt/with blank/a", "virtiofs"),
        ("/home/fast/a", "tmpfs"),
        ("/mnt/p/a", "ext4"),
        ("/ssh", "fuse.sshfs"),
    ],
)
def test_the_file_system_is_that_of_the_nearest_mount(tmp_path: Path, path: str, kind: str) -> None:
    table = tmp_path / "mounts"
    table.write_text(TABLE)
    assert mounts.kind_of(Path(path), table) == kind


def test_without_a_table_nothing_is_known(tmp_path: Path) -> None:
    assert mounts.kind_of(tmp_path, tmp_path / "none") is None
    mounts.check(tmp_path, tmp_path / "none")


@pytest.mark.parametrize("kind", ["nfs", "nfs4", "9p", "virtiofs", "cifs", "fuse.sshfs"])
def test_a_network_is_refused_with_advice(world: World, tmp_path: Path, kind: str) -> None:
    table = tmp_path / "mounts"
    table.write_text(f"x / {kind} rw 0 0\n")
    before = world.everything()
    with refused("filesystem_unsupported") as found:
        open_project(world.root, around(None, table=table))
    assert found.value.details == {"filesystem": kind}
    assert "disk of this machine" in found.value.hint
    with refused("filesystem_unsupported"):
        create_project(tmp_path / "new", around(None, table=table))
    assert not (tmp_path / "new").exists()
    diagnosis = diagnose(world.root, around(None, table=table))
    assert not diagnosis.healthy
    assert [one.code for one in diagnosis.findings] == ["filesystem_unsupported"]
    assert world.everything() == before


# --- disks --------------------------------------------------------------------------------------


def test_a_full_disk_loses_nothing(tmp_path: Path) -> None:
    if not own_mounts():
        pytest.skip("needs a user namespace of its own, which this system does not give")
    disk = tmp_path / "disk"
    disk.mkdir()
    assert mount("-t", "tmpfs", "-o", "size=3M", "project", str(disk))
    world = make_world(disk / "demo")
    try:
        body = {"text": "x" * 60_000}
        with refused("disk_full"):
            for _number in range(1000):
                world.project.events.append("note.taken", body)
        written = world.project.info().revision - 2
        found = world.project.events.list(type="note.taken", limit=500)
        assert len(found.events) > 0
        assert world.project.events.list(limit=500).events[-1].revision <= 2 + written
        with refused("disk_full"):
            world.project.events.append("note.taken", body)
        assert world.project.doctor.check().healthy
        (disk / "room").touch()
        assert mount("-o", "remount,size=20M", str(disk))
        assert world.project.events.append("note.taken", body).project_revision == 3 + written
    finally:
        world.end()
        unmount(disk)


def test_a_read_only_disk_is_refused(tmp_path: Path) -> None:
    if not own_mounts():
        pytest.skip("needs a user namespace of its own, which this system does not give")
    world = make_world(tmp_path / "demo")
    world.project.close()
    assert mount("--bind", str(world.root), str(world.root))
    try:
        assert mount("-o", "remount,ro,bind", str(world.root))
        for act in (
            lambda: Project.open(world.root).branches.create("side"),
            lambda: Project.create(world.root, key="demo").branches.create("side"),
            lambda: Project.create(world.root / "new", key="demo"),
        ):
            with refused_as_one_of("project_readonly", "project_unreadable"):
                act()
        diagnosis = Project.diagnose(world.root)
        assert not os.access(world.file, os.W_OK)
        assert [one.code for one in diagnosis.findings if one.severity == "error"] in (
            [],
            ["project_unreadable"],
            ["project_readonly"],
        )
    finally:
        world.end()
        unmount(world.root)


def refused_as_one_of(*codes: str) -> pytest.RaisesExc[Exception]:
    return pytest.RaisesExc(Exception, match="|".join(codes))
