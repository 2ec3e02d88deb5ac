"""The page about the work file says what the code does."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

from callboard.project.records import ReasonKind
from callboard.project.source import fields, nodes, readiness, reading, shape
from callboard.project.source.place import Place
from tests.ambient import ROOT
from tests.project.source.scene import put

PAGE = (ROOT / "docs" / "reference" / "work-file.md").read_text("utf-8")


def section(title: str) -> str:
    return PAGE.split(f"## {title}\n", 1)[1].split("\n## ", 1)[0]


def words(text: str) -> set[str]:
    """What the first cells of a table name."""
    cells = re.findall(r"^\| (`[^|]*) \|", text, re.MULTILINE)
    return {word for cell in cells for word in re.findall(r"`([^`]+)`", cell)}


def test_the_files_it_shows_are_read_without_a_fault(tmp_path: Path) -> None:
    shown = re.findall(r"<!-- file: (\S+) -->\n```yaml\n(.*?)```", PAGE, re.DOTALL)
    for name, text in shown:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        put(tmp_path / name, text)
    found = reading.read_work(Place(tmp_path)).checked()
    assert [name for name, _ in shown] == [file.path for file in found.source_files()]
    assert len(found.items) == 3
    assert [edge.edge for edge in found.externals] == ["design-repo:17"]


def test_its_tables_name_everything_there_is() -> None:
    assert words(section("A work item")) == set(fields.ITEM_FIELDS) | set(fields.STATUSES)
    assert words(section("A goal")) == set(fields.GOAL_FIELDS)
    assert words(section("What is ready")) == set(get_args(ReasonKind))


def test_its_limits_are_those_of_the_code() -> None:
    text = " ".join(section("What is refused").split())
    mib = 1024 * 1024
    for phrase in (
        f"{nodes.MAX_FILE_BYTES // mib} MiB in a file",
        f"{reading.MAX_TOTAL_BYTES // mib} MiB in all",
        f"{shape.MAX_SOURCES} sources, {shape.MAX_ITEMS:,} items or goals",
        f"{fields.MAX_ENTRIES} entries",
        f"{nodes.MAX_DEPTH} levels",
    ):
        assert phrase in text
    assert (readiness.MAX_DEPTH, readiness.MAX_REASONS) == (100, 50)
    assert "a hundred steps down; an item shows at most fifty" in " ".join(PAGE.split())
    assert f"at most {fields.MAX_LINE} characters" in " ".join(PAGE.split())
