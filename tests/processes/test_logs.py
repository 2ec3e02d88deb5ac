"""A stream on disk within its limit."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from callboard.processes.logs import CappedLog


def test_all_is_kept_below_the_limit(tmp_path: Path) -> None:
    with CappedLog(tmp_path / "log", 10) as log:
        log.write(b"12345")
        log.write(b"67890")
        summary = log.summary()
    assert (tmp_path / "log").read_bytes() == b"1234567890"
    assert (summary.seen_bytes, summary.kept_bytes, summary.truncated) == (10, 10, False)
    assert stat.S_IMODE((tmp_path / "log").stat().st_mode) == 0o600


def test_what_lies_beyond_the_limit_is_counted_and_dropped(tmp_path: Path) -> None:
    with CappedLog(tmp_path / "log", 4) as log:
        for _ in range(3):
            log.write(b"abc")
        summary = log.summary()
    assert (tmp_path / "log").read_bytes() == b"abca"
    assert summary.document() == {
        "path": str(tmp_path / "log"),
        "seen_bytes": 9,
        "kept_bytes": 4,
        "truncated": True,
        "write_error": None,
    }


def test_a_write_that_finds_no_room_is_recorded_and_stops_nothing(tmp_path: Path) -> None:
    # A file size limit gives the same refusal as a full disk, for one process alone.
    program = (
        "import resource, signal, sys\n"
        "from pathlib import Path\n"
        "from callboard.processes.logs import CappedLog\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (3, 3))\n"
        "with CappedLog(Path(sys.argv[1]), 10) as log:\n"
        "    log.write(b'12345')\n"
        "    log.write(b'6')\n"
        "summary = log.summary()\n"
        "print(summary.seen_bytes, summary.kept_bytes, summary.write_error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "log")],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        check=True,
        text=True,
    )
    assert done.stdout.split() == ["6", "3", "EFBIG"]
    assert (tmp_path / "log").read_bytes() == b"123"


def test_an_existing_file_is_never_overwritten(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("evidence")
    with pytest.raises(FileExistsError):
        CappedLog(tmp_path / "log", 10)
    (tmp_path / "dangling").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(FileExistsError):
        CappedLog(tmp_path / "dangling", 10)
    assert (tmp_path / "log").read_text() == "evidence"
    assert not (tmp_path / "elsewhere").exists()
