"""Names that are taken for each other have one twin."""

from __future__ import annotations

import unicodedata

import pytest

from callboard.twins import twin


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Foo", "foo"),
        ("caf\u00e9", "cafe\u0301"),
        ("straße", "STRASSE"),
        ("\ufb01le", "FILE"),
        ("ΣΑΣ", "σας"),
        ("\u212bngstrom", "\u00c5ngstrom"),
        ("\uff21\uff22", "ab"),
    ],
)
def test_names_that_are_confused_are_equal(one: str, other: str) -> None:
    assert twin(one) == twin(other)


def test_names_that_are_not_confused_differ() -> None:
    names = ["a", "b", "e", "\u00e9", "a-b", "a_b", "ab", "1", "l", ""]
    assert len({twin(name) for name in names}) == len(names)


def test_a_twin_is_its_own_twin_for_every_character() -> None:
    for code in range(0x110000):
        folded = twin(chr(code))
        assert twin(folded) == folded
        assert unicodedata.normalize("NFKC", folded) == folded
