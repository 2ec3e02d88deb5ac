"""The local host in another process: what two processes of one machine share is their registry.

Each call is carried out over there, by a host that is opened for it alone and knows nothing else.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TypeVar

from callboard.board.board import Board, Folders
from callboard.board.execution.host import (
    CancelAnswer,
    LaunchAnswer,
    Log,
    Order,
    RuledOut,
    RunFacts,
    Sighting,
)
from callboard.board.execution.hosts.local.host import LocalHost, reap
from callboard.board.protocol.policy import Profile

T = TypeVar("T")


def called(path: Path, folders: Folders, method: str, *given: Any, **named: Any) -> Any:
    """What a fresh host answers."""
    with Board.open(path, folders, environment=os.environ) as board:
        answer = getattr(LocalHost(board.site, os.environ), method)(*given, **named)
    reap()
    return answer


class HostElsewhere:
    """The host of the repository at `path`, asked through a process of its own."""

    def __init__(self, path: Path, folders: Folders) -> None:
        self._where = path, folders
        self._process = ProcessPoolExecutor(1, mp_context=get_context("spawn"))

    def close(self) -> None:
        """End that process."""
        self._process.shutdown()

    def _ask(self, answer: Callable[..., T], *given: Any, **named: Any) -> T:
        future = self._process.submit(called, *self._where, answer.__name__, *given, **named)
        found: T = future.result(timeout=60)
        return found

    def resolve(self, profile: Profile) -> str:
        return self._ask(LocalHost.resolve, profile)

    def launch(self, order: Order) -> LaunchAnswer:
        return self._ask(LocalHost.launch, order)

    def find(self, order: Order) -> Sighting:
        return self._ask(LocalHost.find, order)

    def inspect(self, order: Order, run_id: str) -> RunFacts:
        return self._ask(LocalHost.inspect, order, run_id)

    def rule_out(self, order: Order) -> RuledOut:
        return self._ask(LocalHost.rule_out, order)

    def cancel(self, order: Order, run_id: str) -> CancelAnswer:
        return self._ask(LocalHost.cancel, order, run_id)

    def logs(self, run_id: str, *, limit_bytes: int) -> tuple[Log, ...]:
        return self._ask(LocalHost.logs, run_id, limit_bytes=limit_bytes)
