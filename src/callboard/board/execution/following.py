"""Workers follow the repository: before something new is posted or granted, never for what stands.

Source: specification 1, §7.10. The commit is HEAD's, and only one that comes after a worker's
present revision moves it, so that neither an old checkout nor another line of work takes workers
back.
"""

from __future__ import annotations

from callboard.board.execution.site import Site
from callboard.board.projection.state import Projection
from callboard.board.protocol.operations import Actor
from callboard.board.publishing import deployment
from callboard.board.publishing.intents import Nothing
from callboard.board.publishing.proposal import Proposal
from callboard.board.publishing.request_ids import new_request_id
from callboard.board.storage.ancestry import descends
from callboard.errors import CallboardError

_MAX_REQUESTS = 64
"""As many as it takes to move every worker of the largest policy, 256 at a time."""


UNPUSHED = "unpushed"


class Follower:
    """Lets one board's workers follow HEAD; cheap to ask again while nothing has changed."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._looked_at: tuple[str, str | None] | None = None
        self._proposal: Proposal | None = None
        self._for_all: str | None = None
        self._behind: dict[tuple[str, str], bool] = {}

    def follow(self, actor: Actor) -> None:
        """Deploy what HEAD has for the workers that may move on.

        Without a commit or a board there is nothing to do; a full ledger leaves them as they are.
        A board on a remote is asked nothing while nothing of what is known of it would move.
        """
        head = self._site.repository.head_commit()
        tip = self._present().tip
        if head is None or tip is None or self._looked_at == (head, tip):
            return
        if self._proposal is None or self._proposal.revision != head:
            self._proposal = Proposal(self._site.repository, head)
        if self._proposal.board.follow_head:
            self._deploy(self._proposal, actor)
        self._looked_at = (head, self._present().tip)

    def _present(self) -> Projection:
        """The board as it is, or on a remote as this process saw it last: each pass looks, and a
        deployment is judged upon the tip that it is appended to."""
        publisher = self._site.publisher
        history = publisher.refresh() if self._site.transport is None else publisher.known()
        return history.projection

    def _is_for_all(self, head: str) -> bool:
        """Whether every machine of the board can have the commit; then workers may be at it.

        What is pushed once stays so, and is not asked for again.
        """
        transport = self._site.transport
        if transport is None or self._for_all == head:
            return True
        if not transport.is_pushed(head):
            return False
        self._for_all = head
        return True

    def _deploy(self, proposal: Proposal, actor: Actor) -> None:
        def is_behind(revision: str) -> bool:
            return self._is_behind(proposal.revision, revision)

        for _request in range(_MAX_REQUESTS):
            intent = deployment.follow(new_request_id(), actor, proposal, is_behind)
            present = self._present()
            if isinstance(intent.make(present, present.last_at), Nothing):
                return
            if not self._is_for_all(proposal.revision):
                return
            try:
                outcome = self._site.publisher.publish(intent)
            except CallboardError as error:
                if error.code != "ledger_limit":
                    raise
                return
            if isinstance(outcome, Nothing):
                return

    def _is_behind(self, head: str, revision: str) -> bool:
        known = self._behind.get((head, revision))
        if known is None:
            known = self._ask(head, revision)
            self._behind[head, revision] = known
        return known

    def _ask(self, head: str, revision: str) -> bool:
        repository = self._site.repository
        try:
            return descends(lambda one: repository.commit_info(one).parents, head, revision)
        except CallboardError as error:
            # A shallow clone ends somewhere; what lies beyond cannot be told.
            if error.code != "object_missing":
                raise
            return False

    def kept(self) -> list[dict[str, object]]:
        """The workers that stay though HEAD has other ones, as `deployment.document` gives them:
        with another contract, with what only a policy may change, or at a commit that only this
        clone has (`unpushed`)."""
        head = self._site.repository.head_commit()
        projection = self._site.publisher.refresh().projection
        if head is None or projection.tip is None:
            return []
        proposal = Proposal(self._site.repository, head)
        found: list[dict[str, object]] = []
        for one in deployment.survey(projection, proposal):
            if not self._is_behind(head, one.route.current):
                continue
            if one.standing in ("contract_differs", "needs_policy"):
                found.append(deployment.document(projection, one))
            elif self._waits_for_push(proposal, one):
                found.append({**deployment.document(projection, one), "standing": UNPUSHED})
        return found

    def _waits_for_push(self, proposal: Proposal, one: deployment.Finding) -> bool:
        return (
            one.standing == "deployable"
            and proposal.board.follow_head
            and proposal.revision not in one.route.revisions
            and not self._is_for_all(proposal.revision)
        )
