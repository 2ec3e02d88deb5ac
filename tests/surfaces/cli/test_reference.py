"""The reference pages say what the source says."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from scripts import reference
from scripts.error_meanings import COMPUTED, FINDINGS
from scripts.layers_meanings import FIELDS
from scripts.layers_reference import layers_page
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


def test_a_field_of_a_layer_without_a_meaning_is_an_error_and_so_is_the_reverse() -> None:
    lacking = {name: text for name, text in FIELDS.items() if name != "Control.stop_reason"}
    # The meaning that all records share stands in for one of its own.
    assert layers_page("", lacking) != layers_page("")
    with pytest.raises(SystemExit, match=r"add Control\.control_id"):
        layers_page("", {name: text for name, text in FIELDS.items() if name != "control_id"})
    with pytest.raises(SystemExit, match="remove no_such_field"):
        layers_page("", FIELDS | {"no_such_field": "nothing"})


def test_the_page_on_layers_has_the_bounds_and_defaults_of_the_records() -> None:
    page = layers_page("")
    for row in (
        "| `priority` | whole number, -1000 to 1000 | `0` |",
        "| `timeout_s` | whole number from 1 | `3600` |",
        "| `decision` | `accepted`, `blocked`, `reroute`, `rework` |  |",
        "| `limits` | [Limits](#limits) or null |  |",
        "| `roles` | object: [RoleHistory](#rolehistory) by name | `{}` |",
        "| `created_at_ms` | Unix ms |  |",
        "| `kind` | `judge` |  |",
    ):
        assert row in page, row
