"""`callboard project …`: one command for each operation of the project's table.

Commands are made from the table; what they say to a person stands in `words`. Nothing is
decided here, and no board is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import click

from callboard.project.asking import ask
from callboard.project.operation import Operation, Parameter
from callboard.project.operations_table import OPERATIONS
from callboard.surfaces.cli.chosen import Chosen, project_options
from callboard.surfaces.cli.endings import NOTHING
from callboard.surfaces.cli.project.caller import AGENT_VARIABLE, caller_of
from callboard.surfaces.cli.project.guide import guide
from callboard.surfaces.cli.project.keep import keep
from callboard.surfaces.cli.project.values import Changes, Whole, json_value, pairs_value
from callboard.surfaces.cli.render import write_json, write_text

_AGAIN = " May be given several times."

NOUNS = {
    "work": "The work that the work files list.",
    "session": "One agent at one piece of work.",
    "claim": "Who holds a piece of work.",
    "branch": "Work branches: histories apart. They are none of Git's.",
    "event": "What happened, in order.",
    "evidence": "What shows that acceptance criteria are met.",
    "receipt": "What came of requests that were named.",
    "source": "The work files: read, index, change.",
    "doctor": "What is wrong, and the repairs.",
}


@click.group()
def project() -> None:
    """Who holds what: work, sessions, claims, work branches and history of one project.

    Everything is in the project's folder, in .callboard/project.db and work.yaml. Agents are what
    they say they are (--agent, or CALLBOARD_AGENT): nobody is authenticated, so whoever can write
    to the folder can act as anybody.
    """


def command_for(operation: Operation) -> click.Command:
    """The command of an operation."""

    def run(context: click.Context, /, **values: Any) -> None:
        _run(context, operation, values)

    command = click.Command(
        operation.words[-1],
        callback=click.pass_context(run),
        params=[made for one in operation.parameters for made in _parameters(one)],
        help=_help(operation),
        short_help=operation.help,
    )
    return project_options(command)


def _help(operation: Operation) -> str:
    callers = [one for one in operation.parameters if one.is_caller]
    said = f"\n\nWithout --agent, {AGENT_VARIABLE} says who asks." if callers else ""
    return operation.help + said


def _parameters(one: Parameter) -> Iterable[click.Parameter]:
    if one.is_argument:
        yield click.Argument([one.name], required=one.required, metavar=_placed(one))
        return
    settings: dict[str, Any] = {"help": one.help + (_AGAIN if one.is_repeated else "")}
    # Whoever asks may be declared by the environment, which the project's own refusal tells.
    required = one.required and not one.is_caller
    if one.kind in ("flag", "off"):
        if one.kind == "off":
            settings["help"] = one.help.replace("Whether to take", "Do not take").split(" (")[0]
            settings["help"] += "."
        yield click.Option([one.option, one.name], is_flag=True, default=None, **settings)
    elif one.kind == "changes":
        yield from _changes(one)
    elif one.kind == "artifacts":
        yield click.Option(
            [one.option, one.name], nargs=2, multiple=True, metavar="NAME SHA256", **settings
        )
    else:
        yield click.Option(
            [one.option, one.name],
            type=Whole() if one.kind == "count" else str,
            multiple=one.is_repeated,
            required=required,
            metavar="JSON|-" if one.kind == "object" else _metavar(one),
            **settings,
        )


def _placed(one: Parameter) -> str:
    word = one.name.upper()
    return word if one.required else f"[{word}]"


def _metavar(one: Parameter) -> str:
    if one.kind == "count":
        return "N"
    return "ID" if one.name == "request_id" else "TEXT"


def _changes(one: Parameter) -> Iterable[click.Parameter]:
    yield click.Option(
        ["--set", "set_fields"],
        nargs=3,
        multiple=True,
        metavar="WORK FIELD VALUE",
        help="Set one field of an item; VALUE is JSON, or else plain text." + _AGAIN,
    )
    yield click.Option(
        [one.option, one.name], metavar="FILE|-", help=f"A JSON list. {one.help[:1]}{one.help[1:]}"
    )


def _run(context: click.Context, operation: Operation, values: dict[str, Any]) -> None:
    chosen = context.ensure_object(Chosen)
    caller = caller_of(context, is_new=operation.call == "init")
    document = ask(caller, operation, _values(context, operation, values))
    answer(chosen, document, lambda: _blocks(operation, document))
    if not operation.found(document):
        context.exit(NOTHING)


def answer(chosen: Chosen, document: dict[str, Any], blocks: Callable[[], Iterable[Any]]) -> None:
    """Answer with the document as it is, or in words."""
    if chosen.json:
        chosen.answered = True
        write_json(document)
    else:
        write_text(blocks(), paste=chosen.pasteable)


def _blocks(operation: Operation, document: dict[str, Any]) -> Iterable[Any]:
    from callboard.surfaces.cli.project.words import blocks_of

    return blocks_of(operation, document)


def _values(context: click.Context, operation: Operation, values: dict[str, Any]) -> dict[str, Any]:
    """What was typed, as the JSON values that a tool would be given."""
    found: dict[str, Any] = {}
    for one in operation.parameters:
        value = values[one.name]
        if one.kind == "changes":
            value = Changes(values["set_fields"], value).value(context)
        elif value is None or value == ():
            continue
        elif one.kind == "off":
            value = False
        elif one.kind == "texts":
            value = list(value)
        elif one.kind == "object":
            value = json_value(value, what=one.name)
        elif one.kind == "artifacts":
            value = pairs_value(value)
        found[one.name] = value
    return found


def _build() -> None:
    groups: dict[tuple[str, ...], click.Group] = {(): project}
    for operation in OPERATIONS:
        *path, _name = operation.words
        for depth in range(1, len(path) + 1):
            at = tuple(path[:depth])
            if at not in groups:
                groups[at] = _group(at)
                groups[at[:-1]].add_command(groups[at])
        if operation.words == ("doctor",):
            groups["doctor",] = _doctor(operation)
            project.add_command(groups["doctor",])
        else:
            groups[tuple(path)].add_command(command_for(operation))
    groups["claim",].add_command(keep)
    project.add_command(guide)


def _group(path: tuple[str, ...]) -> click.Group:
    return click.Group(path[-1], help=NOUNS.get(path[-1], "Repairs, one at a time."))


def _doctor(operation: Operation) -> click.Group:
    """The one operation that is a group too: without a further word it looks."""

    def look(context: click.Context, /) -> None:
        if context.invoked_subcommand is None:
            _run(context, operation, {})

    group = click.Group(
        "doctor",
        callback=click.pass_context(look),
        invoke_without_command=True,
        help=operation.help,
        short_help=operation.help,
    )
    return project_options(group)


_build()
