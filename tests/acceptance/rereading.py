"""A ledger read anew, as a process reads it that was not there when it was written."""

from __future__ import annotations

from callboard.board.ledger.history import History
from tests.board.boards import Board
from tests.board.building import line_of


def begun(board: Board, commits: int | None = None) -> bytes:
    """The lines of the first so many commits, or of all."""
    return b"".join(line_of(one) for one in board.commits[:commits])


def reread(board: Board, commits: int | None = None) -> Board:
    """Another board that knows the first so many commits by reading them, and goes on."""
    again = Board()
    again.projection = History.read(begun(board, commits)).projection
    again.at, again._names = board.at, board._names
    return again
