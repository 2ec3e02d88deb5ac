"""How far the subject of a trace had come after each of its commits.

Source: specification 1, §7.13. It follows the records in their order and replays nothing: what a
record says is enough, but for a node that is posted, where the Results of its predecessors tell
whether it was ready. It shares its words with `stages`.
"""

from __future__ import annotations

from callboard.board.projection.state import Projection
from callboard.board.protocol import operations as ops
from callboard.board.protocol.commit import QueueCommit
from callboard.board.reading.attempts import LAUNCH_STATUS
from callboard.board.reading.stages import PHASES, LaunchStage
from callboard.board.reading.view import Document, known

_LAUNCHING = frozenset(PHASES.values())


class Progress:
    """Follows a node, or with `is_launch` a dispatch; with `is_claim` one attempt alone."""

    def __init__(
        self, projection: Projection, *, is_launch: bool = False, is_claim: bool = False
    ) -> None:
        self._projection = projection
        self._is_launch = is_launch
        self._is_claim = is_claim
        self._stage: LaunchStage | None = None
        self._dispatch_id: str | None = None
        self._launches: dict[str, str] = {}

    def after(self, commit: QueueCommit, touching: list[ops.Operation]) -> Document:
        """`{stage, launch}` once the commit's records about the subject are taken in; `launch`
        is how the latest dispatch stands, where there is one."""
        for operation in touching:
            self._launch(operation)
            if not self._is_launch:
                self._work(commit, operation)
        launch = self._launches.get(str(self._dispatch_id))
        return known(stage=self._stage, launch=launch)

    def _launch(self, operation: ops.Operation) -> None:
        """Records of launches; those of an earlier attempt change no stage."""
        if isinstance(operation, ops.Claim):
            self._dispatch_id = operation.dispatch_id
            self._launches[operation.dispatch_id] = LAUNCH_STATUS["reserved"]
            self._stage = PHASES["reserved"]
        elif isinstance(operation, ops.Dispatch):
            self._launches[operation.dispatch_id] = LAUNCH_STATUS[operation.state]
            is_latest = operation.dispatch_id == self._dispatch_id
            if is_latest and (self._is_launch or self._stage in _LAUNCHING):
                self._stage = PHASES[operation.state]
        elif isinstance(operation, ops.Release):
            self._launches[operation.dispatch_id] = "released"
            if self._is_launch:
                self._stage = "released"

    def _work(self, commit: QueueCommit, operation: ops.Operation) -> None:
        """Records of the node, and of its Claim."""
        if isinstance(operation, ops.Work):
            is_ready = self._was_ready(operation, self._projection.commit_ids[commit.id])
            self._stage = "ready" if is_ready else "waiting"
        elif isinstance(operation, ops.Completion):
            self._stage = "completed_pending"
        elif isinstance(operation, ops.Result):
            self._stage = "verified"
        elif isinstance(operation, ops.DeliveryFailure):
            self._stage = "failed"
        elif isinstance(operation, ops.WorkCancellation):
            self._stage = "cancelled"
        elif isinstance(operation, ops.ClaimCancellation):
            has_to_wait = operation.retry_not_before > commit.at
            again: LaunchStage = "waiting" if has_to_wait else "ready"
            self._stage = "cancelled" if self._is_claim else again

    def _was_ready(self, work: ops.Work, ordinal: int) -> bool:
        """Whether every predecessor had its Result when the node was posted."""
        for one in work.depends_on:
            if not isinstance(one, ops.WorkDependency):
                return False
            state = self._projection.works[one.work_id]
            result = state.result_commit_id
            if state.barrier != "verified":
                return False
            if result is not None and self._projection.commit_ids[result] > ordinal:
                return False
        return True
