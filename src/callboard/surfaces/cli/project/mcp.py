"""`callboard mcp project`: a project's operations as tools for one agent, over its two pipes."""

from __future__ import annotations

from dataclasses import replace

import click

from callboard.surfaces.cli.chosen import project_options
from callboard.surfaces.cli.project.caller import AGENT_VARIABLE, caller_of


@click.command(short_help="Serve a project's tools over stdio.")
@click.option(
    "--agent",
    metavar="TEXT",
    help=f"Who the agent is, where a call does not say (else {AGENT_VARIABLE}); nobody checks it.",
)
@click.option("--read-only", is_flag=True, help="Serve only tools that change nothing.")
@project_options
@click.pass_context
def project(ctx: click.Context, agent: str | None, read_only: bool) -> None:
    """Serve a project's tools over standard input and output, to one agent, until it is gone.

    They are the commands of callboard project. The agent is who it says it is: nobody is
    authenticated. Refusals and remarks go to standard error, also with --json.
    """
    from callboard.surfaces.mcp.wire import Requests, take_standard_streams

    reading, writing = take_standard_streams()
    caller = replace(caller_of(ctx, agent=agent), read_only=read_only)
    requests = Requests(reading)
    first = requests.next()
    # Whoever closes the pipe at once does not wait for the engine to be loaded.
    if first is not None:
        from callboard.surfaces.mcp.project import ProjectTools
        from callboard.surfaces.mcp.server import run

        run(ProjectTools(caller), requests, first, writing)
