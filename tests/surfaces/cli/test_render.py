"""What reaches the screen, and in which shape."""

from __future__ import annotations

import io

import pytest

from callboard.surfaces.cli import render
from callboard.surfaces.cli.render import Line, Table, bad, count, duration, local_time
from callboard.visible import visible
from tests.surfaces.cli.conftest import Person


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("plain text", "plain text"),
        ("größe 日本", "größe 日本"),
        ("a\x1b[31mred\x1b[0m", "a\\x1b[31mred\\x1b[0m"),
        ("two\nlines\r\tx", "two\\nlines\\r\\tx"),
        ("\x00\x7f\x9b", "\\x00\\x7f\\x9b"),
        ("\u202eevil\u2066", "\\u202eevil\\u2066"),
        ("zero\u200bwidth\ufeff", "zero\\u200bwidth\\ufeff"),
        ("\u2028\u2029", "\\u2028\\u2029"),
        ("\ud800", "\\ud800"),
        ("\U000e0041", "\\U000e0041"),
        ("[red]markup[/red]", "[red]markup[/red]"),
        ("\u3164\u115f\u1160\uffa0", "\\u3164\\u115f\\u1160\\uffa0"),
        ("a\u034fb\ufe00\ufe0f", "a\\u034fb\\ufe00\\ufe0f"),
        ("\u180b\u180f\u17b4", "\\u180b\\u180f\\u17b4"),
        ("\U000e0100", "\\U000e0100"),
        ("\u2800\U0001d159", "\\u2800\\U0001d159"),
        ("a\u00a0b\u2003\u202f\u3000", "a\\xa0b\\u2003\\u202f\\u3000"),
        (
            "e\u0301 \u0e01\u0e34 \U0001f680 \U0001f44d\U0001f3fd",
            "e\u0301 \u0e01\u0e34 \U0001f680 \U0001f44d\U0001f3fd",
        ),
    ],
)
def test_nothing_submitted_acts_on_the_terminal(text: str, seen: str) -> None:
    assert visible(text) == seen


def test_times_are_local_with_their_offset(monkeypatch: pytest.MonkeyPatch) -> None:
    assert local_time(1_700_000_000_999) == "2023-11-14 22:13:20+00:00"
    assert local_time(0) == "1970-01-01 00:00:00+00:00"
    assert local_time(None) == "-"
    assert local_time(2**53 - 1) == f"{2**53 - 1} ms"


def test_lengths_of_time_and_counts() -> None:
    given = (-5, 0, 59_999, 60_000, 90_000, 3_600_000, 200_000_000)
    assert [duration(ms) for ms in given] == [
        "0 s", "0 s", "59 s", "1 min", "1 min 30 s", "1 h 0 min", "2 days",
    ]  # fmt: skip
    assert (count(1, "node"), count(2, "node"), count(0, "reply", "replies")) == (
        "1 node",
        "2 nodes",
        "0 replies",
    )


def test_without_a_terminal_tables_are_plain(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    monkeypatch.setattr("sys.stdout", stream)
    render.write_text([bad("x"), Table(("a", "b"), [("日本", "1"), ("z", "\x1b[2J")])])
    assert stream.getvalue() == "x\na     b\n日本  1\nz     \\x1b[2J\n"


@pytest.mark.parametrize(("no_color", "coloured"), [("", True), ("1", False)])
def test_a_terminal_gets_colour_unless_it_says_no(
    monkeypatch: pytest.MonkeyPatch, no_color: str, coloured: bool
) -> None:
    monkeypatch.setenv("NO_COLOR", no_color)
    monkeypatch.setenv("TERM", "xterm")
    stream = Terminal()
    monkeypatch.setattr("sys.stdout", stream)
    render.write_text([Line("x", (("fg", "red"),))])
    assert ("\x1b[31m" in stream.getvalue()) is coloured


def test_a_narrow_terminal_folds_a_table_and_reads_no_markup(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "30")
    monkeypatch.setenv("TERM", "xterm")
    stream = Terminal()
    monkeypatch.setattr("sys.stdout", stream)
    render.write_text([Table(("node", "why"), [("[bold]n[/bold]", "word " * 20)])])
    lines = stream.getvalue().splitlines()
    assert "[bold]n[/bold" in stream.getvalue()
    assert len(lines) > 3
    assert max(len(line) for line in lines) <= 30


def test_an_encoding_that_lacks_a_letter_gets_an_escape(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii")
    monkeypatch.setattr("sys.stdout", stream)
    render.write_text(["größe"])
    stream.flush()
    assert raw.getvalue() == b"gr\\xf6\\xdfe\n"


def test_documents_survive_text_that_is_no_unicode() -> None:
    assert render.document_bytes({"path": "a\udcff"}) == b'{"path":"a\\\\udcff"}\n'


def test_submitted_text_is_shown_as_it_is_nowhere(person: Person) -> None:
    evil = "e\u202evil[red]\u2028x"
    person.submit(f'{{"graph":"g","nodes":[{{"key":"{evil}","payload":{{"t":"\\u001b[2J"}}}}]}}')
    work_id = person.ask("status")["columns"]["ready"]["works"][0]["work_id"]
    for words in (["status"], ["show", work_id], ["explain", work_id], ["trace", work_id]):
        text = person.done(*words).stdout
        assert "\x1b" not in text
        assert "\u202e" not in text
        assert "e\\u202evil[red]\\u2028x" in text
