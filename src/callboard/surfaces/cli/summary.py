"""`callboard summary`, and the file that `run` and `dispatch` append theirs to.

What was asked for, granted, launched, completed and verified, Claim by Claim. Only told: what a
summary says is the ledger's, with the times that this machine has measured.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from callboard.board.board import Board
from callboard.board.execution.hosts.local.run_summary import add_timings
from callboard.board.projection.state import Projection
from callboard.board.reading.summary import (
    COUNTS,
    MAX_ROWS,
    Subject,
    since,
    subject_of,
    summarize,
)
from callboard.board.reading.summary_markdown import code, summary_markdown
from callboard.board.reading.timing import length_text, timing_text
from callboard.board.reading.view import View
from callboard.clock import utc_text
from callboard.errors import CallboardError
from callboard.surfaces.cli.chosen import Chosen, board_of, board_options
from callboard.surfaces.cli.render import Block, Table, count, emit, faint, heading, write_bytes
from callboard.surfaces.cli.stage_words import name_text
from callboard.surfaces.cli.stamp import stamp_text

MOST_ROWS = 1024
_SEPARATOR = b"\n"

summary_option = click.option(
    "--summary",
    "summary_file",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Append a summary of what this call changed, in Markdown, to this file.",
)


@click.command()
@click.argument("subjects", nargs=-1, metavar="[REQUEST|DISPATCH|RUN]...")
@click.option("--since", "commit_id", metavar="COMMIT", help="All that was asked for after it.")
@click.option("--markdown", is_flag=True, help="Print a page of Markdown.")
@click.option(
    "--limit",
    type=click.IntRange(1, MOST_ROWS),
    default=MAX_ROWS,
    show_default=True,
    help="The most entries of each list.",
)
@board_options
@click.pass_context
def summary(
    context: click.Context,
    subjects: tuple[str, ...],
    commit_id: str | None,
    markdown: bool,
    limit: int,
) -> None:
    """Sum up what requests, dispatches or runs came to, or without a name the whole board.

    Counts are of all of them; where not all are listed, what went wrong comes first.
    """
    if subjects and commit_id is not None:
        raise click.UsageError("Give names or --since, not both.")
    if markdown and context.ensure_object(Chosen).json:
        raise click.UsageError("Give --markdown or --json, not both.")
    board = board_of(context)
    view = board.view().with_history()
    projection = view.projection
    subject = subject_of(projection, subjects) if subjects else since(projection, commit_id)
    document = _document(board, view, subject, limit)
    title = _title(projection, subjects, commit_id)
    if markdown:
        write_bytes(_page(document, title))
        return
    emit(context, document, lambda: _text(document))


def _document(board: Board, view: View, subject: Subject, limit: int) -> dict[str, Any]:
    document = summarize(view, subject, limit=limit)
    add_timings(document, board.host.timing)
    return document


def _page(document: dict[str, Any], title: str) -> bytes:
    when = utc_text(document["evaluated_at_ms"])
    return summary_markdown(document, title=title, when=when).encode()


def _title(projection: Projection, subjects: tuple[str, ...], commit_id: str | None) -> str:
    if commit_id is not None:
        return f"Since commit {code(commit_id)}"
    if len(subjects) != 1:
        return count(len(subjects), "subject") if subjects else "Board"
    (word,) = subjects
    if word in projection.requests:
        return f"Request {code(word)}"
    return f"{'Run' if word in projection.runs else 'Dispatch'} {code(word)}"


class SummaryFile:
    """The file named by `--summary`, opened before anything is done, so that a wrong name costs
    nothing; without a name nothing is written."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._descriptor = None if path is None else self._opened(path)

    def append(self, board: Board, subject: Subject, title: str) -> None:
        """Append the summary of what was done, as one write; `summary_unwritable` where that
        fails, which takes nothing back."""
        if self._descriptor is None:
            return
        page = _page(_document(board, board.view(), subject, MAX_ROWS), title)
        try:
            is_new = os.fstat(self._descriptor).st_size == 0
            data = memoryview(page if is_new else _SEPARATOR + page)
            while data:
                data = data[os.write(self._descriptor, data) :]
            os.close(self._descriptor)
        except OSError as error:
            raise self._refusal(error) from error

    def _opened(self, path: Path) -> int:
        try:
            return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except (OSError, ValueError) as error:
            raise self._refusal(error) from error

    def _refusal(self, error: OSError | ValueError) -> CallboardError:
        why = getattr(error, "strerror", None) or str(error)
        return CallboardError(
            "summary_unwritable",
            f"the summary cannot be appended to {str(self._path)!r}: {why}",
            "what was done stands; name a file that can be written, and look again: "
            "callboard summary --markdown",
        )


def _text(document: dict[str, Any]) -> Iterator[Block]:
    yield heading(str(document["status"]).replace("_", " "))
    yield ", ".join(
        f"{document[name]} {name}" for name in COUNTS if name != "submitted" or document[name]
    )
    if document["nodes"]:
        nodes = [(name_text(one["name"]), one["stage"]) for one in document["nodes"]]
        yield Table(("posted node", "stage"), nodes)
    if document["rows"]:
        yield Table(
            ("node", "claim", "attempt", "outcome", "delivery", "outputs"),
            [_row(one) for one in document["rows"]],
        )
    for one in document["launches"]:
        said = timing_text(one.get("timing", {}))
        yield (
            f"run {one['run_id'] or '-'}: {one['status']}, worker {one['worker_profile']}, "
            f"{count(one['claims'], 'claim')}{', ' + said if said else ''}"
        )
    for name, number in document["left_out"].items():
        if number:
            yield faint(f"{number} more {name} not listed (--limit)")
    yield faint(stamp_text(document))


def _row(one: dict[str, Any]) -> tuple[str, ...]:
    waited = f", began after {length_text(one['waited_ms'])}" if "waited_ms" in one else ""
    why = f": {one['reason']}" if "reason" in one else ""
    outputs = [f"{output.get('type', '?')} {output.get('name', '')}" for output in one["outputs"]]
    if one["outputs_left_out"]:
        outputs.append(f"and {one['outputs_left_out']} more")
    return (
        name_text(one["name"]),
        one["handle"] + waited,
        str(one["attempt"]),
        one["outcome"] + why,
        one["delivery"],
        ", ".join(outputs) or "-",
    )
