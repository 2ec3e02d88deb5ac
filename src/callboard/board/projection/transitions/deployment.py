"""Deployment and WorkPriority: how execution evolves while the board's promises stand.

Source: specification 1, §§7.6, 7.10; wire-v3 §5. Both are compare-and-set and prospective: no
Claim, charge, clock, dispatch, result or position changes.
"""

from __future__ import annotations

from msgspec import UNSET, structs

from callboard.board.projection.routes import Revision, Route
from callboard.board.projection.state import Projection
from callboard.board.projection.transitions.context import Context, work_of
from callboard.board.protocol.operations import Deployment, WorkPriority
from callboard.board.protocol.policy import Profile
from callboard.canonical import same_value
from callboard.errors import CallboardError

_EVOLVES = frozenset({"ref", "logical_contract"})
"""What a deployment may change of a profile; everything else is the boundary of its authority."""


def route_of(projection: Projection, pool: str, profile: str) -> Route:
    """A worker's route, or `pool_unknown` or `profile_unknown`."""
    routes = projection.pool_state(pool).routes
    route = routes.get(profile)
    if route is None:
        raise CallboardError(
            "profile_unknown",
            f"pool {pool!r} has no worker profile {profile!r}",
            "profiles: " + ", ".join(sorted(routes)),
            {"pool": pool, "profile": profile},
        )
    return route


def apply_deployment(projection: Projection, _context: Context, operation: Deployment) -> None:
    """Move a worker to another revision, or say whether a revision can be had."""
    pool, name = operation.pool, operation.worker_profile
    route = route_of(projection, pool, name)
    _check_expectation(operation, route)
    _check_boundary(operation, route.head.profile)
    ref = operation.profile.ref
    activate = operation.activate is not False
    known = route.revisions.get(ref)
    if known is None and not activate:
        raise CallboardError(
            "deployment_unregistered",
            f"worker {name!r} of pool {pool!r} was never deployed at {ref}",
            "only a revision that was current once has an availability of its own",
            {"pool": pool, "profile": name, "ref": ref},
        )
    if known is not None and not same_value(known.profile, operation.profile):
        raise _conflict(
            operation,
            f"revision {ref} is registered with contract {known.contract or 'none'}, not with "
            f"{_contract(operation.profile) or 'none'}",
            known,
        )
    revision = Revision(operation.profile, operation.available)
    projection.deploy(pool, name, revision, activate=activate)


def _contract(profile: Profile) -> str:
    found = profile.logical_contract
    return "" if found is UNSET else found


def _check_expectation(operation: Deployment, route: Route) -> None:
    head = route.head
    found = (route.current, head.contract or "")
    if found != (operation.expected_ref, operation.expected_contract):
        raise _conflict(
            operation,
            f"it is at {found[0]} with contract {found[1] or 'none'}, not at "
            f"{operation.expected_ref} with {operation.expected_contract or 'none'}",
            head,
        )


def _conflict(operation: Deployment, found: str, revision: Revision) -> CallboardError:
    return CallboardError(
        "deployment_conflict",
        f"worker {operation.worker_profile!r} of pool {operation.pool!r}: {found}",
        "look at the board again and deploy from what it has now",
        {
            "pool": operation.pool,
            "profile": operation.worker_profile,
            "ref": revision.profile.ref,
            "contract": revision.contract,
        },
    )


def boundary_changes(installed: Profile, proposed: Profile) -> list[str]:
    """The fields in which a proposed profile leaves the installed one's authority."""
    return [
        name
        for name in installed.__struct_fields__
        if name not in _EVOLVES and getattr(installed, name) != getattr(proposed, name)
    ]


def _check_boundary(operation: Deployment, installed: Profile) -> None:
    changed = boundary_changes(installed, operation.profile)
    if changed:
        name = changed[0]
        raise CallboardError(
            "deployment_boundary",
            f"worker {operation.worker_profile!r} of pool {operation.pool!r} would change its "
            f"{', '.join(changed)}: {name} from {getattr(installed, name)!r} to "
            f"{getattr(operation.profile, name)!r}",
            "a deployment changes only code and contract; install a new policy for the rest",
            {"pool": operation.pool, "profile": operation.worker_profile, "fields": changed},
        )


def apply_priority(projection: Projection, _context: Context, operation: WorkPriority) -> None:
    """Let one available Work compete in another class from now on."""
    work = work_of(projection, operation.work_id)
    if work.state != "available":
        raise CallboardError(
            "work_closed",
            f"Work {operation.work_id} is {work.state}",
            "only Work that waits for a grant changes its priority",
            {"state": work.state},
        )
    if work.priority != operation.expected_priority:
        raise CallboardError(
            "priority_conflict",
            f"Work {operation.work_id} has priority {work.priority}, not "
            f"{operation.expected_priority}",
            "look at the board again: somebody changed it",
            {"priority": work.priority, "expected": operation.expected_priority},
        )
    projection.set_work(structs.replace(work, priority=operation.priority))
