"""The page on the files of layers: where each lies, and every field of its record.

Fields, types and defaults follow from the records; where and by whom a file is written is told
here. A file without its record, or a field without a meaning, is an error.
"""

from __future__ import annotations

import ast
import inspect
import json
import textwrap
from collections.abc import Iterator, Mapping

import msgspec
from msgspec import inspect as types

from callboard.layers.goal_file import GoalFile
from callboard.layers.records import base, evaluation, events, wording, workflow
from callboard.layers.tree import FOLDERS
from scripts.layers_files import BESIDE, LAYER, SET, Kind
from scripts.layers_meanings import FIELDS

_ALIASES = {
    "id": base.Id,
    "key": base.Key,
    "name": base.Name,
    "digest": base.Sha256,
    "reference": base.Ref,
    "text": base.Text,
    "whole number": base.Count,
    "whole number from 1": base.Positive,
    "path": base.Path,
    "argument": workflow.Argument,
    "variable": workflow.Variable,
}
_WORDS = {word: types.type_info(kind) for word, kind in _ALIASES.items()}


def layers_page(made: str, meanings: Mapping[str, str] = FIELDS) -> str:
    """docs/reference/layers.md."""
    told = [path for path, _, _, _ in LAYER]
    untold = [one for one in FOLDERS if not any(path.startswith(f"{one}/") for path in told)]
    if untold:
        raise SystemExit(f"LAYER in scripts/layers_files.py: add {', '.join(untold)}")
    kinds = _kinds()
    used: set[str] = set()
    sections = [_section(kind, meanings, used) for kind in kinds]
    unused = sorted(meanings.keys() - used)
    if unused:
        raise SystemExit(f"FIELDS in scripts/layers_meanings.py: remove {', '.join(unused)}")
    head = f"""{made}
# The files of layers

[What a layer is](../concepts/layers.md) is told elsewhere, and so is [how to run
one](../how-to/layers.md). JSON records are closed: a field that is not listed is refused, and so is
one that is missing and has no default. A file of a record has at most {base.MAX_RECORD_BYTES:,}
bytes, an assignment eight times as many.

Names that begin with a dot are files in the making: readers pass over them. Everything is written
under such a name and renamed, or published by a link where it may never replace anything (*once*).

## A workflow set

`.callboard/workflow_sets/SET/`, yours, to be committed. A layer keeps the set as it was when the
layer was made.

| file | record | content |
|---|---|---|
{_rows(SET)}
In `prompt.md`, `{{assignment}}` is the path of the assignment; `{{goal}}`, `{{role}}`,
`{{attempt}}`, `{{session}}` and `{{depth}}` are what they say, and doubled braces are single ones.

## A layer

A root lies in `.callboard/layers/sessions/SESSION/`, a child in its parent's `children/SESSION/`.

| file | written by | record | content |
|---|---|---|---|
{"".join(_row(path, who, _link(kind), what) for path, who, kind, what in LAYER)}
## Beside the layers

In `.callboard/layers/`, of this checkout alone.

| file | record | content |
|---|---|---|
{_rows(BESIDE)}
A tree that is no longer wanted is removed as two folders, `sessions/ROOT` and `traces/ROOT`, while
nobody coordinates it.

## References

Records name files by reference, never by a path of this machine: `repo:/PATH` in the repository,
`session:/PATH` in the layer itself, `parent:/PATH` and `root:/PATH` in the layer above and in the
root, `session:SESSION:/PATH` in another layer of the same tree, `trace:SESSION:/PATH` in the traces
of one. They lead to nothing outside of that, whatever links lie about.

## Types

| type | is |
|---|---|
{"".join(f"| {word} | {_meaning_of(word)} |{chr(10)}" for word in _WORDS)}\
| Unix ms | a whole number: milliseconds since 1970 began, in UTC |
"""
    return "\n".join([head, *sections])


def _rows(files: list[tuple[str, Kind | None, str]]) -> str:
    return "".join(_row(path, _link(kind), what) for path, kind, what in files)


def _row(path: str, *cells: str) -> str:
    return f"| `{path}` | {' | '.join(cells)} |\n"


def _meaning_of(word: str) -> str:
    info = _WORDS[word]
    if isinstance(info, types.StrType) and info.pattern is not None:
        said = wording._patterns[repr(info.pattern)].replace("|", "\\|")
        bound = f"; at most {info.max_length:,} characters" if info.max_length else ""
        return said + bound
    if isinstance(info, types.StrType):
        return f"see [references](#references); at most {info.max_length:,} characters"
    return "0 and more" if word == "whole number" else "1 and more"


def _kinds() -> list[Kind]:
    """All records that a file is, then those that they consist of."""
    found: list[Kind] = [kind for _, kind, _ in SET if kind is not None]
    found += [kind for _, _, kind, _ in LAYER if kind is not None]
    found += [evaluation.CommandCheck, evaluation.JudgeCheck, evaluation.JudgeAnswer]
    found += events.EVENTS
    found += [kind for _, kind, _ in BESIDE if kind is not None]
    found.append(GoalFile)
    kinds = list(dict.fromkeys(found))
    for kind in kinds:
        for field in _fields(kind):
            kinds += [one for one in _structs(field.type) if one not in kinds]
    return kinds


def _fields(kind: Kind) -> tuple[types.Field, ...]:
    info = types.type_info(kind)
    assert isinstance(info, types.StructType)
    return info.fields


def _structs(info: types.Type) -> Iterator[Kind]:
    if isinstance(info, types.StructType):
        yield info.cls
    elif isinstance(info, types.UnionType):
        for one in info.types:
            yield from _structs(one)
    elif isinstance(info, types.VarTupleType):
        yield from _structs(info.item_type)
    elif isinstance(info, types.DictType):
        yield from _structs(info.value_type)


def _section(kind: Kind, meanings: Mapping[str, str], used: set[str]) -> str:
    said = _said(kind)
    rows = ""
    tag = kind.__struct_config__.tag
    if tag is not None:
        rows = f"| `kind` | `{tag}` |  | which kind it is |\n"
    for field in _fields(kind):
        meaning = said.get(field.name)
        if meaning is None:
            own = f"{kind.__name__}.{field.name}"
            key = own if own in meanings else field.name
            if key not in meanings:
                raise SystemExit(f"FIELDS in scripts/layers_meanings.py: add {own}")
            used.add(key)
            meaning = meanings[key]
        typed = _typed(field)
        if not typed.endswith(" or null"):
            # The same field is never null in another record.
            meaning = meaning.partition("; null")[0]
        rows += f"| `{field.name}` | {typed} | {_default(field)} | {meaning} |\n"
    told = inspect.cleandoc(kind.__doc__ or "")
    return f"""## {kind.__name__}

{told}

| field | type | default | |
|---|---|---|---|
{rows}"""


def _said(kind: Kind) -> dict[str, str]:
    """What a record says of its own fields, in the texts below them."""
    (node,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    assert isinstance(node, ast.ClassDef)
    found = {}
    for field, text in zip(node.body, node.body[1:], strict=False):
        if (
            isinstance(field, ast.AnnAssign)
            and isinstance(field.target, ast.Name)
            and isinstance(text, ast.Expr)
            and isinstance(text.value, ast.Constant)
        ):
            said = " ".join(str(text.value.value).split()).rstrip(".")
            found[field.target.id] = said[:1].lower() + said[1:]
    return found


def _typed(field: types.Field) -> str:
    if field.name.endswith("at_ms"):
        return "Unix ms"
    return _type(field.type)


def _type(info: types.Type) -> str:
    for word, known in _WORDS.items():
        if info == known:
            return word
    if isinstance(info, types.UnionType):
        some = [_type(one) for one in info.types if not isinstance(one, types.NoneType)]
        return " or ".join(some) + (" or null" if len(some) < len(info.types) else "")
    if isinstance(info, types.VarTupleType):
        return f"list of {_type(info.item_type)}"
    if isinstance(info, types.DictType):
        return f"object: {_type(info.value_type)} by {_type(info.key_type)}"
    if isinstance(info, types.StructType):
        return _link(info.cls)
    if isinstance(info, types.LiteralType):
        return ", ".join(f"`{value}`" for value in info.values)
    if isinstance(info, types.IntType):
        bounds = "" if info.ge is None else f", {info.ge} to {info.le}"
        return f"whole number{bounds}"
    return {types.BoolType: "true or false", types.StrType: "text"}[type(info)]


def _default(field: types.Field) -> str:
    if field.required:
        return ""
    if field.default_factory is not msgspec.NODEFAULT:
        return f"`{json.dumps(msgspec.to_builtins(field.default_factory()))}`"
    value = msgspec.to_builtins(field.default)
    if isinstance(value, dict) and value:
        return "its defaults"
    return f"`{json.dumps(value)}`"


def _link(kind: Kind | None) -> str:
    return "" if kind is None else f"[{kind.__name__}](#{kind.__name__.lower()})"
