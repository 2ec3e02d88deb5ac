"""A work file that was written beside a change which the database then does not take.

On small disks and under a limit of the size of files, in the moment of COMMIT.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from callboard.canonical import sha256_hex
from callboard.errors import CallboardError
from callboard.project.source.answers import SetFields
from callboard.project.source.place import Place
from tests.ambient import ROOT
from tests.project.faults.test_files import small_disk
from tests.project.scenarios import PATCHED, WORK
from tests.project.world import World, make_world, refused
from tests.system.mounts import mount

CHANGE = [SetFields(work="A", values={"title": "One and all"})]

LIMITED = """
import json, resource, signal, sys
from callboard.errors import CallboardError
from callboard.project.project import Project
from callboard.project.source.answers import SetFields
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
project = Project.open(sys.argv[1])
project.info()
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]),) * 2)
change = SetFields(work="A", values={"title": "One and all"})
try:
    project.source.patch([change], accept=True)
    print(json.dumps(None))
except CallboardError as error:
    print(json.dumps(error.document()))
"""


def with_work(root: Path) -> World:
    world = make_world(root)
    (world.root / "work.yaml").write_text(WORK)
    world.project.source.index()
    return world


def names(world: World) -> list[str]:
    return sorted(one.name for one in world.root.iterdir())


def test_a_commit_that_fails_takes_its_file_back(tmp_path: Path) -> None:
    """The log may grow by nothing at all: every row is fine, and COMMIT is not."""
    world = with_work(tmp_path / "demo")
    file = world.root / "work.yaml"
    file.chmod(0o640)
    before = world.everything()
    limit = world.file.with_name("project.db-wal").stat().st_size
    found = subprocess.run(
        [sys.executable, "-c", LIMITED, str(world.root), str(limit)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    refusal = json.loads(found.stdout)
    assert refusal is not None
    assert refusal["code"] in ("disk_full", "storage_failed")
    assert file.read_text() == WORK
    assert file.stat().st_mode & 0o777 == 0o640
    assert world.everything() == before
    assert names(world) == [".callboard", "work.yaml"]
    world.project.source.patch(CHANGE, accept=True)
    assert file.read_text() == PATCHED
    world.end()


def test_a_disk_that_is_nearly_full(tmp_path: Path) -> None:
    """With every number of pages that are left: done as a whole, or not at all."""
    refusals = 0
    codes: set[str] = set()
    with small_disk(tmp_path / "disk", "1M") as place:
        world = with_work(place / "demo")
        file = world.root / "work.yaml"
        filler = place / "filler"
        for pages in range(24):
            filler.unlink(missing_ok=True)
            room = os.statvfs(place)
            filler.write_bytes(b"x" * (max(room.f_bavail - pages, 0) * room.f_frsize))
            before, text = world.everything(), file.read_text()
            title = f"Title {pages}"
            try:
                world.project.source.patch(
                    [SetFields(work="A", values={"title": title})], accept=True
                )
            except CallboardError as error:
                refusals += 1
                codes.add(error.code)
                assert file.read_text() == text
                assert world.everything() == before
            else:
                assert title in file.read_text()
                assert world.project.source.scan().indexed
            assert names(world) == [".callboard", "work.yaml"]
        assert 2 < refusals < 24
        assert codes <= {"disk_full", "source_unwritable"}
        filler.unlink()
        assert mount("-o", "remount,size=20M", str(place))
        assert world.project.doctor.check().findings == ()
        world.end()


@pytest.mark.parametrize("spare", [True, False])
def test_a_file_is_put_back_only_while_it_is_ours(tmp_path: Path, spare: bool) -> None:
    file = tmp_path / "work.yaml"
    place = Place(tmp_path)
    for foreign in (False, True):
        file.write_bytes(b"old")
        done = place.exchange("work.yaml", sha256_hex(b"old"), lambda _: b"new", 100)
        assert file.read_bytes() == b"new"
        if not spare:
            done.close()
            done = type(done)(place, "work.yaml", b"old", done.sha256, done.mode, None)
        if foreign:
            file.write_bytes(b"foreign")
            with refused("source_conflict"):
                done.put_back()
            assert file.read_bytes() == b"foreign"
        else:
            done.put_back()
            assert file.read_bytes() == b"old"
        done.close()
        assert [one.name for one in tmp_path.iterdir()] == ["work.yaml"]
