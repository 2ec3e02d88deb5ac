"""Board: what surfaces and users call.

It puts the parts together for one repository: settings and recipes from a commit, the publisher,
the host. Rules live below it; rendering lives above it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from callboard.board.execution.carriage import Carriage
from callboard.board.execution.checkout import POST, next_step
from callboard.board.execution.host import Host
from callboard.board.execution.principal import read_principal
from callboard.board.execution.routes import Routes
from callboard.board.execution.site import Folders, Site
from callboard.board.execution.whereabouts import refuse_elsewhere, whereabouts
from callboard.board.ledger.history import History
from callboard.board.protocol import commit as wire
from callboard.board.protocol.policy import CEILINGS, PolicyDocument
from callboard.board.publishing import lifecycle
from callboard.board.publishing.bootstrap import default_pool
from callboard.board.publishing.config import Settings
from callboard.board.publishing.intents import DispatchNext, Nothing, Submit
from callboard.board.publishing.plan import Plan
from callboard.board.publishing.proposal import Proposal
from callboard.board.publishing.publisher import DEFAULT_PATIENCE_S, Accepted
from callboard.board.publishing.recipe import Recipe
from callboard.board.publishing.request_ids import (
    check_reason,
    checked_request_id,
    new_request_id,
    numbered,
)
from callboard.board.publishing.submission import rehearse, split_plan, whole
from callboard.board.reading import receipts
from callboard.board.reading.differences import differences
from callboard.board.reading.pauses import CONTROLS, Pause
from callboard.board.reading.view import Document, View, no_history
from callboard.board.storage.framing import MAX_LEDGER_BYTES
from callboard.board.storage.git import LEDGER_FILE
from callboard.board.storage.repository import Repository
from callboard.clock import Clock
from callboard.errors import CallboardError

if TYPE_CHECKING:
    from callboard.board.execution.run_events import RunEvent
    from callboard.board.execution.runner import DispatchAnswer, RunSummary

__all__ = ["Accepted", "Board", "Folders", "Nothing", "Pause", "new_request_id"]


@dataclass(frozen=True, slots=True)
class Part:
    """One request of a submission: its id and the answer."""

    request_id: str
    outcome: Accepted | Nothing


class Board:
    """One repository's board. Close it, or use it as a context."""

    def __init__(self, site: Site, environment: Mapping[str, str] | None = None) -> None:
        self.site = site
        self._environment = environment

    @classmethod
    def open(
        cls,
        path: str | Path,
        folders: Folders,
        *,
        branch: str | None = None,
        remote: str | None = None,
        environment: Mapping[str, str] | None = None,
        offline: bool = False,
        clock: Clock | None = None,
        patience_s: float = DEFAULT_PATIENCE_S,
    ) -> Board:
        """The board of the repository around `path`; branch and remote are those of the settings.

        A board on a remote is reached by the user's `git` in `environment`, without which that has
        no home and no credentials. `offline`: only what was read of it before is shown. Raises
        `repository_missing`, `config_invalid`, `queue_branch_refused`, `remote_invalid` or
        `git_missing`.
        """
        repository = Repository.discover(path)
        access, branch = whereabouts(repository, branch, remote, environment or {}, offline=offline)
        principal = read_principal(folders.config)
        site = Site(
            repository,
            branch,
            folders,
            principal,
            remote=access,
            clock=clock,
            patience_s=patience_s,
        )
        return cls(site, environment)

    def __enter__(self) -> Board:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of files."""
        self.site.close()

    # --- what the repository proposes ----------------------------------------------------------

    def settings(self) -> Settings:
        """The settings in HEAD's commit; without any commit, the default ones."""
        commit = self.site.repository.head_commit()
        return Settings() if commit is None else Proposal(self.site.repository, commit).settings

    def recipes(self, commit: str) -> dict[str, Recipe]:
        """The worker recipes of a commit by name; see `Proposal.recipes`."""
        return Proposal(self.site.repository, commit).recipes

    def propose_policy(self) -> PolicyDocument:
        """The policy that HEAD's settings and recipes would install; see `Proposal.policy`."""
        return self._policy_of(self._head())

    def _first_policy(self, carriage: Carriage) -> PolicyDocument:
        """The policy of a new board, once every machine that works on it could have its workers."""
        proposal = self._head()
        carriage.check_pushed(proposal.revision)
        return self._policy_of(proposal)

    def _policy_of(self, proposal: Proposal) -> PolicyDocument:
        try:
            return proposal.policy(self.site.name)
        except CallboardError as error:
            if error.code == "worker_missing" and (step := self.next_step()) != POST:
                error.hint = step
            raise

    def _head(self) -> Proposal:
        commit = self.site.repository.head_commit()
        if commit is None:
            raise CallboardError(
                "head_unborn",
                "the repository has no commit yet, so no worker recipe can be pinned",
                self.next_step(),
            )
        return Proposal(self.site.repository, commit)

    @property
    def host(self) -> Host:
        """What this host can tell of runs: folders, reports, supervisors that are gone."""
        return Host(self.site)

    def next_step(self) -> str:
        """What to type before a first plan can be posted, or to post it."""
        return next_step(self.site.repository)

    # --- reading -------------------------------------------------------------------------------

    def history(self) -> History:
        """The validated history at the present tip. Where there is none yet, the repository's
        remotes are asked once for the board."""
        history = self.site.publisher.refresh()
        if history.projection.tip is None and self.site.remote is None and self._environment:
            refuse_elsewhere(self.site.repository, self.site.branch, self._environment)
            self._environment = None
        return history

    def ledger_bytes(self) -> bytes:
        """The ledger's bytes as the branch has them, whole or not, for who looks into a damage.

        Raises `queue_missing` where there is no branch, `ledger_invalid` where it has no ledger.
        """
        revision = self.site.store.fetched()
        if revision is None:
            raise no_history()
        data = self.site.repository.read_file(revision, LEDGER_FILE, MAX_LEDGER_BYTES)
        if data is None:
            return self.site.store.read().data
        return data

    def view(self) -> View:
        """The present tip at the present time, for the read models in `board.reading`."""
        history = self.history()
        at_ms = self.site.publisher.decision_time(history.projection)
        return View(history, at_ms, "snapshot" if self.site.is_offline else "live")

    def policy_check(self) -> Document:
        """What HEAD's settings and recipes would install, and how that differs from what is.

        `{installed_epoch, proposed, differences, without_effect}`; before the first submission
        `installed_epoch` is None and there is nothing to differ from.
        """
        head = self._head()
        proposed = msgspec.to_builtins(self._policy_of(head))
        view = self.view()
        found: list[Document] = []
        if view.projection.tip is not None:
            found = differences(msgspec.to_builtins(view.projection.policy), proposed)
        return {
            **view.stamp(),
            "installed_epoch": view.projection.policy_epoch,
            "revision": head.revision,
            "proposed": proposed,
            "differences": found,
            "without_effect": head.without_effect(),
        }

    # --- changing ------------------------------------------------------------------------------

    def submit(
        self, plan: Plan, *, request_id: str | None = None, split: bool = False
    ) -> list[Part]:
        """Post a plan, whole, or with `split` in requests `<id>.<k>` of at most 255 nodes.

        The parts of a split plan are rehearsed together first, so that a plan that would be
        refused in a later part leaves nothing behind.
        """
        identity = self._begin(request_id)
        self._head()
        self.history()
        actor = self.site.actor("producer")
        portions = split_plan(plan, identity) if split else [whole(plan, identity)]
        carriage = Carriage(self.site)
        routes = Routes(
            self.site.repository, lenient=len(portions) > 1, bring=carriage.bring_commit
        )
        intents = [
            Submit(
                portion.request_id,
                actor,
                portion.plan,
                partial(self._first_policy, carriage),
                partial(routes.check, places=portion.places),
            )
            for portion in portions
        ]
        publish = self.site.publisher.publish
        try:
            if len(intents) > 1:
                rehearse(intents, self.history().data, self.site.clock)
                routes.close()
            return [Part(intent.request_id, publish(intent)) for intent in intents]
        except CallboardError as error:
            if error.code == "plan_invalid":
                error.hint = self._hint_of_newer_workers(plan) or error.hint
            raise

    def _hint_of_newer_workers(self, plan: Plan) -> str | None:
        """What to say of a worker that the board does not have and HEAD does."""
        projection = self.history().projection
        if projection.tip is None:
            return None
        newer = self._head().newer_worker(plan, projection.policy)
        if newer is None:
            return None
        return (
            f"{newer}.toml is newer than this board, which keeps the workers of its first "
            "commit; a new branch is a new board: callboard --branch NAME submit PLAN"
        )

    def grant(
        self,
        *,
        pool: str | None = None,
        max_claims: int = 1,
        max_dispatches: int = 1,
        max_bytes: int = CEILINGS.assignment_bytes,
        request_id: str | None = None,
    ) -> Accepted | Nothing:
        """Ask for the next fair batch; nothing is launched yet."""
        intent = self._next(request_id, pool, max_claims, max_dispatches, max_bytes)
        return self.site.publisher.publish(intent)

    def dispatch(
        self,
        environment: Mapping[str, str],
        *,
        pool: str | None = None,
        max_claims: int = 1,
        max_dispatches: int = 1,
        max_bytes: int = CEILINGS.assignment_bytes,
        request_id: str | None = None,
    ) -> DispatchAnswer:
        """Grant the next fair batch and launch its runs; `environment` is what they inherit from.

        Raises what granting and launching refuse; a grant whose launch failed stands, and the
        next `run` goes on with it.
        """
        from callboard.board.execution import runner

        intent = self._next(request_id, pool, max_claims, max_dispatches, max_bytes)
        return runner.dispatch(self.site, environment, intent)

    def _next(
        self,
        request_id: str | None,
        pool: str | None,
        max_claims: int,
        max_dispatches: int,
        max_bytes: int,
    ) -> DispatchNext:
        identity = self._begin(request_id)
        parameters = wire.DispatchNextParameters(
            pool=self.pool_name(pool),
            max_claims=max_claims,
            max_dispatches=max_dispatches,
            max_bytes=max_bytes,
        )
        return DispatchNext(identity, self.site.actor("dispatcher"), parameters)

    def run(
        self,
        environment: Mapping[str, str],
        *,
        pool: str | None,
        workers: int,
        until_idle: bool,
        stop: threading.Event,
        on_event: Callable[[RunEvent], None],
        request_id: str | None = None,
    ) -> RunSummary:
        """Be a dispatcher until `stop` is set or, with `until_idle`, nothing is left to move.

        Its grants are requests `<request_id>.1`, `.2` and so on, behind those that stand already.
        """
        from callboard.board.execution import runner

        stem = self._begin(request_id)
        names = numbered(stem, lambda: self.history().projection.requests)
        if pool is not None:
            self.pool_name(pool)
        return runner.run(
            self.site,
            environment,
            pool=pool,
            workers=workers,
            until_idle=until_idle,
            stop=stop,
            on_event=on_event,
            new_request_id=new_request_id if request_id is None else names,
        )

    def receipt(self, outcome: Accepted | Nothing, *, request_id: str) -> Document:
        """What became of a request, by now (§7.13); `replayed` where it had stood before."""
        view = self.view()
        if isinstance(outcome, Nothing):
            return receipts.no_write(view, request_id, outcome.reason, outcome.details)
        return {**receipts.receipt(view, outcome.request), "replayed": outcome.replayed}

    def pool_name(self, asked: str | None) -> str:
        """The pool asked for, else `default`, else the only one."""
        pools = self.history().projection.policy.pools
        if asked is not None:
            self.history().projection.pool(asked)
            return asked
        name = default_pool(pools)
        if name is None:
            raise CallboardError(
                "pool_required",
                f"the board has {len(pools)} pools",
                "name one: --pool " + "|".join(sorted(pools)),
            )
        return name

    def cancel(
        self, work_ids: list[str], *, reason: str, request_id: str | None = None
    ) -> Accepted | Nothing:
        """End Work for good; its successors stay blocked until they are cancelled too."""
        identity = self._begin(request_id)
        check_reason(reason)
        actor = self.site.actor("producer")
        return self.site.publisher.publish(lifecycle.cancel_work(identity, work_ids, reason, actor))

    def set_paused(
        self, what: Pause, paused: bool, *, reason: str, request_id: str | None = None
    ) -> Accepted | Nothing:
        """Pause or resume the admission of Work or the granting of Claims."""
        identity = self._begin(request_id)
        check_reason(reason)
        actor = self.site.actor("administrator")
        return self.site.publisher.publish(
            lifecycle.control(identity, CONTROLS[what], paused, reason, actor)
        )

    def _begin(self, request_id: str | None) -> str:
        """Where every change begins: whether it may write here, and the id it goes by."""
        self.site.store.check_writable()
        return checked_request_id(request_id)
