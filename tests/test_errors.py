"""The refusal: four parts, safe to show, to copy and to send to another process."""

from __future__ import annotations

import pickle

import pytest

from callboard import canonical
from callboard.errors import CallboardError


def test_a_refusal_shows_its_four_parts() -> None:
    error = CallboardError("pool_unknown", "there is no pool 'x'", "pools: y", {"pool": "x"})
    assert str(error) == "pool_unknown: there is no pool 'x' (pools: y)"
    assert error.document() == {
        "code": "pool_unknown",
        "message": "there is no pool 'x'",
        "hint": "pools: y",
        "details": {"pool": "x"},
    }
    assert canonical.decode(canonical.encode(error.document())) == error.document()


def test_a_refusal_without_hint_ends_with_its_message() -> None:
    assert str(CallboardError("fork", "two commits follow")) == "fork: two commits follow"


def test_details_are_its_own() -> None:
    given = {"count": 1}
    error = CallboardError("graph_limit", "too many", details=given)
    error.details["line"] = 3
    assert given == {"count": 1}


def test_a_refusal_survives_the_way_between_processes() -> None:
    error = CallboardError("fork", "two", "look", {"line": 4})
    copy = pickle.loads(pickle.dumps(error))
    assert isinstance(copy, CallboardError)
    assert copy.document() == error.document()
    assert str(copy) == str(error)


def test_it_is_an_ordinary_exception() -> None:
    with pytest.raises(Exception, match="the tip moved"):
        raise CallboardError("lost", "the tip moved")
