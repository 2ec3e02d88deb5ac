"""Deployments: which revision of the repository the board's workers run at from now on.

Source: specification 1, §7.10; wire-v3 §5. A revision is taken from a commit of the repository,
never from the work tree or from what somebody says of it; authority stays that of the policy.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Literal

from msgspec import structs

from callboard.board.projection.entities import RequestState
from callboard.board.projection.routes import Revision, Route
from callboard.board.projection.state import Projection
from callboard.board.projection.transitions.deployment import boundary_changes
from callboard.board.protocol import operations as ops
from callboard.board.protocol.policy import PolicyDocument, Profile
from callboard.board.protocol.scalars import is_github
from callboard.board.publishing.intents import Nothing, Operations, ReadCommit, Recogniser
from callboard.board.publishing.proposal import Proposal
from callboard.board.publishing.recipe import logical_contract
from callboard.errors import CallboardError

Standing = Literal[
    "current",
    "deployable",
    "contract_differs",
    "recipe_missing",
    "recipe_invalid",
    "needs_policy",
    "other_host",
]
FOLLOWS_HEAD = "follows_head"


@dataclass(frozen=True, slots=True)
class Finding:
    """What a commit has for one worker of one pool.

    `proposed` is the profile that a deployment would bring, None where the commit has none;
    `changes` are the fields that only a new policy could change.
    """

    pool: str
    worker: str
    route: Route
    standing: Standing
    proposed: Profile | None = None
    changes: tuple[str, ...] = ()


def survey(
    projection: Projection, proposal: Proposal, *, workers: Collection[str] | None = None
) -> list[Finding]:
    """What the proposal's commit has for each worker of the board, or for those named."""
    return [
        _find(proposal, pool, worker, route)
        for pool, worker, route in _routes(projection)
        if workers is None or worker in workers
    ]


def _routes(projection: Projection) -> Iterator[tuple[str, str, Route]]:
    for pool in sorted(projection.pools):
        routes = projection.pools[pool].routes
        for worker in sorted(routes):
            yield pool, worker, routes[worker]


def _find(proposal: Proposal, pool: str, worker: str, route: Route) -> Finding:
    installed = route.head.profile
    if is_github(installed.workflow):
        return Finding(pool, worker, route, "other_host")
    try:
        recipe = proposal.recipe_at(installed.workflow)
    except CallboardError as error:
        if error.code not in ("recipe_invalid", "resource_limit", "file_not_regular"):
            raise
        return Finding(pool, worker, route, "recipe_invalid")
    if recipe is None:
        return Finding(pool, worker, route, "recipe_missing")
    proposed = structs.replace(
        installed,
        ref=proposal.revision,
        max_claims=recipe.max_claims,
        share_keys=recipe.share_keys,
        logical_contract=logical_contract(recipe),
    )
    changes = tuple(boundary_changes(installed, proposed))
    if changes:
        return Finding(pool, worker, route, "needs_policy", proposed, changes)
    if proposal.revision == route.current:
        return Finding(pool, worker, route, "current", proposed)
    same = Revision(proposed).contract == route.head.contract
    return Finding(pool, worker, route, "deployable" if same else "contract_differs", proposed)


def present_policy(projection: Projection) -> PolicyDocument:
    """The installed policy with its workers as they are deployed now."""
    policy = projection.policy
    pools = {
        name: structs.replace(
            pool,
            profiles={
                worker: route.head.profile
                for worker, route in projection.pools[name].routes.items()
            },
        )
        for name, pool in policy.pools.items()
    }
    return structs.replace(policy, pools=pools)


def document(projection: Projection, one: Finding) -> dict[str, object]:
    """A finding for people: `{pool, worker, standing, ref, available, changes, promised}`.

    `promised` is the open Work that would wait after the worker has moved.
    """
    differs = one.standing == "contract_differs"
    return {
        "pool": one.pool,
        "worker": one.worker,
        "standing": one.standing,
        "ref": one.route.current,
        "available": one.route.head.available,
        "changes": list(one.changes),
        "promised": promised(projection, one) if differs else 0,
    }


def follow(
    request_id: str,
    actor: ops.Actor,
    proposal: Proposal,
    is_behind: Callable[[str], bool],
    *,
    reason: str = FOLLOWS_HEAD,
) -> Operations:
    """Move workers on to the proposal's commit, where it comes after the one they are at.

    `is_behind` tells that of a worker's present revision. One that was there before and has left,
    by `deploy --at` or a withdrawal, is not moved there again. One whose contract would change
    stays while open Work was promised the present one: that is a person's to decide. A worker whose
    recipe the commit has no more, or not whole, is unavailable until a later commit has it.
    `Nothing("already_deployed")` where nothing moves.
    """

    def make(projection: Projection, _at: int) -> list[ops.Operation] | Nothing:
        found: list[ops.Operation] = []
        for pool, worker, route in _routes(projection):
            # Where a worker has been at this commit already, somebody has taken it back since.
            known = route.revisions.get(proposal.revision)
            if known is not None or not is_behind(route.current):
                continue
            one = _find(proposal, pool, worker, route)
            if one.proposed is not None and may_follow(projection, one):
                found.append(_move(one, one.proposed, reason))
            elif one.standing in ("recipe_missing", "recipe_invalid") and route.head.available:
                found.append(_available(pool, worker, route, route.head, False, one.standing))
        return _bounded(projection, found)

    def is_asked(one: ops.Deployment) -> bool:
        return one.reason == reason

    return Operations("deployment", request_id, actor, make, _recogniser(actor, is_asked))


def may_follow(projection: Projection, one: Finding) -> bool:
    """Whether a worker moves on without anybody's word: no open Work would be left behind."""
    if one.standing == "contract_differs":
        return not promised(projection, one)
    return one.standing == "deployable"


def promised(projection: Projection, one: Finding) -> int:
    """How much open Work runs only as the worker is now, and would wait after a deployment."""
    if not projection.pools[one.pool].unsettled:
        return 0
    contract = one.route.head.contract
    return sum(
        state.work.pool == one.pool
        and state.lane.profile == one.worker
        and not state.lane.ref
        and state.lane.contract == contract
        for state in projection.works.values()
        if state.state in ("available", "claimed")
    )


def deploy(
    request_id: str,
    actor: ops.Actor,
    proposal: Proposal,
    workers: Collection[str] | None,
    reason: str,
    *,
    is_named: bool,
) -> Operations:
    """Move the named workers, or all, to the proposal's commit, wherever they are now.

    `is_named`: the commit itself was asked for. Where it was not, the same request is meant again
    also when HEAD has moved on.
    Raises `worker_unavailable` where the commit has no sound recipe of a named worker,
    `deployment_boundary` where a named one needs a new policy.
    """

    def make(projection: Projection, _at: int) -> list[ops.Operation] | Nothing:
        found: list[ops.Operation] = []
        names = None if workers is None else known_workers(projection, workers)
        for one in survey(projection, proposal, workers=names):
            if names is not None:
                _refuse(one, proposal.revision)
            current = one.standing == "current" and not one.route.head.available
            if one.proposed is not None and (
                current or one.standing in ("deployable", "contract_differs")
            ):
                found.append(_move(one, one.proposed, reason))
        return _bounded(projection, found)

    def is_asked(one: ops.Deployment) -> bool:
        return (
            one.activate is not False
            and one.reason == reason
            and (not is_named or one.profile.ref == proposal.revision)
            and (workers is None or one.worker_profile in workers)
        )

    return Operations("deployment", request_id, actor, make, _recogniser(actor, is_asked))


def check_restorable(projection: Projection, proposal: Proposal, workers: Collection[str]) -> None:
    """Refuse to restore what would be withdrawn again at once, as workers follow the proposal's
    commit and it has no sound recipe for them: `worker_unavailable`."""
    if not proposal.board.follow_head:
        return
    for one in survey(projection, proposal, workers=known_workers(projection, workers)):
        if one.standing in ("recipe_missing", "recipe_invalid"):
            _refuse(one, proposal.revision)


def set_available(
    request_id: str,
    actor: ops.Actor,
    workers: Collection[str],
    revision: str | None,
    available: bool,
    reason: str,
) -> Operations:
    """Withdraw or restore a revision of the named workers, the current one where none is given.

    Their routes stay where they are. Raises `deployment_unregistered` for a revision that a
    worker was never deployed at.
    """

    def make(projection: Projection, _at: int) -> list[ops.Operation] | Nothing:
        names = known_workers(projection, workers)
        found: list[ops.Operation] = []
        for pool, worker, route in _routes(projection):
            if worker not in names:
                continue
            known = route.revisions.get(revision or route.current)
            if known is None:
                raise CallboardError(
                    "deployment_unregistered",
                    f"worker {worker!r} of pool {pool!r} was never deployed at {revision}",
                    "revisions: " + ", ".join(sorted(route.revisions)[:5]),
                    {"pool": pool, "profile": worker, "ref": revision},
                )
            if known.available != available:
                found.append(_available(pool, worker, route, known, available, reason))
        return _bounded(projection, found)

    def is_asked(one: ops.Deployment) -> bool:
        return (
            one.worker_profile in workers
            and (one.available, one.activate, one.reason) == (available, False, reason)
            and revision in (None, one.profile.ref)
        )

    return Operations("deployment", request_id, actor, make, _recogniser(actor, is_asked))


def _recogniser(actor: ops.Actor, is_asked: Callable[[ops.Deployment], bool]) -> Recogniser:
    """Recognises a request of that actor, all of whose deployments are such ones.

    What a deployment says depends on where the worker was, so that the record itself is looked at.
    """

    def recognise(_projection: Projection, known: RequestState, read: ReadCommit) -> bool:
        return known.actor == actor and all(
            isinstance(one, ops.Deployment) and is_asked(one) for one in read().operations
        )

    return recognise


def known_workers(projection: Projection, workers: Collection[str]) -> Collection[str]:
    """The names, once each of them is that of a worker in some pool: `profile_unknown` else."""
    known = {worker for _pool, worker, _route in _routes(projection)}
    unknown = sorted(set(workers) - known)
    if unknown:
        raise CallboardError(
            "profile_unknown",
            f"the board has no worker {unknown[0]!r}",
            "workers: " + ", ".join(sorted(known)),
            {"profile": unknown[0]},
        )
    return workers


def _refuse(one: Finding, revision: str) -> None:
    details = {"pool": one.pool, "profile": one.worker, "ref": revision}
    if one.standing == "needs_policy":
        raise CallboardError(
            "deployment_boundary",
            f"worker {one.worker!r} at {revision[:12]} has another {', '.join(one.changes)}, which "
            "a deployment may not change",
            "let the board come to rest, then: callboard policy install --from-config",
            {**details, "fields": list(one.changes)},
        )
    if one.standing in ("recipe_missing", "recipe_invalid", "other_host"):
        found = {
            "recipe_missing": "is not there",
            "recipe_invalid": "is faulty",
            "other_host": "belongs to another host",
        }[one.standing]
        raise CallboardError(
            "worker_unavailable",
            f"the recipe of worker {one.worker!r} {found} at {revision[:12]}: "
            f"{one.route.head.profile.workflow}",
            "commit a sound recipe, or deploy another commit: callboard policy check",
            details,
        )


def _move(one: Finding, proposed: Profile, reason: str) -> ops.Deployment:
    ref = proposed.ref
    known = one.route.revisions.get(ref)
    return ops.Deployment(
        pool=one.pool,
        worker_profile=one.worker,
        expected_ref=one.route.current,
        expected_contract=one.route.head.contract or "",
        profile=proposed if known is None else known.profile,
        available=True,
        reason=reason,
    )


def _available(
    pool: str, worker: str, route: Route, revision: Revision, available: bool, reason: str
) -> ops.Deployment:
    return ops.Deployment(
        pool=pool,
        worker_profile=worker,
        expected_ref=route.current,
        expected_contract=route.head.contract or "",
        profile=revision.profile,
        available=available,
        activate=False,
        reason=reason,
    )


def _bounded(projection: Projection, found: list[ops.Operation]) -> list[ops.Operation] | Nothing:
    """As many as one request may hold; the next request goes on from there."""
    if not found:
        return Nothing("already_deployed")
    return found[: projection.policy.limits.operations]
