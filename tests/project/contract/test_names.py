"""Names that cannot be told apart, or cannot be seen, are refused, with the first of them named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from callboard.project.project import Project
from tests.project import indexing
from tests.project.contract.stores import Opened
from tests.project.world import ITEMS, item, refused

TWINS = {
    "case": ("Fix-Login", "fix-login"),
    "wide letters": ("fix", "ｆｉｘ"),
    "ligature": ("file", "ﬁle"),
    "composed": ("caf\u00e9", "cafe\u0301"),
    "sharp s": ("straße", "STRASSE"),
    "kelvin": ("kelvin", "\u212aelvin"),
    "the same": ("fix", "fix"),
}
WRONG: dict[str, Any] = {
    "empty": "",
    "blank": " ",
    "blank at the end": "side ",
    "newline": "si\nde",
    "escape": "si\x1b[31mde",
    "nul": "si\x00de",
    "delete": "si\x7fde",
    "zero width": "si\u200bde",
    "right to left": "si\u202ede",
    "line separator": "si\u2028de",
    "lone surrogate": "si\ud800de",
    "too long": "x" * 201,
    "number": 7,
    "bytes": b"side",
}


@pytest.mark.parametrize("pair", TWINS)
def test_a_branch_that_looks_like_another_is_refused(opened: Opened, pair: str) -> None:
    first, second = TWINS[pair]
    opened.project.branches.create(first)
    before = opened.project.info()
    with refused("name_taken") as found:
        opened.project.branches.create(second)
    assert found.value.details["first"] == first
    assert opened.project.info() == before


def test_main_has_twins_too(opened: Opened) -> None:
    with refused("name_taken"):
        opened.project.branches.create("MAIN")


@pytest.mark.parametrize("pair", TWINS)
def test_work_that_looks_like_other_work_is_refused(opened: Opened, pair: str) -> None:
    first, second = TWINS[pair]
    before = opened.project.work.list()
    with refused("name_taken") as found:
        indexing.replace(opened.project, [*ITEMS, item(first), item(second)])
    assert found.value.details["first"] == first
    assert opened.project.work.list() == before


def _calls(project: Project, wrong: Any) -> list[Any]:
    return [
        lambda: project.branches.create(wrong),
        lambda: project.branches.select(wrong),
        lambda: project.sessions.start(wrong, "codex"),
        lambda: project.sessions.start("A", wrong),
        lambda: project.sessions.start("A", "codex", branch=wrong),
        lambda: project.sessions.start("A", "codex", model=wrong),
        lambda: project.sessions.show(wrong),
        lambda: project.sessions.list(agent=wrong),
        lambda: project.claims.acquire(wrong),
        lambda: project.claims.show(wrong),
        lambda: project.events.append("note.taken", {}, session=wrong),
        lambda: project.events.list(branch=wrong),
        lambda: project.evidence.add(wrong, "x", work="A"),
    ]


@pytest.mark.parametrize("wrong", WRONG)
def test_what_cannot_be_seen_is_no_name(opened: Opened, wrong: str) -> None:
    project = opened.project
    before = project.info()
    for call in _calls(project, WRONG[wrong]):
        with refused("name_invalid") as found:
            call()
        # What was found is named in a way that acts on no terminal.
        assert found.value.message.isprintable()
    assert project.info() == before


@pytest.mark.parametrize("wrong", WRONG)
def test_what_cannot_be_seen_names_no_work(opened: Opened, wrong: str) -> None:
    before = opened.project.info()
    # The test's own way of indexing makes JSON of everything first.
    code = "invalid_unicode" if wrong == "lone surrogate" else "name_invalid"
    with refused(code):
        indexing.replace(opened.project, [item(WRONG[wrong])])
    assert opened.project.info() == before


@pytest.mark.parametrize("wrong", ["", " \n", "a\x00b", "a\x1bb", "\ud800", "x" * 20_000, None, 3])
def test_texts_are_plain(opened: Opened, wrong: Any) -> None:
    project = opened.project
    session = project.sessions.start("A", "codex").session.id
    before = project.info()
    with refused("text_invalid"):
        project.sessions.checkpoint(session, wrong, "next")
    with refused("text_invalid"):
        project.sessions.checkpoint(session, "digest", "next", open_loops=["fine", wrong])
    if wrong is not None:
        with refused("text_invalid"):
            project.sessions.end(session, outcome=wrong)
    assert project.info() == before


@pytest.mark.parametrize(
    ("code", "body"),
    [
        ("body_invalid", None),
        ("body_invalid", []),
        ("body_invalid", "text"),
        ("noncanonical_number", {"a": 1.5}),
        ("noncanonical_number", {"a": float("nan")}),
        ("noncanonical_number", {"a": 2**53}),
        ("invalid_unicode", {"a": "\ud800"}),
        ("invalid_json", {1: 2}),
        ("invalid_json", {"a": b""}),
        ("body_limit", {"a": "x" * 65_530}),
    ],
    ids=lambda one: one if isinstance(one, str) else ascii(one)[:20],
)
def test_a_body_is_a_plain_json_object(opened: Opened, code: str, body: Any) -> None:
    before = opened.project.info()
    with refused(code):
        opened.project.events.append("note.taken", body)
    assert opened.project.info() == before


def test_a_body_may_be_as_long_as_is_said(opened: Opened) -> None:
    # Braces, quotes, name and colon take eight bytes of the 65,536.
    body = {"a": "x" * 65_528}
    event = opened.project.events.append("note.taken", body).event
    assert opened.project.events.list(type="note.taken").events == (event,)
    assert event.body == body


@pytest.mark.parametrize("revision", [-1, 1.0, "2", True, 2**53])
def test_an_expected_revision_is_a_whole_number(opened: Opened, revision: Any) -> None:
    with refused("value_invalid"):
        opened.project.branches.create("side", expected_revision=revision)


@pytest.mark.parametrize("patience", [-1, 1.5, "5", True, None, 2**31, 10**400])
def test_a_patience_is_a_whole_number_of_milliseconds(tmp_path: Path, patience: Any) -> None:
    for act in (Project.open, Project.create, Project.init, Project.diagnose):
        with refused("value_invalid"):
            act(tmp_path, busy_ms=patience)
    assert list(tmp_path.iterdir()) == []
