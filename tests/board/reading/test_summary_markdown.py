"""Submitted text in a page of Markdown: read by a real parser, it is nothing but text."""

from __future__ import annotations

import re
from collections import Counter
from html.parser import HTMLParser
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from callboard.board.reading.summary_markdown import LONGEST, code, shown, summary_markdown
from callboard.board.reading.view import Document

HOSTILE = [
    "<img src=x onerror=alert(1)>",
    '" onmouseover="x',
    "[a](javascript:alert(1))",
    "![a](https://evil.example/x.png)",
    "a | b |\n| --- | --- |",
    "`code` ``` ``",
    "\\`",
    "\\|",
    "@somebody and @org/team",
    "#123 owner/name#4 GH-5",
    "https://evil.example www.evil.example mailto:a@b.example a@b.example",
    "<https://evil.example>",
    "</code></td><script>alert(1)</script>",
    "&lt;b&gt; &#60;",
    "**bold** _it_ ~~gone~~ :tada: $x$ $`y`$",
    "- [ ] task",
    "# head\n\n> quote\n***\n    indented",
    "[x]: javascript:alert(1)",
    "left\u202eright\u2066\u2069",
    "zero\u200bwidth\ufeff\u00ad\u2060",
    "\x00\x1b]0;title\x07\r\n\t\x7f\x85\u2028",
    " spaces at both ends  ",
    "   ",
    "<!-- ",
    "x" * 500,
    "\U000e0041\ufe0f\u3164",
]
LINKIFIED = re.compile(r"(?:[a-z][a-z0-9+.-]*://|www\.|mailto:|javascript:)", re.IGNORECASE)
MENTION = re.compile(r"(?<![\w`])[@#]\w")
ELEMENTS = {"h2", "table", "thead", "tbody", "tr", "th", "td", "p", "code"}
texts = st.one_of(
    st.sampled_from(HOSTILE),
    st.text(max_size=60),
    st.text(alphabet="`|\\<>&[]()!*_~#@:/\n\r\t -.\"'x1", max_size=60),
    st.lists(st.sampled_from(HOSTILE), max_size=3).map("".join),
)


def page(text: str) -> str:
    """A page in which every field that could have been submitted is `text`."""
    row: Document = {
        **dict.fromkeys(
            ("name", "work_ref", "graph_id", "node_key", "pool", "fairness_key", "claim_ref"), text
        ),
        **dict.fromkeys(("handle", "dispatch_id", "outcome", "delivery", "run_id", "reason"), text),
        "attempt": 1,
        "stage": text,
        "outputs": [{"type": text, "name": text}],
        "outputs_left_out": 3,
        "waited_ms": 1,
    }
    launch = {
        **dict.fromkeys(("dispatch_id", "pool", "worker_profile", "status", "run_id"), text),
        **dict.fromkeys(("reason", "conclusion"), text),
        "claims": 1,
        "timing": {"setup_ms": 12_345, "shared_by": 3},
    }
    request = {
        **dict.fromkeys(("request_id", "kind", "commit_id", "role", "principal", "pool"), text),
        "requested": 3,
        "granted": 2,
    }
    numbers = dict.fromkeys(
        "submitted requested granted launched completed verified pending failed cancelled open"
        .split(),
        1,
    )  # fmt: skip
    document: dict[str, Any] = {
        "tip": text,
        "evaluated_at_ms": 0,
        "status": text,
        **numbers,
        "rows": [row],
        "launches": [launch],
        "requests": [request],
        "nodes": [{"name": text, "stage": text}],
        "left_out": {"rows": 1, "launches": 0, "requests": 2, "nodes": 0},
    }
    return summary_markdown(document, title=f"Run {code(text)}", when="now")


class Reader(HTMLParser):
    """What a browser would make of a page: its elements, their attributes, the text in `code`
    elements and outside of them."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: Counter[str] = Counter()
        self.attributes: list[tuple[str, str | None]] = []
        self.codes: list[str] = []
        self.plain = ""
        self._in_code = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements[tag] += 1
        self.attributes += attrs
        if tag == "code":
            self.codes.append("")
            self._in_code = True

    def handle_endtag(self, tag: str) -> None:
        self._in_code = self._in_code and tag != "code"

    def handle_data(self, data: str) -> None:
        if self._in_code:
            self.codes[-1] += data
        else:
            self.plain += data

    def handle_comment(self, data: str) -> None:
        self.elements["comment"] += 1


def read(markdown: str, **options: Any) -> Reader:
    """The page, as a parser with HTML and tables switched on makes it."""
    parser = MarkdownIt("commonmark", {"html": True, **options}).enable(["table", "strikethrough"])
    reader = Reader()
    reader.feed(parser.render(markdown))
    reader.close()
    return reader


PLAIN = read(page("x"))
"""The template's own elements, with text that means nothing anywhere."""


@given(texts)
@example("")
def test_no_text_makes_an_element_or_leaves_its_span(text: str) -> None:
    found = read(page(text))
    assert set(found.elements) <= ELEMENTS
    assert found.attributes == []
    plain = shown(text)
    if plain:
        assert found.elements == PLAIN.elements
        assert found.codes == [plain] * len(PLAIN.codes)
        assert found.plain == PLAIN.plain
    else:
        assert found.codes == []
    # Nothing outside of code spans for a host to make links, mentions or references of.
    assert not LINKIFIED.search(found.plain)
    assert not MENTION.search(found.plain)


@given(texts)
def test_with_html_switched_off_it_is_the_same(text: str) -> None:
    assert read(page(text), html=False).codes == read(page(text)).codes


@given(texts)
def test_what_is_shown_is_seen(text: str) -> None:
    plain = shown(text)
    assert plain.isprintable()
    assert not set("`|") & set(plain)
    assert plain == plain.strip()
    assert len(plain) <= LONGEST


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain", "plain"),
        ("Grüße 東京", "Grüße 東京"),
        ("a|b`c", "a\\x7cb\\x60c"),
        ("one\ntwo\t\r", "one\\ntwo\\t\\r"),
        ("a\u202eb\u200bc", "a\\u202eb\\u200bc"),
        (" a  b ", "\\x20a  b\\x20"),
        ("  ", "\\x20\\x20"),
        ("<b>", "<b>"),
        ("x" * 161, "x" * 157 + "..."),
    ],
)
def test_text_is_shown_as_it_is_save_what_has_a_meaning(text: str, expected: str) -> None:
    assert shown(text) == expected


def test_a_page_reads_like_this() -> None:
    lines = page("x").splitlines()
    assert lines[0] == "## Run `x`: `x`"
    assert (
        "| `x` | `x` | `x` | `x` `x`, began after 0.0 s | 1 | `x`: `x` | `x` | `x` `x`, and 3 "
        "more |" in lines
    )
    assert "| `x` | `x` | `x` | `x`: `x` | `x` | setup 12.3 s, shared by 3 claims |" in lines
    assert "| `x` | `x` | `x` `x` | 3 from `x` | 2 granted |" in lines
    assert lines[-3:] == ["2 more requests not listed.", "", "As of commit `x`, now."]
    assert "1 more claim not listed." in lines
