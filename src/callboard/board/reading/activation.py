"""What an agent is shown of the board: the snapshot that is taken when it is started.

Source: specification 1, §§7.9, 7.12. Of Work that is not the agent's own only place and reason are
told, and no word that anybody submitted; how many compete is no secret. Columns, reasons and
predictions are those of the other readings. It costs in proportion to the board.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import msgspec
from msgspec import UNSET, structs

from callboard.board.protocol.operations import WorkDependency
from callboard.board.protocol.policy import PolicyDocument, Pool
from callboard.board.protocol.scalars import PRIORITIES
from callboard.board.reading.activation_document import (
    MAX_BODY_BYTES,
    MAX_NODES,
    MAX_ROW_BYTES,
    MAX_SETTLED,
    PROVENANCE,
    LeftOut,
    Node,
    PoolFacts,
    Role,
    Snapshot,
)
from callboard.board.reading.attempts import claim_document
from callboard.board.reading.columns import COLUMNS, Column, Columns, Placed
from callboard.board.reading.detail import obstacles, placed_document
from callboard.board.reading.planning import line, next_document
from callboard.board.reading.view import Document, View
from callboard.canonical import encode_trusted

MAX_AHEAD = 500
"""The grants of a pool that are predicted."""
MAX_OBSTACLES = 16
MAX_KEYS = 64
MAX_WORKERS = 64
PREDICTION = "a prediction at this snapshot; a grant decides anew"
_NEXT = 3
# What needs somebody comes first.
_ORDER: tuple[Column, ...] = ("stuck", "running", "ready", "waiting", "done")
# What else a claim document has are names of requests and commits, which somebody chose.
_TRIED = (
    "claim_id", "handle", "state", "stage", "granted_at", "dispatch_id", "launch", "run_id",
    "launch_reason", "conclusion", "cancellation_reason", "retry_not_before",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Viewer:
    """Whom a snapshot is for.

    A worker sees its own `members` (`{claim handle: Work id}`) in full and nothing else; everybody
    else what `principal` submitted, which is nothing without one.
    """

    role: Role
    principal: str | None = None
    members: Mapping[str, str] = field(default_factory=dict)

    def shown(self, view: View) -> frozenset[str]:
        """The Work whose submitted words may be told."""
        if self.role == "worker":
            return frozenset(self.members.values())
        if self.principal is None:
            return frozenset()
        return frozenset(
            work_id
            for request in view.projection.requests.values()
            if request.actor.principal == self.principal
            for work_id in request.works
        )


def activation_snapshot(view: View, viewer: Viewer) -> Snapshot:
    """The snapshot of a view for one agent."""
    projection = view.projection
    shown = viewer.shown(view)
    pools: list[PoolFacts] = []
    nodes: list[Node] = []
    left_out = LeftOut(unsettled=0, settled=0, bodies=0)
    if projection.tip is not None:
        columns = Columns(view, shown)
        placed = columns.all()
        lines = {
            name: [winner.state.work.work_id for winner in line(view, name, MAX_AHEAD)]
            for name in sorted(projection.policy.pools)
        }
        census = _Census(shown, (one for column in COLUMNS for one in placed[column]))
        pools = [_pool(view, name, census, shown, ids) for name, ids in lines.items()]
        nodes, left_out = _nodes(_Rows(columns, viewer, shown, lines.values()), placed)
    return Snapshot(
        version=1,
        provenance=PROVENANCE,
        role=viewer.role,
        tip=projection.tip,
        evaluated_at_ms=view.at_ms,
        repository=projection.repository,
        paused={"admission": projection.admission_paused, "grants": projection.grants_paused},
        pools=pools,
        nodes=nodes,
        left_out=left_out,
    )


# --- nodes ---------------------------------------------------------------------------------------


class _Rows:
    """Makes the rows of a snapshot."""

    def __init__(
        self,
        columns: Columns,
        viewer: Viewer,
        shown: Collection[str],
        lines: Iterable[list[str]],
    ) -> None:
        self._columns = columns
        self.shown = shown
        self._handles = {work_id: handle for handle, work_id in viewer.members.items()}
        self._ahead = {work_id: at for ids in lines for at, work_id in enumerate(ids)}

    def node(self, placed: Placed) -> Node:
        """A Work's row without its bodies."""
        work = placed.state.work
        node = Node(
            work_id=work.work_id,
            pool=work.pool,
            priority=placed.state.priority,
            column=placed.column,
            stage=self._columns.stage(placed),
            reason=placed.reason,
        )
        if work.work_id not in self.shown:
            # Whoever cancels a Work says why in a word of his own.
            word = placed.state.cancellation_reason
            own_word = placed.column == "done" and word is not None
            return structs.replace(node, reason="cancelled") if own_word else node
        return structs.replace(node, **self._words(placed))

    def _words(self, placed: Placed) -> Document:
        columns, work = self._columns, placed.state.work
        found = placed_document(columns, placed)
        obstructed = obstacles(columns, work.work_id)
        tried = columns.attempts.get(work.work_id, ())
        claims = [claim_document(columns.view.projection, one) for one in tried]
        return {name: found[name] for name in Node.__struct_fields__ if name in found} | {
            "claim_handle": self._handles.get(work.work_id, UNSET),
            "worker_profile": work.worker_profile,
            "depends_on": work.predecessors,
            "gates": [
                msgspec.to_builtins(one)
                for one in work.depends_on
                if not isinstance(one, WorkDependency)
            ],
            "obstacles": obstructed[:MAX_OBSTACLES],
            "claims": [{name: one[name] for name in _TRIED if name in one} for one in claims],
            "ahead": self._ahead.get(work.work_id, UNSET),
        }


def _nodes(rows: _Rows, placed: Mapping[Column, list[Placed]]) -> tuple[list[Node], LeftOut]:
    """The rows that there is room for, the reader's own Work first."""
    room, bodies = MAX_ROW_BYTES, MAX_BODY_BYTES
    nodes: list[Node] = []
    kept: Counter[bool] = Counter()
    without_body = 0
    for one in _chosen(placed, rows.shown):
        node = rows.node(one)
        room -= len(encode_trusted(node))
        if room < 0 or len(nodes) == MAX_NODES:
            break
        if node.is_shown:
            result = one.state.result
            body = {"payload": one.state.work.payload} | ({"result": result} if result else {})
            size = len(encode_trusted(body))
            fits = size <= bodies
            bodies -= size if fits else 0
            without_body += not fits
            node = structs.replace(node, **(body if fits else {"body_left_out": True}))
        nodes.append(node)
        kept[one.column == "done"] += 1
    done = len(placed["done"])
    total = sum(map(len, placed.values()))
    return nodes, LeftOut(
        unsettled=total - done - kept[False], settled=done - kept[True], bodies=without_body
    )


def _chosen(placed: Mapping[Column, list[Placed]], shown: Collection[str]) -> Iterator[Placed]:
    """Work in the order of the snapshot; of what is done only the latest."""
    for own in (True, False):
        for column in _ORDER:
            left = MAX_SETTLED if column == "done" else len(placed[column])
            for one in placed[column]:
                if left and (one.state.work.work_id in shown) == own:
                    left -= 1
                    yield one


# --- pools ---------------------------------------------------------------------------------------


class _Census:
    """How many nodes stand in which column, by pool, class and key, counted in one pass."""

    def __init__(self, shown: Collection[str], placed: Iterable[Placed]) -> None:
        self.pools: Counter[tuple[str, Column]] = Counter()
        self.classes: Counter[tuple[str, int, Column]] = Counter()
        self.keys: dict[str, dict[str, Counter[Column]]] = {}
        self.told: dict[str, set[str]] = {}
        for one in placed:
            work = one.state.work
            self.pools[work.pool, one.column] += 1
            self.classes[work.pool, one.state.priority, one.column] += 1
            keys = self.keys.setdefault(work.pool, {})
            keys.setdefault(work.fairness_key, Counter())[one.column] += 1
            if work.work_id in shown:
                self.told.setdefault(work.pool, set()).add(work.fairness_key)

    def class_rows(self, pool: str, policy: PolicyDocument) -> list[Document]:
        """A row a priority; weights only where they count."""
        weighted = policy.mode != "strict-priority"
        return [
            {
                "priority": priority,
                **({"weight": policy.class_weights[priority - 1]} if weighted else {}),
                "columns": _told({one: self.classes[pool, priority, one] for one in COLUMNS}),
            }
            for priority in PRIORITIES
        ]

    def key_rows(self, pool: str, policy: PolicyDocument) -> tuple[list[Document], Document]:
        """A row for each key of Work that is shown, and one for all others together."""
        by_key = self.keys.get(pool, {})
        # The key that nobody chose is no word of anybody's.
        told = sorted({"", *self.told.get(pool, ())} & by_key.keys())[:MAX_KEYS]
        rows: list[Document] = [
            {
                "key": key,
                "weight": policy.accounting_weights.get(key, 1),
                "columns": _told(by_key[key]),
            }
            for key in told
        ]
        others = by_key.keys() - told
        together: Counter[Column] = Counter()
        for key in others:
            together.update(by_key[key])
        return rows, {"count": len(others), "columns": _told(together)}


def _pool(
    view: View, name: str, census: _Census, shown: Collection[str], ids: list[str]
) -> PoolFacts:
    projection = view.projection
    policy, rules, counts = projection.policy, projection.pool(name), projection.pool_state(name)
    keys, other_keys = census.key_rows(name, policy)
    return PoolFacts(
        pool=name,
        mode=policy.mode,
        columns={column: census.pools[name, column] for column in COLUMNS},
        limits=_limits(policy, rules),
        open={
            "claims": counts.open_claims,
            "dispatches": counts.unreleased,
            "unsettled": counts.unsettled,
        },
        classes=census.class_rows(name, policy),
        keys=keys,
        other_keys=other_keys,
        workers=[
            {
                "worker_profile": worker,
                "available": route.head.available,
                "max_claims": route.head.profile.max_claims,
                "is_default": worker == rules.default_profile,
            }
            for worker, route in sorted(counts.routes.items())[:MAX_WORKERS]
        ],
        prediction=_prediction(view, name, shown, ids),
    )


def _limits(policy: PolicyDocument, rules: Pool) -> dict[str, int]:
    limits = {
        "claims": rules.logical_limit,
        "dispatches": rules.native_limit,
        "unsettled": policy.limits.pending_nodes,
        "attempts": rules.retry.max_attempts,
        "backoff_ms": rules.retry.backoff_ms,
    }
    if isinstance(rules.per_account_limit, int):
        limits["claims_per_key"] = rules.per_account_limit
    return limits


def _told(columns: Mapping[Column, int]) -> Document:
    """Counts by column, without those that are zero."""
    return {column: columns[column] for column in COLUMNS if columns.get(column)}


def _prediction(view: View, pool: str, shown: Collection[str], ids: list[str]) -> Document:
    """What a grant asked for at the snapshot would say, and who stands in line."""
    found = next_document(view, pool)
    if found["work_id"] not in shown:
        del found["node_key"]
    del found["observations"]
    return {
        "label": PREDICTION,
        **{name: value for name, value in found.items() if value is not None},
        "line": ids[:_NEXT],
        "line_length": len(ids),
        "line_is_whole": len(ids) < MAX_AHEAD,
    }
