"""The part of the façade by which a person changes what a board does, not what is posted to it.

Ending Work, pausing, priorities, deployments, credentials, checkpoints and the policy. It asks; the
board decides, and every answer is read from the record that stands.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from itertools import count

from callboard.board.execution.carriage import Carriage
from callboard.board.execution.checkout import POST, next_step
from callboard.board.execution.following import Follower
from callboard.board.execution.site import Site
from callboard.board.execution.whereabouts import refuse_elsewhere
from callboard.board.ledger.history import History
from callboard.board.protocol import operations as ops
from callboard.board.protocol.policy import PolicyDocument
from callboard.board.publishing import administration, compaction, deployment
from callboard.board.publishing.intents import Nothing, Operations
from callboard.board.publishing.names import name_faults
from callboard.board.publishing.proposal import Proposal
from callboard.board.publishing.publisher import Accepted
from callboard.board.publishing.request_ids import check_reason, checked_request_id
from callboard.board.reading.pauses import CONTROLS, Pause
from callboard.board.reading.view import Document, View
from callboard.board.storage.revisions import commit_named
from callboard.errors import CallboardError
from callboard.validate import refuse

MIN_ABBREVIATION = 7
"""The fewest digits of a commit id that may stand for one of the workers' revisions."""


class Administration:
    """What a person may do to the board of `site`."""

    def __init__(self, site: Site, environment: Mapping[str, str] | None = None) -> None:
        self.site = site
        self._environment = environment
        self._follower = Follower(site)

    def history(self) -> History:
        """The validated history at the present tip. Where there is none yet, the repository's
        remotes are asked once for the board."""
        history = self.site.publisher.refresh()
        if history.projection.tip is None and self.site.remote is None and self._environment:
            refuse_elsewhere(self.site.repository, self.site.branch, self._environment)
            self._environment = None
        return history

    def view(self) -> View:
        """The present tip at the present time, for the read models in `board.reading`."""
        history = self.history()
        at_ms = self.site.publisher.decision_time(history.projection)
        return View(history, at_ms, "snapshot" if self.site.is_offline else "live")

    def propose_policy(self) -> PolicyDocument:
        """The policy that HEAD's settings and recipes would install; see `Proposal.policy`."""
        return self._policy_of(self._head())

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

    def next_step(self) -> str:
        """What to type before a first plan can be posted, or to post it."""
        return next_step(self.site.repository)

    # --- a person's acts ----------------------------------------------------------------------

    def cancel(
        self,
        work_ids: list[str],
        *,
        reason: str,
        claim_id: str | None = None,
        request_id: str | None = None,
    ) -> Accepted | Nothing:
        """End Work for good, with `claim_id` only while that Claim holds it.

        Its successors stay blocked until they are cancelled too.
        """
        identity = self._begin(request_id)
        check_reason(reason)
        actor = self.site.actor("producer")
        return self.site.publisher.publish(
            administration.cancel_work(identity, work_ids, reason, actor, claim_id=claim_id)
        )

    def set_paused(
        self, what: Pause, paused: bool, *, reason: str, request_id: str | None = None
    ) -> Accepted | Nothing:
        """Pause or resume the admission of Work or the granting of Claims."""
        identity = self._begin(request_id)
        check_reason(reason)
        actor = self.site.actor("administrator")
        return self.site.publisher.publish(
            administration.control(identity, CONTROLS[what], paused, reason, actor)
        )

    def plan_checkpoint(self) -> Document:
        """What a checkpoint of the present tip would write and gain; see `compaction.plan`."""
        view = self.view().with_history()
        revision = str(self.site.publisher.revision)
        found = compaction.plan(
            view.history, revision, view.at_ms, self.site.actor("administrator")
        )
        return {**view.stamp(), "applied": False, **found.document()}

    def checkpoint(self) -> Document:
        """Replace the ledger by a checkpoint of the tip that is met then.

        Raises `contention`, nothing written, where other writers win every race.
        """
        self.site.store.check_writable()
        found = compaction.compact(self.site.publisher, self.site.actor("administrator"))
        return {**self.view().stamp(), "applied": True, **found.document()}

    def rotate_credentials(
        self, generation: str, *, reason: str, request_id: str | None = None
    ) -> Accepted | Nothing:
        """Record a new generation of credentials of the same scope; older observations of gates
        no longer count (§7.10)."""
        identity = self._begin(request_id)
        check_reason(reason)
        faults = name_faults(generation, "/generation")
        if faults:
            raise refuse("generation_invalid", "generation", faults, "give a plain name")
        actor = self.site.actor("administrator")
        return self.site.publisher.publish(
            administration.control(identity, "credential_generation", generation, reason, actor)
        )

    def prefer(
        self, work_id: str, priority: int, *, reason: str, request_id: str | None = None
    ) -> Accepted | Nothing:
        """Let waiting Work compete in class `priority`, 1 to 5, from the next grant on (§7.6)."""
        identity = self._begin(request_id)
        check_reason(reason)
        actor = self.site.actor("administrator")
        return self.site.publisher.publish(
            administration.prefer(identity, work_id, priority, reason, actor)
        )

    def deploy(
        self,
        workers: Collection[str] | None,
        *,
        revision: str | None = None,
        reason: str,
        request_id: str | None = None,
    ) -> Accepted | Nothing:
        """Let the named workers, or all, run at a commit from now on: HEAD's where none is given.

        Raises `revision_unknown`, `worker_unavailable`, `deployment_boundary` or
        `profile_unknown`.
        """
        identity = self._begin(request_id)
        check_reason(reason)
        proposal = self._head()
        if revision is not None:
            commit = self._revision(revision)
            proposal = Proposal(self.site.repository, commit)
        Carriage(self.site).check_pushed(proposal.revision)
        actor = self.site.actor("administrator")
        return self._in_steps(
            identity,
            lambda name: deployment.deploy(
                name, actor, proposal, workers, reason, is_named=revision is not None
            ),
        )

    def set_available(
        self,
        workers: Collection[str],
        available: bool,
        *,
        revision: str | None = None,
        reason: str,
        request_id: str | None = None,
    ) -> Accepted | Nothing:
        """Withdraw or restore the named workers at a revision, the current one where none is
        given, without moving them."""
        identity = self._begin(request_id)
        check_reason(reason)
        commit = None if revision is None else self._revision(revision)
        if available:
            deployment.check_restorable(self.history().projection, self._head(), workers)
        actor = self.site.actor("administrator")
        return self._in_steps(
            identity,
            lambda name: deployment.set_available(name, actor, workers, commit, available, reason),
        )

    def _in_steps(self, request_id: str, intent: Callable[[str], Operations]) -> Accepted | Nothing:
        """Publish what one request has no room for in further ones, `<id>.2` and so on, until
        nothing is left; answers the first."""
        publish = self.site.publisher.publish
        first = publish(intent(request_id))
        if isinstance(first, Accepted) and not first.replayed:
            names = (f"{request_id}.{number}" for number in count(2))
            while isinstance(publish(intent(next(names))), Accepted):
                pass
        return first

    def _revision(self, text: str) -> str:
        """The commit meant: one of the workers' own revisions, or one of the repository."""
        pools = self.history().projection.pools.values()
        routes = [route for pool in pools for route in pool.routes.values()]
        known = {ref for route in routes for ref in route.revisions if ref.startswith(text)}
        if len(text) >= MIN_ABBREVIATION and len(known) == 1:
            return known.pop()
        return commit_named(self.site.repository, text)

    def install_policy(self, *, request_id: str | None = None) -> Accepted | Nothing:
        """Begin a new epoch with what HEAD's settings and recipes propose (§7.10).

        Raises `policy_not_quiescent` with at most 20 names of what is not settled.
        """
        identity = self._begin(request_id)
        head = self._head()
        Carriage(self.site).check_pushed(head.revision)
        actor = self.site.actor("administrator")
        return self.site.publisher.publish(
            administration.install(identity, self._policy_of(head), actor)
        )

    def _begin(self, request_id: str | None) -> str:
        """Where every change begins: whether it may write here, and the id it goes by."""
        self.site.store.check_writable()
        return checked_request_id(request_id)

    def _follow(self, request_id: str, actor: ops.Actor) -> None:
        """Before something new, and never before a request that stands (§7.10)."""
        if request_id not in self.history().projection.requests:
            self._follower.follow(actor)
