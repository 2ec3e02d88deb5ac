"""The page on the files of layers: where each lies, and every field of its record.

Fields, types and defaults follow from the records; where and by whom a file is written is told
here. A file without its record, or a field without a meaning, is an error.
"""

from __future__ import annotations

import ast
import inspect
import json
import textwrap
from collections.abc import Iterator

import msgspec
from msgspec import inspect as types

from callboard.layers.finishing import GitReceipt
from callboard.layers.goal_file import GoalFile
from callboard.layers.records import (
    assignment,
    attempt,
    base,
    control,
    evaluation,
    items,
    outcomes,
    requests,
    session,
    state,
    wording,
    workflow,
)
from callboard.layers.sets.judging import SetContract
from callboard.layers.updates import Update
from callboard.layers.user_stop import StopRequest
from scripts.layers_meanings import FIELDS

Kind = type[msgspec.Struct]

SET: list[tuple[str, Kind | None, str]] = [
    ("contract.yaml", SetContract, "the roles, what each may do, and what ends a layer"),
    (
        "workflows/ROLE/config.yaml",
        workflow.RoleConfig,
        "when a role goes, and what carries it out",
    ),
    ("workflows/ROLE/prompt.md", None, "what the role is told; a template"),
]
LAYER: list[tuple[str, str, Kind | None, str]] = [
    ("session.json", "engine, once", session.Session, "who the layer is"),
    ("goal.md", "engine, once", None, "the goal, word for word"),
    ("goal_contract.json", "engine, once", session.GoalContract, "the goal with its criteria"),
    ("workflow_contract.json", "engine, once", workflow.WorkflowContract, "the set, frozen"),
    ("workflows/ROLE/…", "engine, once", None, "the files of each role, frozen"),
    ("state.json", "coordinator", state.State, "where it stands: the truth"),
    ("stop_request.json", "user", StopRequest, "in a root: that the tree is to end"),
    ("events.jsonl", "coordinator", None, "what happened, at best effort; nothing reads it"),
    ("control.json", "agents", control.Control, "an attempt's word that the layer is over"),
    (
        "control_rejected/DIGEST.receipt.json",
        "coordinator",
        control.ControlRejection,
        "why a control was not followed; the control lies beside it",
    ),
    ("inputs/updates.jsonl", "user", Update, "what the user added, a record a line"),
    (
        "inputs/accepted_request.json",
        "engine, once",
        requests.ChildRequest,
        "in a child: its request",
    ),
    ("inputs/artifacts/…", "engine, once", None, "in a child: the files that it was given"),
    (
        "project_state/work_items.md",
        "planner",
        items.ItemFields,
        "the ledger; a block for each item",
    ),
    (
        "project_state/dispatch_inputs/REQUEST.json",
        "dispatcher, once",
        requests.DispatchSnapshot,
        "why this child was asked for",
    ),
    ("project_state/…", "agents", None, "plans, decisions, `finished.md`"),
    ("child_requests/pending/…", "dispatcher", requests.ChildRequest, "asks for a child layer"),
    (
        "child_requests/accepted/REQUEST.receipt.json",
        "coordinator, once",
        requests.Acceptance,
        "that it became one; the request lies beside it",
    ),
    (
        "child_requests/rejected/….receipt.json",
        "coordinator, once",
        requests.Rejection,
        "why it did not; the file lies beside it, unchanged",
    ),
    ("children.json", "coordinator", requests.ChildrenIndex, "all children"),
    ("children/SESSION/…", "", None, "each child, with the same files"),
    (
        "child_outcomes/REQUEST.json",
        "coordinator, once",
        outcomes.ChildOutcome,
        "its end, as facts",
    ),
    (
        "parent_acceptance/REQUEST.json",
        "planner or user, once",
        outcomes.ParentAcceptance,
        "what is thought of that",
    ),
    (
        "eval_checks/….yaml",
        "reviewer",
        None,
        "checks: [by a command](#commandcheck), [by a judge](#judgecheck)",
    ),
    ("eval_readiness/…", "reviewer", None, "notes on whether the checks are fit to be run"),
    ("eval_receipts/RECEIPT.json", "`layers evaluate`", evaluation.EvalReceipt, "that checks ran"),
    ("git_receipts/ATTEMPT.json", "coordinator or agents", GitReceipt, "what changed in Git"),
    ("delivery_receipts/…", "agents", None, "what was delivered"),
    ("trace_seals/ATTEMPT.json", "runner", attempt.TraceSeal, "the digest of a trace's manifest"),
    ("protocol_failures/…", "agents", None, "what could not be done by the rules"),
    (
        "attempts/ATTEMPT/assignment.json",
        "coordinator, once",
        assignment.Assignment,
        "all it is given",
    ),
    ("attempts/ATTEMPT/prompt.md", "coordinator, once", None, "the prompt, filled in"),
    ("attempts/ATTEMPT/workflow_snapshot/…", "coordinator, once", None, "what that was made from"),
    ("attempts/ATTEMPT/process.json", "runner, once", attempt.AttemptProcess, "who carries it out"),
    ("attempts/ATTEMPT/usage.json", "agents", attempt.UsageReport, "what it used, if it says so"),
    ("attempts/ATTEMPT/result.json", "runner, once", attempt.AttemptResult, "how it ended"),
    (
        "attempts/ATTEMPT/finished.json",
        "coordinator, once",
        attempt.AttemptFinished,
        "what came of it",
    ),
]
BESIDE: list[tuple[str, Kind | None, str]] = [
    ("repository.json", session.RepositoryIdentity, "which checkout this is"),
    (".gitignore", None, "keeps the folder out of Git"),
    (
        "coordinator.lock, coordinator.json",
        attempt.RecordedProcess,
        "who coordinates, while one does",
    ),
    (
        "traces/ROOT/sessions/SESSION/attempts/ATTEMPT/manifest.json",
        attempt.TraceManifest,
        "every file of the trace",
    ),
    (
        "traces/…/stdout.log, stderr.log, git_before.json, git_after.json, …",
        None,
        "the raw output of an attempt, and whatever it left there",
    ),
]
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


def layers_page(made: str) -> str:
    """docs/reference/layers.md."""
    kinds = _kinds()
    used: set[str] = set()
    sections = [_section(kind, used) for kind in kinds]
    unused = sorted(FIELDS.keys() - used)
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


def _section(kind: Kind, used: set[str]) -> str:
    said = _said(kind)
    rows = ""
    tag = kind.__struct_config__.tag
    if tag is not None:
        rows = f"| `kind` | `{tag}` |  | which kind of check |\n"
    for field in _fields(kind):
        meaning = said.get(field.name)
        if meaning is None:
            own = f"{kind.__name__}.{field.name}"
            key = own if own in FIELDS else field.name
            if key not in FIELDS:
                raise SystemExit(f"FIELDS in scripts/layers_meanings.py: add {own}")
            used.add(key)
            meaning = FIELDS[key]
        rows += f"| `{field.name}` | {_typed(field)} | {_default(field)} | {meaning} |\n"
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
