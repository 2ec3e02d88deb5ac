"""`callboard init`: an identity for this user, and starter files for this repository.

Writes no ledger and touches nothing of Git's; files that exist are left as they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click

from callboard import files
from callboard.board.execution.principal import make_principal
from callboard.board.publishing.config import CONFIG_PATH
from callboard.board.publishing.recipe import recipe_path
from callboard.board.storage.repository import Repository
from callboard.errors import CallboardError
from callboard.surfaces.cli.chosen import Chosen, board_options, folders
from callboard.surfaces.cli.render import Block, emit

STARTER_CONFIG = """\
# How this repository's board proposes to schedule. It is read from the commit that HEAD is on, and
# it counts when the board begins: the policy then installed stays until another one is installed.

[work_queue]
# concurrency = 16                       # Claims open at once
# mode = "weighted-priority"             # or "strict-priority": urgent work may starve the rest

# Shares: each key's part of the turns while it has work.
# [work_queue.accounting_weights]
# platform = 1
# security = 1

# [work_queue.retry]
# max_attempts = 3
# backoff_seconds = 30
"""

STARTER_WORKER = """\
# The worker "default": what runs for a task. Each run has a clone of its own at this commit, and
# its tasks in the JSON file that CALLBOARD_ASSIGNMENT names.

# "worker exec" stages the task as completed when the command exits with 0, else as cancelled.
command = ["callboard", "worker", "exec", "--", "git", "log", "-1", "--oneline"]
timeout_s = 600
# max_claims = 1                         # tasks that may share a run
# env = ["LANG"]                         # variables that pass to the run
# setup = ["make", "setup"]              # runs first
# outputs = ["artifact", "patch"]        # what a task may deliver
"""


@click.command()
@board_options
@click.pass_context
def init(context: click.Context) -> None:
    """Prepare this user and this repository; commit what it writes."""
    chosen = context.ensure_object(Chosen)
    with Repository.discover(chosen.folder) as repository:
        root = repository.work_tree
    principal, made = make_principal(folders().config)
    written, kept = _write_starters(root) if root is not None else ([], [])
    document = {
        "principal": principal,
        "principal_made": made,
        "work_tree": None if root is None else str(root),
        "written": written,
        "kept": kept,
    }

    def text() -> Iterator[Block]:
        yield f"{'made' if made else 'found'} your identity: {principal}"
        for path in written:
            yield f"wrote {path}"
        for path in kept:
            yield f"kept {path}"
        if root is None:
            yield "a bare repository has no files to write: commit recipes from a clone of it"
        elif written:
            yield f"next: git add {' '.join(written)} && git commit -m 'Set up the board'"
            yield "then: callboard submit PLAN"
        else:
            yield "next: callboard submit PLAN"

    emit(context, document, text)


def _write_starters(root: Path) -> tuple[list[str], list[str]]:
    written: list[str] = []
    kept: list[str] = []
    starters = {CONFIG_PATH: STARTER_CONFIG, recipe_path("default"): STARTER_WORKER}
    for path, content in starters.items():
        folder = _own_folder(root, (root / path).parent)
        folder.mkdir(parents=True, exist_ok=True)
        try:
            files.publish(root / path, content.encode(), replace=False)
        except FileExistsError:
            kept.append(path)
        else:
            written.append(path)
    return written, kept


def _own_folder(root: Path, folder: Path) -> Path:
    """The folder, unless a link leads out of the work tree on the way to it."""
    if not folder.resolve().is_relative_to(root.resolve()):
        raise CallboardError(
            "path_invalid",
            f"{str(folder.relative_to(root))!r} leads out of the work tree",
            "replace the link by a folder",
        )
    return folder
