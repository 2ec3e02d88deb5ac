"""A new node in the place of one whose delivery failed, as an intent made anew for each tip.

Source: specification 1, §7.15; wire-v3 §5. It inherits pool, fairness key, priority, worker and
subject; it gets a place and a charge of its own. It rewires no edge, and takes nobody's word that
the old effects are safe: the remedy is a proof made elsewhere, or the recorded failure itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from msgspec import UNSET, structs

from callboard.board.ledger.budget import check_room_to_grant
from callboard.board.projection.entities import RequestState, WorkState
from callboard.board.projection.lineage import Lineage
from callboard.board.projection.state import Projection
from callboard.board.projection.transitions.context import dispatch_of, work_of
from callboard.board.projection.transitions.deployment import route_of
from callboard.board.protocol import commit as wire
from callboard.board.protocol import identities
from callboard.board.protocol import operations as ops
from callboard.board.protocol.scalars import MAX_IDENTITY_BYTES
from callboard.board.publishing.compilation import compile_plan
from callboard.board.publishing.intents import (
    Candidate,
    Nothing,
    ReadCommit,
    RouteOf,
    matches,
)
from callboard.board.publishing.lifecycle import Proof
from callboard.board.publishing.names import name_faults
from callboard.board.publishing.plan import CONTRACT_FIELD, Defaults, Node, Plan
from callboard.board.publishing.verifier import Disposition
from callboard.errors import CallboardError
from callboard.validate import Fault, is_text, refuse, show

SCOPE_FIELD = "resource_scope"
VERIFIED_BY = "verifier:"
"""How the receipt of a verifier's proof begins; its name, `@`, its commit and a digest follow."""
_NUMBERED = re.compile(r"(.+)-r[1-9][0-9]{0,6}", re.DOTALL)
_SHORT = 12


@dataclass(frozen=True, slots=True)
class Wish:
    """What is asked for in the place of Work `work_id`; what is None follows the old node.

    `after` are node keys in the graph of the new node. In another `graph` the old edges do not
    hold, so there it waits for nothing but `after`.
    """

    work_id: str
    graph: str | None = None
    key: str | None = None
    payload: ops.Payload | None = None
    after: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Asking:
    """How the old effects are to be shown to be safe: by which verifier, attesting what."""

    verifier: str | None = None
    disposition: Disposition | None = None

    def fits(self, origin: ops.Replacement) -> bool:
        """Whether an admitted replacement rests on what is asked for here."""
        receipt = origin.evidence.receipt
        by = None if self.verifier is None else f"{VERIFIED_BY}{self.verifier}@"
        is_by = by is None or (isinstance(receipt, str) and receipt.startswith(by))
        return is_by and self.disposition in (None, origin.disposition)


@dataclass(frozen=True, slots=True)
class Remedy:
    """Why the replacement repeats no unsafe write; `receipt` names the proof."""

    disposition: Disposition
    receipt: str


def remedy_of_failure(old: WorkState) -> Remedy | None:
    """What the recorded failure itself proves: effects that never began cannot be repeated."""
    if old.disposition != "none":
        return None
    return Remedy("idempotent", f"failure:{old.failure_commit_id or old.completion_id}")


def failed_work(projection: Projection, work_id: str) -> WorkState:
    """The delivery-failed Work that may be replaced now.

    Raises `work_unknown`, `replacement_invalid` with how it stands, or `replacement_exists`.
    """
    old = work_of(projection, work_id)
    if old.barrier != "failed":
        raise _not_failed(old)
    other = Lineage(projection).replacement(work_id)
    if other is not None:
        raise _replaced(old, other)
    return old


def _not_failed(old: WorkState) -> CallboardError:
    work = old.work
    stands = f"{old.state}, its delivery {old.barrier}" if old.state == "completed" else old.state
    hint = {
        "available": f"it has not ended; callboard explain {work.work_id[:_SHORT]} says why",
        "claimed": f"it is under way; callboard explain {work.work_id[:_SHORT]} says where",
        "cancelled": "post it again under another key: callboard submit PLAN",
    }.get(old.state, "its result stands; post a new node for more: callboard submit PLAN")
    if old.barrier == "pending":
        hint = "its delivery is not decided yet; callboard run does that"
    return CallboardError(
        "replacement_invalid",
        f"node {work.node_key!r} ({work.work_id[:_SHORT]}) is {stands}; only a node whose delivery "
        "failed is replaced",
        hint,
        {"work_id": work.work_id, "state": old.state, "barrier": old.barrier},
    )


def _replaced(old: WorkState, other: WorkState) -> CallboardError:
    new = other.work
    failed = other.barrier == "failed"
    stands = "whose delivery failed, too" if failed else f"which is {other.state}"
    name = new.work_id[:_SHORT]
    return CallboardError(
        "replacement_exists",
        f"node {old.work.node_key!r} is replaced already, by {new.node_key!r} ({name}), {stands}",
        f"replace that one: callboard replace {name}"
        if failed
        else f"a node has one replacement at a time; callboard show {name}, and cancel it first "
        "where another one is wanted",
        {"work_id": old.work.work_id, "replaced_by": new.work_id, "state": other.state},
    )


@dataclass(frozen=True, slots=True)
class Replace:
    """Post the replacement. `verify` judges the new Work by its worker's routes, as for a plan.

    Without a `remedy` only a request that stands can be answered: building is for rehearsals.
    """

    request_id: str
    actor: ops.Actor
    wish: Wish
    asking: Asking
    remedy: Remedy | None
    verify: Callable[[RouteOf, Mapping[int, ops.Work]], None]
    kind: str = "submit"

    def build(self, projection: Projection, at: int, commit_id: str) -> Candidate | Nothing:
        old = failed_work(projection, self.wish.work_id)
        self._check_names(self.wish.key)
        graph = self.wish.graph or old.work.graph_id
        key = self.wish.key or next_key(projection, old.work, graph)
        remedy = self.remedy or Remedy("inspection", "rehearsal")
        claim = projection.claims[str(old.claim_id)]
        dispatch = dispatch_of(projection, claim.claim.dispatch_id)
        proof = Proof(
            "reconciliation",
            "verified_receipts",
            receipt=remedy.receipt,
            effects=old.disposition or "unknown",
        )
        origin = ops.Replacement(
            work_id=old.work.work_id,
            disposition=remedy.disposition,
            evidence=proof.evidence(projection, dispatch, at),
        )
        work = self._work(projection, old.work, (graph, key), origin, at)
        self._check_free(projection, work)
        self.verify(lambda pool, profile: route_of(projection, pool, profile), {0: work})
        return Candidate(wire.SubmitParameters(nodes=[work]), [work], check_room_to_grant)

    def is_same(self, known: RequestState, projection: Projection, _read: ReadCommit) -> bool:
        """The proof of the accepted request stands; everything else must follow from the wish."""
        if known.kind != self.kind or len(known.works) != 1:
            return False
        stored = projection.works[known.works[0]].work
        origin = stored.replacement_of
        old = projection.works.get(self.wish.work_id)
        if not isinstance(origin, ops.Replacement) or old is None:
            return False
        if origin.work_id != self.wish.work_id or not self.asking.fits(origin):
            return False
        place = (self.wish.graph or old.work.graph_id, self.wish.key or stored.node_key)
        try:
            again = self._work(projection, old.work, place, origin, stored.enqueued)
        except CallboardError:
            # What cannot be made of the wish any more is not what was asked for then.
            return False
        return matches(known, self.actor, self.kind, wire.SubmitParameters(nodes=[again]))

    def _work(
        self,
        projection: Projection,
        old: ops.Work,
        place: tuple[str, str],
        origin: ops.Replacement,
        at: int,
    ) -> ops.Work:
        graph, key = place
        self._check_names(key)
        after = self.wish.after
        node = Node(
            key=key,
            payload=inherited(self.wish.payload, old.payload),
            after=UNSET if after is None else list(dict.fromkeys(after)),
            execution_ref=old.execution_ref,
            logical_contract=old.logical_contract,
        )
        defaults = Defaults(
            pool=old.pool,
            priority=old.priority,
            fairness_key=old.fairness_key,
            profile=old.worker_profile,
        )

        def standing(work_id: str) -> ops.Work | None:
            state = projection.works.get(work_id)
            return None if state is None else state.work

        plan = Plan(graph=graph, defaults=defaults, nodes=[node])
        (work,) = compile_plan(plan, projection.policy, standing, at)
        depends_on: list[ops.Dependency] = [*work.depends_on, *old.gates]
        if after is None and graph == old.graph_id:
            depends_on = list(old.depends_on)
        return structs.replace(
            work,
            depends_on=depends_on,
            enqueued=at,
            subject=old.subject,
            replacement_of=origin,
        )

    def _check_names(self, key: str | None) -> None:
        faults = [] if key is None else name_faults(key, "/key")
        if self.wish.graph is not None:
            faults += name_faults(self.wish.graph, "/graph")
        for at, one in enumerate(self.wish.after or ()):
            # Older nodes may have names that are given to none any more; only text is asked for.
            if not is_text(one):
                faults.append(Fault(f"/after/{at}", f"{show(one)} names no node"))
        if faults:
            option = "--" + faults[0].pointer.split("/")[1]
            raise refuse("plan_invalid", "replacement", faults, f"give a plain name with {option}")

    @staticmethod
    def _check_free(projection: Projection, work: ops.Work) -> None:
        if work.work_id in projection.works:
            raise CallboardError(
                "work_conflict",
                f"graph {work.graph_id!r} has a node {work.node_key!r} already",
                "admitted Work never changes; leave --key out, or give one that is free",
                {"work_id": work.work_id},
            )


def inherited(payload: ops.Payload | None, old: ops.Payload) -> ops.Payload:
    """The payload asked for, with the old contract and resource scope where it states none."""
    if payload is None:
        return old
    kept = {name: old[name] for name in (CONTRACT_FIELD, SCOPE_FIELD) if name in old}
    return {**kept, **payload}


def next_key(projection: Projection, old: ops.Work, graph: str) -> str:
    """The first free of `<key>-r2`, `-r3` and so on; a replacement's own number goes on."""
    numbered = _NUMBERED.fullmatch(old.node_key)
    is_replacement = isinstance(old.replacement_of, ops.Replacement)
    stem = numbered[1] if numbered is not None and is_replacement else old.node_key
    number = 1
    while True:
        number += 1
        suffix = f"-r{number}"
        room = MAX_IDENTITY_BYTES - len(suffix)
        # A key that is as long as one may be loses its end, never half a character.
        key = stem.encode("utf-8")[:room].decode("utf-8", "ignore") + suffix
        if identities.work_id(graph, key) not in projection.works:
            return key
