"""The way from what callers hold to the store, which they cannot go themselves.

A public object has a `Key`, and a key is a word that means something in this module only. No
attribute, closure or exception that leaves the wing leads to a store, a connection or a table.
That keeps programs from writing past the operations by accident; it does not keep out code that
reaches into this module on purpose.
"""

from __future__ import annotations

import secrets
import traceback
from collections.abc import Callable
from typing import NoReturn, TypeVar

from callboard.errors import CallboardError
from callboard.project import names, queries
from callboard.project.answers import Answer
from callboard.project.opening import Surroundings
from callboard.project.sqlite_file import UNREADABLE
from callboard.project.store import Order, Store
from callboard.project.unit import Nothing, Scope, Unit, lost

A = TypeVar("A", bound=Answer)
R = TypeVar("R")

_stores: dict[str, Store] = {}
_surroundings: dict[str, Surroundings] = {}


class Key:
    """Stands for an open store, which is closed with the last object that has the key."""

    # No `__weakref__`: whatever watched a key could be found by way of it.
    __slots__ = ("_word",)

    def __init__(self, word: str) -> None:
        self._word = word

    def __del__(self) -> None:
        close(self)


def register(store: Store, around: Surroundings) -> Key:
    """A new key to a store that was opened with `around`."""
    word = secrets.token_hex(16)
    _surroundings[word] = around
    _stores[word] = store
    return Key(word)


def close(key: Key) -> None:
    """Close the store; the key opens nothing any more."""
    _surroundings.pop(key._word, None)
    store = _stores.pop(key._word, None)
    if store is not None:
        store.close()


def store_of(key: Key) -> Store:
    """The store, for the wing's own rooms."""
    store = _stores.get(key._word)
    if store is None:
        raise CallboardError(
            "project_closed", "the project was closed by this program", "open it again"
        )
    return store


def around_of(key: Key) -> Surroundings:
    """What the store was opened with. Raises `project_closed`."""
    store_of(key)
    return _surroundings[key._word]


def was_answered(store: Store, order: Order) -> bool:
    """Whether somebody made a request of that id before, so that its answer is all it can get.

    That answer is given, or refused, by `Store.write` alone; whoever would look at files first
    looks at none of them then.
    """
    request = order.request_id
    if request is None:
        return False
    return store.read(lambda scope: queries.is_carried_out(scope, request))


def not_again(_unit: Unit) -> NoReturn:
    """What an order that was answered before does."""
    raise AssertionError("a request that was answered before is not carried out again")


def read(key: Key, act: Callable[[Scope], R]) -> R:
    """What `act` finds at one moment."""
    return _plain(lambda: store_of(key).read(act))


def write(key: Key, order: Order, answer: type[A], act: Callable[[Unit], A]) -> A:
    """Carry `order` out by `act`: all of it under one revision, or nothing."""
    return _plain(lambda: store_of(key).write(order, answer, act))


def refuse_plainly(act: Callable[[], R]) -> R:
    """What `act` gives; its refusal comes without the frames that hold the database."""
    return _plain(act)


def _plain(act: Callable[[], R]) -> R:
    try:
        return act()
    except CallboardError as error:
        refusal: Exception = CallboardError(error.code, error.message, error.hint, error.details)
    except UNREADABLE as error:
        refusal = lost(names.shown(str(error)))
    except Nothing:
        # The group that asked takes it; no caller sees it.
        raise
    # A defect, which nobody hides; but its frames hold the database.
    except Exception as error:  # noqa: BLE001
        kind = type(error) if type(error) in _PLAIN else AssertionError
        refusal = kind(f"{type(error).__name__}: {error}")
        refusal.add_note("".join(traceback.format_exception(error)))
    # Outside of the handler, so that it has no context either.
    raise refusal


_PLAIN = (AssertionError, AttributeError, KeyError, RuntimeError, TypeError, ValueError)
"""Kinds that are made anew from words alone."""
