"""A tree of a YAML file as a closed record, or every fault in it. No I/O.

msgspec alone decides what a record is; the walk before it only finds all faults instead of the
first, says them in plain words and knows their places.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from types import UnionType
from typing import Any, TypeVar, overload

import msgspec
from msgspec import inspect

from callboard.layers.records import base, workflow
from callboard.layers.yaml_records.faults import Faults, near, pointer, quoted
from callboard.layers.yaml_records.tree import Node, parse

R = TypeVar("R")
Found = tuple[Node, tuple[str | int, ...], str]


def _pattern(kind: Any) -> str:
    found = inspect.type_info(kind)
    assert isinstance(found, inspect.StrType)
    assert found.pattern is not None
    return found.pattern


_FORMS = {
    _pattern(base.Name): "a name: a lower-case letter, then letters, digits and _, 64 at most",
    _pattern(base.Id): "an id: letters, digits, dots, hyphens and _, 128 at most",
    _pattern(base.Key): "an id without blanks, slashes and signs that no file name may have",
    _pattern(base.Sha256): "a digest: sha256: and 64 lower-case hex digits",
    _pattern(base.Text): "plain text, without control characters",
    _pattern(base.Path): "an absolute path",
    _pattern(workflow.Argument): "an argument without NUL",
    _pattern(workflow.Variable): "the name of a variable: letters, digits and _",
}


@overload
def read_yaml(data: bytes, kind: type[R], file: str, faults: Faults) -> tuple[R, Node] | None: ...
@overload
def read_yaml(
    data: bytes, kind: UnionType, file: str, faults: Faults
) -> tuple[Any, Node] | None: ...
def read_yaml(data: bytes, kind: Any, file: str, faults: Faults) -> tuple[Any, Node] | None:
    """The record in a file and its tree, or None where anything of it was added to `faults`."""
    before = faults.count
    tree = parse(data, file, faults)
    record = None if tree is None else record_of(tree, kind, file, faults)
    if tree is None or record is None or faults.count > before:
        return None
    return record, tree


def record_of(tree: Node, kind: type[R], file: str, faults: Faults) -> R | None:
    """The record in a tree; a value whose fault was told already is passed over."""
    found = list(_faults(tree, inspect.type_info(kind), ()))
    for node, steps, message in found:
        faults.add(file, node.line, node.column, pointer(*steps), message)
    if found or tree.is_refused():
        return None
    try:
        return msgspec.convert(tree.plain(), kind, strict=True)
    except msgspec.ValidationError as error:
        faults.add(file, tree.line, tree.column, "", quoted(str(error))[1:-1])
        return None


def _faults(node: Node, kind: inspect.Type, steps: tuple[str | int, ...]) -> Iterator[Found]:
    """Everything in `node` that does not fit `kind`."""
    if node.kind == "refused":
        return
    kind = _chosen(node, kind)
    if isinstance(kind, inspect.StructType):
        yield from _struct_faults(node, kind, steps)
    elif isinstance(kind, inspect.VarTupleType | inspect.ListType):
        yield from _list_faults(node, kind, steps)
    elif isinstance(kind, inspect.UnionType):
        yield node, steps, f"{node.described()} is none of the kinds that may stand here"
    else:
        problem = _scalar_fault(node, kind)
        if problem:
            yield node, steps, problem


def _chosen(node: Node, kind: inspect.Type) -> inspect.Type:
    """The member of a union that is meant: none at all, the tagged one, or the only other."""
    if isinstance(kind, inspect.Metadata):
        return _chosen(node, kind.type)
    if not isinstance(kind, inspect.UnionType):
        return kind
    if node.kind == "null" and any(isinstance(one, inspect.NoneType) for one in kind.types):
        return inspect.NoneType()
    others = [one for one in kind.types if not isinstance(one, inspect.NoneType)]
    for one in others:
        if isinstance(one, inspect.StructType) and one.tag_field is not None:
            tag = node.fields.get(one.tag_field)
            if tag is not None and tag[1].scalar == one.tag:
                return one
    return others[0] if len(others) == 1 else kind


def _struct_faults(
    node: Node, kind: inspect.StructType, steps: tuple[str | int, ...]
) -> Iterator[Found]:
    if node.kind != "mapping":
        yield node, steps, f"needs a mapping, and this is {node.described()}"
        return
    known = {field.encode_name: field for field in kind.fields}
    allowed = known.keys() | ({kind.tag_field} if kind.tag_field else set())
    for key, (key_node, value) in node.fields.items():
        if key in known:
            yield from _faults(value, known[key].type, (*steps, key))
        elif key not in allowed:
            problem = f"there is no field {quoted(key)}{near(key, allowed)}"
            yield key_node, (*steps, key), problem
    for name, field in known.items():
        if field.required and name not in node.fields:
            yield node, steps, f"the field {name} is missing"


def _list_faults(
    node: Node, kind: inspect.VarTupleType | inspect.ListType, steps: tuple[str | int, ...]
) -> Iterator[Found]:
    if node.kind != "list":
        yield node, steps, f"needs a list, and this is {node.described()}"
        return
    for index, entry in enumerate(node.entries):
        yield from _faults(entry, kind.item_type, (*steps, index))
    least, most, found = kind.min_length or 0, kind.max_length, len(node.entries)
    if found < least:
        yield node, steps, f"needs {least} entries at least, and has {found}"
    if most is not None and found > most:
        yield node, steps, f"may have {most} entries at most, and has {found}"


def _scalar_fault(node: Node, kind: inspect.Type) -> str | None:
    if isinstance(kind, inspect.StrType):
        return _text_fault(node, kind)
    if isinstance(kind, inspect.IntType):
        return _number_fault(node, kind)
    if isinstance(kind, inspect.BoolType) and node.kind != "truth":
        return f"needs true or false, and this is {node.described()}"
    if isinstance(kind, inspect.LiteralType) and node.scalar not in kind.values:
        words = " or ".join(str(value) for value in kind.values)
        return f"needs {words}, and this is {node.described()}"
    return None


def _text_fault(node: Node, kind: inspect.StrType) -> str | None:
    if node.kind != "text":
        scalar = node.kind in ("integer", "fraction", "truth")
        hint = "; put it into quotes" if scalar else ""
        return f"needs text, and this is {node.described()}{hint}"
    text = node.scalar
    if kind.max_length is not None and len(text) > kind.max_length:
        return f"may have {kind.max_length} characters at most, and has {len(text)}"
    if kind.min_length is not None and len(text) < kind.min_length:
        return "is empty"
    if kind.pattern is not None and re.search(kind.pattern, text) is None:
        return f"{quoted(text)} is not {_FORMS.get(kind.pattern, 'of the form that is needed')}"
    return None


def _number_fault(node: Node, kind: inspect.IntType) -> str | None:
    if node.kind != "integer":
        return f"needs a whole number, and this is {node.described()}"
    if kind.ge is not None and node.scalar < kind.ge:
        return f"needs {kind.ge} or more, and this is {node.scalar}"
    if kind.le is not None and node.scalar > kind.le:
        return f"needs {kind.le} or less, and this is {node.scalar}"
    return None
