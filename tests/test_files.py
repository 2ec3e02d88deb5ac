"""Files: published whole or not at all, and read only as far as the bound."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from callboard.errors import CallboardError
from callboard.files import publish, read_bounded


def names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


def refusal(path: Path, limit_bytes: int = 10) -> CallboardError:
    with pytest.raises(CallboardError) as caught:
        read_bounded(path, limit_bytes, what="the plan")
    error = caught.value
    assert error.message.startswith("the plan ")
    assert error.hint
    return error


def test_a_published_file_stands_alone_in_its_folder(tmp_path: Path) -> None:
    publish(tmp_path / "a.json", b"one")
    publish(tmp_path / "a.json", b"two")
    assert (tmp_path / "a.json").read_bytes() == b"two"
    assert names(tmp_path) == ["a.json"]


@pytest.mark.parametrize(("private", "mode"), [(True, 0o600), (False, 0o644)])
def test_a_private_file_is_for_its_owner_only(tmp_path: Path, private: bool, mode: int) -> None:
    before = os.umask(0o022)
    try:
        publish(tmp_path / "key", b"s", private=private)
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "key").stat().st_mode) == mode


def test_without_replace_the_first_file_stays(tmp_path: Path) -> None:
    publish(tmp_path / "a", b"first", replace=False)
    with pytest.raises(FileExistsError):
        publish(tmp_path / "a", b"second", replace=False)
    assert (tmp_path / "a").read_bytes() == b"first"
    assert names(tmp_path) == ["a"]


def test_a_failed_publication_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "full").touch()
    with pytest.raises(OSError):
        publish(tmp_path / "taken", b"x")
    assert names(tmp_path) == ["taken"]
    with pytest.raises(FileNotFoundError):
        publish(tmp_path / "absent" / "a", b"x")


def test_publishing_over_a_link_replaces_the_link(tmp_path: Path) -> None:
    (tmp_path / "outside").write_bytes(b"kept")
    (tmp_path / "link").symlink_to(tmp_path / "outside")
    publish(tmp_path / "link", b"new")
    assert (tmp_path / "outside").read_bytes() == b"kept"
    assert not (tmp_path / "link").is_symlink()


@pytest.mark.parametrize("name", ["x" * 200, "\U0001f600" * 60, "\u00e9" * 120, "-f", ".hidden"])
def test_long_and_odd_names_can_be_published(tmp_path: Path, name: str) -> None:
    publish(tmp_path / name, b"x")
    assert names(tmp_path) == [name]


def test_reading_is_exact_up_to_the_bound(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"0123456789")
    assert read_bounded(path, 10, what="the plan") == b"0123456789"
    path.write_bytes(b"0123456789a")
    error = refusal(path)
    assert (error.code, error.details) == ("resource_limit", {"limit_bytes": 10})
    path.write_bytes(b"")
    assert read_bounded(path, 0, what="the plan") == b""


def test_an_endless_device_is_not_read(tmp_path: Path) -> None:
    assert refusal(Path("/dev/zero")).code == "file_not_regular"
    os.mkfifo(tmp_path / "pipe")
    assert refusal(tmp_path / "pipe").code == "file_not_regular"


def test_a_folder_is_no_file_and_leaks_no_descriptor(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        assert refusal(tmp_path).code == "file_not_regular"
    assert len(os.listdir("/proc/self/fd")) == before


def test_what_is_not_there_is_named(tmp_path: Path) -> None:
    error = refusal(tmp_path / "none")
    assert error.code == "file_missing"
    assert str(tmp_path / "none") in error.message


@pytest.mark.parametrize("name", ["a\0b", "x" * 5_000])
def test_impossible_paths_are_refused_in_our_words(tmp_path: Path, name: str) -> None:
    assert refusal(tmp_path / name).code == "file_unreadable"


def test_a_loop_of_links_is_refused(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    assert refusal(tmp_path / "loop").code == "file_unreadable"


def test_a_file_below_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "plain").touch()
    assert refusal(tmp_path / "plain" / "under").code == "file_unreadable"
