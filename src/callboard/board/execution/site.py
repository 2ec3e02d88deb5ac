"""Site: one repository's board as a process of this host works on it.

It gathers what every step of an execution needs (store, publisher, run registry, clock, identity)
and names the actors. It takes no decision and reads no environment; folders are given.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

from msgspec import UNSET, UnsetType

from callboard.board.execution.hosts.local.registry import RunRegistry
from callboard.board.ledger.past import stands_for
from callboard.board.protocol import operations as ops
from callboard.board.publishing.publisher import DEFAULT_PATIENCE_S, Publisher
from callboard.board.storage.git import GitStore
from callboard.board.storage.remote import RemoteStore
from callboard.board.storage.repository import Repository
from callboard.board.storage.transport import RemoteAccess, Transport
from callboard.board.storage.turnstile import Turnstile
from callboard.clock import Clock, SystemClock
from callboard.errors import CallboardError

_MAX_NAME = 100
DISPATCH_WORKFLOW = ".callboard/dispatch"


@dataclass(frozen=True, slots=True)
class Folders:
    """The user's folders: `config` holds the principal, `state` the run registry and runs."""

    config: Path
    state: Path


Role = Literal["administrator", "producer", "dispatcher", "worker", "reconciler"]


class Site:
    """An opened repository with its board. Close it, or use it as a context.

    The board is on a branch of the repository, or with `remote` on that of one of its remotes.
    """

    def __init__(
        self,
        repository: Repository,
        branch: str,
        folders: Folders,
        principal: str | None,
        *,
        remote: RemoteAccess | None = None,
        clock: Clock | None = None,
        patience_s: float = DEFAULT_PATIENCE_S,
    ) -> None:
        self.repository = repository
        self.branch = branch
        self.folders = folders
        self._principal = principal
        self.clock = clock or SystemClock()
        self.remote = remote
        self.transport: Transport | None = None
        self.store: GitStore
        if remote is None:
            self.store = GitStore(repository, branch, clock=self.clock, succession=stands_for)
        else:
            self.transport = Transport(repository, remote)
            self.store = RemoteStore(
                repository,
                branch,
                self.transport,
                clock=self.clock,
                succession=stands_for,
                offline=remote.offline,
            )
        turns = Turnstile(repository.common_dir / "callboard", self._board)
        self.publisher = Publisher(self.store, self.clock, patience_s=patience_s, turn=turns.turn)

    @property
    def is_offline(self) -> bool:
        """Whether only what was read of the board before is shown."""
        return self.remote is not None and self.remote.offline

    def place(self) -> dict[str, object]:
        """Where the board is: `branch`, and of one on a remote `remote` and `fetched_at_ms`, when
        this clone last saw it so; None where that is untold."""
        if self.remote is None:
            return {"branch": self.branch}
        seen_ms = self.store.seen_ms()
        return {"branch": self.branch, "remote": self.remote.name, "fetched_at_ms": seen_ms}

    @property
    def known_principal(self) -> str | None:
        """Who acts, or None for a user without an identity, who may only look."""
        return self._principal

    @property
    def principal(self) -> str:
        """Who acts, or `identity_missing`; reading needs none."""
        if self._principal is None:
            raise CallboardError(
                "identity_missing",
                "this user has no identity on the board yet",
                "make one: callboard init",
            )
        return self._principal

    @cached_property
    def registry(self) -> RunRegistry:
        """The host's run registry, opened when first needed."""
        return RunRegistry(self.folders.state)

    @property
    def _board(self) -> str:
        """Which board of the repository this is: its branch, of which remote if not here."""
        return self.branch if self.remote is None else f"{self.branch}\n{self.remote.name}"

    @property
    def key(self) -> str:
        """This board's key in the registry: its repository folder, branch and remote."""
        place = f"{self.repository.common_dir.resolve()}\n{self._board}"
        return hashlib.sha256(place.encode("utf-8", "surrogateescape")).hexdigest()

    @property
    def name(self) -> str:
        """`owner/name` of the repository: the ledger's own once it exists (wire-v3 §10)."""
        known = self.publisher.known().projection.repository
        return known or self.proposed_name

    @property
    def proposed_name(self) -> str:
        """The name a new ledger would get: from the remote, else `local/<folder>`."""
        remote = self.repository.remote_slug()
        if remote is not None:
            return remote
        folder = self.repository.work_tree or self.repository.common_dir
        stem = folder.resolve().name.removesuffix(".git")
        plain = "".join(
            char if char.isascii() and (char.isalnum() or char in "-_.") else "-" for char in stem
        )
        return f"local/{plain[:_MAX_NAME] or 'repository'}"

    def actor(self, role: Role) -> ops.Actor:
        """The acting person or process without a run of its own."""
        return ops.Actor(role=role, principal=self.principal, repository=self.name)

    def run_actor(
        self,
        role: Role,
        *,
        workflow: str,
        run_id: str,
        dispatch_id: str | UnsetType = UNSET,
        claim_handle: str | UnsetType = UNSET,
    ) -> ops.Actor:
        """The acting run, attempt 1."""
        return ops.Actor(
            role=role,
            principal=self.principal,
            repository=self.name,
            workflow=workflow,
            run_id=run_id,
            run_attempt=1,
            dispatch_id=dispatch_id,
            claim_handle=claim_handle,
        )

    def close(self) -> None:
        """Let go of files."""
        if "registry" in self.__dict__:
            self.registry.close()
        self.repository.close()
