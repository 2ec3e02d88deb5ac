"""The reference pages say what the source says."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from scripts import reference
from scripts.error_meanings import COMPUTED, FINDINGS
from scripts.project_reference import findings_section
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


def test_a_finding_without_a_meaning_is_told() -> None:
    fewer = {code: meaning for code, meaning in FINDINGS.items() if code != "event_gap"}
    with pytest.raises(SystemExit, match="add event_gap; remove nothing"):
        findings_section(fewer)
    with pytest.raises(SystemExit, match="add nothing; remove unheard_of"):
        findings_section({**FINDINGS, "unheard_of": "nothing"})
