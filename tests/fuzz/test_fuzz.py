"""The fuzzers' short run: the corpus, a few thousand changed inputs, and what Hypothesis thinks of.

The long run is `make fuzz`. Nothing here needs more than the development environment.
"""

from __future__ import annotations

import json
import random
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callboard.errors import CallboardError
from tests.ambient import DEEP
from tests.fuzz import mutators, seeds, targets
from tests.fuzz.session import Session
from tests.fuzz.targets import TARGETS, Finding

CHANGED = {"codec": 1500, "line": 1200, "ledger": 150}
ROUNDS = 40 if DEEP else 1


@pytest.mark.parametrize("target", TARGETS)
def test_the_corpus_brings_no_finding(target: str) -> None:
    for data in seeds.seeds(target):
        TARGETS[target](data)


@pytest.mark.parametrize("target", TARGETS)
def test_changed_inputs_bring_no_finding(target: str, tmp_path: Path) -> None:
    known = list(seeds.seeds(target))
    session = Session(target, tmp_path)
    for seed in range(CHANGED[target] * ROUNDS):
        chance = random.Random(seed)
        session.run(mutators.mutate(chance.choice(known), chance, known))
    assert session.found == {}


@given(st.binary(max_size=300))
def test_any_bytes_bring_no_finding(data: bytes) -> None:
    for check in TARGETS.values():
        check(data)


texts = st.text(max_size=8)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=20,
)


@given(values, st.booleans(), st.booleans())
def test_any_json_text_brings_no_finding(value: Any, ascii_only: bool, wide: bool) -> None:
    separators = (" ,\t", " :\r\n ") if wide else (",", ":")
    text = json.dumps(value, ensure_ascii=ascii_only, separators=separators)
    targets.codec(text.encode("utf-8", "surrogatepass"))


lines = st.integers(0, 40)
edits = st.lists(
    st.tuples(
        st.sampled_from(["drop", "double", "swap", "move", "spoil", "foreign"]), lines, lines
    ),
    min_size=1,
    max_size=5,
)


@given(st.sampled_from(seeds.ledgers()), st.sampled_from(seeds.ledgers()), edits)
def test_edited_lines_bring_no_finding(
    data: bytes, other: bytes, steps: list[tuple[str, int, int]]
) -> None:
    rows = data.splitlines(keepends=True)
    foreign = other.splitlines(keepends=True)
    for what, first, second in steps:
        one, two = first % max(1, len(rows)), second % max(1, len(rows))
        if what == "foreign" or not rows:
            rows.insert(one, foreign[second % len(foreign)])
        elif what == "drop":
            del rows[one]
        elif what == "double":
            rows.insert(two, rows[one])
        elif what == "swap":
            rows[one], rows[two] = rows[two], rows[one]
        elif what == "move":
            rows.insert(two, rows.pop(one))
        else:
            rows[one] = rows[one][:-second] if second else rows[one].upper()
    targets.ledger(b"".join(rows))


# --- the instrument itself ----------------------------------------------------------------------


def raises(error: Exception, _data: bytes) -> None:
    raise error


def test_what_is_no_listed_refusal_is_a_finding() -> None:
    faults: list[Exception] = [ValueError("x"), RecursionError(), MemoryError(), AssertionError()]
    for fault in faults:
        with pytest.raises(Finding, match="exception"):
            targets.outcome("it", partial(raises, fault), b"")
    unlisted = CallboardError("no_such_code", "found", "next")
    hidden = CallboardError("ledger_invalid", "found", "next", {"cause": "no_such_code"})
    for error in (unlisted, hidden):
        with pytest.raises(Finding, match="no_such_code"):
            targets.outcome("it", partial(raises, error), b"")
    with pytest.raises(Finding, match="message"):
        targets.outcome("it", partial(raises, CallboardError("fork", "two\nlines", "")), b"")


def test_an_answer_by_chance_is_a_finding() -> None:
    answers = iter(range(9))
    with pytest.raises(Finding, match="chance"):
        targets.twice("it", lambda _data: next(answers), b"")


def test_findings_are_filed_once_a_cause(tmp_path: Path) -> None:
    def check(data: bytes) -> None:
        targets.outcome("it", int, data)

    session = Session("codec", tmp_path / "found", check)
    for data in (b"1", b"x", b"y", b"2"):
        session.run(data)
    assert session.tried == 4
    (path,) = session.found.values()
    assert path.read_bytes() == b"x"
    assert "ValueError" in path.with_suffix(".txt").read_text()


def test_changes_follow_from_their_seed() -> None:
    known = list(seeds.seeds("ledger"))
    made = [
        [mutators.mutate(known[0], random.Random(seed), known) for seed in range(50)]
        for _ in range(2)
    ]
    assert made[0] == made[1]
    assert len(set(made[0])) > 40
