"""The page on the operations of a project, from the one table that surfaces are made from."""

from __future__ import annotations

import re
import typing
from collections.abc import Callable, Mapping

from callboard.project.doctor.findings import KINDS
from callboard.project.groups.branches import Branches
from callboard.project.groups.claims import Claims
from callboard.project.groups.doctor import Doctor
from callboard.project.groups.events import Events
from callboard.project.groups.evidence import EvidenceKept
from callboard.project.groups.receipts import Receipts
from callboard.project.groups.sessions import Sessions
from callboard.project.groups.source import Source
from callboard.project.groups.work import Work
from callboard.project.operation import Operation, Parameter
from callboard.project.operations_table import OPERATIONS
from callboard.project.project import Project
from callboard.surfaces.mcp import answers
from scripts.error_meanings import FINDINGS

GROUPS: dict[str, type] = {
    "": Project,
    "branches": Branches,
    "claims": Claims,
    "doctor": Doctor,
    "events": Events,
    "evidence": EvidenceKept,
    "receipts": Receipts,
    "sessions": Sessions,
    "source": Source,
    "work": Work,
}
_HOLE = re.compile(r"\{(\w+)\}")
_TYPES = {
    "text": "text",
    "texts": "list of texts",
    "count": "whole number",
    "flag": "boolean",
    "off": "boolean",
    "object": "object",
    "artifacts": "list of `{ref, sha256}`",
    "changes": "list of `{work, values}` or `{values, file}`",
}


def project_page(made: str) -> str:
    """docs/reference/project.md."""
    intro = f"""{made}
# The operations of a project

Each is a command, `callboard project …`, and a tool of `callboard mcp project`. Both take the same
values and give the same answers and [refusals](errors.md); with `--json` a command answers with the
document. [What a project is](../concepts/project.md) is told elsewhere, and so is [how to give it
to agents](../how-to/agents.md).

- Every answer has `project_revision`, which each change advances by one. It is null where there is
  none to tell: in a proposal of `init` without a project, and where the doctor can read nothing.
  Times are Unix milliseconds, ids are opaque, the branch that everybody begins on is called `main`.
- A change takes `expected_revision`, and is refused with `revision_conflict` where the project is
  elsewhere, and `request_id`: said again by the same agent, it changes nothing and gives the first
  answer.
- An agent is who it says it is: `--agent` or the field, else `CALLBOARD_AGENT` or what the server
  was started with. Nobody is authenticated.
- Lists come in pages. `next` is the cursor for the following one, and null at the end.
- A tool's answer has at most {answers.MAX_ANSWER_BYTES:,} bytes. Pages have fewer entries for that;
  where one thing alone is longer, `left_out` has the JSON pointers of what was cut.
- A command ends with 3 where the answer is no: nothing is ready, a work file has faults, the doctor
  found an error. [All statuses](exit-codes.md).

Two commands have no tool: `callboard project claim keep`, which holds a claim while a command runs,
and `callboard project guide`. [The command line](cli.md#callboard-project) has their options.

| command | tool | changes |
|---|---|---|
{"".join(_row(one) for one in OPERATIONS)}"""
    return "\n".join([intro, *(_section(one) for one in OPERATIONS), findings_section()])


def findings_section(meanings: Mapping[str, str] = FINDINGS) -> str:
    """What the doctor finds. A finding without a meaning, or the other way round, is an error."""
    unexplained, unused = sorted(KINDS.keys() - meanings), sorted(meanings.keys() - KINDS)
    if unexplained or unused:
        raise SystemExit(
            f"FINDINGS in scripts/error_meanings.py: add {', '.join(unexplained) or 'nothing'}; "
            f"remove {', '.join(unused) or 'nothing'}"
        )
    rows = "".join(
        f"| `{code}` | {KINDS[code].severity or 'as what it sums up'} | {meanings[code]} "
        f"| {_HOLE.sub(_filled, KINDS[code].hint)} |\n"
        for code in sorted(KINDS)
    )
    return f"""## What the doctor finds

Each of `findings` has a `code`, a `severity`, what it is about (`subject`), a message, a hint and
details. `healthy` is false where one is an `error`; the command then ends with 3. Where the project
cannot be opened or read at all, that is an `error` with the code of the [refusal](errors.md).

| code | severity | meaning | what to do |
|---|---|---|---|
{rows}"""


def _filled(found: re.Match[str]) -> str:
    return found[1].upper()


def _row(one: Operation) -> str:
    command = f"`{' '.join(one.words)}`"
    return f"| [{command}](#{'-'.join(one.words)}) | `{one.tool}` | {_mark(one.changes)} |\n"


def _mark(value: bool) -> str:
    return "yes" if value else ""


def _section(one: Operation) -> str:
    rows = "".join(
        f"| `{parameter.name}` | {_typed(parameter)} | {_TYPES[parameter.kind]} "
        f"| {_mark(parameter.required)} | {parameter.help} |\n"
        for parameter in one.parameters
    )
    table = (
        f"\n| field | on the command line | type | needed | |\n|---|---|---|---|---|\n{rows}"
        if rows
        else ""
    )
    fields = ", ".join(f"`{name}`" for name in answer_fields(one))
    return f"## {' '.join(one.words)}\n\n{one.help}\n\nAnswers with {fields}.\n{table}"


def _typed(parameter: Parameter) -> str:
    if parameter.is_argument:
        return f"`{parameter.name.upper()}`"
    more = ", repeated" if parameter.is_repeated and parameter.kind != "changes" else ""
    if parameter.kind == "changes":
        return "`--changes FILE`, `--set WORK FIELD VALUE`"
    return f"`{parameter.option}`{more}"


def answer_fields(one: Operation) -> tuple[str, ...]:
    """The fields of an operation's answer, as the façade says them."""
    kind = typing.get_type_hints(method_of(one))["return"]
    fields: tuple[str, ...] = kind.__struct_fields__
    return fields


def method_of(one: Operation) -> Callable[..., object]:
    """The façade's method for an operation."""
    group, _dot, method = one.call.rpartition(".")
    found: Callable[..., object] = getattr(GROUPS[group], method)
    return found
