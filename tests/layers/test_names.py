"""Names that may be files everywhere, and are not taken for each other."""

from __future__ import annotations

import pytest

from callboard.layers.names import attempt_id, check_key, is_id, new_session_id, twin
from tests.board.building import refused


def test_a_session_is_named_by_time_goal_and_chance() -> None:
    # 2026-01-31 10:15:00 UTC; the digest is that of `sha256sum` over the goal's UTF-8.
    assert new_session_id(1_769_854_500_999, "Größe", "0123abcd") == (
        "20260131_101500_aedc3f80_0123abcd"
    )
    assert new_session_id(0, "", "ffffffff") == "19700101_000000_e3b0c442_ffffffff"
    assert is_id(new_session_id(253_402_300_799_999, "x", "00000000"))


@pytest.mark.parametrize("now_ms", [-1, 253_402_300_800_000])
def test_a_clock_that_is_far_off_names_no_session(now_ms: int) -> None:
    assert refused(new_session_id, now_ms, "x", "00000000").code == "time_invalid"


@pytest.mark.parametrize("random", ["", "0123ABCD", "0123abcde", "../../ab", "0123abc\n"])
def test_chance_is_eight_hex_digits(random: str) -> None:
    with pytest.raises(ValueError, match="hex"):
        new_session_id(0, "x", random)


def test_an_attempt_is_named_by_its_number_and_role() -> None:
    assert attempt_id(1, "planner") == "0001_planner"
    assert attempt_id(12345, "eval_runner") == "12345_eval_runner"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Foo", "foo"),
        ("caf\u00e9", "cafe\u0301"),
        ("straße", "STRASSE"),
        ("\ufb01le", "file"),
        ("\uff21\uff22", "ab"),
        ("ΣΑΣ", "σας"),
        ("\u212bngstrom", "\u00e5ngstrom"),
    ],
)
def test_twins_are_equal(one: str, other: str) -> None:
    assert one != other
    assert twin(one) == twin(other)
    assert twin(twin(one)) == twin(one)


def test_what_is_not_confused_is_no_twin() -> None:
    names = ["a", "b", "a-b", "a_b", "ab", "e", "\u00e9", "1", "l", "ss", "s"]
    assert len({twin(name) for name in names}) == len(names)


@pytest.mark.parametrize(
    "key",
    ["req-1", "Größe", "план_1", "設計", "a" * 100, "com10", "console", "nula", "a.b", "receipt"],
)
def test_a_plain_key_of_any_script_is_taken(key: str) -> None:
    assert check_key(key, "request id") == key


@pytest.mark.parametrize(
    "key",
    [
        "", ".", "..", ".hidden", "../x", "a/b", "/etc", "a\\b", "C:x", "a b", "a\n", "a\0",
        "~", "-rf", "a*", "a?", 'a"', "<a>", "a|b", "a" * 101, "\ud800", "a\u00a0b",
        "con", "CON", "Con.txt", "aux.json", "nul", "com1", "LPT9", "com0", "COM\u00b9",
        "\uff43\uff4f\uff4e", "conin$", "a.", "a..", "a\u200bb", "a\u202eb", "a\ufe0f", "\u3164",
        "a\u2024", "\u2025a", "a\uff0fb", "\uff0e\uff0e", "設" * 67, "x.receipt", "x.RECEIPT",
    ],
)  # fmt: skip
def test_a_key_that_no_file_should_be_called_is_refused(key: str) -> None:
    error = refused(check_key, key, "request id")
    assert error.code == "key_invalid"
    assert "request id" in error.message
    assert error.details == {"field": "request id"}
    assert error.message.isprintable()


@pytest.mark.parametrize("value", ["", ".", "..", "a/b", "/a", "a\n", "é", ".a", "a" * 129, "-a"])
def test_an_id_of_the_machine_is_plain_ascii(value: str) -> None:
    assert not is_id(value)
