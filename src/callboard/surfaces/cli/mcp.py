"""`callboard mcp …`: tools for one agent, over standard input and output.

On the board, what an agent may do is in the trusted context. Without any, it is an observer of the
chosen repository, which is looked at once and then closed.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from callboard.board.outputs.context import CONTEXT_VARIABLE
from callboard.board.outputs.worktree import lies_in_a_run
from callboard.board.protocol.agent_roles import AGENT_ROLES
from callboard.errors import CallboardError
from callboard.surfaces.cli.chosen import Chosen, board_options
from callboard.surfaces.cli.project.mcp import project

if TYPE_CHECKING:
    from callboard.surfaces.mcp.session import Session

# Set in every run of a worker: whoever has one of them was not started to look on.
_RUN_VARIABLES = ("CALLBOARD_ASSIGNMENT", "CALLBOARD_STAGING", "CALLBOARD_RUN_ID")


@click.group()
def mcp() -> None:
    """Serve tools to an agent over the Model Context Protocol."""


@mcp.command(short_help="Serve the board's tools over stdio.")
@click.option(
    "--context",
    metavar="FILE",
    help="The trusted context that the agent was started with (else CALLBOARD_CONTEXT).",
)
@click.option(
    "--role",
    type=click.Choice(AGENT_ROLES),
    help="Refuse to start in another role; it grants none.",
)
@board_options
@click.pass_context
def board(ctx: click.Context, context: str | None, role: str | None) -> None:
    """Serve the board's tools over standard input and output, to one agent, until it is gone.

    The role comes from the context. Without a context it is observer: the board is read once, and
    nothing can be staged. Refusals and remarks go to standard error, also with --json.
    """
    from callboard.surfaces.mcp.wire import Requests, take_standard_streams

    reading, writing = take_standard_streams()
    session = _session(ctx, context, role)
    requests = Requests(reading)
    first = requests.next()
    # Whoever closes the pipe at once does not wait for the engine to be loaded.
    if first is not None:
        from callboard.surfaces.mcp.server import run
        from callboard.surfaces.mcp.tools import BoardTools

        run(BoardTools(session), requests, first, writing)


mcp.add_command(project)


def _session(ctx: click.Context, file: str | None, role: str | None) -> Session:
    from callboard.surfaces.mcp.session import Session

    named = file if file is not None else os.environ.get(CONTEXT_VARIABLE)
    if file is None and named == "":
        raise CallboardError(
            "context_required",
            f"{CONTEXT_VARIABLE} is empty, so whoever started this agent meant it to have one",
            "name the file with --context, or unset the variable to look on",
        )
    if named is None:
        _refuse_without_context(role)
        return _observer(ctx)
    session = Session.of_context(Path(named).absolute())
    if role not in (None, session.role):
        raise CallboardError(
            "role_forbidden",
            f"the context makes this agent {session.role}, --role says {role}",
            "leave --role out; the role comes from the context alone",
        )
    return session


def _refuse_without_context(role: str | None) -> None:
    if role not in (None, "observer"):
        raise CallboardError(
            "context_required",
            f"the role {role} comes from a trusted context, and none is named",
            "let Callboard start the agent: callboard agent run",
        )
    inside = next((name for name in _RUN_VARIABLES if name in os.environ), None)
    if inside is None and lies_in_a_run(Path.cwd()):
        inside = "the folder"
    if inside is not None:
        raise CallboardError(
            "context_required",
            f"by {inside} this is the run of a worker, and {CONTEXT_VARIABLE} is not set",
            f"pass {CONTEXT_VARIABLE} on to the server, or name the file with --context",
        )


def _observer(ctx: click.Context) -> Session:
    from callboard.board.reading.activation import Viewer, activation_snapshot
    from callboard.surfaces.mcp.session import Session

    with ctx.ensure_object(Chosen).open_board() as chosen:
        # Whoever has no identity has posted nothing either.
        viewer = Viewer("observer", chosen.site.known_principal)
        return Session.observing(activation_snapshot(chosen.view(), viewer))
