"""`callboard init`: an identity for this user, and starter files for this repository.

Writes no ledger and touches nothing of Git's; files that exist are left as they are.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import click

from callboard import files
from callboard.board.execution.principal import make_principal
from callboard.board.publishing.config import CONFIG_PATH, read_settings
from callboard.board.publishing.recipe import recipe_path
from callboard.board.storage.git import check_branch
from callboard.board.storage.repository import Repository
from callboard.board.storage.transport import check_remote_name
from callboard.errors import CallboardError
from callboard.surfaces.cli.chosen import Chosen, board_options, folders
from callboard.surfaces.cli.render import Block, Hint, emit

STARTER_CONFIG = """\
# How this repository's board proposes to schedule. It is read from the commit that HEAD is on, and
# it counts when the board begins, and from `callboard policy install --from-config` on.

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

# How long outputs and launches that nothing is heard of are looked for.
# [work_queue.reconciliation]
# max_attempts = 5
# deadline_seconds = 300
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
    """Prepare this user and this repository; commit what it writes.

    With --branch NAME the settings file that it writes names that branch, with --remote NAME that
    remote.
    """
    chosen = context.ensure_object(Chosen)
    if chosen.branch is not None:
        check_branch(chosen.branch)
    if chosen.remote is not None:
        check_remote_name(chosen.remote)
    with Repository.discover(chosen.folder) as repository:
        root = repository.work_tree
        principal, made = make_principal(folders().config)
        written, kept = _write_starters(root, chosen) if root is not None else ([], [])
        uncommitted = [path for path in (*written, *kept) if not _in_head(repository, path)]
    document = {
        "principal": principal,
        "principal_made": made,
        "work_tree": None if root is None else str(root),
        "written": written,
        "kept": kept,
        "uncommitted": uncommitted,
    }

    def text() -> Iterator[Block]:
        yield f"{'made' if made else 'found'} your identity: {principal}"
        for path in written:
            yield f"wrote {path}"
        for path in kept:
            yield f"kept {path}"
        if chosen.branch and CONFIG_PATH in kept:
            yield f"the branch in it stays; for another one: branch = {_toml(chosen.branch)}"
        if chosen.remote and CONFIG_PATH in kept:
            yield f"its remote stays, too; for another one: remote = {_toml(chosen.remote)}"
        if root is None:
            yield "a bare repository has no files to write: commit recipes from a clone of it"
        elif uncommitted:
            yield Hint(f"git add {' '.join(uncommitted)} && git commit -m 'Set up the board'")
            yield Hint("callboard submit PLAN", "then: ")
        else:
            yield Hint("callboard submit PLAN")

    emit(context, document, text)


def _in_head(repository: Repository, path: str) -> bool:
    commit = repository.head_commit()
    return commit is not None and repository.entry(commit, path) is not None


def _toml(text: str) -> str:
    """A TOML string; JSON's escapes are TOML's."""
    return json.dumps(text, ensure_ascii=False)


def _write_starters(root: Path, chosen: Chosen) -> tuple[list[str], list[str]]:
    written: list[str] = []
    kept: list[str] = []
    named = {"branch": chosen.branch, "remote": chosen.remote}
    lines = [f"{name} = {_toml(value)}\n" for name, value in named.items() if value is not None]
    board = "\n[board]\n" + "".join(lines) if lines else ""
    read_settings((STARTER_CONFIG + board).encode("utf-8", "surrogateescape"))
    starters = {CONFIG_PATH: STARTER_CONFIG + board, recipe_path("default"): STARTER_WORKER}
    # All of them before the first one is written.
    for path in starters:
        _check_place(root, path)
    for path, content in starters.items():
        try:
            # Here too, an error is the system's: what stands in the way was looked for above.
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            files.publish(root / path, content.encode(), replace=False)
        except FileExistsError:
            kept.append(path)
        except OSError as error:
            raise CallboardError(
                "storage_failed",
                f"{str(root / path)!r} cannot be written: {error.strerror or error}",
                "free space, or see to the rights of that folder, then run callboard init again",
                {"errno": error.errno},
            ) from error
        else:
            written.append(path)
    return written, kept


def _check_place(root: Path, path: str) -> None:
    """Refuse where something else than folders and a plain file stands at `path`."""
    folder = _own_folder(root, (root / path).parent)
    for one in (folder.parent, folder):
        if os.path.lexists(one) and not one.is_dir():
            raise _in_the_way(one.relative_to(root), "folder")
    place = root / path
    if os.path.lexists(place) and (place.is_symlink() or not place.is_file()):
        raise _in_the_way(place.relative_to(root), "regular file")


def _in_the_way(path: Path, wanted: str) -> CallboardError:
    return CallboardError(
        "file_not_regular",
        f"{str(path)!r} stands there and is no {wanted}",
        "move it away, then run callboard init again",
    )


def _own_folder(root: Path, folder: Path) -> Path:
    """The folder, unless a link leads out of the work tree on the way to it."""
    try:
        inside = folder.resolve().is_relative_to(root.resolve())
    except (OSError, RuntimeError):
        # Links that lead in a circle lead nowhere, so not out of it: they are no folder.
        inside = True
    if not inside:
        raise CallboardError(
            "path_invalid",
            f"{str(folder.relative_to(root))!r} leads out of the work tree",
            "replace the link by a folder",
        )
    return folder
