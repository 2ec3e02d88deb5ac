"""Everything that is wrong with the trees of a repository, told in one pass; nothing is changed.

What is damaged hides nothing else: each layer is looked at by itself, then each edge, then the
tree as a whole.
"""

from __future__ import annotations

from callboard.layers import tree
from callboard.layers.around import Around
from callboard.layers.checking.desk import Desk
from callboard.layers.checking.edges import check_edges
from callboard.layers.checking.findings import Finding, Findings
from callboard.layers.checking.one_layer import Facts, check_layer
from callboard.layers.records.session import Limits, RepositoryIdentity

__all__ = ["Finding", "check"]

_AT_TOP = frozenset(
    {"repository.json", ".gitignore", "sessions", "traces", "events.jsonl"}
    | {"coordinator.lock", "coordinator.json", "writer.lock"}
)


def check(around: Around, root_id: str | None = None) -> tuple[Finding, ...]:
    """All findings, sorted by place, of the tree `root_id` or of every tree.

    Raises `layer_missing` where there is no such root.
    """
    disk = around.disk
    if root_id is not None and root_id not in tree.roots(disk):
        raise tree.missing(root_id)
    findings = Findings()
    desk = Desk(disk, disk.survey(tree.SESSIONS if root_id is None else _root(root_id)), findings)
    identity = _check_top(desk, root_id)
    for name in tree.roots(disk) if root_id is None else [root_id]:
        _check_tree(desk, _root(name), identity)
    for place, error in desk.survey.refused.items():
        # A folder that is gone since was told as missing, or nothing asks for it.
        if error.code != "file_missing":
            findings.refused(place, error)
    return findings.sorted()


def _root(session_id: str) -> str:
    return f"{tree.SESSIONS}/{session_id}"


def _check_top(desk: Desk, root_id: str | None) -> str | None:
    """What lies beside the trees; answers the id of the repository."""
    if desk.disk.kind(tree.LAYERS) is None:
        # Nobody ever began a tree here.
        return None
    identity = desk.record(f"{tree.LAYERS}/repository.json", RepositoryIdentity)
    if root_id is None:
        for name, kind in desk.disk.entries(tree.LAYERS):
            desk.stray(tree.LAYERS, name, kind, expected=name in _AT_TOP)
        for name, kind in desk.entries(tree.SESSIONS):
            expected = desk.is_layer(tree.SESSIONS, name, kind)
            desk.stray(tree.SESSIONS, name, kind, expected=expected)
    return None if identity is None else identity.repository_id


def _check_tree(desk: Desk, root: str, repository_id: str | None) -> None:
    facts = {place: check_layer(desk, place) for place in _layers(desk, root)}
    for one in facts.values():
        _check_identity(desk, one, repository_id)
    children: dict[str, dict[str, Facts]] = {}
    for place, one in facts.items():
        children.setdefault(place.rpartition("/children/")[0], {})[one.session_id] = one
    for place, one in facts.items():
        check_edges(desk, one, children.get(place, {}))
    _check_limits(desk, root, facts)
    _check_twice(desk, facts)


def _layers(desk: Desk, root: str) -> list[str]:
    """The places of all layers, parents first, by the names of their folders."""
    found = [root]
    for place in found:
        found += [
            f"{place}/children/{name}"
            for name, kind in desk.entries(f"{place}/children")
            if desk.is_layer(f"{place}/children", name, kind)
        ]
    return found


def _check_identity(desk: Desk, facts: Facts, repository_id: str | None) -> None:
    session = facts.session
    if session is not None and repository_id not in (None, session.repository_id):
        desk.findings.add(
            "topology_broken", facts.file("session.json"),
            f"the layer belongs to the repository {session.repository_id},"
            f" this one is {repository_id}",
        )  # fmt: skip


def _check_limits(desk: Desk, root: str, facts: dict[str, Facts]) -> None:
    session = facts[root].session
    limits = session.limits if session is not None else None
    if limits is None:
        return
    below = len(facts) - 1
    if below > limits.max_descendants:
        _beyond(desk, facts[root], "layers below the root", below, limits.max_descendants)
    for one in facts.values():
        _check_own_limits(desk, one, limits)


def _check_own_limits(desk: Desk, facts: Facts, limits: Limits) -> None:
    allowed = min(limits.max_depth, tree.MAX_DEPTH)
    if facts.depth > allowed:
        _beyond(desk, facts, "levels below the root", facts.depth, allowed)
    children = len(facts.index.children) if facts.index is not None else 0
    if children > limits.max_children:
        _beyond(desk, facts, "child layers", children, limits.max_children)


def _beyond(desk: Desk, facts: Facts, what: str, found: int, allowed: int) -> None:
    message = f"{found} {what}, the root allows {allowed}"
    desk.findings.add("limit_exceeded", facts.file("session.json"), message)


def _check_twice(desk: Desk, facts: dict[str, Facts]) -> None:
    first: dict[str, str] = {}
    for place in facts:
        session_id = place.rpartition("/")[2]
        if session_id in first:
            message = f"the session {session_id} lies at {first[session_id]} too"
            desk.findings.add("topology_broken", place, message)
        first.setdefault(session_id, place)
