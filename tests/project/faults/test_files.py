"""What is refused, with which code, where the file or its place is not as it should be."""

from __future__ import annotations

import os
import shutil
import sqlite3
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from callboard.errors import CallboardError
from callboard.project import mounts
from callboard.project.answers import EventAppended
from callboard.project.project import Project
from callboard.project.records import Event
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


class Disk:
    """Changes on a small disk: what was acknowledged, and what was refused, by request id."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.acknowledged: dict[str, EventAppended] = {}
        self.refused: list[str] = []
        self.codes: set[str] = set()

    def append(self, size: int) -> bool:
        """One note of so many characters; whether it was acknowledged."""
        number = len(self.acknowledged) + len(self.refused)
        request = f"r-{number}"
        body = {"n": number, "text": "x" * size}
        append = self.world.project.events.append
        try:
            self.acknowledged[request] = append("note.taken", body, request_id=request)
        except CallboardError as error:
            self.refused.append(request)
            self.codes.add(error.code)
        return request in self.acknowledged

    def check(self, project: Project) -> None:
        """Each acknowledged change is there as it was answered, and none of the others."""
        found: list[Event] = []
        after = None
        while True:
            page = project.events.list(type="note.taken", after=after, limit=500)
            found += page.events
            after = page.next
            if after is None:
                break
        assert found == [one.event for one in self.acknowledged.values()]
        # The project, its work, and the notes.
        assert project.info().revision == 2 + len(self.acknowledged)
        assert [one.seq for one in found] == list(range(3, 3 + len(found)))
        for request, answer in self.acknowledged.items():
            assert project.receipts.show(request).receipt.revision == answer.project_revision
        for request in self.refused:
            with refused("not_found"):
                project.receipts.show(request)
        assert project.doctor.check().findings == ()


@contextmanager
def small_disk(path: Path, size: str) -> Iterator[Path]:
    if not own_mounts():
        pytest.skip("needs a user namespace of its own, which this system does not give")
    path.mkdir()
    assert mount("-t", "tmpfs", "-o", f"size={size}", "project", str(path))
    try:
        yield path
    finally:
        unmount(path)


def test_a_full_disk_loses_nothing(tmp_path: Path) -> None:
    """What was acknowledged is counted against what is stored: there, whole, and nothing else."""
    with small_disk(tmp_path / "disk", "3M") as place:
        world = make_world(place / "demo")
        disk = Disk(world)
        # First by large steps, then until not even a short one fits.
        for size in (60_000, 6_000, 600, 1):
            while disk.append(size):
                pass
        assert len(disk.acknowledged) > 10
        assert len(disk.refused) == 4
        assert disk.codes == {"disk_full"}
        disk.check(world.project)
        full = world.everything()
        for act in FULL.values():
            with refused("disk_full"):
                act(world.project)
            assert world.everything() == full
        disk.check(world.open())
        # What others find who open it now, and once there is room again.
        for room in ("", "size=20M"):
            if room:
                assert mount("-o", f"remount,{room}", str(place))
            peer = world.peer()
            assert peer.ask("open")["answer"]["revision"] == 2 + len(disk.acknowledged)
            disk.check(world.open())
        for request in disk.refused:
            number = int(request[2:])
            answer = world.project.events.append(
                "note.taken", {"n": number, "text": "late"}, request_id=request
            )
            disk.acknowledged[request] = answer
        disk.refused.clear()
        disk.check(world.project)
        for act in FULL.values():
            act(world.project)
        world.end()


FULL: dict[str, Callable[[Project], object]] = {
    "start": lambda project: project.sessions.start("A", "codex", claim=True, ttl_ms=900_000),
    "next": lambda project: project.sessions.next("claude"),
    "branch": lambda project: project.branches.create("side"),
    "evidence": lambda project: project.evidence.add("t", "x" * 5_000, work="A"),
}


def test_a_disk_that_is_full_while_nobody_has_the_project_open(tmp_path: Path) -> None:
    """Then the index of the log has to be made first, which SQLite calls an I/O error."""
    with small_disk(tmp_path / "disk", "1M") as place:
        world = make_world(place / "demo")
        world.project.close()
        before = world.file.read_bytes()
        filler = place / "filler"
        for pages in (0, 1, 2, 4, 7):
            filler.unlink(missing_ok=True)
            room = os.statvfs(place)
            filler.write_bytes(b"x" * ((room.f_bavail - pages) * room.f_frsize))
            with refused("disk_full"), world.open() as project:
                project.events.append("note.taken", {"text": "x" * 50_000})
            assert world.file.read_bytes() == before
        filler.unlink()
        with world.open() as project:
            assert project.info().revision == 2
            assert project.doctor.check().findings == ()


def test_a_disk_that_is_full_from_the_beginning(tmp_path: Path) -> None:
    """Not a project by halves, and nothing that stands in the way later."""
    with small_disk(tmp_path / "disk", "64K") as place:
        for _time in range(2):
            with refused("disk_full"):
                Project.create(place, key="demo")
        for look in (Project.open, Project.diagnose):
            with refused("project_missing"):
                look(place)
        assert mount("-o", "remount,size=4M", str(place))
        with Project.create(place, key="demo") as project:
            assert project.info().revision == 1
            assert project.doctor.check().findings == ()


@contextmanager
def read_only_disk(root: Path) -> Iterator[None]:
    if not own_mounts():
        pytest.skip("needs a user namespace of its own, which this system does not give")
    assert mount("--bind", str(root), str(root))
    try:
        assert mount("-o", "remount,ro,bind", str(root))
        yield
    finally:
        unmount(root)


def test_on_a_read_only_disk_without_a_log_it_cannot_be_opened(world: World) -> None:
    """SQLite has to make a log and its index even to read, and says so."""
    world.project.close()
    (world.root / "new").mkdir()
    assert [one.name for one in world.file.parent.iterdir()] == ["project.db"]
    with read_only_disk(world.root):
        acts: tuple[Callable[[], Project], ...] = (
            lambda: Project.open(world.root),
            lambda: Project.open(world.root, read_only=True),
            lambda: Project.create(world.root, key="demo"),
            lambda: Project.create(world.root / "new", key="demo"),
        )
        for act in acts:
            with refused("project_readonly") as found:
                act()
            assert "check the permissions of the file and its folder" in found.value.hint
        diagnosis = Project.diagnose(world.root)
        assert [(one.code, one.severity) for one in diagnosis.findings] == [
            ("disk_readonly", "warning")
        ]
        assert (diagnosis.healthy, diagnosis.project_revision) == (True, 2)
    with world.open() as project:
        assert project.doctor.check().findings == ()


def test_on_a_read_only_disk_with_its_log_it_can_be_read(world: World, tmp_path: Path) -> None:
    """As a machine leaves it that was switched off, or a copy of a project that is in use."""
    root = tmp_path / "copy"
    shutil.copytree(world.root, root)
    assert (root / ".callboard" / "project.db-wal").stat().st_size > 0
    copy = World(root, world.clock, world.project)
    with read_only_disk(root):
        before = copy.everything()
        for project in (copy.open(), copy.open(read_only=True)):
            assert project.status() == world.project.status()
            for act in FULL.values():
                with refused("project_readonly"):
                    act(project)
            project.close()
        diagnosis = Project.diagnose(root)
        assert (diagnosis.healthy, diagnosis.findings) == (True, ())
        assert copy.everything() == before == world.everything()
    copy.project = copy.open()
    for act in FULL.values():
        act(copy.project)
    copy.end()
