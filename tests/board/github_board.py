"""A board whose worker is a GitHub workflow, with one of everything that can happen on it."""

from __future__ import annotations

from typing import Any

from msgspec import structs

from callboard.board.protocol import operations as ops
from tests.board import building as make
from tests.board.boards import Board
from tests.board.building import SENDER, ResourceKind, work

WORKFLOW = ".github/workflows/x.lock.yml"


def on_github(number: int, kind: ResourceKind = "issue", **changes: Any) -> ops.Resource:
    """A resource with ids as GitHub gives them: decimals."""
    made = make.resource(number, kind, repository_id="501", resource_id=str(9000 + number))
    return structs.replace(made, **changes)


def github_board() -> Board:
    """Work that is verified, given up, cancelled and still open, with a gate and every control."""
    document = make.with_pool(profiles={"default": make.profile(workflow=WORKFLOW)})
    gate = ops.IssueDependency(resource=on_github(7), condition="completed")
    board = Board([work("a"), work("b", after=["a"]), work("c", gates=[gate]), work("d")], document)
    board.grant()
    board.bind("a")
    board.finish("a")
    board.verify("a")
    board.release(board.group("a"), "terminal_run", source="github_api", conclusion="success")
    board.control("credential_generation", "second")
    board.control("admission_paused", True)
    board.control("admission_paused", False)
    seen = make.observation("o1", gate, board.at, credential_generation="second")
    board.observe(
        make.observation(
            "o0", gate, board.at, credential_generation="second", state="unknown",
            read_status="timeout",
        )
    )  # fmt: skip
    board.pass_ms(5)
    board.grant(3, observations=[seen])
    board.bind("d")
    board.finish("d")
    ended = board.evidence(board.group("d"), "terminal_run", source="github_api", attempts=5)
    board.fail_delivery("d", evidence=ended)
    group = board.group("b")
    board.dispatch(group, "started", SENDER, sender=SENDER, credential_principal="7")
    board.dispatch(group, "uncertain", reason="timeout")
    board.cancel_claim("c")
    board.cancel_work("c")
    return board
