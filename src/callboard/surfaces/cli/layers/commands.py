"""`callboard layers …`: a goal that splits into child goals. The group of all its commands.

Modules part them by what they are about; nothing of the layers is imported before one is called.
"""

from __future__ import annotations

import click

from callboard.surfaces.cli.layers.attempts import control, dispatch, evaluate
from callboard.surfaces.cli.layers.children import accept, outcomes, requests
from callboard.surfaces.cli.layers.events import events
from callboard.surfaces.cli.layers.running import run
from callboard.surfaces.cli.layers.starting import init, start
from callboard.surfaces.cli.layers.traces import traces
from callboard.surfaces.cli.layers.trees import check, next_, status, stop, update


class InOrder(click.Group):
    """A group that lists its commands in the order in which a person meets them."""

    def list_commands(self, _context: click.Context) -> list[str]:
        return list(self.commands)


@click.group(cls=InOrder)
def layers() -> None:
    """Goals within goals: a layer keeps one goal, and child layers deliver its parts.

    Everything is in the repository's .callboard folder: workflow_sets is yours and belongs into
    Git, layers is kept out of it. Any agent's command line can play the roles. The last three
    commands are for those agents; they speak for the attempt of --assignment alone.
    """


for _command in (
    *(init, start, run, status, next_, update, stop, check, events, traces),
    *(requests, outcomes, accept, dispatch, evaluate, control),
):
    layers.add_command(_command)
