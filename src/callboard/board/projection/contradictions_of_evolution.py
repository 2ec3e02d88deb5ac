"""What contradicts itself in a restored state about routes, promises, priorities and mirrors.

Source: specification 1, §§7.6, 7.10; wire-v3 §§5, 8. These parts are there only where they say
something; one that says what goes without saying is a fault too, as a board has one document.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec import UNSET, UnsetType

from callboard.board.projection.grounds import Ground
from callboard.board.projection.links import IssueKey, issue_key
from callboard.board.projection.routes import Revision, Route, admitted
from callboard.board.projection.snapshot import (
    CommentRecord,
    LinkRecord,
    RouteRecord,
    WorkRecord,
    is_settled,
    route_of,
)
from callboard.board.projection.transitions.deployment import boundary_changes
from callboard.board.protocol.policy import Profile
from callboard.validate import Fault, pointer_step, show


class EvolutionContradictions:
    """Looks through the extensions of one state."""

    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        self._state = ground.state
        self._routes: dict[tuple[str, str], Route] = {}

    # --- routes ---

    def routes(self) -> Iterator[Fault]:
        """Deployed workers beside the installed policy."""
        for pool, routes in (self._state.deployments or {}).items():
            rules = self._state.policy.pools.get(pool)
            if not routes or rules is None:
                yield Fault(f"/deployments{pointer_step(pool)}", "is no pool with deployments")
                continue
            for name, record in routes.items():
                at = f"/deployments{pointer_step(pool)}{pointer_step(name)}"
                profile = rules.profiles.get(name)
                if profile is None:
                    yield Fault(at, "is no worker of the pool")
                else:
                    yield from self._route(at, record, profile)
        if self._state.deployments == {}:
            yield Fault("/deployments", "says nothing")

    def _route(self, at: str, record: RouteRecord, profile: Profile) -> Iterator[Fault]:
        first = record.revisions.get(profile.ref)
        if first is None or first.profile != profile:
            yield Fault(f"{at}/revisions", f"the policy's own, {profile.ref}, is not among them")
            return
        if record.current not in record.revisions:
            yield Fault(f"{at}/current", f"{record.current} is not among the revisions")
            return
        for ref, revision in record.revisions.items():
            where = f"{at}/revisions/{ref}"
            if revision.profile.ref != ref:
                yield Fault(f"{where}/profile/ref", f"{revision.profile.ref} is not the key")
            changed = boundary_changes(profile, revision.profile)
            if changed:
                yield Fault(f"{where}/profile/{changed[0]}", "is not the policy's")
        if route_of(record).is_original:
            yield Fault(at, "says no more than the policy")

    # --- Work ---

    def works(self) -> Iterator[Fault]:
        """Priorities and promises of Work."""
        for work_id, work in self._state.works.items():
            at = f"/works/{work_id}"
            if work.effective_priority == work.priority:
                yield Fault(f"{at}/effective_priority", "is the admitted one")
            stated = (work.admission_contract, work.admission_ref)
            if stated == (UNSET, UNSET) and is_settled(work):
                continue
            if is_settled(work) or UNSET not in stated:
                yield Fault(at, "has a promise that has no place")
            else:
                yield from self._promise(at, work)

    def _promise(self, at: str, work: WorkRecord) -> Iterator[Fault]:
        """What was promised must be what one of the worker's revisions has, and not the usual."""
        profile = self._state.policy.pools[work.pool].profiles[work.worker_profile]
        route = self._route_of(work, profile)
        usual = admitted(work.worker_profile, Revision(profile), None).promise
        promise = usual
        if isinstance(work.admission_contract, str):
            promise = (work.admission_contract, "")
        elif isinstance(work.admission_ref, str):
            promise = ("", work.admission_ref)
        if promise == usual and (work.admission_contract, work.admission_ref) != (UNSET, UNSET):
            yield Fault(at, "is promised what the policy says anyway")
        pin = None if work.execution_ref is UNSET else work.execution_ref
        possible = {
            admitted(work.worker_profile, revision, None).promise
            for ref, revision in route.revisions.items()
            if pin in (None, ref)
        }
        if promise not in possible:
            yield Fault(at, "is promised what no revision of its worker has")
        if work.logical_contract is not UNSET and work.logical_contract != promise[0]:
            yield Fault(f"{at}/logical_contract", "is not what was promised")

    def _route_of(self, work: WorkRecord, profile: Profile) -> Route:
        key = (work.pool, work.worker_profile)
        route = self._routes.get(key)
        if route is None:
            found = (self._state.deployments or {}).get(work.pool, {}).get(work.worker_profile)
            route = self._routes[key] = Route.of(profile) if found is None else route_of(found)
        return route

    # --- mirrors ---

    def mirrors(self) -> Iterator[Fault]:
        """Links and comments beside their Work and Claims."""
        links, comments = self._state.issue_links, self._state.issue_comments
        for name, part in (("issue_links", links), ("issue_comments", comments)):
            if part == {}:
                yield Fault(f"/{name}", "says nothing")
        issues: set[IssueKey] = set()
        for work_id, link in (links or {}).items():
            yield from self._link(f"/issue_links/{work_id}", work_id, link, issues)
        subjects: set[tuple[str, str]] = set()
        for comment_id, comment in (comments or {}).items():
            at = f"/issue_comments/{comment_id}"
            if comment.work_id not in (links or {}):
                yield Fault(f"{at}/work_id", "has no issue")
                continue
            yield from self._comment(at, comment, subjects)

    def _link(
        self, at: str, work_id: str, link: LinkRecord, issues: set[IssueKey]
    ) -> Iterator[Fault]:
        work = self._state.works.get(work_id)
        if work is None:
            yield Fault(at, "is no Work")
            return
        key = issue_key(link.resource)
        if link.resource.kind != "issue" or key in issues:
            yield Fault(f"{at}/resource", "is no issue, or that of another Work")
        issues.add(key)
        if work.backing_issue not in (UNSET, link.resource):
            yield Fault(f"{at}/resource", "is not the issue that the Work asks for")
        yield from self._claims(at, work_id, {"claim_id": link.claim_id})
        yield from self._ground.commit(f"{at}/commit_id", link.commit_id, ("issue_link",))

    def _comment(
        self, at: str, comment: CommentRecord, subjects: set[tuple[str, str]]
    ) -> Iterator[Fault]:
        subject = (comment.work_id, "" if comment.claim_id is UNSET else comment.claim_id)
        if subject in subjects:
            yield Fault(at, "is a second comment of its Work or Claim")
        subjects.add(subject)
        named = {
            "claim_id": comment.claim_id,
            "authority_claim_id": comment.authority_claim_id,
        }
        yield from self._claims(at, comment.work_id, named)
        yield from self._ground.commit(f"{at}/commit_id", comment.commit_id, ("issue_comment",))

    def _claims(
        self, at: str, work_id: str, named: Mapping[str, str | UnsetType]
    ) -> Iterator[Fault]:
        for name, claim_id in named.items():
            if claim_id is UNSET:
                continue
            claim = self._state.claims.get(claim_id)
            if claim is None or claim.work_id != work_id:
                yield Fault(f"{at}/{name}", f"{show(claim_id)} is no Claim of the Work")
