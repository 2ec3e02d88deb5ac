"""A board as its users have it: a real repository, the façade, and a clock for each of them.

It posts, grants and reads through `Board`, and knows nothing of how any of it is decided.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from callboard.board.board import Accepted, Board, Folders, Nothing
from callboard.board.execution.principal import make_principal
from callboard.board.projection.entities import WorkState
from callboard.board.projection.state import Projection
from callboard.board.publishing.plan import parse_plan
from callboard.clock import FixedClock
from tests.repositories import git

NOW_MS = 1_700_000_000_000
RECIPE = 'command = ["true"]\n'


class Desk:
    """One repository and its users, made as they are named."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.folder = root / "repository"
        self._open: list[Board] = []
        self._boards: dict[str, Board] = {}
        self._clocks: dict[str, FixedClock] = {}
        (self.folder / ".callboard" / "workers").mkdir(parents=True)
        git("init", "-q", "-b", "main", cwd=self.folder)
        self.commit(default=RECIPE)

    def close(self) -> None:
        """Let go of the repository."""
        for board in self._open:
            board.close()

    # --- the repository ------------------------------------------------------------------------

    def commit(self, config: str | None = None, **recipes: str) -> str:
        """Commit settings and recipes; answers HEAD."""
        folder = self.folder / ".callboard"
        if config is not None:
            (folder / "config.toml").write_text(config)
        for name, text in recipes.items():
            (folder / "workers" / f"{name}.toml").write_text(text)
        git("add", "-A", cwd=self.folder)
        git("commit", "-q", "--allow-empty", "-m", "settings", cwd=self.folder)
        return git("rev-parse", "HEAD", cwd=self.folder)

    @property
    def tip(self) -> str:
        """The revision of the board's branch, or nothing."""
        return git("rev-parse", "-q", "--verify", "work-queue", cwd=self.folder, check=False)

    @property
    def data(self) -> bytes:
        """The ledger, as Git shows it."""
        return git("show", "work-queue:work-queue.jsonl", cwd=self.folder).encode() + b"\n"

    # --- its users -----------------------------------------------------------------------------

    def board(self, user: str = "one") -> Board:
        """The board as that user has it open."""
        if user not in self._boards:
            folders = Folders(self.root / user / "config", self.root / user / "state")
            make_principal(folders.config)
            self._clocks[user] = FixedClock(NOW_MS)
            self._boards[user] = Board.open(self.folder, folders, clock=self._clocks[user])
            self._open.append(self._boards[user])
        return self._boards[user]

    def pass_ms(self, duration_ms: int, user: str = "one") -> None:
        """Move that user's clock, which may go backwards."""
        self.board(user)
        self._clocks[user].advance(duration_ms)

    def post(
        self, *nodes: str | Mapping[str, Any], user: str = "one", request_id: str | None = None
    ) -> Accepted | Nothing:
        """Post nodes of the graph g, by key or in full."""
        full = [{"payload": {}, **({"key": one} if isinstance(one, str) else one)} for one in nodes]
        plan = parse_plan({"graph": "g", "nodes": full})
        (part,) = self.board(user).submit(plan, request_id=request_id)
        return part.outcome

    def grant(
        self, claims: int = 1, *, dispatches: int = 256, user: str = "one", **more: Any
    ) -> list[str]:
        """The node keys of the next fair batch, in the order of their Claims."""
        found = self.board(user).grant(max_claims=claims, max_dispatches=dispatches, **more)
        assert isinstance(found, Accepted), found
        projection = self.projection
        works = [projection.claims[one].claim.work_id for one in found.request.claims]
        return [projection.works[one].work.node_key for one in works]

    def nothing(self, claims: int = 1, *, dispatches: int = 256) -> Nothing:
        """Why nothing can be granted, which writes nothing."""
        before = self.tip
        found = self.board().grant(max_claims=claims, max_dispatches=dispatches)
        assert isinstance(found, Nothing), found
        assert self.tip == before
        return found

    # --- what stands ---------------------------------------------------------------------------

    @property
    def projection(self) -> Projection:
        """The state that the ledger means."""
        return self.board().history().projection

    def work(self, key: str) -> WorkState:
        """The node of that key."""
        works = self.projection.works.values()
        return next(state for state in works if state.work.node_key == key)

    def cancel(self, *keys: str) -> None:
        """End nodes for good."""
        self.board().cancel([self.work(key).work.work_id for key in keys], reason="not_needed")
