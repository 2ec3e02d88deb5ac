"""`callboard whoami`: the acting principal, the folders, and the board it would act on.

Reading only; it works outside a repository too, where there is no board to name.
"""

from __future__ import annotations

from collections.abc import Iterator

import click

from callboard.board.board import Board
from callboard.board.execution.principal import read_principal
from callboard.errors import CallboardError
from callboard.surfaces.cli.chosen import Chosen, board_options, folders
from callboard.surfaces.cli.render import Block, emit


@click.command()
@board_options
@click.pass_context
def whoami(context: click.Context) -> None:
    """Say who you are on the board, and where it is."""
    chosen = context.ensure_object(Chosen)
    places = folders()
    document: dict[str, object] = {
        "principal": read_principal(places.config),
        "config_folder": str(places.config),
        "state_folder": str(places.state),
        **_board(chosen),
    }

    def text() -> Iterator[Block]:
        principal = document["principal"]
        yield f"principal   {principal or 'none yet: callboard init'}"
        yield f"repository  {document['repository'] or 'none here'}"
        if document["branch"]:
            state = "" if document["tip"] else "  (no history yet)"
            remote = f" of the remote {document['remote']}" if document["remote"] else ""
            yield f"board       branch {document['branch']}{remote}{state}"
        yield f"config      {document['config_folder']}"
        yield f"state       {document['state_folder']}"

    emit(context, document, text)


def _board(chosen: Chosen) -> dict[str, object]:
    try:
        board: Board = chosen.open_board()
    except CallboardError as error:
        if error.code != "repository_missing":
            raise
        return {"repository": None, "branch": None, "remote": None, "tip": None}
    with board:
        return {
            "repository": board.site.name,
            "branch": board.site.branch,
            "remote": board.site.place().get("remote"),
            "tip": board.history().projection.tip,
        }
