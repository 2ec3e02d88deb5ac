"""The one unit of work: everything a change writes, under one revision, or nothing.

It takes the project's place, answers a request that was carried out before, compares the revision
that the caller expects, lets the operation write, adds the receipt, and advances the revision by
one. It knows no operation. Nothing of it, nor of the database, is handed out of the wing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from sqlalchemy import Connection, Engine, bindparam, select
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from callboard.canonical import digest
from callboard.errors import CallboardError
from callboard.project import schema, statements
from callboard.project.answers import Answer
from callboard.project.sqlite_file import UNREADABLE
from callboard.project.unit import Outside, Scope, Unit

A = TypeVar("A", bound=Answer)
R = TypeVar("R")

PERSON = "self"
"""Whose selection of a branch it is, where a store serves one person."""

_PROJECT = select(schema.projects).where(
    schema.projects.c.tenant == bindparam("tenant"),
    schema.projects.c.project == bindparam("project"),
)
# Where the database has no one place for writers, as SQLite has, the row is that place.
_PROJECT_LOCKED = _PROJECT.with_for_update()


@dataclass(frozen=True, slots=True)
class Order:
    """What somebody asks to be changed.

    `intent` holds everything that makes the request what it is, as JSON: under the same request id
    only the same intent of the same actor is answered. The expected revision is no part of it.
    """

    operation: str
    intent: Mapping[str, Any] = field(default_factory=dict)
    expected_revision: int | None = None
    request_id: str | None = None


Now = Callable[[Connection], int]
"""The time in Unix ms, as the database that a connection leads to has it."""


@dataclass(frozen=True, slots=True)
class Backing:
    """A database that is open, its clock, its project's files, and what its errors mean."""

    engine: Engine
    root: Path
    now_ms: Now
    explain: Callable[[Exception], CallboardError]
    unwritable: CallboardError | None = None


class Store:
    """One project in one database; `actor` is who asks, as they say themselves."""

    def __init__(
        self,
        backing: Backing,
        *,
        tenant: str,
        project: str,
        actor: str,
    ) -> None:
        self.actor = actor
        self.backing = backing
        self._engine = backing.engine
        self._writer = backing.engine.execution_options(writes=True)
        self._tenant = tenant
        self._project = project

    def close(self) -> None:
        """Let go of the database."""
        self._engine.dispose()

    def read(self, act: Callable[[Scope], R]) -> R:
        """What `act` finds at one moment."""
        try:
            with self._engine.begin() as connection:
                row = self._row(connection)
                return act(
                    Scope(
                        connection, *self._names(row), row.revision, *self._times(connection, row)
                    )
                )
        except (SQLAlchemyError, *UNREADABLE) as error:
            raise self._refusal(error) from error

    def write(self, order: Order, answer: type[A], act: Callable[[Unit], A]) -> A:
        """Carry `order` out by `act`, once: rows, events, receipt and revision, or nothing."""
        if self.backing.unwritable is not None:
            raise self.backing.unwritable
        fingerprint = digest([order.operation, self.actor, order.intent])
        outside: list[Outside] = []
        try:
            with self._writer.begin() as connection:
                row = self._row(connection, locked=True)
                unit = Unit(
                    connection,
                    *self._names(row),
                    row.revision + 1,
                    *self._times(connection, row),
                    row.last_seq,
                    self.actor,
                )
                before = self._first_answer(unit, order, answer, fingerprint)
                if before is not None:
                    return before
                _check_revision(order.expected_revision, row.revision)
                found = act(unit)
                if not unit.events:
                    raise AssertionError(f"{order.operation} tells nothing of what it did")
                self._keep(unit, order, fingerprint, found)
                self._advance(unit, row.revision)
                for act_outside in unit.last:
                    outside.append(act_outside())
                return found
        except (SQLAlchemyError, *UNREADABLE) as error:
            raise _put_back(outside, self._refusal(error)) from error
        except CallboardError as error:
            raise _put_back(outside, error) from error
        finally:
            for one in outside:
                one.close()

    # --- parts of it ---------------------------------------------------------------------------

    def _names(self, row: Any) -> tuple[str, str, str, str]:
        return self._tenant, self._project, row.key, PERSON

    def _times(self, connection: Connection, row: Any) -> tuple[int, int]:
        """The clock's time, and the time that counts: never before that of the last change."""
        machine_ms = self.backing.now_ms(connection)
        return machine_ms, max(machine_ms, int(row.clock_ms))

    def _row(self, connection: Connection, *, locked: bool = False) -> Any:
        whose = {"tenant": self._tenant, "project": self._project}
        row = statements.one(connection, _PROJECT_LOCKED if locked else _PROJECT, whose)
        if row is None:
            raise CallboardError(
                "project_missing",
                f"the database no longer holds the project {self._project!r}",
                "open it again",
            )
        return row

    def _first_answer(
        self, scope: Scope, order: Order, answer: type[A], fingerprint: str
    ) -> A | None:
        if order.request_id is None:
            return None
        row = scope.find(schema.receipts, request_id=order.request_id)
        if row is None:
            return None
        if row.fingerprint == fingerprint:
            return msgspec.json.decode(row.outcome, type=answer)
        details: dict[str, object] = {"request_id": order.request_id}
        if row.actor == self.actor:
            details |= {"operation": row.operation, "revision": row.revision}
        raise CallboardError(
            "request_conflict",
            f"the request id {order.request_id!r} already stands for another request",
            "use a new request id",
            details,
        )

    def _keep(self, unit: Unit, order: Order, fingerprint: str, found: Answer) -> None:
        if order.request_id is None:
            return
        unit.add(
            schema.receipts,
            request_id=order.request_id,
            operation=order.operation,
            actor=self.actor,
            fingerprint=fingerprint,
            revision=unit.revision,
            at_ms=unit.now_ms,
            outcome=msgspec.json.encode(found).decode(),
        )

    def _advance(self, unit: Unit, before: int) -> None:
        values = {"revision": unit.revision, "last_seq": unit.seq, "clock_ms": unit.now_ms}
        if unit.change(schema.projects, {"revision": before}, **values) != 1:
            raise _conflict(before, None)

    def _refusal(self, error: Exception) -> CallboardError:
        if isinstance(error, (DBAPIError, *UNREADABLE)):
            return self.backing.explain(error)
        return CallboardError(
            "storage_failed",
            f"the project's database failed: {type(error).__name__}",
            "nothing was written; run `callboard project doctor`",
        )


def _put_back(outside: list[Outside], refusal: CallboardError) -> CallboardError:
    """Undo what was done beside a change that is refused; the refusal says where that fails."""
    for one in reversed(outside):
        try:
            one.put_back()
        except CallboardError as error:
            code = refusal.code
            refusal = CallboardError(
                code,
                f"{refusal.message.removesuffix('; nothing was written')}; the project is as it "
                f"was, but {one.file!r} was written and cannot be put back: {error.message}",
                "look at the file; `callboard project source index` takes it up as it is",
                {**refusal.details, "file": one.file},
            )
    return refusal


def _check_revision(expected: int | None, actual: int) -> None:
    if expected is not None and expected != actual:
        raise _conflict(expected, actual)


def _conflict(expected: int, actual: int | None) -> CallboardError:
    return CallboardError(
        "revision_conflict",
        f"the project is at revision {actual}, not at {expected}; nothing was changed",
        "look at what changed, then ask again with the present revision",
        {"expected": expected, "actual": actual},
    )
