"""Ledgers on file, read for ever: each comes to what it came to when it was recorded."""

from __future__ import annotations

import json
from typing import Any

import pytest

from callboard import canonical
from callboard.board.ledger.history import History
from callboard.errors import CallboardError
from tests.golden import expected
from tests.golden.expected import FOLDER, digest, sum_of, sums
from tests.golden.record import check_with_model
from tests.golden.stories import STORIES
from tests.model.records import OPERATIONS

MAX_FOLDER_BYTES = 2 * 1024 * 1024
NAMES = sorted(path.stem for path in FOLDER.glob("*.jsonl"))


def read(name: str) -> tuple[bytes, dict[str, Any]]:
    """A ledger on file, and what it must come to."""
    data = (FOLDER / f"{name}.jsonl").read_bytes()
    return data, json.loads((FOLDER / f"{name}.json").read_text())


SOUND = [name for name in NAMES if read(name)[1]["outcome"] == "valid"]


@pytest.mark.parametrize("name", NAMES)
def test_it_comes_to_what_was_recorded(name: str) -> None:
    data, recorded = read(name)
    assert expected.outcome(data) == recorded


@pytest.mark.parametrize("name", NAMES)
def test_continued_it_comes_to_the_same(name: str) -> None:
    data, recorded = read(name)
    rows = data.splitlines(keepends=True)
    history = History()
    for lines, state in recorded["states"]:
        history = history.continued(b"".join(rows[:lines]))
        assert digest(history) == state, lines
    if recorded["outcome"] == "refused":
        with pytest.raises(CallboardError) as caught:
            history.continued(data)
        found = {"code": caught.value.code, **caught.value.details}
        for name in ("code", "cause", "line", "byte"):
            assert found[name] == recorded[name]


@pytest.mark.parametrize("name", SOUND)
def test_the_model_comes_to_the_same(name: str) -> None:
    check_with_model(name, read(name)[0])


def test_the_layout_and_the_order_of_lines_mean_nothing() -> None:
    last = {read(name)[1]["states"][-1][1] for name in ("plain", "layout", "permuted")}
    assert len(last) == 1


def test_nothing_on_file_was_changed_added_or_lost() -> None:
    kept = {path.name for path in FOLDER.iterdir() if path.suffix in (".json", ".jsonl")}
    assert kept == sums().keys()
    assert {name: sum_of(name) for name in kept} == sums()
    assert sum((FOLDER / name).stat().st_size for name in kept) < MAX_FOLDER_BYTES


def test_every_kind_of_operation_is_on_file() -> None:
    kinds = {kind for name in SOUND for kind in read(name)[1]["kinds"]}
    missing = {*OPERATIONS, "Checkpoint"} - kinds
    assert missing == set(), "tell a story in tests/golden/stories.py, and record it"


def test_the_forms_of_older_ledgers_are_on_file() -> None:
    first = {name: json.loads(read(name)[0].splitlines()[0]) for name in SOUND}
    assert first["policy-only-genesis"]["request"]["kind"] == "policy"
    policy = first["enrolled"]["operations"][0]["policy"]
    assert "authorization" not in policy
    assert policy["producers"]
    row = read("layout")[0].splitlines()[0]
    assert canonical.encode(canonical.decode(row)) != row
    assert first["foreign-ids"]["id"].startswith("commit-of-")


def test_stories_that_are_told_are_on_file() -> None:
    assert set(NAMES) == STORIES.keys()
