"""Links: which Work is mirrored in which issue, and by which comments.

Source: specification 1, §9.1 (backing issues); wire-v3 §5. Facts for people and projectors, each
recorded once; they never decide who is next.
"""

from __future__ import annotations

from msgspec import Struct

from callboard.board.protocol.operations import IssueComment, IssueLink, Resource

IssueKey = tuple[str, str, str]
"""An issue's identity: host, repository id, resource id; display coordinates do not count."""


class LinkState(Struct, frozen=True, gc=False):
    """The link of one Work, with the commit that made it."""

    link: IssueLink
    commit_id: str


class CommentState(Struct, frozen=True, gc=False):
    """One mirrored comment, with the commit that recorded it."""

    comment: IssueComment
    commit_id: str


class Links:
    """All links and comments; changed only through the projection's journal.

    `by_work` and `comments` are keyed by Work and by comment id, `by_issue` leads from an issue to
    its Work, `by_subject` from a Work and a Claim ("" for the Work itself) to its comment id.
    """

    def __init__(self) -> None:
        self.by_work: dict[str, LinkState] = {}
        self.by_issue: dict[IssueKey, str] = {}
        self.comments: dict[str, CommentState] = {}
        self.by_subject: dict[tuple[str, str], str] = {}


def issue_key(resource: Resource) -> IssueKey:
    """The identity of an issue."""
    return (resource.host, resource.repository_id, resource.resource_id)
