"""The reference pages say what the source says."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from scripts import reference
from scripts.error_meanings import COMPUTED
from tests.ambient import ROOT


def test_the_pages_are_up_to_date() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "scripts.reference", "--check"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_codes_are_found_wherever_they_are_given(tmp_path: Path) -> None:
    (tmp_path / "x.py").write_text(
        "def own(code, what):\n"
        "    raise CallboardError(code, what)\n"
        "own('passed_on', 'x')\n"
        "errors.CallboardError('spelt', 'x')\n"
        "parse(1, code='named')\n"
        "CallboardError('one' if x else 'other', 'x')\n"
        "def kept(*, code='default'): ...\n"
    )
    found = set(reference.codes(tmp_path)) - COMPUTED.keys()
    assert found == {"passed_on", "spelt", "named", "one", "other", "default"}
