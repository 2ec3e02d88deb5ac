"""`callboard layers …`: a goal that splits into child goals. Parses, calls the façade, renders.

What an agent says of its attempt goes by `--assignment` alone, wherever it is called from.
"""

from __future__ import annotations

import os
import shlex
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event
from types import FrameType
from typing import TYPE_CHECKING, Any, TypeVar

import click

from callboard.errors import CallboardError
from callboard.surfaces.cli.chosen import Chosen, layers_options
from callboard.surfaces.cli.endings import NOTHING, REFUSED
from callboard.surfaces.cli.inputs import read_text
from callboard.surfaces.cli.layers_words import (
    choice_document,
    choice_text,
    node_document,
    outcomes_text,
    plain_document,
    requests_text,
    status_text,
)
from callboard.surfaces.cli.render import Hint, emit, write_text

if TYPE_CHECKING:
    from callboard.layers.coordinating import Step
    from callboard.layers.layers import Layers

C = TypeVar("C", bound=Callable[..., Any])
MAX_TEXT_BYTES = 256 * 1024
_CRITERIA = {
    "criterion": ("completion_criteria", "What has to be so for the goal to be met. Repeatable."),
    "stop-criterion": ("stop_criteria", "What ends the work without the goal. Repeatable."),
    "constraint": ("constraints", "What has to be kept to. Repeatable."),
    "deliverable": ("deliverables", "What has to be there in the end. Repeatable."),
    "evidence": ("required_evidence", "What has to show it. Repeatable."),
}


@click.group()
def layers() -> None:
    """Goals within goals: a layer keeps one goal, and child layers deliver its parts.

    Everything is in the repository's .callboard folder: workflow_sets is yours and belongs into
    Git, layers is kept out of it. Any agent's command line can play the roles.
    """


def _opened(context: click.Context, assignment: str | None = None) -> Layers:
    from callboard.layers import assigned
    from callboard.layers.layers import Layers as Opened

    if assignment is not None:
        repository = assigned.repository_of(Path(assignment))
    else:
        repository = _repository(context.ensure_object(Chosen).folder)
    return Opened.open(repository, dict(os.environ))


def _repository(folder: str) -> Path:
    """The nearest folder from here upwards that is a repository or has layers."""
    here = Path(folder).resolve()
    for place in (here, *here.parents):
        if (place / ".git").exists() or (place / ".callboard" / "layers").is_dir():
            return place
    raise CallboardError(
        "repository_missing",
        f"there is no repository at {str(here)!r} or above it",
        "go to a Git repository, or make one with `git init`",
    )


def _session(command: C) -> C:
    return click.option("--session", metavar="ID", help="The root layer (default: the only one).")(
        command
    )


def _assignment(*, required: bool) -> Callable[[C], C]:
    return click.option(
        "--assignment",
        metavar="FILE",
        required=required,
        help="The absolute path of the assignment, as the prompt names it.",
    )


# --- trees ----------------------------------------------------------------------------------------


@layers.command(short_help="Put packaged workflow sets into the repository.")
@click.option("--set", "names", multiple=True, metavar="NAME", help="Which (default: all).")
@click.option("--harness", metavar="COMMAND", help="The agent's command line, quoted as a whole.")
@layers_options
@click.pass_context
def init(ctx: click.Context, names: tuple[str, ...], harness: str | None) -> None:
    """Write workflow sets that are packaged with Callboard; no file that is there is changed.

    --harness is the command of the agent that plays the roles, such as --harness 'claude -p'. Its
    words are split as a shell would, and no shell is asked. Without it, edit config.yaml of each
    role.
    """
    from callboard.layers.layers import Layers as Opened

    opened = _opened(ctx)
    words = _words(harness)
    written = [file for name in names or Opened.packaged() for file in opened.init(name, words)]
    text = written or ["Everything is there already."]
    emit(ctx, {"written": written}, lambda: [*text, Hint("callboard layers start --goal-file F")])


def _words(harness: str | None) -> list[str]:
    try:
        return shlex.split(harness or "")
    except ValueError as error:
        raise click.BadParameter(f"{error}", param_hint="--harness") from error


@layers.command(short_help="Begin a tree with a goal.")
@click.option("--goal", metavar="TEXT", help="The goal, in a few sentences.")
@click.option(
    "--goal-file",
    metavar="FILE",
    help="A file with the goal: text, or where it ends in .json, an object with all lists as well.",
)
@click.option("--set", "workflow_set", metavar="NAME", default="planner_dispatcher")
@click.option("--max-depth", type=click.IntRange(0, 100), default=8, show_default=True)
@click.option("--max-children", type=click.IntRange(1, 10_000), default=200, show_default=True)
@click.option("--max-descendants", type=click.IntRange(0, 100_000), default=1000, show_default=True)
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
        raise click.UsageError("Give the goal by --goal or by --goal-file, one of them.")
    text, given = goal or "", dict[str, list[str]]()
    if goal_file is not None:
        text, given = _goal_of(goal_file)
    for name, texts in criteria.items():
        given.setdefault(_CRITERIA[name.replace("_", "-")][0], []).extend(texts)
    limits = Limits(max_depth=max_depth, max_children=max_children, max_descendants=max_descendants)
    node = _opened(ctx).start(text, workflow_set=workflow_set, limits=limits, **given)
    emit(ctx, node_document(node), lambda: [*status_text([node]), Hint("callboard layers run")])


def _goal_of(name: str) -> tuple[str, dict[str, list[str]]]:
    """The goal and its lists in a file."""
    from callboard.layers.goal_file import GoalFile, read_goal_file

    data = read_text(name, MAX_TEXT_BYTES, "the goal")
    if not name.endswith(".json"):
        return data, {}
    found: GoalFile = read_goal_file(data.encode())
    return found.goal, found.lists()


for _name, (_field, _help) in reversed(_CRITERIA.items()):
    start = click.option(f"--{_name}", multiple=True, metavar="TEXT", help=_help)(start)


@layers.command(short_help="Work on a tree until it is over.")
@click.option("--once", is_flag=True, help="One step alone.")
@_session
@layers_options
@click.pass_context
def run(ctx: click.Context, session: str | None, once: bool) -> None:
    """Coordinate the layers of a tree until its root is over.

    Ctrl-C pauses: an agent that is at work goes on, and the next run takes up what it did. Ends
    with 0 where the goal is met, with 1 where the tree ended otherwise, with 3 where it paused.
    """
    stop = Event()
    chosen = ctx.ensure_object(Chosen)

    def pause(_number: int, _frame: FrameType | None) -> None:
        stop.set()

    before = {number: signal.signal(number, pause) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        opened = _opened(ctx)
        last = opened.run(
            session,
            once=once,
            stop=stop,
            told=_silent if chosen.json else _tell,
        )
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    emit(ctx, {"step": plain_document(last)}, lambda: [f"{last.did} {last.detail}".strip()])
    if last.did == "paused":
        ctx.exit(NOTHING)
    if last.did == "over" and last.detail != "goal_met":
        ctx.exit(REFUSED)


def _tell(step: Step) -> None:
    write_text([f"{step.session_id} {step.did} {step.detail}".rstrip()], err=True)


def _silent(_step: Step) -> None:
    """Nothing but the one document is wanted."""


@layers.command(short_help="Show the layers with their phases.")
@_session
@layers_options
@click.pass_context
def status(ctx: click.Context, session: str | None) -> None:
    """Show the tree of layers: goal, phase, role at work, and how each ended."""
    nodes = _opened(ctx).status(session)
    emit(ctx, {"layers": [node_document(node) for node in nodes]}, lambda: status_text(nodes))
    if not nodes:
        ctx.exit(NOTHING)


@layers.command("next", short_help="Say which role goes next, and why.")
@_session
@layers_options
@click.pass_context
def next_(ctx: click.Context, session: str | None) -> None:
    """Explain for the deepest layer which role goes next, and why each other one does not."""
    node, choice = _opened(ctx).next(session)
    emit(ctx, choice_document(node, choice), lambda: choice_text(node, choice))
    if choice is None or choice.role is None:
        ctx.exit(NOTHING)


@layers.command(short_help="Tell the deepest layer something.")
@click.argument("text")
@_session
@layers_options
@click.pass_context
def update(ctx: click.Context, text: str, session: str | None) -> None:
    """Add TEXT (- is standard input) to what the next attempt of the deepest layer is given."""
    given = read_text(text, MAX_TEXT_BYTES, "the update") if text == "-" else text
    node, count = _opened(ctx).update(given, session)
    document = {"session_id": node.layer.session.session_id, "updates": count}
    emit(ctx, document, lambda: [f"{document['session_id']} has {count} updates."])


@layers.command(short_help="Ask for the end of a tree.")
@click.option("--reason", metavar="TEXT", required=True, help="Why, for the record.")
@click.option("--now", is_flag=True, help="Stop the agent at work as well.")
@_session
@layers_options
@click.pass_context
def stop(ctx: click.Context, reason: str, now: bool, session: str | None) -> None:
    """End a tree for good, from its deepest layer up, once the attempt at work is over.

    With --now that attempt is stopped as at its time limit: asked first, then killed.
    """
    first = _opened(ctx).stop(reason, session, at_once=now)
    text = "The tree is asked to end." if first else "It was asked to end before."
    emit(ctx, {"asked": first}, lambda: [text, Hint("callboard layers run")])


@layers.command(short_help="Validate trees: topology, hashes, records.")
@_session
@layers_options
@click.pass_context
def check(ctx: click.Context, session: str | None) -> None:
    """Tell everything that is wrong with the trees; nothing is changed. Ends with 1 then."""
    findings = _opened(ctx).check(session)
    document = {"findings": [plain_document(one) for one in findings]}
    lines = [f"{one.code} {one.place}: {one.message}" for one in findings]
    emit(ctx, document, lambda: lines or ["Nothing is wrong."])
    if findings:
        ctx.exit(REFUSED)


# --- requests and outcomes ------------------------------------------------------------------------


@layers.command(short_help="List child requests and what was decided.")
@_session
@layers_options
@click.pass_context
def requests(ctx: click.Context, session: str | None) -> None:
    """List what is pending, what became a child layer, and what was put away with its reason."""
    found = _opened(ctx).requests(session)
    emit(ctx, {"requests": [plain_document(one) for one in found]}, lambda: requests_text(found))


@layers.command(short_help="List what child layers came to.")
@_session
@layers_options
@click.pass_context
def outcomes(ctx: click.Context, session: str | None) -> None:
    """List the outcomes of child layers, and what their parents think of them."""
    found = _opened(ctx).outcomes(session)
    document = [
        {"outcome": plain_document(one), "acceptance": None if own is None else plain_document(own)}
        for one, own in found
    ]
    emit(ctx, {"outcomes": document}, lambda: outcomes_text(found))


@layers.command(short_help="Judge what a child layer came to.")
@click.argument("request_id", metavar="REQUEST")
@click.argument("decision", type=click.Choice(["accepted", "rework", "reroute", "blocked"]))
@click.option("--rationale", required=True, metavar="TEXT", help="Why.")
@click.option("--evidence", multiple=True, metavar="REF", help="What was reviewed. Repeatable.")
@click.option("--open-point", multiple=True, metavar="TEXT", help="What is left. Repeatable.")
@click.option("--superseding", metavar="REQUEST", help="The request that takes its place.")
@_assignment(required=False)
@_session
@layers_options
@click.pass_context
def accept(
    ctx: click.Context,
    request_id: str,
    decision: Any,
    rationale: str,
    evidence: tuple[str, ...],
    open_point: tuple[str, ...],
    superseding: str | None,
    assignment: str | None,
    session: str | None,
) -> None:
    """Record the parent's judgement of an outcome, once; without --assignment it is yours."""
    judged = _opened(ctx, assignment).accept(
        request_id,
        decision,
        rationale,
        evidence,
        session_id=session,
        assignment=None if assignment is None else Path(assignment),
        superseding_request_id=superseding,
        open_points=open_point,
    )
    emit(ctx, plain_document(judged), lambda: [f"{judged.request_id} is judged {judged.decision}."])


# --- what agents say of their attempt -------------------------------------------------------------


@layers.command(short_help="Publish the child request of a selected item.")
@_assignment(required=True)
@click.argument("item", metavar="ITEM")
@layers_options
@click.pass_context
def dispatch(ctx: click.Context, assignment: str, item: str) -> None:
    """Do a dispatcher's steps for ITEM: snapshot, digest, request, ledger.

    Said again, after a crash or not, it goes on where it was, and publishes nothing twice.
    """
    done = _opened(ctx, assignment).dispatch(Path(assignment), item)
    emit(
        ctx, plain_document(done), lambda: [f"{done.item_id}: {done.standing} ({done.request_id})"]
    )


@layers.command(short_help="Run the checks of a layer's goal.")
@_assignment(required=True)
@layers_options
@click.pass_context
def evaluate(ctx: click.Context, assignment: str) -> None:
    """Run all checks in eval_checks and write a receipt. Ends with 1 where one did not pass."""
    receipt = _opened(ctx, assignment).evaluate(Path(assignment))
    ref = f"session:/eval_receipts/{receipt.receipt_id}.json"
    lines = [f"{one.verdict:5} {one.check_id}: {one.detail}" for one in receipt.checks]
    document = {"receipt": plain_document(receipt), "ref": ref}
    emit(ctx, document, lambda: [*lines, f"{receipt.verdict}: {ref}"])
    if receipt.verdict != "pass":
        ctx.exit(REFUSED)


@layers.command(short_help="Say that a layer is over.")
@click.argument("word", type=click.Choice(["goal_met", "unresolvable_error", "running"]))
@_assignment(required=True)
@click.option("--receipt", metavar="REF", help="goal_met: the passing receipt.")
@click.option("--summary", metavar="TEXT", help="What is so, in a sentence or two.")
@click.option(
    "--blocker", type=click.Choice(["human_only", "credential", "destructive", "billable"])
)
@click.option(
    "--route",
    "routes",
    nargs=3,
    multiple=True,
    metavar="ROUTE OUTCOME REF",
    help="unresolvable_error: a way that was tried, what came of it, and the evidence. Repeatable.",
)
@layers_options
@click.pass_context
def control(
    ctx: click.Context,
    word: Any,
    assignment: str,
    receipt: str | None,
    summary: str | None,
    blocker: str | None,
    routes: tuple[tuple[str, str, str], ...],
) -> None:
    """Write the control of the attempt under way; it is judged when the attempt is over."""
    from callboard.layers.records.control import AttemptedRoute

    said = _opened(ctx, assignment).control(
        Path(assignment),
        None if word == "running" else word,
        eval_receipt_ref=receipt,
        summary=summary,
        blocker=blocker,
        attempted_routes=[
            AttemptedRoute(route=one, outcome=came, evidence_ref=ref or None)
            for one, came, ref in routes
        ],
    )
    emit(ctx, plain_document(said), lambda: [f"{said.control_id}: {word}"])


@layers.command(short_help="Print what happened in a layer.")
@click.option("--session", metavar="ID", help="The layer (default: the deepest).")
@click.option("--follow", is_flag=True, help="Go on as more happens, until Ctrl-C.")
@layers_options
@click.pass_context
def events(ctx: click.Context, session: str | None, follow: bool) -> None:
    """Print a layer's events, one JSON document a line."""
    opened = _opened(ctx)
    for line in _lines(opened, session, follow):
        click.echo(line)


def _lines(opened: Layers, session: str | None, follow: bool) -> Iterator[str]:
    from callboard import canonical

    at = 0
    pause = Event()
    while True:
        for end, event in opened.events(session, at):
            at = end
            yield canonical.encode(event).decode()
        if not follow:
            return
        pause.wait(0.5)
