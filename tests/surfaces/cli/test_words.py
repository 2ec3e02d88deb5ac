"""Words for findings: none of those that a person has to act upon is shown as a bare code."""

from __future__ import annotations

import pytest

from callboard.board.execution.reconcile import OUT_OF_REACH
from callboard.surfaces.cli.words import found_text

REGISTRY = {"registry_busy", "registry_invalid", "registry_newer", "registry_unusable"}


@pytest.mark.parametrize("code", sorted(OUT_OF_REACH | REGISTRY))
def test_a_finding_is_said_in_words(code: str) -> None:
    said = found_text({"found": code, "needs": "person"})
    assert " " in said
    assert code not in said


def test_a_missing_record_is_not_told_as_somebody_elses_run() -> None:
    for code in ("run_unknown_here", "sender_unknown_here"):
        assert "no record" in found_text({"found": code, "needs": "person"})


def test_the_last_evidence_stands_beside_another_finding() -> None:
    found = {"found": "launch_unresolved", "needs": "person", "reason": "registry_unusable"}
    assert found_text(found).endswith("(the record of runs cannot be opened)")
