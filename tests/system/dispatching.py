"""A process of the system tests, started as a program: a dispatcher, or a tour of all commands.

Arguments: the verb, repository, config folder, state folder, workers. `run` ends when idle, `serve`
when it is told to, `dispatch` at once; `tour` writes in every way there is. Prints one JSON object.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from pathlib import Path

from callboard.board.board import Board, Folders
from callboard.board.execution.run_events import RunEvent
from callboard.board.publishing.plan import parse_plan
from callboard.errors import CallboardError


def tour(board: Board, journal: str) -> dict[str, object]:
    """Every kind of write that a person can ask for, runs included."""
    payload = {"journal": journal}
    contract = {"artifact": 1, "patch": 1}
    nodes = [
        {"key": "task", "payload": payload, "contract": contract},
        {"key": "second", "payload": payload, "after": ["task"]},
        {"key": "unwanted", "payload": payload, "after": ["second"]},
    ]
    for what in ("before", "after"):
        if what == "before":
            board.submit(parse_plan({"graph": "tour", "nodes": nodes}), request_id="tour")
        board.set_paused("admission", True, reason=what)
        board.set_paused("grants", True, reason=what)
        board.set_paused("grants", False, reason=what)
        board.set_paused("admission", False, reason=what)
    unwanted = list(board.history().projection.works)[-1]
    board.cancel([unwanted], reason="not_wanted")
    board.dispatch(os.environ, board.batch())
    return _run(board, 2)


def _run(board: Board, workers: int, *, until_idle: bool = True) -> dict[str, object]:
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda _number, _frame: stop.set())
    events: list[RunEvent] = []
    summary = board.run(
        os.environ,
        pool=None,
        workers=workers,
        until_idle=until_idle,
        stop=stop,
        on_event=events.append,
    )
    return summary.document()


def main() -> None:
    """Do as asked; a refusal is printed on standard error, and the status is 1."""
    verb, repository, config, state, workers = sys.argv[1:]
    folders = Folders(Path(config), Path(state))
    try:
        with Board.open(repository, folders, environment=os.environ) as board:
            if verb == "dispatch":
                answer = board.dispatch(os.environ, board.batch(max_dispatches=int(workers)))
                for refusal in answer.troubles.values():
                    raise refusal
                launches = [[one.dispatch_id, one.status] for one in answer.launches]
                document: dict[str, object] = {"launches": launches}
            elif verb == "tour":
                document = tour(board, str(folders.state.parent / "journal"))
            else:
                document = _run(board, int(workers), until_idle=verb == "run")
    except CallboardError as error:
        sys.exit(str(error))
    sys.stdout.write(json.dumps(document) + "\n")


if __name__ == "__main__":
    main()
