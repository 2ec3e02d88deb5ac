"""Nothing that was posted acts on a terminal, however it is asked for."""

from __future__ import annotations

import json

import pytest

from tests.surfaces.cli.conftest import Person

# A plan takes no control characters in keys; in payloads it takes all.
HOSTILE = "k\u202egpj.exe\u2066 \u200b$(id)"
WORSE = "\x1b]0;title\x07\r\n\u202e"
LONG = "x" * 120


@pytest.fixture
def posted(person: Person) -> Person:
    nodes = [
        {"key": HOSTILE, "payload": {WORSE: WORSE}},
        {"key": LONG, "payload": {}, "after": [HOSTILE]},
    ]
    person.submit(json.dumps({"graph": HOSTILE, "nodes": nodes}), "--request-id", "r1")
    return person


def test_no_verb_passes_it_on(posted: Person) -> None:
    work_id = posted.ask("show", LONG)["predecessors"][0]["work_id"]
    said = [
        posted.done(*words).stdout
        for words in (
            ["status"],
            ["show", work_id],
            ["show", LONG],
            ["explain", work_id],
            ["explain", LONG],
            ["explain", "--request-id", "r1"],
            ["trace", work_id],
            ["ledger", "log"],
            ["summary"],
            ["summary", "r1"],
            ["summary", "--markdown"],
            ["cancel", work_id, "--reason", "late"],
            ["status"],
            ["explain", LONG],
        )
    ]
    said += [
        posted.call(*words).stderr
        for words in (
            ["show", HOSTILE + "?"],
            ["show", WORSE],
            ["explain", "--request-id", WORSE],
            ["trace", "--claim-id", WORSE],
            ["summary", WORSE],
            ["summary", "--since", WORSE],
            ["logs", work_id],
            ["logs", "--run", WORSE],
        )
    ]
    for text in said:
        assert text
        seen = {char for char in text if not (char.isprintable() or char == "\n")}
        assert seen == set()
    assert any("k\\u202egpj.exe\\u2066 \\u200b$(id)" in text for text in said)


def test_what_is_to_be_typed_never_holds_it(posted: Person) -> None:
    work_id = posted.ask("show", LONG)["predecessors"][0]["work_id"]
    posted.done("cancel", work_id, "--reason", "late")
    assert posted.ask("explain", LONG)["next"] == f"callboard show {work_id[:12]}"


def test_a_very_long_name_leaves_the_table_readable(posted: Person) -> None:
    rows = posted.done("status").stdout.splitlines()
    (row,) = [line for line in rows if line.startswith("xxx")]
    assert row.split()[0] == "x" * 57 + "..."
    assert len(row) < 250
