"""From bytes or plain JSON to typed records, or every fault at once.

The rules come from the record types themselves, read through msgspec; nothing is stated twice.
A document with faults is refused with each of them, located by a JSON pointer (RFC 6901).
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping
from functools import cache
from itertools import islice
from typing import Any, NamedTuple, TypeVar

import msgspec
from msgspec import inspect

from callboard import canonical
from callboard.errors import CallboardError

T = TypeVar("T")

MAX_FAULTS = 100
_SHOWN = 80
_LONGEST_KEY = 256
"""The characters of the longest name that any record allows."""
_CONTROL = re.compile("[\x00-\x1f\x7f]")
_Checker = Callable[[Any, str, "list[Fault]"], None]


class Fault(NamedTuple):
    """One thing wrong in a document: where (JSON pointer), what was found, what is allowed."""

    pointer: str
    message: str

    def document(self) -> dict[str, str]:
        return {"pointer": self.pointer, "message": self.message}


def refuse(code: str, what: str, faults: list[Fault], hint: str) -> CallboardError:
    """The refusal that carries every fault; the message shows the first."""
    first = faults[0]
    more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
    return CallboardError(
        code,
        f"{what}: {_seen(first.pointer) or 'the document'}: {first.message}{more}",
        hint,
        {"faults": [fault.document() for fault in faults[:MAX_FAULTS]]},
    )


def faults_of(kind: Any, value: object, pointer: str = "") -> list[Fault]:
    """Every way in which a plain JSON value differs from the record type `kind`."""
    faults: list[Fault] = []
    _checker(kind)(value, pointer, faults)
    return faults


def parse(kind: type[T], value: object, *, what: str, code: str = "record_invalid") -> T:
    """A plain JSON value as the record type `kind`, or `code` with all faults in `details`."""
    faults = faults_of(kind, value)
    if faults:
        raise refuse(code, what, faults, "correct the named fields")
    return msgspec.convert(value, kind)


def show(value: object) -> str:
    """A short, single-line picture of a found value for messages, spelled as in a document."""
    if isinstance(value, int) and value.bit_length() > 256:
        # Python refuses to spell an integer of thousands of digits.
        return f"an integer of {value.bit_length()} bits"
    try:
        text = _spelled(value)
    except (ValueError, RecursionError):
        return f"a large {type(value).__name__}"
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."


def _spelled(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    # Each member takes a character or more, so no more of them are seen than are spelled here.
    if isinstance(value, list):
        return "[" + ", ".join(_spelled(item) for item in islice(value, _SHOWN)) + "]"
    if isinstance(value, dict):
        members = islice(value.items(), _SHOWN)
        return "{" + ", ".join(f"{_spelled(key)}: {_spelled(item)}" for key, item in members) + "}"
    # TOML has dates and times; their module also tells the time, which nothing here may ask.
    isoformat = getattr(value, "isoformat", None)
    return repr(value) if isoformat is None else str(isoformat())


def is_text(value: str) -> bool:
    """Whether a record could hold it: a command line may bring bytes that are no Unicode."""
    return not any(0xD800 <= ord(char) <= 0xDFFF for char in value)


def near(word: str, known: list[str]) -> str:
    """`; did you mean 'x'?` where a known word is close, else nothing."""
    if len(word) > _LONGEST_KEY:
        return ""
    match = difflib.get_close_matches(word, known, n=1)
    return f"; did you mean {match[0]!r}?" if match else ""


def pointer_step(key: object) -> str:
    """`/key` with the escapes of RFC 6901; a key longer than any name may be is cut short."""
    text = str(key)
    if len(text) > _LONGEST_KEY:
        text = text[: _SHOWN - 3] + "..."
    return "/" + text.replace("~", "~0").replace("/", "~1")


def _seen(pointer: str) -> str:
    """A pointer for a message: on one line, whatever its keys hold, and not too long."""
    text = pointer if pointer.isprintable() else repr(pointer)[1:-1]
    return text if len(text) <= _LONGEST_KEY else "..." + text[-_LONGEST_KEY:]


@cache
def _checker(kind: Any) -> _Checker:
    return _compile(inspect.type_info(kind))


def _compile(info: inspect.Type) -> _Checker:
    if isinstance(info, inspect.Metadata):
        return _compile_metadata(info)
    for known, build in _BUILDERS:
        if isinstance(info, known):
            return build(info)
    raise TypeError(f"no checker for {info!r}")


def _compile_metadata(info: inspect.Metadata) -> _Checker:
    inner = _compile(info.type)
    extra = info.extra or {}
    if "utf8_bytes" not in extra:
        return inner
    limit: int = extra["utf8_bytes"]

    def check(value: Any, pointer: str, faults: list[Fault]) -> None:
        if isinstance(value, str):
            size = len(value.encode("utf-8", "surrogatepass"))
            if size > limit:
                faults.append(Fault(pointer, f"{size} UTF-8 bytes, at most {limit} are allowed"))
                return
            if _CONTROL.search(value):
                faults.append(Fault(pointer, f"{show(value)} holds a control character"))
                return
        inner(value, pointer, faults)

    return check


def _compile_text(info: inspect.StrType) -> _Checker:
    pattern = re.compile(info.pattern) if info.pattern else None

    def check(value: Any, pointer: str, faults: list[Fault]) -> None:
        if not isinstance(value, str):
            faults.append(Fault(pointer, f"{show(value)} is not a string"))
        elif info.min_length is not None and len(value) < info.min_length:
            faults.append(Fault(pointer, f"{show(value)} is too short"))
        elif info.max_length is not None and len(value) > info.max_length:
            faults.append(Fault(pointer, f"{len(value)} characters, at most {info.max_length}"))
        elif pattern is not None and not pattern.search(value):
            faults.append(Fault(pointer, f"{show(value)} does not match {info.pattern}"))

    return check


def _compile_integer(info: inspect.IntType) -> _Checker:
    low = info.ge if info.ge is not None else -canonical.MAX_SAFE_INTEGER
    high = info.le if info.le is not None else canonical.MAX_SAFE_INTEGER

    def check(value: Any, pointer: str, faults: list[Fault]) -> None:
        if type(value) is not int:
            faults.append(Fault(pointer, f"{show(value)} is not an integer"))
        elif not low <= value <= high:
            faults.append(Fault(pointer, f"{show(value)} is outside {low}..{high}"))

    return check


def _compile_boolean(_info: inspect.BoolType) -> _Checker:
    def check(value: Any, pointer: str, faults: list[Fault]) -> None:
        if type(value) is not bool:
            faults.append(Fault(pointer, f"{show(value)} is not true or false"))

    return check


def _compile_none(_info: inspect.NoneType) -> _Checker:
    def check(value: Any, pointer: str, faults: list[Fault]) -> None:
        if value is not None:
            faults.append(Fault(pointer, f"{show(value)} is not null"))

    return check


def _compile_any(_info: inspect.AnyType) -> _Checker:
    def check(_value: Any, _pointer: str, _faults: list[Fault]) -> None:
        return

    return check


def _compile_literal(info: inspect.LiteralType) -> _Checker:
    values = list(info.values)
    words = [value for value in values if isinstance(value, str)]

    def check(value: Any, pointer: str, faults: list[Fault]) -> None:
        if value in values and type(value) in {type(known) for known in values}:
            return
        allowed = ", ".join(show(known) for known in values)
        hint = near(value, words) if isinstance(value, str) else ""
        faults.append(Fault(pointer, f"{show(value)} is not one of {allowed}{hint}"))

    return check


def _compile_list(info: inspect.ListType) -> _Checker:
    inner = _compile(info.item_type)

    def check(value: Any, pointer: str, faults: list[Fault]) -> None:
        if not isinstance(value, list):
            faults.append(Fault(pointer, f"{show(value)} is not an array"))
            return
        _check_count(len(value), info.min_length, info.max_length, pointer, faults)
        for index, member in enumerate(value[: canonical.MAX_ARRAY_MEMBERS]):
            if len(faults) >= MAX_FAULTS:
                return
            inner(member, f"{pointer}/{index}", faults)

    return check


def _compile_dict(info: inspect.DictType) -> _Checker:
    key, inner = _compile(info.key_type), _compile(info.value_type)

    def check(value: Any, pointer: str, faults: list[Fault]) -> None:
        if not isinstance(value, dict):
            faults.append(Fault(pointer, f"{show(value)} is not an object"))
            return
        _check_count(len(value), info.min_length, info.max_length, pointer, faults)
        for name, member in value.items():
            if len(faults) >= MAX_FAULTS:
                return
            key(name, pointer + pointer_step(name), faults)
            inner(member, pointer + pointer_step(name), faults)

    return check


def _check_count(
    count: int, low: int | None, high: int | None, pointer: str, faults: list[Fault]
) -> None:
    if low is not None and count < low:
        faults.append(Fault(pointer, f"{count} members, at least {low} are needed"))
    if high is not None and count > high:
        faults.append(Fault(pointer, f"{count} members, at most {high} are allowed"))


def _compile_struct(info: inspect.StructType) -> _Checker:
    fields = {field.encode_name: field for field in info.fields}
    checkers = {name: _compile(field.type) for name, field in fields.items()}
    tag_field, tag = info.tag_field, info.tag

    def check(value: Any, pointer: str, faults: list[Fault]) -> None:
        if not isinstance(value, dict):
            faults.append(Fault(pointer, f"{show(value)} is not an object"))
            return
        if tag_field is not None and value.get(tag_field) != tag:
            faults.append(
                Fault(f"{pointer}/{tag_field}", f"{show(value.get(tag_field))} is not {tag!r}")
            )
        for name, field in fields.items():
            if name in value:
                checkers[name](value[name], f"{pointer}/{name}", faults)
            elif field.required:
                faults.append(Fault(f"{pointer}/{name}", "is missing"))
        for name in value:
            if len(faults) >= MAX_FAULTS:
                return
            if name not in fields and name != tag_field:
                hint = near(str(name), list(fields))
                faults.append(Fault(pointer + pointer_step(name), f"unknown field{hint}"))

    return check


def _compile_union(info: inspect.UnionType) -> _Checker:
    structs = [arm for arm in info.types if isinstance(arm, inspect.StructType)]
    if len(structs) == len(info.types):
        return _compile_tagged(structs)
    arms = [(_python_type(arm), _compile(arm)) for arm in info.types]

    def check(value: Any, pointer: str, faults: list[Fault]) -> None:
        for kind, checker in arms:
            if type(value) is kind:
                checker(value, pointer, faults)
                return
        faults.append(Fault(pointer, f"{show(value)} has the wrong type"))

    return check


def _compile_tagged(structs: list[inspect.StructType]) -> _Checker:
    tag_field = structs[0].tag_field
    by_tag: Mapping[object, _Checker] = {arm.tag: _compile_struct(arm) for arm in structs}
    tags = [str(tag) for tag in by_tag]

    def check(value: Any, pointer: str, faults: list[Fault]) -> None:
        if not isinstance(value, dict):
            faults.append(Fault(pointer, f"{show(value)} is not an object"))
            return
        tag = value.get(tag_field)
        checker = by_tag.get(tag) if isinstance(tag, str) else None
        if checker is None:
            hint = near(tag, tags) if isinstance(tag, str) else ""
            faults.append(Fault(f"{pointer}/{tag_field}", f"unknown kind {show(tag)}{hint}"))
        else:
            checker(value, pointer, faults)

    return check


def _python_type(info: inspect.Type) -> type:
    inner = info.type if isinstance(info, inspect.Metadata) else info
    if isinstance(inner, inspect.LiteralType):
        return type(inner.values[0])
    for known, kind in _PYTHON_TYPES:
        if isinstance(inner, known):
            return kind
    raise TypeError(f"no plain type for {info!r}")


_PYTHON_TYPES: tuple[tuple[type[inspect.Type], type], ...] = (
    (inspect.StrType, str),
    (inspect.IntType, int),
    (inspect.BoolType, bool),
    (inspect.NoneType, type(None)),
    (inspect.ListType, list),
    (inspect.DictType, dict),
    (inspect.StructType, dict),
)

_BUILDERS: tuple[tuple[type[inspect.Type], Callable[[Any], _Checker]], ...] = (
    (inspect.StructType, _compile_struct),
    (inspect.UnionType, _compile_union),
    (inspect.StrType, _compile_text),
    (inspect.IntType, _compile_integer),
    (inspect.BoolType, _compile_boolean),
    (inspect.NoneType, _compile_none),
    (inspect.LiteralType, _compile_literal),
    (inspect.ListType, _compile_list),
    (inspect.DictType, _compile_dict),
    (inspect.AnyType, _compile_any),
)
