"""Boards in the states that refusals start from, shared by the tables of cases."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET

from callboard.board.protocol import commit as wire
from callboard.board.protocol import operations as ops
from callboard.board.protocol import policy as records
from tests.board import building as make
from tests.board.boards import Board
from tests.board.building import PRODUCER, work, work_id

ZEROS = "0" * 64


def one(key: str = "a", document: records.PolicyDocument | None = None, **changes: Any) -> Board:
    return Board([work(key, **changes)], document)


def granted(**changes: Any) -> Board:
    board = one(**changes)
    board.grant()
    return board


def started() -> Board:
    board = granted()
    board.start("a")
    return board


def bound() -> Board:
    board = granted()
    board.bind("a")
    return board


def completed(**changes: Any) -> Board:
    board = granted(**changes)
    board.complete("a")
    return board


def failed() -> Board:
    board = completed()
    board.fail_delivery("a")
    return board


def enrolled() -> records.PolicyDocument:
    """A policy of the older kind, which lists its one producer."""
    return make.policy(
        authorization=UNSET,
        accounting_weights={"": 1, "team": 2},
        producers={"7": records.Producer(pools=["default"], priorities=[3], fairness_keys=[""])},
        pools={"default": make.pool(profiles={"default": make.profile(principal="9")})},
    )


def submits(node: ops.Work, board: Board | None = None, actor: ops.Actor = PRODUCER) -> object:
    return (board or one()).submit([node], actor)


def first(node: ops.Work, document: records.PolicyDocument | None = None) -> object:
    return Board([node], document)


def finish_of(dispatch_id: str, handle: str) -> wire.FinishParameters:
    """A finish that completes one member."""
    return wire.FinishParameters(dispatch_id=dispatch_id, claim_handle=handle, outcome="completed")


def replacement_of(board: Board) -> ops.Replacement:
    """A replacement of the node a, only to look at it."""
    return ops.Replacement(
        work_id=work_id("a"),
        disposition="inspection",
        evidence=board.evidence(board.group("a"), "reconciliation"),
    )
