"""Files are taken from below a folder, whatever their path says."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from callboard.beneath import read_beneath
from tests.board.building import refused

LIMIT = 1_000


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = tmp_path / "tree"
    (root / "sub" / "deep").mkdir(parents=True)
    (root / "file").write_text("top")
    (root / "sub" / "deep" / "file").write_text("deep")
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "file").write_text("secret")
    return root


def read(root: Path, path: str) -> bytes:
    return read_beneath(root, path, LIMIT, what="the artifact", code="artifact_limit")


@pytest.mark.parametrize("path", ["file", "./file", "sub/deep/file", "sub//deep/file"])
def test_a_path_in_the_tree_is_read(tree: Path, path: str) -> None:
    expected = b"top" if path.endswith("./file") or path == "file" else b"deep"
    assert read(tree, path) == expected
    assert read(tree, f"{tree}/{path}") == expected


def test_no_path_leads_out_of_the_tree(tree: Path) -> None:
    for path in (
        "../secret", "sub/../../secret", str(tree.parent / "secret"), "/etc/hostname", "",
        ".", "/", "file\0", f"{tree}/../secret", "a/" * 100 + "b",
    ):  # fmt: skip
        assert refused(read, tree, path).code == "path_invalid", path


def test_no_link_is_followed_at_any_step(tree: Path) -> None:
    (tree / "folder").symlink_to(tree.parent / "outside")
    (tree / "sub" / "link").symlink_to(tree / "file")
    assert refused(read, tree, "folder/file").code == "path_invalid"
    assert refused(read, tree, "sub/link").code == "file_not_regular"
    moved = tree.parent / "moved"
    moved.symlink_to(tree)
    assert refused(read, moved, "file").code == "path_invalid"


def test_what_is_no_small_plain_file_is_refused(tree: Path) -> None:
    os.mkfifo(tree / "pipe")
    (tree / "large").write_bytes(b"x" * (LIMIT + 1))
    assert refused(read, tree, "pipe").code == "file_not_regular"
    assert refused(read, tree, "sub").code == "file_not_regular"
    assert refused(read, tree, "large").code == "artifact_limit"
    assert refused(read, tree, "none").code == "file_missing"
    assert refused(read, tree, "none/file").code == "file_missing"
    assert refused(read, tree, "file/file").code == "path_invalid"


def test_no_descriptor_is_left_open(tree: Path) -> None:
    before = set(os.listdir("/proc/self/fd"))
    read(tree, "sub/deep/file")
    refused(read, tree, "sub/none/file")
    assert set(os.listdir("/proc/self/fd")) == before
