"""Every change of one field of a commit, derived from the record types themselves.

A new field of a record is changed without a word here. A scalar with a pattern that is not known
yet is an error, which says where to add values for it. Nothing here judges what a change means.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

from msgspec import inspect

from callboard.board.protocol import operations as ops
from callboard.board.protocol import scalars
from callboard.board.protocol.commit import QueueCommit
from callboard.canonical import MAX_SAFE_INTEGER

Doc = dict[str, Any]
Path = tuple[str | int, ...]

_DIGITS, _HEX40, _HEX64 = "9" * 256, "b" * 40, "c" * 64


class Change(NamedTuple):
    """A record with one place changed: the field, as type and name, and what was done to it."""

    field: str
    path: Path
    what: str
    document: Doc


class Field(NamedTuple):
    """A place in a document and what its type says of it."""

    name: str
    path: Path
    info: inspect.Type


ROOT = inspect.type_info(QueueCommit)

# --- values of the scalars ----------------------------------------------------------------------

_GOOD: dict[Any, list[str]] = {
    scalars.Identity: ["x", "y" * 256, "é" * 128, "\u2028"],
    scalars.FairnessKey: ["", "team", "k" * 128, "😀" * 32],
    scalars.ReasonCode: ["r", "R" + "_.:-9" * 25 + "zz"],
    scalars.Decimal: ["1", "900", _DIGITS],
    scalars.Revision: [_HEX40, _HEX64],
    scalars.Digest: [_HEX64],
    ops.DigestOrNone: ["", _HEX64],
    scalars.RepositoryName: ["other/place", "o/" + "n" * 254],
    scalars.WorkflowPath: [".github/workflows/other.lock.yml", ".callboard/workers/other.toml"],
}
_BAD: dict[Any, list[str]] = {
    scalars.Identity: ["", "y" * 257, "é" * 129, "a\x00", "a\x7f", "a\n"],
    scalars.FairnessKey: ["k" * 129, "é" * 65, "\x1f"],
    scalars.ReasonCode: ["", ".r", "r r", "r\n", "é", "r" * 129],
    scalars.Decimal: ["", "0", "01", "+1", "1.0", "1\n", "٣", "9" * 257],
    scalars.Revision: ["", "b" * 39, "b" * 41, "B" * 40, "b" * 40 + "\n"],
    scalars.Digest: ["", "c" * 63, "C" * 64, "c" * 64 + "\n"],
    ops.DigestOrNone: ["c", "c" * 64 + "\n", "\n"],
    scalars.RepositoryName: ["o", "o/", "/n", "o/n/m", "o n/m", "o/n\n", "o/" + "n" * 255],
    scalars.WorkflowPath: [
        "", "x.toml", ".callboard/workers/../a.toml", ".callboard/workers/a/b.toml",
        ".github/workflows/a.yml", ".callboard/workers/a.toml\n", ".callboard/workers/.toml",
    ],
}  # fmt: skip


def _text_key(info: inspect.StrType) -> tuple[str | None, int | None, int | None]:
    return info.pattern, info.min_length, info.max_length


def _text_of(info: inspect.Type) -> inspect.StrType:
    inner = info.type if isinstance(info, inspect.Metadata) else info
    assert isinstance(inner, inspect.StrType)
    return inner


_GOOD_TEXTS = {_text_key(_text_of(inspect.type_info(kind))): texts for kind, texts in _GOOD.items()}
_BAD_TEXTS = {_text_key(_text_of(inspect.type_info(kind))): texts for kind, texts in _BAD.items()}
_FREE: list[Any] = [{}, {"n": -MAX_SAFE_INTEGER, "é": [None, True, {"": "\x00"}]}]


def _nested(levels: int) -> Any:
    value: Any = {}
    for _ in range(levels):
        value = {"d": value}
    return value


def good(info: inspect.Type) -> list[Any]:
    """Values that the type takes, its bounds among them."""
    info = _bare(info)
    if isinstance(info, inspect.ListType):
        least = info.min_length or 0
        member = good(info.item_type)
        several = [*member, *[member[0]] * least][: max(least, len(member))]
        return [[member[0]] * least, [member[-1]] * max(1, least), several[: info.max_length]]
    if isinstance(info, inspect.DictType) and not isinstance(info.value_type, inspect.AnyType):
        member = good(info.value_type)
        return [{key: member[0]} for key in good(info.key_type)]
    if isinstance(info, (inspect.DictType, inspect.AnyType)):
        return copy.deepcopy(_FREE)
    if isinstance(info, inspect.StructType):
        return [sample(info)]
    if isinstance(info, inspect.UnionType):
        return [value for arm in info.types for value in good(arm)]
    return _good_scalars(info)


def _good_scalars(info: inspect.Type) -> list[Any]:
    if isinstance(info, inspect.StrType):
        return list(_GOOD_TEXTS[_text_key(info)])
    if isinstance(info, inspect.IntType):
        low, high = _range(info)
        return [low, min(low + 1, high), high]
    if isinstance(info, inspect.LiteralType):
        return list(info.values)
    if isinstance(info, inspect.BoolType):
        return [True, False]
    if isinstance(info, inspect.NoneType):
        return [None]
    raise TypeError(f"no values for {info!r}")


def _range(info: inspect.IntType) -> tuple[int, int]:
    low = -MAX_SAFE_INTEGER if info.ge is None else info.ge
    return low, MAX_SAFE_INTEGER if info.le is None else info.le


def bad(info: inspect.Type) -> list[Any]:
    """Values that the type refuses, just beyond its bounds or of another type."""
    info = _bare(info)
    if isinstance(info, inspect.StrType):
        return [*_BAD_TEXTS[_text_key(info)], 1, None, True, ["x"], {}]
    if isinstance(info, inspect.IntType):
        low, high = _range(info)
        return [low - 1, high + 1, low + 0.5, str(low), None, low == 1, []]
    if isinstance(info, inspect.BoolType):
        return [0, 1, None, "true"]
    if isinstance(info, inspect.LiteralType):
        texts = [value for value in info.values if isinstance(value, str)]
        return [*(["", texts[0].upper() + "x", texts[0] + "\n"] if texts else [0, True]), None, []]
    if isinstance(info, inspect.ListType):
        most = 600 if info.max_length is None else info.max_length
        more = [[good(info.item_type)[0]] * (most + 1)] if most <= 300 else []
        less: list[Any] = [[]] if info.min_length else []
        return [{}, None, "x", 0, *more, *less, [bad(info.item_type)[0]]]
    if isinstance(info, inspect.DictType):
        free = isinstance(info.value_type, inspect.AnyType)
        beyond = [{"n": 0.5}, {"n": MAX_SAFE_INTEGER + 1}, _nested(64)] if free else []
        keyed = [] if free else [{key: sample_of(info.value_type)} for key in bad_keys(info)]
        return [[], None, "x", 0, *beyond, *keyed]
    if isinstance(info, (inspect.StructType, inspect.UnionType)):
        return [{}, [], None, "x", 0] if not _takes_text(info) else [{}, []]
    return []


def bad_keys(info: inspect.DictType) -> list[str]:
    """Keys that the mapping refuses."""
    return [key for key in bad(info.key_type) if isinstance(key, str)][:3]


def _takes_text(info: inspect.Type) -> bool:
    arms = info.types if isinstance(info, inspect.UnionType) else ()
    return any(isinstance(_bare(arm), (inspect.StrType, inspect.BoolType)) for arm in arms)


def _bare(info: inspect.Type) -> inspect.Type:
    return info.type if isinstance(info, inspect.Metadata) else info


def sample_of(info: inspect.Type) -> Any:
    """One value that the type takes."""
    return good(info)[0]


def sample(info: inspect.StructType) -> Doc:
    """A record of the type with its required fields."""
    made = {one.encode_name: sample_of(one.type) for one in info.fields if one.required}
    return made | ({} if info.tag_field is None else {info.tag_field: info.tag})


# --- the fields of a document -------------------------------------------------------------------


def arm_of(info: inspect.Type, value: Any) -> inspect.Type:
    """The member of a union that a value is of; any other type is itself."""
    info = _bare(info)
    if not isinstance(info, inspect.UnionType):
        return info
    for arm in map(_bare, info.types):
        if isinstance(arm, inspect.StructType) and isinstance(value, dict):
            if arm.tag_field is None or value.get(arm.tag_field) == arm.tag:
                return arm
        elif _is_plainly(arm, value):
            return arm
    raise TypeError(f"{value!r} is of no member of {info!r}")


def _is_plainly(arm: inspect.Type, value: Any) -> bool:
    if isinstance(arm, inspect.LiteralType):
        return value in arm.values
    kinds: dict[type[inspect.Type], type] = {
        inspect.StrType: str, inspect.IntType: int, inspect.BoolType: bool, inspect.ListType: list,
        inspect.DictType: dict, inspect.NoneType: type(None), inspect.AnyType: object,
    }  # fmt: skip
    kind = kinds.get(type(arm))
    return kind is not None and (type(value) is kind or kind is object)


def fields(value: Any, info: inspect.Type = ROOT, path: Path = (), name: str = "") -> list[Field]:
    """Every place of a sound document, with its type."""
    found: list[Field] = [] if not path else [Field(name, path, info)]
    inner = arm_of(info, value)
    if isinstance(inner, inspect.StructType):
        for one in inner.fields:
            if one.encode_name in value:
                label = f"{inner.cls.__name__}.{one.encode_name}"
                place = (*path, one.encode_name)
                found += fields(value[one.encode_name], one.type, place, label)
    elif isinstance(inner, inspect.ListType):
        for index, member in enumerate(value):
            found += fields(member, inner.item_type, (*path, index), name + "[]")
    elif isinstance(inner, inspect.DictType) and not isinstance(inner.value_type, inspect.AnyType):
        for key, member in value.items():
            found += fields(member, inner.value_type, (*path, key), name + "{}")
    return found


@cache
def declared() -> frozenset[str]:
    """Every field of every record that a commit can hold, as `Type.name`."""
    found: set[str] = set()
    stack: list[inspect.Type] = [ROOT]
    while stack:
        info = _bare(stack.pop())
        if isinstance(info, inspect.StructType):
            for one in info.fields:
                label = f"{info.cls.__name__}.{one.encode_name}"
                if label not in found:
                    found.add(label)
                    stack.append(one.type)
        elif isinstance(info, inspect.UnionType):
            stack += info.types
        elif isinstance(info, inspect.ListType):
            stack.append(info.item_type)
        elif isinstance(info, inspect.DictType):
            stack += [info.key_type, info.value_type]
    return frozenset(found)


# --- the changes --------------------------------------------------------------------------------


class Known(NamedTuple):
    """What a history holds, to take other values of a field from: by field, and by text type."""

    by_field: dict[str, list[Any]]
    by_text: dict[Any, list[Any]]


def known(history: list[Doc]) -> Known:
    """The distinct values of each field of a history, in the order of their first use."""
    by_field: dict[str, list[Any]] = {}
    by_text: dict[Any, list[Any]] = {}
    for commit in history:
        for one in fields(commit):
            value = at(commit, one.path)
            _keep(by_field.setdefault(one.name, []), value)
            inner = arm_of(one.info, value)
            if isinstance(inner, inspect.StrType):
                _keep(by_text.setdefault(_text_key(inner), []), value)
    return Known(by_field, by_text)


def _keep(values: list[Any], value: Any, most: int = 400) -> None:
    if len(values) < most and value not in values:
        values.append(value)


def at(document: Any, path: Path) -> Any:
    """What stands at a place."""
    for step in path:
        document = document[step]
    return document


def changes(commit: Doc, found: Known, skip: Path = ()) -> Iterator[Change]:
    """Every change of one place of a commit; places below `skip` are left as they are."""
    yield from _additions(commit, ROOT, (), commit, skip)
    for one in fields(commit):
        if skip and one.path[: len(skip)] == skip:
            continue
        value = at(commit, one.path)
        yield _without(commit, one)
        for what, other in _others(one, value, found):
            yield Change(one.name, one.path, what, put(commit, one.path, other))
        yield from _additions(value, one.info, one.path, commit, skip)


def _others(one: Field, value: Any, found: Known) -> Iterator[tuple[str, Any]]:
    """Other values for a place: sound ones, used ones, unsound ones, and reshaped lists."""
    seen: list[Any] = [value]
    inner = arm_of(one.info, value)
    used = list(found.by_field.get(one.name, []))[-4:]
    if isinstance(inner, inspect.StrType):
        used += found.by_text.get(_text_key(inner), [])[-3:]
    for what, values in (
        ("sound", good(one.info)), ("used", used), ("near", _near(inner, value)),
        ("unsound", bad(one.info)), ("reshaped", _reshaped(value)),
    ):  # fmt: skip
        for other in values:
            if not any(_same(other, old) for old in seen):
                seen.append(other)
                yield what, other


def _same(one: Any, other: Any) -> bool:
    return type(one) is type(other) and one == other and repr(one) == repr(other)


def _near(inner: inspect.Type, value: Any) -> list[Any]:
    if isinstance(inner, inspect.IntType):
        return [value - 1, value + 1, float(value)]
    if isinstance(inner, inspect.StrType):
        return [value + "\n", value[:-1], value + "0", value.upper()]
    return []


def _reshaped(value: Any) -> list[Any]:
    if isinstance(value, list) and value:
        return [value[1:], value[:-1], [*value, value[0]], value[::-1]]
    if isinstance(value, dict) and value:
        first = next(iter(value))
        return [{k: v for k, v in value.items() if k != first}, {**value, "x": value[first]}]
    return []


def _without(commit: Doc, one: Field) -> Change:
    document = copied(commit, one.path)
    del at(document, one.path[:-1])[one.path[-1]]
    return Change(one.name, one.path, "removed", document)


def _additions(
    value: Any, info: inspect.Type, path: Path, commit: Doc, skip: Path
) -> Iterator[Change]:
    """Fields that a record may have and has not, and one that no record has."""
    inner = arm_of(info, value)
    if not isinstance(inner, inspect.StructType):
        return
    for one in inner.fields:
        if one.encode_name in value:
            continue
        label, place = f"{inner.cls.__name__}.{one.encode_name}", (*path, one.encode_name)
        for other in [*good(one.type), None]:
            yield Change(label, place, "added", put(commit, place, other))
    yield Change(
        f"{inner.cls.__name__}.?", (*path, "extra"), "added", put(commit, (*path, "extra"), 1)
    )


def put(commit: Doc, path: Path, value: Any) -> Doc:
    """A copy of the commit with a value at a place; the rest is shared."""
    document = copied(commit, path)
    at(document, path[:-1])[path[-1]] = copy.deepcopy(value)
    return document


def copied(document: Doc, path: Path) -> Doc:
    """A copy in which all that leads to a place is its own."""
    fresh: Any = copy.copy(document)
    node = fresh
    for step in path[:-1]:
        node[step] = copy.copy(node[step])
        node = node[step]
    result: Doc = fresh
    return result
