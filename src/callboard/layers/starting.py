"""Beginning a tree: the repository's layers folder, and a root layer with its goal and limits.

Source: layers.md §§2, 3, 6. A root is built aside and moved to its place, so it is there or not.
"""

from __future__ import annotations

from typing import Any

from callboard.errors import CallboardError
from callboard.layers import locking, names, reach, sets, stored, tree
from callboard.layers.around import Around
from callboard.layers.records import base
from callboard.layers.records.session import (
    MAX_CHILDREN,
    MAX_DESCENDANTS,
    GoalContract,
    Limits,
    RepositoryIdentity,
    Session,
)
from callboard.layers.requests.places import BUILDING
from callboard.layers.tree import LAYERS, MAX_DEPTH, SESSIONS, Layer
from callboard.validate import is_text
from callboard.visible import visible

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

    What an earlier one left that was killed is taken away. Raises `goal_invalid`, `value_invalid`
    for limits that no tree can have, `path_too_long` for ones that none can have here,
    `path_invalid`, `workflow_set_missing`, `workflow_set_invalid`.
    """
    _check_path(around)
    limits = _checked(limits)
    reach.check_depth(around.disk, limits.max_depth)
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
    building = f"{SESSIONS}/.{session_id}{BUILDING}"
    # One at a time builds, so that whatever lies there was left by somebody who is gone.
    with locking.writer(around):
        _sweep(around)
        tree.create(
            around.disk, building, session, goal_text, goal, frozen.contract, frozen.files(), now_ms
        )
        around.disk.move(building, f"{SESSIONS}/{session_id}")
    return tree.root(around.disk, session_id)


def _sweep(around: Around) -> None:
    for name in around.disk.names(SESSIONS):
        if name.startswith(".") and name.endswith(BUILDING):
            around.disk.remove_tree(f"{SESSIONS}/{name}")


def _check_path(around: Around) -> None:
    """Refuse a repository whose path could stand in no assignment, before anything begins there."""
    path = str(around.disk.root)
    if is_text(path) and len(path.splitlines()) == 1:
        return
    raise CallboardError(
        "path_invalid",
        f"the repository's path {visible(path)!r} is no UTF-8, or has more than one line",
        "move the repository to a path that can be written into a prompt",
        {"path": visible(path)},
    )


def _checked(limits: Limits) -> Limits:
    """The limits as they will be read again."""
    try:
        found = base.convert(base.document(limits), Limits, "the limits")
    except CallboardError as error:
        raise CallboardError("value_invalid", error.message, error.hint, error.details) from error
    for name, value, most in (
        ("max_depth", found.max_depth, MAX_DEPTH),
        ("max_children", found.max_children, MAX_CHILDREN),
        ("max_descendants", found.max_descendants, MAX_DESCENDANTS),
    ):
        if value > most:
            raise CallboardError(
                "value_invalid",
                f"{name} is {value}, and no tree may have more than {most}",
                f"give a {name} of at most {most}",
                {name: value, "limit": most},
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
        goal = base.convert(value, GoalContract, "the goal")
        stored.bounded("the goal with all its criteria", goal)
    except CallboardError as error:
        raise CallboardError("goal_invalid", error.message, error.hint, error.details) from error
    return goal
