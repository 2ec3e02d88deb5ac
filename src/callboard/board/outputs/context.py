"""The trusted context of an agent: as what it was started, and where its files are.

Source: specification 1, §7.12 (observers, origins and worker authority). A private file that the
trusted side writes at activation. The role stands here and nowhere else, and a file that cannot
be read makes nobody an observer.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Annotated, Literal

from msgspec import UNSET, Meta, UnsetType

from callboard import canonical
from callboard.board.protocol.agent_roles import AgentRole
from callboard.board.protocol.policy import Record
from callboard.board.protocol.scalars import Identity
from callboard.errors import CallboardError
from callboard.files import publish
from callboard.regular import read_regular, shown_name
from callboard.validate import parse

CONTEXT_VARIABLE = "CALLBOARD_CONTEXT"
MAX_CONTEXT_BYTES = 64 * 1024
_HINT = "the host writes it when it starts an agent; start the agent again"

Bound = Annotated[int, Meta(ge=0, le=4096)]
FilePath = Annotated[str, Meta(min_length=1, max_length=4096)]


class AgentTerms(Record, frozen=True, kw_only=True):
    """What an agent without a Claim may ask for in all: launches, Claims, and of which pool.

    `pools` are those of the board when the agent was started; absent before there was one.
    """

    max_dispatches: Bound
    max_claims: Bound
    pool: Identity | None
    pools: list[Identity] | UnsetType = UNSET


class AgentContext(Record, frozen=True, kw_only=True):
    """One agent's context. Paths are absolute.

    `work_tree` is the folder that a worker's files are taken from, where it has one.
    """

    version: Literal[1]
    role: AgentRole
    snapshot: FilePath
    staging: FilePath | None
    assignment: FilePath | None
    terms: AgentTerms | None
    work_tree: FilePath | UnsetType = UNSET


def write_context(path: Path, context: AgentContext) -> None:
    """Write the file, mode 0600, whole or not at all. Raises `OSError`."""
    publish(path, canonical.encode(context) + b"\n", private=True)


def read_context(path: Path) -> AgentContext:
    """The context in a file that nobody but its owner may write to.

    Raises `assignment_invalid` for a worker without an assignment, and for everything else that
    is wrong `context_invalid`.
    """
    try:
        data = read_regular(
            str(path), MAX_CONTEXT_BYTES, what="the agent's context", code="resource_limit"
        )
        value = canonical.decode(data, limit_bytes=MAX_CONTEXT_BYTES)
    except CallboardError as error:
        raise CallboardError("context_invalid", error.message, _HINT, error.details) from error
    _check_private(path)
    context = parse(AgentContext, value, what="agent's context", code="context_invalid")
    _check_relations(context)
    return context


def _check_private(path: Path) -> None:
    try:
        mode = os.lstat(path).st_mode
    except OSError as error:
        raise _invalid(f"{shown_name(str(path))!r} is gone: {error.strerror}") from error
    if mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise _invalid(
            f"{shown_name(str(path))!r} can be written by others (mode {stat.S_IMODE(mode):o})"
        )


def _check_relations(context: AgentContext) -> None:
    role = context.role
    if role == "worker" and context.assignment is None:
        raise CallboardError(
            "assignment_invalid",
            "the context is a worker's and names no assignment",
            "a worker never acts without one; " + _HINT,
        )
    if role != "worker" and context.assignment is not None:
        raise _invalid(f"the context of {_a(role)} names an assignment")
    if role == "observer" and (context.staging is not None or context.terms is not None):
        raise _invalid("the context of an observer has a staging folder or terms")
    if role != "observer" and context.staging is None:
        raise _invalid(f"the context of {_a(role)} names no staging folder")
    paths = {
        "snapshot": context.snapshot,
        "staging": context.staging,
        "assignment": context.assignment,
        "work_tree": context.work_tree,
    }
    for name, found in paths.items():
        if isinstance(found, str) and (not os.path.isabs(found) or "\0" in found):
            raise _invalid(f"{name} is {shown_name(found)!r}, not an absolute path")


def _a(role: str) -> str:
    return f"an {role}" if role == "observer" else f"a {role}"


def _invalid(found: str) -> CallboardError:
    return CallboardError("context_invalid", found, _HINT)
