"""TOML is bounded before it is parsed, and whatever is wrong with it is one refusal."""

from __future__ import annotations

import tomllib

import pytest

from callboard.board.publishing import toml_text
from callboard.board.publishing.toml_text import MAX_KEY_PARTS, read_toml
from callboard.errors import CallboardError


def read(text: str, limit_bytes: int = 262_144) -> dict[str, object]:
    return read_toml(
        text.encode("utf-8", "surrogateescape"),
        path="here.toml",
        code="config_invalid",
        limit_bytes=limit_bytes,
    )


def refused(text: str, limit_bytes: int = 262_144) -> CallboardError:
    with pytest.raises(CallboardError) as caught:
        read(text, limit_bytes)
    assert "here.toml" in caught.value.message
    assert caught.value.hint
    return caught.value


def test_a_table_is_read() -> None:
    assert read('a.b = 1\n[c]\nd = "x.y"\n') == {"a": {"b": 1}, "c": {"d": "x.y"}}


@pytest.mark.parametrize(
    "key",
    [
        ".".join("a" * 120_000),
        ".".join(['"a"'] * 40_000),
        "[" + ".".join("a" * 120_000) + "]",
        "[[" + ".".join("a" * 120_000) + "]]",
        "x = [{" + ".".join("a" * 120_000) + "=1}]",
        # Text over several lines may end in up to two quotes of its own.
        'x = ["""a"""", {' + ".".join("a" * 120_000) + '=1}, "]',
        "x = ['''a''''', {" + ".".join("a" * 120_000) + "=1}, ']",
    ],
)
def test_a_key_without_end_is_refused_unparsed(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def parse(_text: str) -> None:
        raise AssertionError("parsing it would take minutes and gigabytes")

    monkeypatch.setattr(tomllib, "loads", parse)
    text = key if key.startswith(("[", "x")) else f"{key} = 1"
    assert refused(text).code == "resource_limit"


def test_text_without_an_end_is_looked_through_once() -> None:
    text = '"\\' * 130_000
    # From each quote anew it would take minutes.
    assert len(toml_text._TEXT.findall(text)) == 1
    assert refused(text).code == "config_invalid"


def test_the_line_of_a_long_key_is_named() -> None:
    error = refused('a = """\n\n"""\n# x\n' + ".".join("b" * 33) + " = 1")
    assert error.message == "here.toml has a key of 33 parts in line 5"
    assert error.details == {"count": 33, "limit": 32}


def test_many_short_keys_and_numbers_in_a_line_are_no_long_key() -> None:
    numbers = ", ".join(["1.5"] * 100)
    tables = ", ".join(f"{{b.c = {number}}}" for number in range(100))
    found = read(f"x = [{numbers}]\ny = [{tables}]\n")
    assert found["x"] == [1.5] * 100
    assert found["y"] == [{"b": {"c": number}} for number in range(100)]


def test_dots_in_text_and_comments_are_no_keys() -> None:
    dots = "." * 500
    text = f'a = "{dots}"\nb = \'{dots}\'\nc = """\n{dots}"{dots}\n"""\nd = 1 # {dots}\n'
    assert read(text)["a"] == dots
    longest = ".".join("a" * MAX_KEY_PARTS)
    assert read(f"{longest} = 1")


@pytest.mark.parametrize(
    "text",
    [
        "a = ",
        "a = 1\na = 2",
        "a = 9" + "9" * 5_000,
        "a = " + "[" * 20_000,
        "a = \udcff",
        "a = 1979-99-99",
    ],
)
def test_what_is_not_toml_is_one_refusal(text: str) -> None:
    assert refused(text).code == "config_invalid"


def test_too_many_bytes_are_not_parsed() -> None:
    assert refused("a = 1\n" * 10, limit_bytes=59).code == "resource_limit"
    assert read("a = 1", limit_bytes=5) == {"a": 1}
