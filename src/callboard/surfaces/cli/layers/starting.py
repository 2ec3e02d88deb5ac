"""`callboard layers init` and `start`: workflow sets for a repository, and a tree with its goal."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from typing import Any, TypeVar

import click

from callboard.surfaces.cli.chosen import layers_options
from callboard.surfaces.cli.inputs import read_text
from callboard.surfaces.cli.layers.place import MAX_TEXT_BYTES, opened
from callboard.surfaces.cli.layers.words import init_text, node_document, status_text
from callboard.surfaces.cli.render import Hint, emit

F = TypeVar("F", bound=Callable[..., Any])

_CRITERIA = {
    "criterion": ("completion_criteria", "What has to be so for the goal to be met. Repeatable."),
    "stop-criterion": ("stop_criteria", "What ends the work without the goal. Repeatable."),
    "constraint": ("constraints", "What has to be kept to. Repeatable."),
    "deliverable": ("deliverables", "What has to be there in the end. Repeatable."),
    "evidence": ("required_evidence", "What has to show it. Repeatable."),
}


@click.command(short_help="Put packaged workflow sets into the repository.")
@click.option(
    "--set",
    "names",
    multiple=True,
    metavar="NAME",
    help="planner_dispatcher or inner_outer_eval; repeatable (default: both, which go together).",
)
@click.option("--harness", metavar="COMMAND", help="The agent's command line, quoted as a whole.")
@layers_options
@click.pass_context
def init(ctx: click.Context, names: tuple[str, ...], harness: str | None) -> None:
    """Write workflow sets that are packaged with Callboard; no file that is there is changed.

    --harness is the command of the agent that plays the roles, such as --harness 'claude -p'. Its
    words are split as a shell would, and no shell is asked. The prompt is on its standard input;
    the words {prompt_file} and {assignment} stand for paths. Without --harness, write the command
    into the config.yaml of each role.
    """
    words = _words(harness)
    found = opened(ctx)
    by_set = {name: found.init(name, words) for name in names or found.packaged()}
    written = [file for files in by_set.values() for file in files]
    configs = {file for file in written if file.endswith("/config.yaml")}
    unnamed = [] if words else sorted(configs)
    # A command that is named for roles that are there already reaches none of them.
    unchanged = [
        name for name, files in by_set.items() if words and not configs.intersection(files)
    ]
    document = {"written": written, "without_harness": unnamed, "harness_unchanged": unchanged}
    emit(ctx, document, lambda: init_text(written, unnamed, unchanged))


def _words(harness: str | None) -> list[str]:
    try:
        words = shlex.split(harness or "")
    except ValueError as error:
        raise click.BadParameter(f"{error}", param_hint="--harness") from error
    if harness is not None and not words:
        raise click.BadParameter("it names no command", param_hint="--harness")
    return words


def _limit(name: str, least: int, most: int, default: int, told: str) -> Callable[[F], F]:
    """An option of a limit that is frozen into the root."""
    return click.option(
        f"--{name}",
        type=click.IntRange(least, most),
        default=default,
        show_default=True,
        metavar="N",
        help=told,
    )


@click.command(short_help="Begin a tree with a goal.")
@click.option("--goal", metavar="TEXT", help="The goal, in a few sentences.")
@click.option(
    "--goal-file",
    metavar="FILE",
    help="A file with the goal (- is standard input): text, or where its name ends in .json, an "
    "object with goal and the lists of the options below by their names in the goal contract.",
)
@click.option(
    "--set",
    "workflow_set",
    metavar="NAME",
    default="planner_dispatcher",
    show_default=True,
    help="The workflow set of the root.",
)
@_limit("max-depth", 0, 100, 8, "How deep child layers may lie, 0 to 100; the root lies at 0.")
@_limit("max-children", 1, 10_000, 200, "How many child layers one layer may have, over its life.")
@_limit(
    "max-descendants",
    0,
    100_000,
    1000,
    "How many layers there may be below the root, over its life.",
)
@layers_options
@click.pass_context
def start(
    ctx: click.Context,
    /,
    goal: str | None,
    goal_file: str | None,
    workflow_set: str,
    max_depth: int,
    max_children: int,
    max_descendants: int,
    **criteria: tuple[str, ...],
) -> None:
    """Begin a tree. Its goal and limits are frozen; nothing runs before `callboard layers run`."""
    from callboard.layers.records.session import Limits

    if (goal is None) == (goal_file is None):
        raise click.UsageError("Give the goal by --goal or by --goal-file, one of them.", ctx)
    text, given = goal or "", dict[str, list[str]]()
    if goal_file is not None:
        text, given = _goal_of(goal_file)
    for name, texts in criteria.items():
        given.setdefault(_CRITERIA[name.replace("_", "-")][0], []).extend(texts)
    limits = Limits(max_depth=max_depth, max_children=max_children, max_descendants=max_descendants)
    node = opened(ctx).start(text, workflow_set=workflow_set, limits=limits, **given)
    run = Hint(f"callboard layers run --session {node.layer.session.session_id}")
    emit(ctx, node_document(node), lambda: [*status_text([node]), run])


def _goal_of(name: str) -> tuple[str, dict[str, list[str]]]:
    """The goal and its lists in a file."""
    from callboard.layers.goal_file import GoalFile, read_goal_file

    data = read_text(name, MAX_TEXT_BYTES, "the goal")
    if not name.endswith(".json"):
        return data, {}
    found: GoalFile = read_goal_file(data.encode())
    return found.goal, found.lists()


for _name, (_field, _help) in reversed(_CRITERIA.items()):
    start = click.option(f"--{_name}", multiple=True, metavar="TEXT", help=f"{_help} [{_field}]")(
        start
    )
