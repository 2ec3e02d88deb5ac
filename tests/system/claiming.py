"""A process that asks for the next fair turn whenever it is told to.

Arguments: repository, config folder, state folder, name. Says `ready`, then for each line it reads
asks once with that request id (its name added) and prints what it was told, as one JSON object.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from callboard.board.board import Board, Folders, Nothing
from callboard.errors import CallboardError


def main() -> None:
    """Ask until there is nothing more to read."""
    repository, config, state, name = sys.argv[1:]
    folders = Folders(Path(config), Path(state))
    with Board.open(repository, folders, environment=os.environ, patience_s=120) as board:
        board.history()
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        for line in sys.stdin:
            try:
                outcome = board.grant(request_id=f"{line.strip()}.{name}")
            except CallboardError as error:
                answer: dict[str, object] = {"refused": error.code}
            else:
                if isinstance(outcome, Nothing):
                    answer = {"nothing": outcome.reason}
                else:
                    answer = {"claims": list(outcome.request.claims)}
            sys.stdout.write(json.dumps(answer) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
