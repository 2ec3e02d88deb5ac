"""Plan files as bytes: what is read, and what never grows."""

from __future__ import annotations

import pytest

from callboard.board.publishing.plan_text import MAX_PLAN_BYTES, MAX_YAML_BYTES, read_plan_text
from callboard.errors import CallboardError


def refusal(data: bytes) -> CallboardError:
    with pytest.raises(CallboardError) as caught:
        read_plan_text(data)
    return caught.value


def test_yaml_and_json_mean_the_same() -> None:
    yaml = b"graph: g\nnodes:\n- key: a\n  payload: {n: 1, t: 'x', f: true, e: null}\n"
    json = b' {"nodes":[{"key":"a","payload":{"n":1,"t":"x","f":true,"e":null}}],"graph":"g"}'
    assert read_plan_text(yaml) == read_plan_text(json)


def test_words_stay_words() -> None:
    found = read_plan_text(b"- [yes, no, on, off, 0o17, '01', ~]\n")
    assert found == [["yes", "no", "on", "off", 15, "01", None]]


def test_an_integral_float_is_an_integer() -> None:
    assert read_plan_text(b"- 1e3\n- 2.0\n") == [1000, 2]


@pytest.mark.parametrize(
    ("data", "line"),
    [
        (b"a: &x 1\n", 1),
        (b"a:\n- *x\n", 2),
        (b"a: 1\nb: !!str 2\n", 2),
        (b"a: 1\nb: !thing {}\n", 2),
        (b"a: 1\nb: 2\na: 3\n", 3),
        (b"a:\n  - b\n c\n", 3),
        (b"a: {b: 1, b: 2}\n", 1),
        (b"a: 1\n---\nb: 2\n", 2),
        (b"%TAG ! tag:x,2026:\n--- !a {}\n", 2),
        (b"a: \x00\n", 1),
    ],
)
def test_a_yaml_fault_has_its_place(data: bytes, line: int) -> None:
    error = refusal(data)
    assert error.code == "plan_invalid"
    assert error.details.get("line", line) == line
    assert error.hint


@pytest.mark.parametrize("date", ["2020-01-01", "2020-01-01T10:00:00+02:00", "2020-1-1 5:00:00 Z"])
def test_a_date_is_refused_as_it_was_written(date: str) -> None:
    for data in (f"a: 1\nb: {date}\n", f"a: 1\n? {date}\n: 1\n"):
        error = refusal(data.encode())
        assert error.code == "plan_invalid"
        assert error.message.endswith(f": {date} is a date, not a plain value")
        assert error.details["line"] == 2
        assert error.hint == "put dates in quotes"
    assert read_plan_text(f"- '{date}'\n".encode()) == [date]


def test_a_bomb_of_aliases_is_refused_before_it_grows() -> None:
    rows = ["a0: &a0 [x]"] + [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 9)]
    error = refusal("\n".join(rows).encode())
    assert error.code == "plan_invalid"
    assert "anchors" in error.message


@pytest.mark.parametrize("value", ["2026-01-01", "2026-01-01 10:00:00", "!!binary aGk="])
def test_what_is_not_plain_is_refused(value: str) -> None:
    assert refusal(f"a: {value}\n".encode()).code == "plan_invalid"


@pytest.mark.parametrize("value", [".nan", ".inf", "-.inf", "1.5", "9007199254740992", "-0.0"])
def test_numbers_keep_the_codecs_rules(value: str) -> None:
    assert refusal(f"a: {value}\n".encode()).code == "noncanonical_number"


def test_sizes_and_depths_are_bounded() -> None:
    assert refusal(b"#" * (MAX_YAML_BYTES + 1)).code == "resource_limit"
    assert refusal(b"[" + b" " * MAX_PLAN_BYTES).code == "resource_limit"
    assert refusal(b"a: " + b"[" * 100).code == "plan_invalid"
    assert refusal(b"a: " + b"[" * 50_000).code == "plan_invalid"
    assert refusal(b"[" * 50_000).code == "resource_limit"
    deep = b"".join(b" " * n + b"a:\n" for n in range(200))
    assert refusal(deep).code == "plan_invalid"


def test_bytes_that_are_no_text_are_refused() -> None:
    assert refusal(b"a: \xff\n").code == "invalid_unicode"
    assert refusal(b'{"a":"\xc3"}').code == "invalid_unicode"
    assert refusal(b'a: "\\ud800"\n').code in ("invalid_unicode", "plan_invalid")
