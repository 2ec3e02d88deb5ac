"""Compaction: a checkpoint planned for the tip that is met, and whether one is worth its while.

Source: specification 1, §7.10; wire-v3 §8. The plan is made anew for each tip; the publisher writes
it only in the place of the very ledger it was made from. Nothing here writes.
"""

from __future__ import annotations

from dataclasses import dataclass

from callboard.board.ledger import checkpoint
from callboard.board.ledger.checkpoint import Made
from callboard.board.ledger.history import History
from callboard.board.projection.state import Projection
from callboard.board.protocol import commit as wire
from callboard.board.protocol.operations import Actor
from callboard.board.publishing.publisher import Compacted, Publisher
from callboard.errors import CallboardError

Document = dict[str, object]
_GROWN_BY = 4
"""From there on a checkpoint halves most logs; from twice a line's bytes on it fits none."""


@dataclass(frozen=True, slots=True)
class Plan:
    """A checkpoint for one tip, and what the ledger is before and after it."""

    made: Made
    tip: str
    commits: int
    ledger_bytes: int
    limit_bytes: int

    @property
    def after_bytes(self) -> int:
        """How many bytes the ledger would have."""
        return len(self.made.line)

    @property
    def compacted(self) -> Compacted:
        """What the publisher is to write."""
        request = self.made.commit.request
        return Compacted(
            self.made.line,
            f"checkpoint: {self.commits} commits, {self.made.prior_bytes} bytes in one line\n\n"
            f"Request: {request.id}\n",
        )

    def document(self) -> Document:
        """The plan as facts."""
        request = self.made.commit.request
        assert isinstance(request, wire.CheckpointRequest)
        digests = request.parameters
        return {
            "prior_tip": self.tip,
            "prior_git_sha": digests.prior_git_sha,
            "history_sha256": digests.history_sha256,
            "state_sha256": digests.state_sha256,
            "commit_id": self.made.commit.id,
            "request_id": request.id,
            "at": self.made.commit.at,
            "compressed": self.made.is_compressed,
            "before": {"commits": self.commits, "bytes": self.made.prior_bytes},
            "after": {"commits": 1, "bytes": self.after_bytes},
            "gained_bytes": self.ledger_bytes - self.after_bytes,
            "ledger_bytes_limit": self.limit_bytes,
        }


def plan(history: History, revision: str, at: int, actor: Actor) -> Plan:
    """The checkpoint of `history`, which the Git commit `revision` holds, at `at` (Unix ms).

    Raises `checkpoint_limit`, or what a reader of the line would refuse.
    """
    projection = history.projection
    made = checkpoint.make(history.data, projection, prior_git_sha=revision, at=at, actor=actor)
    return Plan(
        made=made,
        tip=str(projection.tip),
        commits=len(history.spans),
        ledger_bytes=projection.ledger_bytes,
        limit_bytes=projection.policy.limits.ledger_bytes,
    )


def compact(publisher: Publisher, actor: Actor, thrift: Thrift | None = None) -> Plan:
    """Replace the ledger by a checkpoint of the very tip it is planned for; answers that plan.

    Raises what `plan` refuses, `contention` after too many lost races, and with `thrift`
    `checkpoint_unprofitable`. Nothing is written then.
    """
    plans: list[Plan] = []

    def make(history: History, revision: str, at: int) -> Compacted:
        found = plan(history, revision, at, actor)
        if thrift is not None:
            thrift.judge(found)
        plans.append(found)
        return found.compacted

    publisher.compact(make)
    return plans[-1]


class Thrift:
    """Says when a long process should compact its board; remembers what was not worth it.

    Due is a ledger that uses `percent` of the policy's `ledger_bytes` (0: never). Worth it is what
    frees a third of it.
    """

    def __init__(self, percent: int) -> None:
        self._percent = percent
        self._not_below = 0

    def is_due(self, projection: Projection) -> bool:
        """Whether a compaction should be planned now; cheap."""
        used = projection.ledger_bytes
        if not self._percent or projection.tip is None or used < self._not_below:
            return False
        return used >= projection.policy.limits.ledger_bytes * self._percent // 100

    def judge(self, found: Plan) -> None:
        """Refuse a plan that frees less than a third of the ledger: `checkpoint_unprofitable`."""
        if 3 * found.after_bytes <= 2 * found.ledger_bytes:
            return
        raise CallboardError(
            "checkpoint_unprofitable",
            f"a checkpoint of {found.after_bytes} bytes would replace {found.ledger_bytes}",
            "the state takes most of it; what is written from now on may be worth more",
            {"before": found.ledger_bytes, "after": found.after_bytes},
        )

    def give_up(self, used_bytes: int) -> None:
        """Do not look again before the ledger has grown by a quarter."""
        self._not_below = used_bytes + used_bytes // _GROWN_BY
