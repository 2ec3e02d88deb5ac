"""The ledgers that checkpoints stand for, read when somebody asks for what was in them.

Source: specification 1, §7.10. A checkpoint names the commit that holds the ledger before it, and
that ledger's digest; what is read must have it, and the very commits that the checkpoint lists.
Where a clone lacks it the answer is a refusal, never a guess. The bytes come through a callable, so
that nothing here reads a disk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec
from msgspec import Struct

from callboard import canonical
from callboard.board.protocol import commit as wire
from callboard.board.protocol.commit import CheckpointParameters, QueueCommit
from callboard.board.protocol.envelope import read_line
from callboard.errors import CallboardError

LedgerAt = Callable[[str], bytes]
"""The ledger bytes that a Git commit holds; `history_unavailable` where they are not at hand."""

MAX_CHECKPOINTS = 4096
"""How many checkpoints behind one another are followed."""


class Segment(Struct, frozen=True, gc=False):
    """One ledger of a board's life: its bytes, where its commits stand, the first one's ordinal.

    `revision` is the Git commit that holds it, None for the ledger that is in use.
    """

    data: bytes
    spans: list[tuple[int, int]]
    base: int
    revision: str | None

    def line(self, ordinal: int) -> bytes:
        """The line of the commit with that ordinal, newline included."""
        start, end = self.spans[ordinal - self.base]
        return self.data[start:end]

    def prefix(self, ordinal: int) -> bytes:
        """The lines of the commits before that ordinal, in causal order."""
        spans = self.spans[: ordinal - self.base]
        return b"".join(self.data[start:end] for start, end in spans)


def no_ledger_at(revision: str) -> bytes:
    """Answers for whoever has a ledger and no repository around it."""
    raise CallboardError(
        "history_unavailable",
        f"what came before the checkpoint is held by the Git commit {revision}, and this ledger "
        "was read without its repository",
        "ask in the repository that holds the board",
        {"revision": revision},
    )


class Past:
    """What lies before one checkpoint, the latest ledger first; each is read once, when needed.

    `ids` are the ids of the commits before the checkpoint, in order.
    """

    def __init__(self, checkpoint: QueueCommit, ids: list[str], ledger_at: LedgerAt) -> None:
        self._ids = ids
        self._ledger_at = ledger_at
        self._next: CheckpointParameters | None = parameters_of(checkpoint)
        self._segments: list[Segment] = []

    def segment(self, ordinal: int) -> Segment:
        """The earlier ledger that has the commit with that ordinal."""
        for segment in self.segments():
            if segment.base <= ordinal:
                return segment
        raise _differs(str(ordinal), "no ledger before the checkpoint has that commit")

    def segments(self) -> Iterator[Segment]:
        """The earlier ledgers, latest first."""
        at = 0
        while at < len(self._segments) or self._read_next():
            yield self._segments[at]
            at += 1

    def _read_next(self) -> bool:
        asked = self._next
        if asked is None:
            return False
        if len(self._segments) >= MAX_CHECKPOINTS:
            raise _differs(asked.prior_git_sha, f"more than {MAX_CHECKPOINTS} checkpoints follow")
        end = self._segments[-1].base if self._segments else len(self._ids)
        segment, root = _segment(self._prior(asked), self._ids[:end], asked.prior_git_sha)
        self._segments.append(segment)
        self._next = parameters_of(root)
        return True

    def _prior(self, asked: CheckpointParameters) -> bytes:
        data = self._ledger_at(asked.prior_git_sha)
        found = canonical.sha256_hex(data)
        if found != asked.history_sha256:
            raise _differs(
                asked.prior_git_sha, f"its digest is {found}, not {asked.history_sha256}"
            )
        return data


def _differs(revision: str, what: str) -> CallboardError:
    return CallboardError(
        "checkpoint_mismatch",
        f"the ledger in commit {revision} is not the one that the checkpoint stands for: {what}",
        "the checkpoint names another history; go back to the commit before it",
        {"field": "history"},
    )


def parameters_of(commit: QueueCommit) -> CheckpointParameters | None:
    """What a checkpoint says of the ledger before it; None of any other commit."""
    request = commit.request
    return request.parameters if isinstance(request, wire.CheckpointRequest) else None


class _Link(Struct, gc=False):
    """The little of a line that says where it stands."""

    id: str
    previous: str | None


_links = msgspec.json.Decoder(_Link)


def _segment(data: bytes, ids: list[str], revision: str) -> tuple[Segment, QueueCommit]:
    """A ledger that ends with the last of `ids`, and its root.

    The lines are those that the checkpoint's writer validated, as their digest says, so only their
    order is made out here.
    """
    found: dict[str, tuple[int, int, str | None]] = {}
    start = 0
    while start < len(data):
        end = data.find(b"\n", start) + 1 or len(data)
        try:
            link = _links.decode(data[start:end])
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise _differs(revision, f"the line at byte {start} cannot be read") from error
        found.setdefault(link.id, (start, end, link.previous))
        start = end
    if not 0 < len(found) <= len(ids):
        raise _differs(revision, f"it has {len(found)} commits")
    base = len(ids) - len(found)
    spans: list[tuple[int, int]] = []
    previous: str | None = None
    for commit_id in ids[base:]:
        if commit_id not in found or found[commit_id][2] != previous:
            raise _differs(revision, f"commit {commit_id} is not where the checkpoint has it")
        spans.append(found[commit_id][:2])
        previous = commit_id
    segment = Segment(data, spans, base, revision)
    root = read_line(segment.line(base).rstrip(b"\n")).commit
    if (parameters_of(root) is None) != (base == 0):
        raise _differs(revision, "it begins in the middle of a history")
    return segment, root


def root_of(data: bytes) -> QueueCommit | None:
    """The first commit of a ledger that follows none; None where none can be read."""
    start = 0
    while start < len(data):
        end = data.find(b"\n", start) + 1 or len(data)
        try:
            if _links.decode(data[start:end]).previous is None:
                return read_line(data[start:end].rstrip(b"\n")).commit
        except (msgspec.MsgspecError, UnicodeDecodeError, CallboardError):
            return None
        start = end
    return None


def stands_for(seen: bytes, found: bytes, ledger_at: LedgerAt) -> bool:
    """Whether the ledger `found` begins with a checkpoint that stands, itself or through those
    before it, for a ledger that begins with `seen`."""
    for _step in range(MAX_CHECKPOINTS):
        root = root_of(found)
        asked = None if root is None else parameters_of(root)
        if asked is None:
            return False
        try:
            found = ledger_at(asked.prior_git_sha)
        except CallboardError:
            return False
        if canonical.sha256_hex(found) != asked.history_sha256:
            return False
        if found.startswith(seen):
            return True
    return False
