"""Request ids: the numbers behind a stem."""

from __future__ import annotations

from callboard.board.publishing.request_ids import numbered


def test_a_number_is_free_until_it_stands() -> None:
    standing = {"r.1", "r.3"}
    name = numbered("r", lambda: standing)
    assert (name(), name()) == ("r.2", "r.2")
    standing.add("r.2")
    assert name() == "r.4"
