"""The summary in a run's folder: what the run came to on the board, in JSON and in Markdown.

Source: specification 1, §7.12 (the derived receipt is kept with the run). Written when all is over,
from the ledger and the run's own report. It hinders nothing: a run ends well without it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from callboard import canonical, files
from callboard.board.execution.hosts.local.run_folder import RunFolder
from callboard.board.execution.hosts.local.run_report import read_report
from callboard.board.execution.hosts.local.run_timing import read_timing
from callboard.board.execution.site import Site
from callboard.board.reading.summary import Subject, summarize
from callboard.board.reading.summary_markdown import code, summary_markdown
from callboard.board.reading.view import View
from callboard.clock import utc_text
from callboard.errors import CallboardError

TimingOf = Callable[[str, str], dict[str, int]]
"""What is known of a run's times and of one of its Claims': run id, Claim id."""


def write_summary(
    site: Site, folder: RunFolder, dispatch_id: str, note: Callable[[str], None]
) -> None:
    """Write `summary.json` and `summary.md`; where that fails, `note` hears of it and no more."""
    try:
        history = site.publisher.known()
        view = View(history, site.publisher.decision_time(history.projection))
        dispatch = history.projection.dispatches[dispatch_id]
        document = summarize(view, Subject(dispatches=(dispatch,)))
        report = read_report(folder) or {}
        add_timings(document, lambda _run_id, claim_id: read_timing(report, claim_id))
        run_id = "?" if dispatch.run is None else dispatch.run.run_id
        page = summary_markdown(document, title=f"Run {code(run_id)}", when=utc_text(view.at_ms))
        json_file = folder.summary.with_suffix(".json")
        files.publish(json_file, canonical.encode(document) + b"\n", private=True)
        files.publish(folder.summary, page.encode(), private=True)
    except (CallboardError, OSError) as error:
        note(f"the summary could not be written: {error}")


def add_timings(document: dict[str, Any], timing_of: TimingOf) -> None:
    """Add to a summary's launches their `timing` and to its rows `waited_ms`, as far as known."""
    launches = {one["dispatch_id"]: one for one in document["launches"]}
    for row in document["rows"]:
        found = timing_of(row["run_id"], row["claim_ref"]) if "run_id" in row else {}
        if "waited_ms" in found:
            row["waited_ms"] = found.pop("waited_ms")
        if found:
            launches[row["dispatch_id"]]["timing"] = found
