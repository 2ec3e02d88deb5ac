"""The page that maps areas to tests says what there is: every test, every area, nothing twice.

The areas stand here by name, so that none is lost silently. Where the specification lies beside the
repository, its own table is compared as well; see `tests.ambient.specification_folder`.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.ambient import ROOT, specification_folder

HERE = Path(__file__).resolve().parent
PAGE = ROOT / "docs" / "internals" / "acceptance.md"

AREAS = """
Mandatory initialization
Default FIFO behavior
Default concurrency
No opt-out
Current-only protocol
Submission defaults
Fixed-set proportionality
Strict priority
Weighted priority
FIFO within a bucket
Dynamics
Restart
Cross-language parity
Competing dispatchers
Uncertain push result
Writer enforcement
Capacity
Recovery
Launch fencing/binding
Launch recovery
Reconciliation budget
Trust
Worker safety
Commit replay
Compaction
Backend gating
Policy epochs
Worker evolution
Operational controls
Platform outage recovery
Accidental run cancellation
Agent fault classification
In-flight campaign revision
Late binding
Agentic intent status
Batch idempotency
Shared worker assignment
Independent finish
Mixed terminal outcomes
Automatic single-Claim attribution
Multi-Claim attribution
Handler coverage
Effect isolation
Stable packing
Eligibility versus packing
Batch isolation
No-grant semantics
Explain/trace parity
Trace trust/privacy
DAG admission
DAG node kinds
Ready frontier
Fork/join
Result barrier
Delivery failure
Replacement
Typed foreign resources
GitHub conditions
Mutable observations
Writer trust
Incremental replay
Resource limits
""".strip().splitlines()

# The rows of two tables, whose own words are sentences; area -> the test that is named after it.
SELECTORS = {
    "Selector: one Claim, none given": "test_selector_one_claim_none_given",
    "Selector: one Claim, named": "test_selector_one_claim_named",
    "Selector: several, named": "test_selector_several_claims_named",
    "Selector: several, none given": "test_selector_several_claims_none_given",
    "Selector: wrong": "test_selector_wrong",
    "Selector: no assignment": "test_selector_without_assignment",
}
CLAIMS = {
    "Claim: open, completed": "test_claim_open_and_completed",
    "Claim: open, cancelled": "test_claim_open_and_cancelled",
    "Claim: open, no word": "test_claim_open_and_silent",
    "Claim: lost or unknown": "test_claim_lost",
    "Claim: in doubt": "test_claim_in_doubt",
}
# How the specification's tables begin, by their columns.
AREA_TABLE = ("Area", "Acceptance criterion")
SELECTOR_TABLE = ("Original assignment / selector", "Trusted resolution")
CLAIM_TABLE = ("Per-Claim state", "Trusted action")


class Row(NamedTuple):
    """A row of the page: an area, and what stands in its other columns."""

    area: str
    cells: tuple[str, ...]

    @property
    def tests(self) -> list[str]:
        """The test ids in the last column, each `file::name`."""
        return re.findall(r"`([\w.]+::\w+)`", self.cells[-1])


def rows() -> tuple[list[Row], list[Row]]:
    """The rows of areas, and those that are still open."""
    shown, still_open = PAGE.read_text(encoding="utf-8").split("\n## Still open\n")
    return _rows_of(shown), _rows_of(still_open)


def _rows_of(text: str) -> list[Row]:
    found = []
    for line in text.splitlines():
        if line.startswith("| ") and not line.startswith("| area |"):
            area, *cells = (cell.strip() for cell in line.strip("| ").split(" | "))
            found.append(Row(area, tuple(cells)))
    return found


def named_after(area: str) -> str:
    """The name of the test of an area."""
    given = {**SELECTORS, **CLAIMS}.get(area)
    return given or "test_" + re.sub(r"[^a-z0-9]+", "_", area.lower()).strip("_")


@pytest.fixture(scope="module")
def collected() -> set[str]:
    """Every test of this folder as `file::name`, as a run of its own collects them."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:xdist", str(HERE)],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    lines = [line for line in done.stdout.splitlines() if "::" in line]
    found = {line.partition("[")[0].rpartition("/")[2] for line in lines}
    return {one for one in found if not one.startswith(Path(__file__).name)}


def test_every_test_is_mapped_and_every_mapped_test_is_there(collected: set[str]) -> None:
    shown, _open = rows()
    mapped = {test for row in shown for test in row.tests}
    assert mapped - collected == set()
    assert collected - mapped == set()
    assert len(collected) >= len(AREAS)


def test_every_area_stands_once_with_the_test_that_is_named_after_it() -> None:
    shown, still_open = rows()
    for table in (shown, still_open):
        counts = Counter(row.area for row in table)
        assert [area for area, count in counts.items() if count > 1] == []
    assert {row.area for row in shown} == {*AREAS, *SELECTORS, *CLAIMS}
    assert {row.area for row in still_open} <= {*AREAS, *SELECTORS, *CLAIMS}
    for row in shown:
        assert len(row.cells) == 2, row.area
        names = [test.partition("::")[2] for test in row.tests]
        assert named_after(row.area) in names, row.area
        assert row.cells[0], row.area
    for row in still_open:
        assert row.cells[0], row.area


def test_no_test_stands_for_two_areas_but_where_it_shows_both() -> None:
    shown, _open = rows()
    counts = Counter(test for row in shown for test in row.tests)
    assert {test for test, count in counts.items() if count > 1} == {
        "test_claims.py::test_claim_in_doubt"
    }


def table_of(lines: list[str], head: tuple[str, str]) -> list[str]:
    """The first cells of the rows below a heading of two columns."""
    start = lines.index("\t".join(head)) + 1
    cells = []
    for line in lines[start:]:
        if "\t" not in line:
            break
        cells.append(line.partition("\t")[0])
    return cells


def test_the_areas_are_those_of_the_specification() -> None:
    folder = specification_folder()
    if folder is None:
        return
    lines = (folder / "1-work-queue.txt").read_text(encoding="utf-8").splitlines()
    assert table_of(lines, AREA_TABLE) == AREAS
    assert len(table_of(lines, SELECTOR_TABLE)) == len(SELECTORS)
    assert len(table_of(lines, CLAIM_TABLE)) == len(CLAIMS)
