"""The board as the controls of one Claim reach it: in the name of its bound run.

Source: specification 1, §§7.2, 7.12, 7.14. Requests go through the one publisher like everybody's,
and it is the board that judges whether this Claim may still ask. Nothing is launched here: whoever
dispatches goes on with what was granted.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from msgspec import UNSET, structs

from callboard.board.execution.carriage import Carriage
from callboard.board.execution.intent_checks import read_plan
from callboard.board.execution.routes import Routes
from callboard.board.execution.site import Site
from callboard.board.outputs.control_receipt import ControlReceipt
from callboard.board.outputs.descriptor import BRANCHES
from callboard.board.projection.transitions.context import dispatch_of
from callboard.board.projection.transitions.entitlement import check_inherits
from callboard.board.protocol import commit as wire
from callboard.board.protocol.operations import Actor, Work
from callboard.board.protocol.policy import CEILINGS, PolicyDocument
from callboard.board.publishing.intents import DispatchNext, Intent, Nothing, RouteOf, Submit
from callboard.board.publishing.plan import Plan
from callboard.board.publishing.publisher import Accepted
from callboard.board.publishing.submission import rehearse
from callboard.errors import CallboardError


class ControlDesk:
    """Asks for the member `handle` of `dispatch_id`, whose bound run is `run_id`."""

    def __init__(self, site: Site, dispatch_id: str, handle: str, run_id: str) -> None:
        self._site = site
        self._dispatch_id = dispatch_id
        self._handle = handle
        self._run_id = run_id
        self._rehearsed: list[Intent] = []

    @property
    def queue_ref(self) -> str:
        """The board's branch, as a ref."""
        return BRANCHES + self._site.branch

    def rehearse_plan(self, plan: bytes) -> None:
        """Judge a plan upon the board as it is and the plans that were rehearsed before it.

        The Claim is not completed yet, so nobody could post in its name: it is rehearsed in its
        principal's, which the board judges by the same rules but for inheritance.
        """
        name = f"rehearsal_{self._run_id}.{len(self._rehearsed) + 1}"
        intent = self._plan(name, read_plan(plan), self._site.actor("producer"))
        self._rehearsed.append(intent)
        publisher = self._site.publisher
        if len(self._rehearsed) == 1:
            publisher.rehearse(intent)
        else:
            # A later plan may name nodes of an earlier one, which stand nowhere else yet.
            rehearse(self._rehearsed, publisher.refresh().data, self._site.clock)

    def submit(self, request_id: str, plan: bytes) -> ControlReceipt:
        """Post a plan whose nodes inherit what they do not say of the Claim's Work."""
        return self._ask("submit", self._plan(request_id, read_plan(plan), self._actor))

    def dispatch_next(
        self, request_id: str, pool: str, max_claims: int, max_dispatches: int
    ) -> ControlReceipt:
        """Ask for the next fair batch; what is granted waits for a dispatcher."""
        asked = wire.DispatchNextParameters(
            pool=pool,
            max_claims=max_claims,
            max_dispatches=max_dispatches,
            max_bytes=CEILINGS.assignment_bytes,
            worker_profiles=UNSET,
        )
        return self._ask("dispatch_next", DispatchNext(request_id, self._actor, asked))

    def commit_of(self, request_id: str) -> str | None:
        """The commit of a request, if it stands and is this Claim's."""
        known = self._site.publisher.refresh().projection.requests.get(request_id)
        if known is None:
            return None
        actor = known.actor
        ours = (actor.dispatch_id, actor.claim_handle) == (self._dispatch_id, self._handle)
        return known.id if ours else None

    def _ask(self, kind: Literal["submit", "dispatch_next"], intent: Intent) -> ControlReceipt:
        answer = self._site.publisher.publish(intent)
        return ControlReceipt(
            version=1,
            kind=kind,
            request_id=intent.request_id,
            outcome="accepted" if isinstance(answer, Accepted) else "nothing",
            commit_id=answer.request.id if isinstance(answer, Accepted) else UNSET,
            reason=answer.reason if isinstance(answer, Nothing) else UNSET,
        )

    def _plan(self, request_id: str, plan: Plan, actor: Actor) -> Submit:
        parent = self._parent
        routes = Routes(self._site.repository, bring=Carriage(self._site).bring_commit)

        def verify(route_of: RouteOf, fresh: Mapping[int, Work]) -> None:
            for work in fresh.values():
                check_inherits(parent, work)
            routes.check(route_of, fresh, range(len(plan.nodes)))

        return Submit(request_id, actor, _inheriting(plan, parent), _no_first_policy, verify)

    @property
    def _actor(self) -> Actor:
        dispatch = dispatch_of(self._site.publisher.refresh().projection, self._dispatch_id)
        return self._site.run_actor(
            "worker",
            workflow=dispatch.profile.workflow,
            run_id=self._run_id,
            dispatch_id=self._dispatch_id,
            claim_handle=self._handle,
        )

    @property
    def _parent(self) -> Work:
        projection = self._site.publisher.refresh().projection
        for member in dispatch_of(projection, self._dispatch_id).assignment.claims:
            if member.handle == self._handle:
                return projection.works[member.work_id].work
        raise CallboardError(
            "claim_scope_invalid",
            f"dispatch {self._dispatch_id} has no member {self._handle!r}",
            "a worker acts for one Claim of its own assignment",
        )


def _inheriting(plan: Plan, parent: Work) -> Plan:
    """The plan with the parent's pool, priority and key where it says none."""
    stated = plan.defaults
    defaults = structs.replace(
        stated,
        pool=parent.pool if stated.pool is UNSET else stated.pool,
        priority=parent.priority if stated.priority is UNSET else stated.priority,
        fairness_key=parent.fairness_key if stated.fairness_key is UNSET else stated.fairness_key,
    )
    return structs.replace(plan, defaults=defaults)


def _no_first_policy() -> PolicyDocument:
    """A worker's plan never begins a board."""
    raise CallboardError("queue_missing", "there is no board yet", "a producer posts first")
