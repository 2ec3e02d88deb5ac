"""IssueLink and IssueComment: what a projector says about the mirror of a Work.

Source: specification 1, §9.1 (backing issues); wire-v3 §§3, 5. Each fact is recorded once and never
changes; the same fact again is accepted and adds nothing.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import UNSET, UnsetType

from callboard.board.projection.entities import WorkState
from callboard.board.projection.links import CommentState, LinkState, issue_key
from callboard.board.projection.state import Projection
from callboard.board.projection.transitions.context import Context, claim_on, work_of
from callboard.board.protocol.operations import Actor, IssueComment, IssueLink
from callboard.board.protocol.policy import Projector
from callboard.errors import CallboardError


def apply_issue_link(projection: Projection, context: Context, operation: IssueLink) -> None:
    """Tie a Work to its issue."""
    work = work_of(projection, operation.work_id)
    _check_link(projection, work, operation)
    _check_projector(
        projection, context, work, operation.projector_ref, operation.resource.repository
    )
    _check_claims(projection, work, operation.claim_id)
    links = projection.links
    known = links.by_work.get(operation.work_id)
    if known is not None:
        if known.link == operation:
            return
        raise _linked(operation, f"Work {operation.work_id} has the link made by {known.commit_id}")
    key = issue_key(operation.resource)
    other = links.by_issue.get(key)
    if other is not None:
        raise _linked(
            operation, f"issue {operation.resource.number} is the mirror of Work {other} already"
        )
    state = LinkState(operation, context.commit.id)
    projection.journal.put(links.by_work, operation.work_id, state)
    projection.journal.put(links.by_issue, key, operation.work_id)


def _check_link(projection: Projection, work: WorkState, operation: IssueLink) -> None:
    resource = operation.resource
    if resource.kind != "issue":
        raise CallboardError(
            "issue_link_invalid",
            f"a link names a {resource.kind}, {resource.repository}#{resource.number}",
            "Work is mirrored in an issue",
        )
    backing = work.work.backing_issue
    if backing is not UNSET and backing != resource:
        raise CallboardError(
            "issue_link_conflict",
            f"Work {operation.work_id} asks for the issue {backing.repository}#{backing.number}, "
            f"not {resource.repository}#{resource.number}",
            "link the issue that the Work names",
            {"work_id": operation.work_id},
        )


def _linked(operation: IssueLink, found: str) -> CallboardError:
    return CallboardError(
        "issue_link_conflict",
        found,
        "one Work has one issue, for good",
        {"work_id": operation.work_id},
    )


def _check_claims(projection: Projection, work: WorkState, *claim_ids: str | UnsetType) -> None:
    for claim_id in claim_ids:
        if claim_id is not UNSET:
            claim_on(projection, claim_id, work.work.work_id)


def _check_projector(
    projection: Projection, context: Context, work: WorkState, ref: str, repository: str
) -> None:
    """Who may mirror: a listed projector of that pool and repository; where none is listed, and
    the host vouches for participants, whoever stays in the board's own repository."""
    actor = context.commit.actor
    listed = projection.policy.projectors
    if not listed:
        allowed = projection.policy.is_aw and repository == projection.repository
    else:
        entries: Iterable[Projector] = listed.values() if isinstance(listed, dict) else listed
        allowed = any(
            _is(one, actor, ref) and work.work.pool in one.pools and repository in one.repositories
            for one in entries
        )
    if not allowed:
        raise CallboardError(
            "not_authorized",
            f"principal {actor.principal} with workflow {_shown(actor.workflow)} at {ref} may not "
            f"mirror pool {work.work.pool!r} in {repository!r}",
            "the policy lists who mirrors what; without a list only the board's own repository is "
            "mirrored",
        )


def _is(projector: Projector, actor: Actor, ref: str) -> bool:
    found = (actor.principal, actor.workflow, ref)
    return (projector.principal, projector.workflow, projector.ref) == found


def _shown(value: str | UnsetType) -> str:
    return "none" if value is UNSET else repr(value)


def apply_issue_comment(projection: Projection, context: Context, operation: IssueComment) -> None:
    """Record the comment that mirrors a Work or one of its Claims."""
    work = work_of(projection, operation.work_id)
    links = projection.links
    link = links.by_work.get(operation.work_id)
    if link is None:
        raise CallboardError(
            "issue_link_missing",
            f"Work {operation.work_id} has no issue that could hold comment {operation.comment_id}",
            "link the Work first",
            {"work_id": operation.work_id},
        )
    _check_projector(
        projection, context, work, operation.projector_ref, link.link.resource.repository
    )
    _check_claims(projection, work, operation.claim_id, operation.authority_claim_id)
    claim_id = "" if operation.claim_id is UNSET else operation.claim_id
    subject = (operation.work_id, claim_id)
    known = links.comments.get(operation.comment_id)
    if known is not None and known.comment == operation:
        return
    if known is not None or subject in links.by_subject:
        raise CallboardError(
            "issue_comment_conflict",
            f"comment {operation.comment_id} on Work {operation.work_id} meets "
            + (
                f"the comment {links.by_subject[subject]} of the same subject"
                if known is None
                else f"another record of that comment, made by {known.commit_id}"
            ),
            "a Work and each Claim have one comment, for good",
            {"work_id": operation.work_id, "comment_id": operation.comment_id},
        )
    state = CommentState(operation, context.commit.id)
    projection.journal.put(links.comments, operation.comment_id, state)
    projection.journal.put(links.by_subject, subject, operation.comment_id)
