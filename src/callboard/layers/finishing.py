"""An attempt is over: its layer takes in the result, and the control that it may have left.

Source: layers.md §4; specification 3 (only the attempt that is being finished may speak). The
state is written once, after everything that it relies on; before it, all is as it was.
"""

from __future__ import annotations

from typing import Literal

from msgspec import structs

from callboard.layers import choosing, controls, journal, tree
from callboard.layers.around import Around
from callboard.layers.records import base, events
from callboard.layers.records.attempt import AttemptFinished, AttemptResult
from callboard.layers.records.evaluation import GitSubject
from callboard.layers.records.state import State, Task
from callboard.layers.records.workflow import WorkflowContract
from callboard.layers.sealing import put_record
from callboard.layers.tree import Layer


def finish(
    around: Around,
    layer: Layer,
    contract: WorkflowContract,
    state: State,
    result: AttemptResult,
) -> State:
    """The layer's state with the attempt taken in."""
    task = state.task
    assert task is not None, "an attempt is finished while it is the layer's task"
    verdict = controls.judge(around, layer, contract, state, result)
    finished = AttemptFinished(
        schema_version=1,
        attempt_id=task.attempt_id,
        role=task.role,
        classification=result.classification,
        result_sha256=base.digest(base.encode(result)),
        control=verdict.said,
        finished_at_ms=result.ended_at_ms,
    )
    folder = layer.file("attempts", task.attempt_id)
    # A crash may have come before: what is judged last is what the state will say.
    controls.keep(around, folder, verdict)
    put_record(around.disk, f"{folder}/finished.json", finished)
    _note_git(around, layer, task, result)
    state = _taken_in(around, state, task, result)
    state = controls.applied(state, verdict)
    tree.write_state(around.disk, layer, state)
    controls.clear(around, layer, verdict)
    journal.tell(
        around, layer, events.AttemptEnded,
        attempt_id=task.attempt_id, role=task.role, classification=result.classification,
        control=verdict.said,
    )  # fmt: skip
    if state.stop_reason is not None:
        journal.tell(
            around, layer, events.LayerEnded, status=state.status, stop_reason=state.stop_reason
        )
    return state


def _taken_in(around: Around, state: State, task: Task, result: AttemptResult) -> State:
    succeeded = result.classification == "success"
    told = task if succeeded else None
    return structs.replace(
        state,
        revision=state.revision + 1,
        task=None,
        last_role=task.role,
        last_succeeded=succeeded,
        roles=choosing.after(state.roles, task.role, succeeded, task.iteration),
        own_usage=state.own_usage.plus(structs.replace(result.usage, attempts=1)),
        updates_delivered=state.updates_delivered if told is None else told.updates_to,
        updates_sha256=state.updates_sha256 if told is None else told.updates_sha256,
        changed_at_ms=around.clock.now_ms(),
    )


class GitReceipt(base.Record, frozen=True, kw_only=True):
    """`git_receipts/<attempt>.subject.json`: the repository before and after an attempt.

    Agents leave receipts of their own beside it, under other names.
    """

    schema_version: Literal[1] = 1
    attempt_id: base.Id
    before: GitSubject
    after: GitSubject


def _note_git(around: Around, layer: Layer, task: Task, result: AttemptResult) -> None:
    before, after = result.git_before, result.git_after
    if before is None or after is None or before == after:
        return
    receipt = GitReceipt(attempt_id=task.attempt_id, before=before, after=after)
    put_record(around.disk, layer.file("git_receipts", f"{task.attempt_id}.subject.json"), receipt)
