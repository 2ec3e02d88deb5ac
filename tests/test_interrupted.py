"""Ctrl-C while folders are walked down is Ctrl-C, and no fault of the disk."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from callboard.beneath import read_beneath
from callboard.layers.disk import Disk
from callboard.project.source.place import Place

READERS: dict[str, Callable[[Path], object]] = {
    "beneath": lambda root: read_beneath(root, "a/b/file", 10, what="the file", code="too_much"),
    "layers": lambda root: Disk(root).read("a/b/file", 10),
    "source": lambda root: Place(root).read("a/b/file", 10),
}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("at", [1, 2, 3, 4])
def test_ctrl_c_right_behind_closing_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reader: str, at: int
) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "file").write_bytes(b"whole")
    before = os.listdir("/proc/self/fd") if os.path.isdir("/proc/self/fd") else []
    real, closed = os.close, 0

    def close(descriptor: int) -> None:
        nonlocal closed
        real(descriptor)
        closed += 1
        if closed == at:
            raise KeyboardInterrupt

    monkeypatch.setattr(os, "close", close)
    try:
        READERS[reader](tmp_path)
    except KeyboardInterrupt:
        assert closed >= at
    else:
        assert closed < at
    monkeypatch.undo()
    if before:
        assert len(os.listdir("/proc/self/fd")) == len(before)
