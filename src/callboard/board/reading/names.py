"""How Work is named for people, and how what they type finds it again.

A node key where it is enough, the graph before it where it is not, else the start of the Work's
id. An ambiguous name is refused with what it could mean; nothing is ever guessed.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Container, Iterable
from functools import cached_property

from callboard.board.projection.entities import ClaimState, DispatchState, WorkState
from callboard.board.projection.state import Projection
from callboard.board.protocol import identities
from callboard.errors import CallboardError
from callboard.validate import is_text, near

MIN_PREFIX = 6
_SHORT = 12
_MAX_CANDIDATES = 20
_MAX_NEAR = 2_000
_HEX_PREFIX = re.compile(r"[0-9a-f]{6,64}")
_TYPED_PLAINLY = re.compile(r"[A-Za-z0-9_./@%+=,:][A-Za-z0-9_./@%+=,:-]*")


class Names:
    """The names of one projection's Work.

    Where `shown` is given, Work that is not in it goes by the start of its id everywhere: its
    node key and its graph are told to nobody.
    """

    def __init__(self, projection: Projection, shown: Container[str] | None = None) -> None:
        self._projection = projection
        self._shown = shown

    def is_shown(self, work_id: str) -> bool:
        """Whether what was submitted of this Work may be told."""
        return self._shown is None or work_id in self._shown

    @cached_property
    def _uses(self) -> Counter[str]:
        return Counter(state.work.node_key for state in self._projection.works.values())

    def label(self, work_id: str) -> str:
        """What people read: the node key, or the graph with it where several nodes share it."""
        if not self.is_shown(work_id):
            return work_id[:_SHORT]
        work = self._projection.works[work_id].work
        if self._uses[work.node_key] == 1:
            return work.node_key
        if work.graph_id == identities.root_graph_id(work.payload):
            return work_id[:_SHORT]
        return f"{work.graph_id}:{work.node_key}"

    def typed(self, work_id: str) -> str:
        """What people can type as it stands to mean this Work."""
        label = self.label(work_id)
        return label if _TYPED_PLAINLY.fullmatch(label) else work_id[:_SHORT]

    def path(self, work_ids: Iterable[str]) -> list[str]:
        """Node keys along a path."""
        return [self._step(work_id) for work_id in work_ids]

    def _step(self, work_id: str) -> str:
        if not self.is_shown(work_id):
            return work_id[:_SHORT]
        return self._projection.works[work_id].work.node_key


def find_work(projection: Projection, text: str) -> WorkState:
    """The Work that a selector means: a node key, `graph:key`, a Work id or 6 or more of its
    first digits.

    Raises `work_unknown`, or `selector_ambiguous` with the candidates.
    """
    works = projection.works
    if text in works:
        return works[text]
    found = {state.work.work_id: state for state in works.values() if state.work.node_key == text}
    for at, char in enumerate(text):
        if char == ":" and is_text(text):
            work_id = identities.work_id(text[:at], text[at + 1 :])
            if work_id in works:
                found[work_id] = works[work_id]
    if not found and _HEX_PREFIX.fullmatch(text):
        found = {key: state for key, state in works.items() if key.startswith(text)}
    if len(found) == 1:
        return next(iter(found.values()))
    if found:
        raise _ambiguous(text, list(found.values()))
    raise _unknown(projection, text)


def _ambiguous(text: str, found: list[WorkState]) -> CallboardError:
    shown = [
        {
            "work_id": state.work.work_id,
            "graph_id": state.work.graph_id,
            "node_key": state.work.node_key,
        }
        for state in found[:_MAX_CANDIDATES]
    ]
    first = ", ".join(f"{state.work.work_id[:_SHORT]}" for state in found[:4])
    return CallboardError(
        "selector_ambiguous",
        f"{text[:80]!r} can mean {len(found)} nodes",
        f"say graph:key, or more of one id: {first}" + (", ..." if len(found) > 4 else ""),
        {"count": len(found), "candidates": shown},
    )


def _unknown(projection: Projection, text: str) -> CallboardError:
    keys = [state.work.node_key for state in projection.works.values()]
    close = near(text, list(dict.fromkeys(keys))[-_MAX_NEAR:])
    return CallboardError(
        "work_unknown",
        f"the board has no node {text[:80]!r}{close}",
        f"name a node by its key, graph:key, its Work id or {MIN_PREFIX} or more of its first "
        "digits; `callboard status` lists the board",
    )


def find_claim(projection: Projection, text: str) -> ClaimState:
    """The Claim of an id, or of an unambiguous start of one."""
    return projection.claims[_find_id(projection.claims, text, "claim_unknown", "Claim")]


def find_dispatch(projection: Projection, text: str) -> DispatchState:
    """The dispatch of an id, or of an unambiguous start of one."""
    return projection.dispatches[
        _find_id(projection.dispatches, text, "dispatch_unknown", "dispatch")
    ]


def _find_id(known: Iterable[str], text: str, code: str, what: str) -> str:
    ids = list(known)
    found = [text] if text in ids else []
    if not found and len(text) >= MIN_PREFIX + len("c_"):
        found = [one for one in ids if one.startswith(text)]
    if len(found) == 1:
        return found[0]
    if found:
        raise CallboardError(
            "selector_ambiguous",
            f"{text[:80]!r} can mean {len(found)} {what}s",
            "give more of the id",
            {"count": len(found), "candidates": found[:_MAX_CANDIDATES]},
        )
    raise CallboardError(
        code,
        f"the board has no {what} {text[:80]!r}",
        "give its id as `callboard show NODE` prints it",
    )
