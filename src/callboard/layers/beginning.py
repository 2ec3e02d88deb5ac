"""Beginning an attempt of the chosen role: everything it is given is gathered, and frozen.

Source: layers.md §4. The folder of the attempt comes first and the state after it, so that a
coordinator that dies between takes the same attempt up again.
"""

from __future__ import annotations

from msgspec import structs

from callboard.layers import attempts, changes, journal, stored, tree, updates
from callboard.layers.around import Around
from callboard.layers.prompting import render
from callboard.layers.records.assignment import AcceptedInput
from callboard.layers.records.events import AttemptBegan
from callboard.layers.records.state import State, Task
from callboard.layers.records.workflow import FrozenRole
from callboard.layers.references import ref_to
from callboard.layers.requests import copies
from callboard.layers.tree import Layer


def begin(around: Around, layer: Layer, state: State, role: FrozenRole) -> State:
    """The layer's state with an attempt of `role` as its task.

    Raises `copies.InputsLostError` where the layer has no longer what it was given.
    """
    iteration = state.iteration + 1
    told = updates.standing(around, layer, state)
    given = attempts.Given(
        config=stored.read_file(around.disk, layer.file("workflows", role.name, "config.yaml")),
        prompt=stored.read_file(around.disk, layer.file("workflows", role.name, "prompt.md")),
        iteration=iteration,
        state=state,
        goal=tree.read_goal(around.disk, layer),
        updates=told.waiting(),
        inputs=_inputs(around, layer),
        git_head=_head(around),
        request_id=layer.session.request_id,
        work_item_id=layer.session.parent_work_item_id,
    )
    frozen = attempts.freeze(around.disk, layer, role, given, render)
    # By what was frozen: one that was taken up may have been told less than there is now.
    updates_to = told.delivered + len(frozen.assignment.updates)
    state = structs.replace(
        state,
        revision=state.revision + 1,
        iteration=iteration,
        task=Task(
            attempt_id=frozen.attempt_id,
            role=role.name,
            iteration=iteration,
            assignment_sha256=frozen.assignment_sha256,
            updates_to=updates_to,
            updates_sha256=told.sha256(updates_to),
            work_item_id=layer.session.parent_work_item_id,
        ),
        changed_at_ms=around.clock.now_ms(),
    )
    tree.write_state(around.disk, layer, state)
    journal.tell(around, layer, AttemptBegan, attempt_id=frozen.attempt_id, role=role.name)
    return state


def _inputs(around: Around, layer: Layer) -> list[AcceptedInput]:
    """The files that were frozen into this layer when it was made, each as it was then.

    What else lies beside them is none. Raises `InputsLostError` where one was changed, and cannot
    be restored.
    """
    if layer.session.request_id is None:
        return []
    found = []
    for number, one in enumerate(copies.request_of(around, layer).inputs, start=1):
        place, size = copies.artifact(around, layer, number, one.ref, one.sha256)
        ref = ref_to(layer, place)
        found.append(AcceptedInput(ref=ref, sha256=one.sha256, size_bytes=size))
    return found


def _head(around: Around) -> str | None:
    git_dir = changes.git_dir_of(around.disk.root)
    if around.git is None or git_dir is None:
        return None
    return changes.head_of(around.git, git_dir)
