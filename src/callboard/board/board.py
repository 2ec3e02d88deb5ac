"""Board: what surfaces and users call.

It puts the parts together for one repository: settings and recipes from a commit, the publisher,
the host. Rules live below it; rendering lives above it.
"""

from __future__ import annotations

import itertools
import secrets
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec

from callboard.board.execution.checkout import POST, next_step
from callboard.board.execution.host import Host
from callboard.board.execution.principal import read_principal
from callboard.board.execution.routes import Routes
from callboard.board.execution.site import Folders, Site
from callboard.board.ledger.history import History
from callboard.board.protocol import commit as wire
from callboard.board.protocol.policy import CEILINGS, PolicyDocument
from callboard.board.protocol.scalars import ReasonCode
from callboard.board.protocol.validate import faults_of, refuse, show
from callboard.board.publishing import lifecycle
from callboard.board.publishing.bootstrap import DEFAULT_POOL, propose_policy
from callboard.board.publishing.config import (
    CONFIG_PATH,
    MAX_CONFIG_BYTES,
    Settings,
    read_board_settings,
    read_settings,
)
from callboard.board.publishing.intents import MAX_NODES, DispatchNext, Intent, Nothing, Submit
from callboard.board.publishing.names import name_faults
from callboard.board.publishing.plan import Plan, in_order, parts_of
from callboard.board.publishing.publisher import DEFAULT_PATIENCE_S, Accepted, Publisher
from callboard.board.publishing.recipe import (
    FOLDER,
    MAX_RECIPE_BYTES,
    Recipe,
    read_recipes,
    recipe_name,
)
from callboard.board.reading import receipts
from callboard.board.reading.differences import differences
from callboard.board.reading.view import Document, View
from callboard.board.storage.framing import MAX_LEDGER_BYTES
from callboard.board.storage.memory import MemoryStore
from callboard.board.storage.repository import Repository
from callboard.clock import Clock
from callboard.errors import CallboardError

if TYPE_CHECKING:
    from callboard.board.execution.runner import DispatchAnswer, RunEvent, RunSummary

__all__ = ["Accepted", "Board", "Folders", "Nothing", "new_request_id"]

Pause = Literal["admission", "grants"]
LEDGER_FILE = "work-queue.jsonl"


def new_request_id() -> str:
    """A fresh request id: `r_` and 128 random bits in hex."""
    return "r_" + secrets.token_hex(16)


@dataclass(frozen=True, slots=True)
class Part:
    """One request of a submission: its id, its plan nodes, and the answer."""

    request_id: str
    outcome: Accepted | Nothing


class Board:
    """One repository's board. Close it, or use it as a context."""

    def __init__(self, site: Site) -> None:
        self.site = site

    @classmethod
    def open(
        cls,
        path: str | Path,
        folders: Folders,
        *,
        branch: str | None = None,
        clock: Clock | None = None,
        patience_s: float = DEFAULT_PATIENCE_S,
    ) -> Board:
        """The board of the repository around `path`; the branch is that of the settings.

        Raises `repository_missing`, `config_invalid` or `queue_branch_refused`.
        """
        repository = Repository.discover(path)
        if branch is None:
            branch = read_board_settings(_config(repository)).branch
        principal = read_principal(folders.config)
        site = Site(repository, branch, folders, principal, clock=clock, patience_s=patience_s)
        return cls(site)

    def __enter__(self) -> Board:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of files."""
        self.site.close()

    # --- what the repository proposes ----------------------------------------------------------

    def settings(self) -> Settings:
        """The settings in HEAD's commit."""
        return read_settings(_config(self.site.repository))

    def recipes(self, commit: str) -> dict[str, Recipe]:
        """The worker recipes of a commit by name.

        Raises `recipe_invalid` with the faults of every faulty one, `config_invalid` for too many.
        """
        repository = self.site.repository
        return read_recipes(
            self._recipe_paths(commit),
            lambda path: repository.read_file(commit, path, MAX_RECIPE_BYTES),
        )

    def _recipe_paths(self, commit: str) -> tuple[str, ...]:
        return self.site.repository.list_files(commit, FOLDER.rstrip("/"))

    def propose_policy(self) -> PolicyDocument:
        """The policy that HEAD's settings and recipes would install.

        One faulty recipe refuses it: the board would be without that worker for good, and another
        could take its place as the default.
        """
        commit = self._head()
        queue = self.settings().work_queue
        recipes = self.recipes(commit)
        try:
            return propose_policy(queue, recipes, repository=self.site.name, revision=commit)
        except CallboardError as error:
            if error.code == "worker_missing" and (step := self.next_step()) != POST:
                error.hint = step
            raise

    def _head(self) -> str:
        commit = self.site.repository.head_commit()
        if commit is None:
            raise CallboardError(
                "head_unborn",
                "the repository has no commit yet, so no worker recipe can be pinned",
                self.next_step(),
            )
        return commit

    @property
    def host(self) -> Host:
        """What this host can tell of runs: folders, reports, supervisors that are gone."""
        return Host(self.site)

    def next_step(self) -> str:
        """What to type before a first plan can be posted, or to post it."""
        return next_step(self.site.repository)

    # --- reading -------------------------------------------------------------------------------

    def history(self) -> History:
        """The validated history at the present tip."""
        return self.site.publisher.refresh()

    def ledger_bytes(self) -> bytes:
        """The ledger's bytes as the branch has them, whole or not, for who looks into a damage.

        Raises `queue_missing` where there is no branch, `ledger_invalid` where it has no ledger.
        """
        revision = self.site.store.revision()
        if revision is None:
            raise CallboardError(
                "queue_missing",
                "the board has no history yet",
                "post a first plan: callboard submit FILE",
            )
        data = self.site.repository.read_file(revision, LEDGER_FILE, MAX_LEDGER_BYTES)
        if data is None:
            return self.site.store.read().data
        return data

    def now_ms(self) -> int:
        """The time a decision taken now would carry."""
        return self.site.publisher.decision_time(self.history().projection)

    def view(self) -> View:
        """The present tip at the present time, for the read models in `board.reading`."""
        history = self.history()
        return View(history, self.site.publisher.decision_time(history.projection))

    def policy_check(self) -> Document:
        """What HEAD's settings and recipes would install, and how that differs from what is.

        `{installed_epoch, proposed, differences, without_effect}`; before the first submission
        `installed_epoch` is None and there is nothing to differ from.
        """
        proposed = msgspec.to_builtins(self.propose_policy())
        view = self.view()
        found: list[Document] = []
        if view.projection.tip is not None:
            found = differences(msgspec.to_builtins(view.projection.policy), proposed)
        return {
            **view.stamp(),
            "installed_epoch": view.projection.policy_epoch,
            "revision": self._head(),
            "proposed": proposed,
            "differences": found,
            "without_effect": _without_effect(self.settings()),
        }

    # --- changing ------------------------------------------------------------------------------

    def submit(
        self, plan: Plan, *, request_id: str | None = None, split: bool = False
    ) -> list[Part]:
        """Post a plan, whole, or with `split` in requests `<id>.<k>` of at most 255 nodes.

        The parts of a split plan are rehearsed together first, so that a plan that would be
        refused in a later part leaves nothing behind.
        """
        self.site.store.check_writable()
        self._head()
        identity = _checked_request(request_id)
        actor = self.site.actor("producer")
        parts = self._parts(plan, identity) if split else [(identity, plan)]
        routes = Routes(self.site.repository, lenient=len(parts) > 1)
        order = in_order(plan) if len(parts) > 1 else list(range(len(plan.nodes)))
        intents: list[Submit] = []
        for part_id, part in parts:
            places, order = order[: len(part.nodes)], order[len(part.nodes) :]
            verify = partial(routes.check, places=places)
            intents.append(Submit(part_id, actor, part, self.propose_policy, verify))
        try:
            if len(intents) > 1:
                self._rehearse(intents)
                routes.close()
            return [Part(intent.request_id, self._publish(intent)) for intent in intents]
        except CallboardError as error:
            if error.code == "plan_invalid":
                error.hint = self._hint_of_newer_workers(plan) or error.hint
            raise

    def _hint_of_newer_workers(self, plan: Plan) -> str | None:
        """What to say of a worker that the board does not have and HEAD does."""
        history = self.history()
        head = self.site.repository.head_commit()
        if history.projection.tip is None or head is None:
            return None
        pools = history.projection.policy.pools.values()
        known = {name for pool in pools for name in pool.profiles}
        named = [plan.defaults.profile, *(node.profile for node in plan.nodes)]
        asked = {one for one in named if isinstance(one, str)}
        committed = {recipe_name(path) for path in self._recipe_paths(head)}
        newer = sorted((asked - known) & committed)
        if not newer:
            return None
        return (
            f"{newer[0]}.toml is newer than this board, which keeps the workers of its first "
            "commit; a new branch is a new board: callboard --branch NAME submit PLAN"
        )

    def _rehearse(self, intents: list[Submit]) -> None:
        """Publish to a copy of the ledger in memory, to be refused there if anywhere."""
        data = self.history().data
        stage = Publisher(MemoryStore(data or None), self.site.clock)
        for intent in intents:
            stage.publish(intent)

    @staticmethod
    def _parts(plan: Plan, request_id: str) -> list[tuple[str, Plan]]:
        parts = parts_of(plan, MAX_NODES - 1)
        if len(parts) == 1:
            return [(request_id, plan)]
        return [(f"{request_id}.{number}", part) for number, part in enumerate(parts, start=1)]

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
        parameters = wire.DispatchNextParameters(
            pool=self.pool_name(pool),
            max_claims=max_claims,
            max_dispatches=max_dispatches,
            max_bytes=max_bytes,
        )
        actor = self.site.actor("dispatcher")
        return self._publish(DispatchNext(_checked_request(request_id), actor, parameters))

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

        self.site.store.check_writable()
        return runner.dispatch(
            self.site,
            environment,
            pool=self.pool_name(pool),
            max_claims=max_claims,
            max_dispatches=max_dispatches,
            max_bytes=max_bytes,
            request_id=_checked_request(request_id),
        )

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

        self.site.store.check_writable()
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
            new_request_id=self._request_names(request_id),
        )

    def _request_names(self, stem: str | None) -> Callable[[], str]:
        if stem is None:
            return new_request_id
        prefix = _checked_request(stem)

        def name() -> str:
            standing = self.history().projection.requests
            numbers = itertools.count(1)
            return next(one for n in numbers if (one := f"{prefix}.{n}") not in standing)

        return name

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
        if DEFAULT_POOL in pools or len(pools) == 1:
            return DEFAULT_POOL if DEFAULT_POOL in pools else next(iter(pools))
        raise CallboardError(
            "pool_required",
            f"the board has {len(pools)} pools",
            "name one: --pool " + "|".join(sorted(pools)),
        )

    def cancel(
        self, work_ids: list[str], *, reason: str, request_id: str | None = None
    ) -> Accepted | Nothing:
        """End Work for good; its successors stay blocked until they are cancelled too."""
        _check_reason(reason)
        actor = self.site.actor("producer")
        return self._publish(
            lifecycle.cancel_work(_checked_request(request_id), work_ids, reason, actor)
        )

    def set_paused(
        self, what: Pause, paused: bool, *, reason: str, request_id: str | None = None
    ) -> Accepted | Nothing:
        """Pause or resume the admission of Work or the granting of Claims."""
        _check_reason(reason)
        actor = self.site.actor("administrator")
        name: Literal["admission_paused", "grants_paused"] = (
            "admission_paused" if what == "admission" else "grants_paused"
        )
        return self._publish(
            lifecycle.control(_checked_request(request_id), name, paused, reason, actor)
        )

    def _publish(self, intent: Intent) -> Accepted | Nothing:
        self.site.store.check_writable()
        return self.site.publisher.publish(intent)


def _checked_request(request_id: str | None, make: Callable[[], str] = new_request_id) -> str:
    if request_id is None:
        return make()
    faults = name_faults(request_id, "/request_id")
    if faults:
        raise refuse("request_id_invalid", "request id", faults, "give a plain name")
    return request_id


def _check_reason(reason: str) -> None:
    if faults_of(ReasonCode, reason):
        raise CallboardError(
            "reason_invalid",
            f"{show(reason)} is no reason code",
            "1 to 128 letters, digits, '_', '.', ':' and '-', such as not_needed",
        )


def _without_effect(settings: Settings) -> list[Document]:
    """Settings that are valid and change nothing on this host."""
    found: list[Document] = []
    if settings.work_queue.issues is not False:
        found.append(
            {
                "setting": "work_queue.issues",
                "why": "mirror issues need a host that has issues; this one is the local machine",
            }
        )
    return found


def _config(repository: Repository) -> bytes | None:
    """The settings file of HEAD's commit."""
    commit = repository.head_commit()
    if commit is None:
        return None
    return repository.read_file(commit, CONFIG_PATH, MAX_CONFIG_BYTES)
