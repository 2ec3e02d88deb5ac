"""Beginning a tree: the repository's layers folder, and a root layer with its goal and limits.

Source: layers.md §§2, 3, 6. A root is built aside and moved to its place, so it is there or not.
"""

from __future__ import annotations

from typing import Any

from callboard.errors import CallboardError
from callboard.layers import names, sets, stored, tree
from callboard.layers.around import Around
from callboard.layers.records import base
from callboard.layers.records.session import GoalContract, Limits, RepositoryIdentity, Session
from callboard.layers.tree import LAYERS, MAX_DEPTH, SESSIONS, Layer

REPOSITORY = f"{LAYERS}/repository.json"
IGNORE = f"{LAYERS}/.gitignore"
MAX_GOAL_BYTES = 256 * 1024


def prepare(around: Around) -> RepositoryIdentity:
    """Make the layers' folder, which Git is told to ignore, and give the checkout its identity."""
    around.disk.make_folder(SESSIONS)
    around.disk.publish_new(IGNORE, b"*\n")
    made = RepositoryIdentity(
        schema_version=1,
        repository_id=f"repo_{around.random(16)}",
        created_at_ms=around.clock.now_ms(),
    )
    around.disk.publish_new(REPOSITORY, base.encode(made))
    return stored.read_record(around.disk, REPOSITORY, RepositoryIdentity)


def start(
    around: Around, workflow_set: str, goal_text: str, criteria: dict[str, Any], limits: Limits
) -> Layer:
    """A new root layer. `criteria` are the lists of its goal contract, by their names.

    Raises `goal_invalid`, `value_invalid` for limits that no tree can have,
    `workflow_set_missing`, `workflow_set_invalid`.
    """
    limits = _checked(limits)
    now_ms = around.clock.now_ms()
    session_id = names.new_session_id(now_ms, goal_text, around.random(8))
    goal = _goal(f"goal_{session_id}", goal_text, criteria)
    frozen = sets.freeze(around.disk, workflow_set)
    repository = prepare(around)
    session = Session(
        schema_version=1,
        session_id=session_id,
        root_session_id=session_id,
        parent_session_id=None,
        depth=0,
        workflow_set=workflow_set,
        repository_id=repository.repository_id,
        request_id=None,
        parent_work_item_id=None,
        limits=limits,
        goal_sha256=base.digest(goal_text.encode()),
        goal_contract_sha256=base.digest(base.encode(goal)),
        workflow_contract_sha256=base.digest(base.encode(frozen.contract)),
        created_at_ms=now_ms,
    )
    building = f"{SESSIONS}/.{session_id}.building"
    tree.create(
        around.disk, building, session, goal_text, goal, frozen.contract, frozen.files(), now_ms
    )
    around.disk.move(building, f"{SESSIONS}/{session_id}")
    return tree.root(around.disk, session_id)


def _checked(limits: Limits) -> Limits:
    """The limits as they will be read again."""
    try:
        found = base.convert(base.document(limits), Limits, "the limits")
    except CallboardError as error:
        raise CallboardError("value_invalid", error.message, error.hint, error.details) from error
    if found.max_depth > MAX_DEPTH:
        raise CallboardError(
            "value_invalid",
            f"max_depth is {found.max_depth}, and no layer lies deeper than {MAX_DEPTH}",
            f"give a max_depth of 0 to {MAX_DEPTH}",
            {"max_depth": found.max_depth, "limit": MAX_DEPTH},
        )
    return found


def _goal(goal_id: str, text: str, criteria: dict[str, Any]) -> GoalContract:
    size = len(text.encode("utf-8", "surrogatepass"))
    if size > MAX_GOAL_BYTES:
        raise CallboardError(
            "goal_invalid",
            f"the goal has {size} bytes, more than {MAX_GOAL_BYTES}",
            "keep the goal short, and name files of the repository for the rest",
            {"bytes": size, "limit_bytes": MAX_GOAL_BYTES},
        )
    if not text.strip():
        raise CallboardError(
            "goal_invalid",
            f"the goal of {len(text)} characters says nothing",
            "say what is to be reached",
        )
    value = {"schema_version": 1, "goal_id": goal_id, "goal": text, **criteria}
    try:
        return base.convert(value, GoalContract, "the goal")
    except CallboardError as error:
        raise CallboardError("goal_invalid", error.message, error.hint, error.details) from error
