"""History: one chain from whatever lines there are, or a refusal that names line and byte."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from callboard import canonical
from callboard.board.ledger import replay
from callboard.board.ledger.history import History
from callboard.board.projection.document import state_document
from callboard.board.protocol import commit as wire
from callboard.board.protocol.envelope import read_line
from callboard.errors import CallboardError
from tests.board import building as make
from tests.board.boards import Board
from tests.board.building import PRODUCER, commit, genesis, line_of, work
from tests.board.projection.audit import kept

Lines = list[bytes]


def chain(count: int = 6) -> list[wire.QueueCommit]:
    board = Board([work("n0"), work("n1", after=["n0"])])
    board.grant()
    board.bind("n0")
    board.finish("n0")
    board.verify("n0")
    for number in range(2, count - 4):
        board.submit([work(f"n{number}")])
    return board.commits[:count]


CHAIN = chain(12)
LINES = [line_of(one) for one in CHAIN]
WHOLE = b"".join(LINES)


def start_of(lines: Sequence[bytes], index: int) -> int:
    return sum(len(line) for line in lines[:index])


def state(history: History) -> bytes:
    return canonical.encode(state_document(history.projection))


def invalid(data: bytes) -> tuple[object, object, object]:
    """The cause, line and byte with which the data is refused."""
    with pytest.raises(CallboardError) as caught:
        History.read(data)
    error = caught.value
    assert error.code == "ledger_invalid"
    assert error.hint
    details = error.details
    assert f"line {details['line']}, byte {details['byte']}" in error.message
    assert str(details["cause"]) in error.message
    return details["cause"], details["line"], details["byte"]


def after(one: wire.QueueCommit, name: str, **changes: object) -> bytes:
    """Another commit on top of one."""
    made = commit(one.id, "submit", name, [work(name)], PRODUCER, at=make.START_MS)
    return line_of(structs.replace(made, **changes) if changes else made)


# --- broken lines -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("bad", "cause", "offset"),
    [
        (b'{"a":\n', "invalid_json", 5),
        (b"\n", "blank_line", 0),
        (b"  \t\r\n", "blank_line", 0),
        (b"{}\n", "unsupported_protocol", 0),
        (b'{"version":2}\n', "unsupported_protocol", 0),
        (b'{"version":3}\n', "record_invalid", 0),
        (b"\x00\n", "invalid_json", 0),
        (b"\xef\xbb\xbf{}\n", "invalid_json", 0),
        (b'"\xff"\n', "invalid_unicode", 1),
        (b'{"id":"a","\\u0069d":"b"}\n', "duplicate_key", 10),
        (b'{"version":3,"at":-0}\n', "noncanonical_number", 18),
        (b"<<<<<<< ours\n", "invalid_json", 0),
        (b"[" * 70 + b"\n", "resource_limit", 65),
        (b"\x00" * 300 + b"\n", "invalid_json", 0),
    ],
)
@pytest.mark.parametrize("index", [0, 5, 12])
def test_a_bad_line_is_named_wherever_it_is(
    bad: bytes, cause: str, offset: int, index: int
) -> None:
    lines = [*LINES[:index], bad, *LINES[index:]]
    assert invalid(b"".join(lines)) == (cause, index + 1, start_of(lines, index) + offset)


def test_line_fifty_of_a_hundred() -> None:
    board = Board([work("n0")])
    for number in range(1, 100):
        board.submit([work(f"n{number}")])
    lines = [line_of(one) for one in board.commits]
    assert len(lines) == 100
    lines[49] = b'{"a":\n'
    assert invalid(b"".join(lines)) == ("invalid_json", 50, start_of(lines, 49) + 5)


@pytest.mark.parametrize("cut", [1, 2, 40])
def test_a_torn_last_line_is_never_read(cut: int) -> None:
    assert invalid(WHOLE[:-cut]) == ("truncated_line", 12, start_of(LINES, 11))
    assert invalid(WHOLE + b"{") == ("truncated_line", 13, len(WHOLE))


def test_every_truncation_is_refused_or_a_shorter_ledger() -> None:
    ends = {start_of(LINES, count): count for count in range(1, 13)}
    for cut in range(1, len(WHOLE), 97):
        assert cut in ends or invalid(WHOLE[:cut])[0] == "truncated_line"
    for end, count in ends.items():
        assert History.read(WHOLE[:end]).projection.ordinal == count


def test_a_line_that_breaks_a_rule_is_named_with_its_commit() -> None:
    bad = after(CHAIN[-1], "late", policy_epoch="e9")
    with pytest.raises(CallboardError) as caught:
        History.read(WHOLE + bad)
    details = caught.value.details
    assert (details["cause"], details["line"], details["byte"]) == (
        "policy_epoch_mismatch",
        13,
        len(WHOLE),
    )
    assert details["commit_id"] == json.loads(bad)["id"]


# --- broken chains ------------------------------------------------------------------------------


def test_a_fork_names_the_second_child() -> None:
    lines = [*LINES, after(CHAIN[4], "other")]
    assert invalid(b"".join(lines)) == ("fork", 13, len(WHOLE))
    lines = [*LINES[:5], after(CHAIN[4], "other"), *LINES[5:]]
    # The first child in the file stands; the ledger's own sixth line then comes too late.
    assert invalid(b"".join(lines))[:2] == ("fork", 7)


def test_two_children_of_a_line_that_comes_later_are_a_fork() -> None:
    lines = [*LINES[:4], after(CHAIN[4], "other"), LINES[5], LINES[4]]
    assert invalid(b"".join(lines))[:2] == ("fork", 6)


def test_a_second_root_is_named() -> None:
    other = line_of(genesis([work("z")], commit_id="q_other"))
    assert invalid(WHOLE + other) == ("second_root", 13, len(WHOLE))
    assert invalid(LINES[0] + other)[:2] == ("second_root", 2)


def test_two_roots_behind_a_line_out_of_place_are_two_roots() -> None:
    other = line_of(genesis([work("z")], commit_id="q_other"))
    assert invalid(LINES[1] + LINES[0] + other)[:2] == ("second_root", 3)


@pytest.mark.parametrize("index", [0, 1, 5, 10])
def test_a_lost_line_leaves_its_successor_without_predecessor(index: int) -> None:
    lines = LINES[:index] + LINES[index + 1 :]
    assert invalid(b"".join(lines)) == ("predecessor_missing", index + 1, start_of(lines, index))


def test_the_first_of_several_stray_lines_in_causal_order_is_named() -> None:
    lines = [LINES[0], LINES[3], LINES[2], LINES[5], LINES[4]]
    assert invalid(b"".join(lines))[:2] == ("predecessor_missing", 3)


def test_cycles_are_told_from_missing_predecessors() -> None:
    def link(name: str, previous: str) -> bytes:
        made = commit(previous, "submit", name, [work(name)], PRODUCER, commit_id=name)
        return line_of(made)

    ring = [link("x", "z"), link("y", "x"), link("z", "y")]
    assert invalid(WHOLE + b"".join(ring))[:2] == ("chain_cycle", 13)
    # Two of them follow y: that is a fork before it is a cycle.
    assert invalid(WHOLE + link("w", "y") + b"".join(ring))[:2] == ("fork", 16)
    assert invalid(WHOLE + link("w", "x") + b"".join(ring[::2]) + ring[1])[:2] == ("fork", 16)
    assert invalid(WHOLE + link("me", "me"))[:2] == ("chain_cycle", 13)
    assert invalid(link("me", "me"))[:2] == ("chain_cycle", 1)


def test_one_id_with_two_bodies_is_a_conflict() -> None:
    twin = commit(CHAIN[3].previous, "submit", "twin", [work("t")], PRODUCER, commit_id=CHAIN[3].id)
    assert invalid(WHOLE + line_of(twin)) == ("commit_conflict", 13, len(WHOLE))
    moved = commit(CHAIN[-1].id, "submit", "twin", [work("t")], PRODUCER, commit_id=CHAIN[3].id)
    assert invalid(WHOLE + line_of(moved))[:2] == ("commit_duplicate", 13)


@pytest.mark.parametrize(("one", "other"), [(1, True), (0, False)])
def test_bodies_that_differ_only_in_the_kind_of_a_value_are_two(one: object, other: object) -> None:
    """1 and true are different JSON, though Python takes them for equal."""
    first, second = (line_of(genesis([work("a", payload={"v": v})])) for v in (one, other))
    assert invalid(first + second)[:2] == ("commit_conflict", 2)
    child = after(read_line(first[:-1]).commit, "b")
    assert invalid(child + first + second)[:2] == ("commit_conflict", 3)


def test_one_request_in_two_commits_is_refused() -> None:
    again = after(CHAIN[-1], "n9")
    request = structs.replace(read_line(again[:-1]).commit.request, id=CHAIN[-1].request.id)
    line = line_of(structs.replace(read_line(again[:-1]).commit, request=request))
    assert invalid(WHOLE + line)[:2] == ("request_duplicate", 13)


def test_a_union_merge_of_two_branches_is_refused_with_its_lines() -> None:
    """What a merge of two ledgers by lines leaves: both children, one event twice."""
    ours = [after(CHAIN[-1], "ours")]
    theirs = [after(CHAIN[-1], "theirs")]
    merged = [*LINES, *ours, *theirs]
    assert invalid(b"".join(merged)) == ("fork", 14, start_of(merged, 13))
    again = [*LINES, LINES[7], *theirs, *ours, LINES[3]]
    assert invalid(b"".join(again))[:2] == ("fork", 15)
    markers = [*LINES, b"<<<<<<< HEAD\n", *ours, b"=======\n", *theirs, b">>>>>>> other\n"]
    assert invalid(b"".join(markers))[:2] == ("invalid_json", 13)


# --- order, repetition and layout do not matter -------------------------------------------------


@pytest.mark.parametrize(
    "arrange",
    [
        lambda lines: [*lines, *lines],
        lambda lines: [lines[0], lines[0], *lines[1:]],
        lambda lines: lines[::-1],
        lambda lines: [*lines[1:], lines[0], lines[0]],
        lambda lines: [*lines, lines[3]],
    ],
    ids=["twice", "root twice", "reversed", "root last", "one again"],
)
def test_permuted_and_repeated_lines_are_the_same_history(
    arrange: Callable[[Lines], Lines],
) -> None:
    expected = History.read(WHOLE)
    found = History.read(b"".join(arrange(LINES)))
    assert state(found) == state(expected)
    assert kept(found.projection, 0) == kept(expected.projection, 0)
    assert [found.commit(n).id for n in range(12)] == [one.id for one in CHAIN]


def test_another_layout_is_the_same_record_with_the_same_size() -> None:
    loose = [json.dumps(json.loads(line), indent=None).encode() + b" \r\n" for line in LINES]
    found = History.read(b"".join(loose))
    assert state(found) == state(History.read(WHOLE))
    both = History.read(b"".join([*loose, *LINES]))
    assert state(both) == state(found)
    assert found.projection.ledger_bytes == len(WHOLE)
    assert found.commit(5) == CHAIN[5]
    assert invalid(b"".join(loose) + b"\n")[:2] == ("blank_line", 13)


@given(st.lists(st.integers(0, 11), max_size=6), st.randoms(use_true_random=False))
def test_any_order_and_repetition_is_the_same_history(
    repeated: list[int], chance: random.Random
) -> None:
    lines = LINES + [LINES[index] for index in repeated]
    chance.shuffle(lines)
    found = History.read(b"".join(lines))
    assert state(found) == state(History.read(WHOLE))
    assert [found.commit(n) for n in range(12)] == CHAIN


# --- going on from what was read ----------------------------------------------------------------


def same(one: History, other: History) -> bool:
    return (
        state(one) == state(other)
        and one.data == other.data
        and one.spans == other.spans
        and kept(one.projection, 0) == kept(other.projection, 0)
    )


@given(st.lists(st.integers(0, 12), max_size=5), st.booleans())
def test_reading_on_is_reading_all(cuts: list[int], doubled: bool) -> None:
    lines = [*LINES, *LINES[2:5]] if doubled else LINES
    history = History()
    for cut in [*sorted(cuts), len(lines)]:
        data = b"".join(lines[:cut])
        history = history.continued(data)
        assert same(history, History.read(data)) if data else history.projection.tip is None


@pytest.mark.parametrize(
    "begun",
    [
        [LINES[0], LINES[0]],
        [LINES[0], LINES[2], LINES[1]],
        [*LINES[1:4], LINES[0], LINES[2]],
    ],
    ids=["root twice", "two swapped", "root late"],
)
def test_the_fault_that_is_named_is_the_same_however_far_was_read_before(begun: Lines) -> None:
    """Two faults follow: which one is named must not depend on what was known."""
    late = after(read_line(max(begun, key=LINES.index)[:-1]).commit, "late", policy_epoch="e9")
    data = b"".join([*begun, late, b"{}\n"])
    expected = invalid(data)
    assert expected[:2] == ("policy_epoch_mismatch", len(begun) + 1)
    with pytest.raises(CallboardError) as caught:
        History.read(b"".join(begun)).continued(data)
    details = caught.value.details
    assert (details["cause"], details["line"], details["byte"]) == expected


def test_the_same_bytes_are_not_read_again() -> None:
    history = History.read(WHOLE)
    assert history.continued(WHOLE) is history


@pytest.mark.parametrize("data", [b"".join(LINES[:5]), LINES[0], line_of(genesis([work("other")]))])
def test_a_history_that_is_no_extension_is_read_cold(data: bytes) -> None:
    history = History.read(WHOLE)
    other = history.continued(data)
    assert same(other, History.read(data))
    assert same(history, History.read(WHOLE))


def test_an_appended_commit_is_taken_in_as_if_read() -> None:
    board = Board([work("a")])
    history = History.read(board.data)
    line = board.submit([work("b")])
    replay.apply(history.projection, read_line(line_of(line)[:-1]))
    history.adopt(board.data)
    assert same(history, History.read(board.data))
    board.submit([work("c")])
    assert same(history.continued(board.data), History.read(board.data))


BAD_TAILS = {
    "bad line": b'{"a":\n',
    "torn line": b'{"a"',
    "blank line": b"\n",
    "fork": after(CHAIN[2], "fork"),
    "refused": after(CHAIN[-1], "late", policy_epoch="e9"),
    "stray": after(commit("q_x", "submit", "x", [work("x")], PRODUCER), "stray"),
}


@pytest.mark.parametrize("name", list(BAD_TAILS))
def test_a_refused_extension_is_refused_as_the_whole_is(name: str) -> None:
    data = WHOLE + BAD_TAILS[name]
    expected = invalid(data)
    for cut in (1, 6, 12):
        history = History.read(b"".join(LINES[:cut]))
        with pytest.raises(CallboardError) as caught:
            history.continued(data)
        details = caught.value.details
        assert (details["cause"], details["line"], details["byte"]) == expected


@pytest.mark.parametrize("name", list(BAD_TAILS))
def test_nothing_of_a_refused_extension_stays(name: str) -> None:
    """Whatever is asked next of the same object, the answer is that of a cold reading."""
    for cut in (1, 6):
        for next_data in (b"".join(LINES[:cut]), WHOLE, b"".join(LINES[: cut + 1])):
            history = History.read(b"".join(LINES[:cut]))
            with pytest.raises(CallboardError):
                history.continued(WHOLE + BAD_TAILS[name])
            assert same(history.continued(next_data), History.read(next_data))


def test_no_data_is_an_empty_board() -> None:
    history = History.read(b"")
    assert history.projection.tip is None
    assert history.spans == []
    assert history.continued(b"") is history


def test_more_than_a_parse_may_take_is_refused_unread() -> None:
    assert invalid(b"x" * (canonical.MAX_PARSE_BYTES + 1)) == ("resource_limit", 1, 0)


def test_a_line_longer_than_a_line_may_be_is_refused() -> None:
    long = b'"' + b"x" * canonical.MAX_LINE_BYTES + b'"\n'
    assert invalid(WHOLE + long) == ("resource_limit", 13, len(WHOLE))
