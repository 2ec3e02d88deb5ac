"""Which project a command is about, and who says that they ask.

Both are only taken as they are said: whoever can write to the project's folder can be anybody.
"""

from __future__ import annotations

import os
from pathlib import Path

import click

from callboard.project.asking import Caller
from callboard.project.surroundings import project_at_or_above
from callboard.surfaces.cli.chosen import Chosen

AGENT_VARIABLE = "CALLBOARD_AGENT"


def caller_of(context: click.Context, *, agent: str | None = None, is_new: bool = False) -> Caller:
    """Who asks, and for which folder. `is_new`: it may have no project yet, so none is looked for.

    `agent` is what was declared for this call; without it the environment says.
    """
    chosen = context.ensure_object(Chosen)
    for name in ("branch", "remote", "offline"):
        if getattr(chosen, name):
            raise click.UsageError(
                f"--{name} before the verb chooses a board, and a project needs none; "
                "a work branch is named after the verb.",
                context,
            )
    declared = agent or os.environ.get(AGENT_VARIABLE) or None
    return Caller(_folder(chosen, is_new=is_new), declared)


def _folder(chosen: Chosen, *, is_new: bool) -> Path:
    here = Path(chosen.folder)
    if is_new or chosen.repo or os.environ.get("CALLBOARD_REPO"):
        return here
    return project_at_or_above(Path.cwd()) or here
