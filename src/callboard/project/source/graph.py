"""How the items of all files refer to each other: names, goals, dependencies, cycles.

Pure. A dependency with a colon leads to another repository: nobody here can look there, so it is
neither checked nor ever taken away.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from callboard.project.names import shown, twin
from callboard.project.source.faults import Faults
from callboard.project.source.fields import is_external
from callboard.project.source.shape import Draft, Spot

_MAX_PATH_SHOWN = 12
_MAX_STARTS = 50


def check_names(drafts: Iterable[Draft], what: str, faults: Faults) -> dict[str, Draft]:
    """The first of each name; a name that is taken, also in another spelling, is a fault."""
    first: dict[str, Draft] = {}
    known: dict[str, Draft] = {}
    for draft in drafts:
        if draft.key is None:
            continue
        folded = twin(draft.key)
        other = first.get(folded)
        if other is None:
            first[folded] = known[draft.key] = draft
            continue
        spot = draft.spots.get(("id", -1), draft.spot)
        same = "stands twice" if other.key == draft.key else f"is taken for {shown(other.key)}"
        where = f"{other.spot.file} line {other.spot.line}"
        _tell(faults, spot, f"the {what} {shown(draft.key)} {same}, first in {where}")
    return known


def check_references(
    items: Mapping[str, Draft],
    goals: Mapping[str, Draft],
    faults: Faults,
    *,
    complete: bool,
) -> None:
    """Goals and dependencies that nothing has, and cycles.

    `complete` False: something could not be read, so what seems to be missing may be there.
    """
    twins = {twin(key): key for key in items} if complete else {}
    for draft in items.values():
        goal = draft.values.get("goal")
        if complete and goal is not None and goal not in goals:
            _tell(faults, draft.spots["goal", -1], f"no goal has the id {shown(goal)}")
        for number, edge in enumerate(draft.values.get("depends_on", ())):
            if is_external(edge) or edge in items or not complete:
                continue
            near = twins.get(twin(edge))
            hint = f"; {shown(near)} is meant?" if near else ""
            spot = draft.spots["depends_on", number]
            _tell(faults, spot, f"depends on {shown(edge)}, which no work item has{hint}")
    edges = {key: _inner(draft, items) for key, draft in items.items()}
    for cycle in cycles(edges):
        draft = items[cycle[0]]
        number = draft.values["depends_on"].index(cycle[1])
        _tell(faults, draft.spots["depends_on", number], f"a cycle: {path_text(cycle)}")


def path_text(path: Iterable[str]) -> str:
    """A path of names as one line; the middle of a long one is left out."""
    names = [shown(name)[1:-1] for name in path]
    if len(names) > _MAX_PATH_SHOWN:
        half = _MAX_PATH_SHOWN // 2
        left = len(names) - 2 * half
        names = [*names[:half], f"({left} more)", *names[-half:]]
    return " -> ".join(names)


def _inner(draft: Draft, items: Mapping[str, Draft]) -> list[str]:
    return [edge for edge in draft.values.get("depends_on", ()) if edge in items]


def cycles(edges: Mapping[str, Iterable[str]]) -> list[list[str]]:
    """The closed paths of the graph, each begun at its first item: `[A, B, A]`.

    In each knot those that are the shortest for one of its first items, each once. Takes no
    recursion, so a long chain is no danger.
    """
    order = {key: number for number, key in enumerate(edges)}
    found: dict[tuple[str, ...], None] = {}
    for knot in _Knots(edges).found:
        for start in sorted(knot, key=order.__getitem__)[:_MAX_STARTS]:
            ring = _round(start, knot, edges)[:-1]
            first = ring.index(min(ring, key=order.__getitem__))
            found[tuple(ring[first:] + ring[:first])] = None
    return sorted(
        ([*ring, ring[0]] for ring in found), key=lambda path: [order[key] for key in path]
    )


def _round(start: str, knot: set[str], edges: Mapping[str, Iterable[str]]) -> list[str]:
    """A shortest way from `start` back to it, inside the knot."""
    came: dict[str, str] = {}
    ring = [start]
    while ring:
        following = []
        for key in ring:
            for edge in edges[key]:
                if edge == start:
                    path = [start, key]
                    while path[-1] != start:
                        path.append(came[path[-1]])
                    return path[::-1]
                if edge in knot and edge not in came:
                    came[edge] = key
                    following.append(edge)
        ring = following
    raise AssertionError(f"{start} is on no cycle of its knot")


class _Knots:
    """The strongly connected parts that hold a cycle: Tarjan's way, with a stack of its own."""

    def __init__(self, edges: Mapping[str, Iterable[str]]) -> None:
        self._edges = edges
        self._index: dict[str, int] = {}
        self._low: dict[str, int] = {}
        self._stack: list[str] = []
        self._open: set[str] = set()
        self._work: list[tuple[str, Iterator[str]]] = []
        self.found: list[set[str]] = []
        for root in edges:
            if root not in self._index:
                self._enter(root)
                while self._work:
                    self._step()

    def _enter(self, key: str) -> None:
        self._index[key] = self._low[key] = len(self._index)
        self._stack.append(key)
        self._open.add(key)
        self._work.append((key, iter(self._edges[key])))

    def _step(self) -> None:
        key, rest = self._work[-1]
        edge = next((edge for edge in rest if edge in self._edges), None)
        if edge is None:
            self._leave(key)
        elif edge not in self._index:
            self._enter(edge)
        elif edge in self._open:
            self._low[key] = min(self._low[key], self._index[edge])

    def _leave(self, key: str) -> None:
        self._work.pop()
        if self._work:
            above = self._work[-1][0]
            self._low[above] = min(self._low[above], self._low[key])
        if self._low[key] != self._index[key]:
            return
        place = len(self._stack) - 1
        while self._stack[place] != key:
            place -= 1
        part = set(self._stack[place:])
        del self._stack[place:]
        self._open -= part
        if len(part) > 1 or key in self._edges[key]:
            self.found.append(part)


def _tell(faults: Faults, spot: Spot, message: str) -> None:
    faults.add(spot.file, spot.pointer, spot.line, spot.column, message)
