"""Folders and addresses that lead to no project, and what lies beside a database."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from callboard.project.project import Project
from tests.project.world import World, refused

ACTS: dict[str, Callable[[str | Path], object]] = {
    "open": Project.open,
    "create": lambda path: Project.create(path, key="demo"),
    "diagnose": Project.diagnose,
    "init": lambda path: Project.init(path, accept=True, key="demo"),
}


@pytest.mark.parametrize("act", ACTS)
@pytest.mark.parametrize(
    "address",
    [
        "postgresql://user:s3cret@host/db",
        "postgresql+psycopg://user:s3cret@host/db",
        "user:s3cret@postgresql://host/db",
        Path("postgresql://user:s3cret@host/db"),
        Path("mysql://user:s3cret@host/db"),
    ],
)
def test_a_password_in_an_address_is_not_told(act: str, address: str | Path) -> None:
    with refused("database_unsupported") as found:
        ACTS[act](address)
    assert "s3cret" not in str(found.value.document())


@pytest.mark.parametrize("act", ACTS)
def test_a_folder_whose_name_is_no_text_is_left_as_it_is(tmp_path: Path, act: str) -> None:
    folder = Path(os.fsdecode(os.fsencode(tmp_path) + b"/x\xff"))
    folder.mkdir()
    with refused("project_unreadable") as found:
        ACTS[act](folder)
    str(found.value.document()).encode()
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("suffix", ["-journal", "-wal", "-shm"])
@pytest.mark.parametrize("kind", ["pipe", "link", "folder"])
def test_nothing_waits_at_what_lies_beside_the_database(
    world: World, suffix: str, kind: str
) -> None:
    world.project.close()
    beside = world.file.with_name(world.file.name + suffix)
    beside.unlink(missing_ok=True)
    make: dict[str, Callable[[], object]] = {
        "pipe": lambda: os.mkfifo(beside),
        "link": lambda: beside.symlink_to(world.root / "elsewhere"),
        "folder": beside.mkdir,
    }
    make[kind]()
    for act in ACTS.values():
        with refused("file_not_regular") as found:
            act(world.root)
        assert suffix in found.value.message
    assert not (world.root / "elsewhere").exists()


@pytest.mark.parametrize("version", ["", "None", "0000", "x", "\u00b2", None])
def test_a_schema_that_never_was_is_damage(world: World, version: str | None) -> None:
    raw = world.raw()
    raw.execute("DELETE FROM alembic_version")
    if version is not None:
        raw.execute("INSERT INTO alembic_version VALUES (?)", (version,))
    raw.close()
    for act in (Project.open, lambda path: Project.create(path, key="demo")):
        with refused("project_corrupt"):
            act(world.root)
    assert [one.code for one in Project.diagnose(world.root).findings] == ["project_corrupt"]
