"""Hints as tools give them: the commands are calls, with their arguments; all else stays."""

from __future__ import annotations

import pytest

from callboard.surfaces.mcp.tool_hints import as_tools, in_tools


@pytest.mark.parametrize(
    ("hint", "said"),
    [
        ("wait for it", "wait for it"),
        ("look: `callboard project work list`", "look: `project_work_list`"),
        (
            "`callboard project claim acquire --session s_1 --ttl-ms 600000` first",
            '`project_claim_acquire {"session": "s_1", "ttl_ms": 600000}` first',
        ),
        (
            "`callboard project work show 'a b' --session s_1` explains",
            '`project_work_show {"work": "a b", "session": "s_1"}` explains',
        ),
        (
            "`callboard project evidence add --session s --kind t --covers 'it runs' --covers b`",
            '`project_evidence_add {"session": "s", "kind": "t", "covers": ["it runs", "b"]}`',
        ),
        (
            "`callboard project doctor repair clock --reason R` or `callboard project doctor`",
            '`project_doctor_repair_clock {"reason": "R"}` or `project_doctor`',
        ),
        (
            "`callboard project session resume --from s_1 --no-claim`",
            '`project_session_resume {"session": "s_1", "claim": false}`',
        ),
        ("`callboard project nonsense`", "`callboard project nonsense`"),
        ("`callboard project work show 'a`b'`", "`callboard project work show 'a`b'`"),
        ("`callboard project claim show --work`", "`callboard project claim show --work`"),
        ("`callboard project work show a b`", "`callboard project work show a b`"),
        ("`chmod 700 /a`", "`chmod 700 /a`"),
    ],
)
def test_commands_are_calls(hint: str, said: str) -> None:
    assert in_tools(hint) == said


def test_remarks_and_findings_too_and_nothing_that_was_submitted() -> None:
    quoted = "`callboard project work list`"
    document = {
        "remarks": [quoted],
        "findings": [{"code": "c", "hint": quoted, "message": quoted}],
        "events": [{"body": {"hint": quoted, "remarks": [quoted]}}],
    }
    found = as_tools(document)
    assert found["remarks"] == ["`project_work_list`"]
    assert found["findings"] == [{"code": "c", "hint": "`project_work_list`", "message": quoted}]
    assert found["events"] == document["events"]
    assert document["remarks"] == [quoted]
