"""Board: what surfaces and users call.

It puts the parts together for one repository: settings and recipes from a commit, the publisher,
the host. Rules live below it; rendering lives above it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec
from msgspec import UNSET

from callboard.board.execution.carriage import Carriage
from callboard.board.execution.hosts.local.witness import Witness
from callboard.board.execution.principal import read_principal
from callboard.board.execution.routes import Routes
from callboard.board.execution.site import Folders, Site
from callboard.board.execution.whereabouts import whereabouts
from callboard.board.projection.transitions.control import unsettled_names
from callboard.board.projection.transitions.deployment import route_of
from callboard.board.protocol import commit as wire
from callboard.board.protocol.policy import CEILINGS, PolicyDocument
from callboard.board.publishing import deployment
from callboard.board.publishing.bootstrap import default_pool
from callboard.board.publishing.config import BoardSettings, Settings
from callboard.board.publishing.intents import DispatchNext, Nothing, Submit
from callboard.board.publishing.plan import Plan
from callboard.board.publishing.proposal import Proposal
from callboard.board.publishing.publisher import DEFAULT_PATIENCE_S, Accepted
from callboard.board.publishing.recipe import Recipe
from callboard.board.publishing.request_ids import new_request_id, numbered
from callboard.board.publishing.submission import rehearse, split_plan, whole
from callboard.board.reading import receipts
from callboard.board.reading.differences import differences
from callboard.board.reading.pauses import Pause
from callboard.board.reading.view import Document, no_history
from callboard.board.recovering import Recovering
from callboard.board.storage.framing import MAX_LEDGER_BYTES
from callboard.board.storage.git import LEDGER_FILE
from callboard.board.storage.repository import Repository
from callboard.clock import Clock
from callboard.errors import CallboardError

if TYPE_CHECKING:
    from callboard.board.execution.dispatching import DispatchAnswer
    from callboard.board.execution.run_events import RunEvent
    from callboard.board.execution.runner import RunSummary

__all__ = ["Accepted", "Board", "Folders", "Nothing", "Pause", "new_request_id"]


@dataclass(frozen=True, slots=True)
class Part:
    """One request of a submission: its id and the answer."""

    request_id: str
    outcome: Accepted | Nothing


class Board(Recovering):
    """One repository's board. Close it, or use it as a context."""

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
        return cls(site, None if offline else environment)

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

    def _first_policy(self, carriage: Carriage) -> PolicyDocument:
        """The policy of a new board, once every machine that works on it could have its workers."""
        proposal = self._head()
        carriage.check_pushed(proposal.revision)
        return self._policy_of(proposal)

    @property
    def host(self) -> Witness:
        """What this host can tell of runs: folders, reports, supervisors that are gone."""
        return Witness(self.site)

    # --- reading -------------------------------------------------------------------------------

    def ledger_bytes(self) -> bytes:
        """The ledger's bytes as the branch has them, whole or not, for who looks into a damage.

        Raises `queue_missing` where there is no branch, `ledger_invalid` where it has no ledger.
        """
        revision = self.site.store.fetched()
        if revision is None:
            # One that is gone is refused as such.
            self.site.store.read()
            raise no_history()
        data = self.site.repository.read_file(revision, LEDGER_FILE, MAX_LEDGER_BYTES)
        if data is None:
            return self.site.store.read().data
        return data

    def workers(self) -> list[Document]:
        """`{pool, worker, ref, available, deployed}` of each worker; `deployed` where it is no
        longer as the policy brought it."""
        pools = self.history().projection.pools
        return [
            {
                "pool": pool,
                "worker": worker,
                "ref": route.current,
                "available": route.head.available,
                "deployed": not route.is_original,
            }
            for pool in sorted(pools)
            for worker, route in sorted(pools[pool].routes.items())
        ]

    def policy_check(self) -> Document:
        """What HEAD's settings and recipes would install, and how that differs from what is.

        `{revision, proposed, installed_epoch, differences, workers, unsettled, without_effect}`;
        before the first submission `installed_epoch` is None and there is nothing to differ from.
        """
        head = self._head()
        proposed = msgspec.to_builtins(self._policy_of(head))
        view = self.view()
        projection = view.projection
        found: list[Document] = []
        if projection.tip is not None:
            present = msgspec.to_builtins(deployment.present_policy(projection))
            found = differences(present, proposed)
        return {
            **view.stamp(),
            "installed_epoch": projection.policy_epoch,
            "revision": head.revision,
            "proposed": proposed,
            "differences": found,
            "workers": [
                deployment.document(projection, one) for one in deployment.survey(projection, head)
            ],
            "unsettled": unsettled_names(projection),
            "without_effect": head.without_effect(),
        }

    # --- changing ------------------------------------------------------------------------------

    def submit(
        self,
        plan: Plan,
        *,
        request_id: str | None = None,
        split: bool = False,
        role: Literal["producer", "dispatcher"] = "producer",
    ) -> list[Part]:
        """Post a plan, whole, or with `split` in requests `<id>.<k>` of at most 255 nodes.

        The parts of a split plan are rehearsed together first, so that a plan that would be
        refused in a later part leaves nothing behind.
        """
        identity = self._begin(request_id)
        self._head()
        self.history()
        actor = self.site.actor(role)
        self._follow(identity, actor)
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
            f"{newer}.toml is newer than this board's policy; once the board is at rest: "
            "callboard policy install --from-config"
        )

    def grant(
        self,
        *,
        pool: str | None = None,
        max_claims: int = 1,
        max_dispatches: int = 1,
        max_bytes: int = CEILINGS.assignment_bytes,
        workers: Collection[str] | None = None,
        request_id: str | None = None,
    ) -> Accepted | Nothing:
        """Ask for the next fair batch, of the named workers only or of all; nothing is launched
        yet."""
        asked = self.batch(pool, max_claims, max_dispatches, max_bytes, workers)
        return self.site.publisher.publish(self._next(request_id, asked))

    def dispatch(
        self,
        environment: Mapping[str, str],
        asked: wire.DispatchNextParameters,
        *,
        request_id: str | None = None,
    ) -> DispatchAnswer:
        """Grant the batch that `batch` made and launch its runs, which inherit `environment`.

        Raises what granting and launching refuse; a grant whose launch failed stands, and the
        next `run` goes on with it.
        """
        from callboard.board.execution import dispatching

        return dispatching.dispatch(self.site, environment, self._next(request_id, asked))

    def batch(
        self,
        pool: str | None = None,
        max_claims: int = 1,
        max_dispatches: int = 1,
        max_bytes: int = CEILINGS.assignment_bytes,
        workers: Collection[str] | None = None,
    ) -> wire.DispatchNextParameters:
        """What to ask of the next grant, with the pool's name found out (§7.7).

        `workers` are those that this caller may launch, None for all (§7.10): what needs another
        one waits uncharged. Raises `pool_unknown`, `pool_required` or `profile_unknown`.
        """
        name = self.pool_name(pool)
        if workers is not None:
            for worker in workers:
                route_of(self.history().projection, name, worker)
        return wire.DispatchNextParameters(
            pool=name,
            max_claims=max_claims,
            max_dispatches=max_dispatches,
            max_bytes=max_bytes,
            worker_profiles=UNSET if workers is None else sorted(set(workers)),
        )

    def _next(self, request_id: str | None, asked: wire.DispatchNextParameters) -> DispatchNext:
        identity = self._begin(request_id)
        actor = self.site.actor("dispatcher")
        self._follow(identity, actor)
        return DispatchNext(identity, actor, asked)

    def check_workers(self, names: Collection[str]) -> None:
        """Refuse a name that is no worker's: `profile_unknown`. Without a board there are none."""
        if names and self.history().projection.tip is not None:
            deployment.known_workers(self.history().projection, names)

    def kept_back(self) -> list[dict[str, object]]:
        """The workers that stay as they are though HEAD has other ones; see `Follower.kept`."""
        return self._follower.kept()

    def run(
        self,
        environment: Mapping[str, str],
        *,
        pool: str | None,
        workers: int,
        until_idle: bool,
        stop: threading.Event,
        on_event: Callable[[RunEvent], None],
        only: Collection[str] | None = None,
        request_id: str | None = None,
    ) -> RunSummary:
        """Be a dispatcher until `stop` is set or, with `until_idle`, nothing is left to move.

        It launches the workers in `only`, or all; what needs another one waits uncharged (§7.10).
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
            follow=self._follower.follow,
            only=only,
            new_request_id=new_request_id if request_id is None else names,
            checkpoint_percent=self._board_settings().checkpoint_percent,
        )

    def _board_settings(self) -> BoardSettings:
        commit = self.site.repository.head_commit()
        return BoardSettings() if commit is None else Proposal(self.site.repository, commit).board

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
