"""Making an answer short enough: long texts and lists lose their ends, and it says which.

What is cut keeps its type, so that whoever reads the answer needs no other rule for it. Short
things stay whole: only what is longer than its fair share of the room is cut.
"""

from __future__ import annotations

from typing import Any

from callboard.surfaces.mcp.answers import MAX_ANSWER_BYTES, Document, size_of

# For what is said about the cuts.
_SPARE = 4 * 1024
_LEAST = 16


def fits(document: Document) -> bool:
    """Whether it can be answered whole."""
    return size_of(document) <= MAX_ANSWER_BYTES


def cut(document: Document) -> Document:
    """The document within bounds; `left_out` has JSON pointers of what lost its end."""
    if fits(document):
        return document
    pointers: list[str] = []
    found = _cut(document, "", MAX_ANSWER_BYTES - _SPARE, pointers)
    assert isinstance(found, dict)
    while size_of(pointers) > _SPARE - 64:
        pointers.pop()
    return {**found, "left_out": pointers}


def _cut(value: Any, pointer: str, room: int, pointers: list[str]) -> Any:
    """The value within `room` bytes, as far as it has parts that can be left out."""
    if size_of(value) <= room:
        return value
    if isinstance(value, dict):
        return _dict(value, pointer, room, pointers)
    if isinstance(value, list):
        pointers.append(pointer)
        return _list(value, pointer, room, pointers)
    if isinstance(value, str):
        pointers.append(pointer)
        return _text(value, room)
    return value


def _dict(value: dict[str, Any], pointer: str, room: int, pointers: list[str]) -> dict[str, Any]:
    """Each member gets its share; what short ones leave over goes to the longer ones."""
    room -= 2 + sum(size_of(name) + 2 for name in value)
    if room < _LEAST * len(value):
        pointers.append(pointer)
        return {}
    found: dict[str, Any] = {}
    for number, name in enumerate(sorted(value, key=lambda name: size_of(value[name]))):
        share = room // (len(value) - number)
        found[name] = _cut(value[name], f"{pointer}/{_step(name)}", share, pointers)
        room -= size_of(found[name])
    return {name: found[name] for name in value}


def _list(value: list[Any], pointer: str, room: int, pointers: list[str]) -> list[Any]:
    """The first entries; the very first one shortened where not even that has room."""
    kept: list[Any] = []
    room -= 2
    for one in value:
        room -= size_of(one) + 1
        if room < 0:
            break
        kept.append(one)
    if kept or not isinstance(value[0], str | list | dict):
        return kept
    return [_cut(value[0], f"{pointer}/0", room + size_of(value[0]), pointers)]


def _text(value: str, room: int) -> str:
    """The longest start that has room, with a mark."""
    low, high = 0, len(value)
    while low < high:
        middle = (low + high + 1) // 2
        if size_of(value[:middle] + "…") <= room:
            low = middle
        else:
            high = middle - 1
    return value[:low] + "…"


def _step(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")
