"""The links of all pages lead somewhere, and each accident in the index of scenarios is played."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.ambient import ROOT
from tests.docs import console
from tests.docs.stories import BEGUN, STORIES
from tests.docs.test_pages import PAGES

INDEX = ROOT / "docs" / "operations" / "scenarios.md"
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"(#+) +(.*)")


def links(page: Path) -> list[tuple[Path, str]]:
    """The pages that a page links to, with the anchors; other places on the web are left out."""
    found = []
    for target in _LINK.findall(prose(page)):
        if "://" not in target:
            path, _, anchor = target.partition("#")
            found.append(((page.parent / path).resolve() if path else page, anchor))
    return found


def prose(page: Path) -> str:
    """A page's text without its fenced blocks; line numbers stay."""
    text = page.read_text(encoding="utf-8")
    lines = text.splitlines()
    for block in console.blocks(text, page.name):
        lines[block.line - 1 : block.line + len(block.body) + 1] = [""] * (len(block.body) + 2)
    return "\n".join(lines)


def sections(page: Path) -> dict[str, tuple[int, int]]:
    """The lines of each section, its subsections included, by the anchor of its heading."""
    lines = prose(page).splitlines()
    headings = [
        (number, len(match[1]), anchor(match[2]))
        for number, line in enumerate(lines, start=1)
        if (match := _HEADING.fullmatch(line))
    ]
    found = {}
    for place, (start, level, name) in enumerate(headings):
        ends = [number for number, other, _ in headings[place + 1 :] if other <= level]
        found[name] = (start, ends[0] if ends else len(lines) + 1)
    return found


def anchor(heading: str) -> str:
    """What a heading is called in an address."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_pages_and_sections_that_are_there(page: Path) -> None:
    for target, name in links(page):
        assert target.exists(), f"{page.name}: there is no {target}"
        if name:
            assert name in sections(target), f"{page.name}: {target.name} has no section #{name}"


def test_every_scenario_is_played_where_the_index_says() -> None:
    for target, name in links(INDEX):
        name_of_page = str(target.relative_to(ROOT))
        steps = console.steps(target.read_text(encoding="utf-8"), name_of_page)
        start, end = sections(target)[name] if name else (1, 1 << 20)
        shown = [one for one in steps if start < one.line < end and one.expected is not None]
        assert shown, f"{name_of_page}#{name} shows no output that is compared"


def test_every_page_with_a_story_is_in_the_index() -> None:
    linked = {str(target.relative_to(ROOT)) for target, _ in links(INDEX)}
    assert STORIES.keys() <= linked
    assert BEGUN.keys() <= STORIES.keys()
