"""What the agent of a run is started with, beside its assignment: context, snapshot, tools.

Only a recipe that asks for the tools gets a snapshot: otherwise a run costs nothing in proportion
to the board.
"""

from __future__ import annotations

from callboard.board.execution.activation_files import (
    CLIENT_VARIABLE,
    ActivationFiles,
)
from callboard.board.execution.hosts.local.run_folder import RunFolder
from callboard.board.execution.site import Site
from callboard.board.outputs.context import CONTEXT_VARIABLE
from callboard.board.protocol.commit import Assignment
from callboard.board.reading.activation import Viewer
from callboard.board.reading.view import View
from callboard.validate import is_text


def put_agent_files(
    folder: RunFolder, site: Site, assignment: Assignment, *, with_tools: bool
) -> None:
    """Write the files of one run. Raises `OSError`, and with tools `invalid_unicode` where the
    folder's own name is no text."""
    files = ActivationFiles(folder.root)
    viewer = Viewer("worker", members={one.handle: one.work_id for one in assignment.claims})
    if with_tools:
        history = site.publisher.known()
        at_ms = site.publisher.decision_time(history.projection)
        files.put_snapshot(View(history, at_ms, "snapshot"), viewer)
        files.put_client([str(folder.command)])
    if with_tools or _is_told(folder):
        files.put(
            viewer, staging=folder.staging, assignment=folder.assignment, work_tree=folder.work
        )


def agent_variables(folder: RunFolder, *, with_tools: bool) -> dict[str, str]:
    """What the run's commands are told of these files."""
    files = ActivationFiles(folder.root)
    return {
        **({CONTEXT_VARIABLE: str(files.context)} if with_tools or _is_told(folder) else {}),
        **({CLIENT_VARIABLE: str(files.client)} if with_tools else {}),
    }


def _is_told(folder: RunFolder) -> bool:
    """Whether the context can name its paths; a run without tools does without where it cannot."""
    return is_text(str(folder.root))
