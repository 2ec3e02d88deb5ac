"""The journal: newest first, each change once, and final where it is forgotten."""

from __future__ import annotations

from callboard.board.projection.journal import Journal, Kept


class Pair(Kept):
    """Two fields that come back, and one that is not kept."""

    FIELDS = ("left", "right")

    def __init__(self) -> None:
        self.left = 1
        self.right = "r"
        self.beside = 0


def test_mappings_come_back_with_and_without_an_old_value() -> None:
    journal, mapping = Journal(), {"a": 1}
    journal.put(mapping, "a", 2)
    journal.put(mapping, "a", 3)
    journal.put(mapping, "b", 4)
    journal.roll_back()
    assert mapping == {"a": 1}


def test_kept_fields_come_back_to_their_first_values() -> None:
    journal, pair = Journal(), Pair()
    journal.keep(pair)
    pair.left = 2
    journal.keep(pair)
    pair.left, pair.right, pair.beside = 3, "s", 9
    journal.roll_back()
    assert (pair.left, pair.right, pair.beside) == (1, "r", 9)
    journal.keep(pair)
    pair.left = 5
    journal.roll_back()
    assert pair.left == 1


def test_inverse_calls_run_newest_first() -> None:
    journal = Journal()
    calls: list[int] = []
    for number in (1, 2, 3):
        journal.note(calls.append, number)
    journal.roll_back()
    assert calls == [3, 2, 1]
    journal.roll_back()
    assert calls == [3, 2, 1]


def test_what_is_forgotten_is_final() -> None:
    journal, mapping, pair = Journal(), dict[str, int](), Pair()
    journal.keep(pair)
    journal.put(mapping, "a", 1)
    pair.left = 7
    journal.forget()
    journal.roll_back()
    assert mapping == {"a": 1}
    assert pair.left == 7
    journal.keep(pair)
    pair.left = 8
    journal.roll_back()
    assert pair.left == 7
