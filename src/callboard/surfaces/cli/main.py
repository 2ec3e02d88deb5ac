"""The command line's entry: finds the verb, runs it, and turns every end into an exit status.

Verbs are imported when they are called, so that starting up stays quick. No command is decided
here, and no traceback or secret reaches the person.
"""

from __future__ import annotations

import contextlib
import difflib
import importlib
import os
import sys
import traceback
from collections.abc import MutableMapping, Sequence
from typing import Any, NoReturn

import click

from callboard import __version__
from callboard.errors import CallboardError
from callboard.surfaces.cli.chosen import Chosen, board_options
from callboard.surfaces.cli.render import (
    Block,
    Hint,
    Line,
    bad,
    faint,
    with_hints,
    write_json,
    write_text,
)

REFUSED = 1
USAGE = 2
CONTENTION = 4
FAULT = 70
BROKEN_PIPE = 141
INTERRUPTED = 130

_TRY_AGAIN = frozenset({"contention", "registry_busy"})
_MAX_FAULTS = 20
_PACKAGE = f"{os.sep}callboard{os.sep}"

# Verb -> module, the command in it, and what it does in a line.
_VERBS = {
    "init": ("init", "init", "Prepare this user and this repository."),
    "submit": ("submit", "submit", "Post a plan of tasks."),
    "run": ("dispatch", "run", "Run the board: dispatch, watch over, settle."),
    "status": ("status", "status", "Show the board."),
    "show": ("look", "show", "Show one node in full."),
    "explain": ("look", "explain", "Say why a node waits, or why a grant went where it went."),
    "trace": ("look", "trace", "List every commit that touched a node, Claim or dispatch."),
    "dispatch": ("dispatch", "dispatch", "Grant and launch one batch."),
    "cancel": ("control", "cancel", "End nodes for good."),
    "pause": ("control", "pause", "Pause admission or grants."),
    "resume": ("control", "resume", "Resume admission or grants."),
    "policy": ("policy", "policy", "Show the policy, or check what HEAD would install."),
    "ledger": ("ledger", "ledger", "Read the ledger: log, verify, replay, plan, canonical."),
    "worker": ("worker", "worker", "Inside a run: assignment, finish, outputs."),
    "whoami": ("whoami", "whoami", "Say who you are on the board, and where it is."),
}


class Root(click.Group):
    """The group of all verbs, each imported on its first use."""

    def list_commands(self, _context: click.Context) -> list[str]:
        return list(_VERBS)

    def get_command(self, _context: click.Context, name: str) -> click.Command | None:
        if name not in _VERBS:
            return None
        module, attribute, _help = _VERBS[name]
        found = getattr(importlib.import_module(f"callboard.surfaces.cli.{module}"), attribute)
        assert isinstance(found, click.Command)
        return found

    def resolve_command(
        self, context: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in _VERBS and not args[0].startswith("-"):
            close = difflib.get_close_matches(args[0], list(_VERBS), n=1)
            hint = f" Did you mean {close[0]!r}?" if close else ""
            raise click.UsageError(f"No such command {args[0]!r}.{hint}", context)
        return super().resolve_command(context, args)

    def format_commands(self, _context: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, verb[2]) for name, verb in _VERBS.items()])

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> NoReturn:
        """Run and exit; the status is that of the table in the manual."""
        words = list(sys.argv[1:] if args is None else args)
        status = _run(self, words, prog_name, extra)
        sys.exit(status)


def _run(
    root: Root, words: list[str], prog_name: str | None, extra: MutableMapping[str, Any]
) -> int:
    chosen = Chosen()
    typed = "--json" in words[: words.index("--") if "--" in words else None]
    try:
        answer = click.Group.main(
            root, words, prog_name or "callboard", standalone_mode=False, obj=chosen, **extra
        )
        sys.stdout.flush()
        return answer if isinstance(answer, int) else 0
    except (KeyboardInterrupt, click.Abort) as error:
        return _last_words(error, chosen, chosen.json or typed)
    except SystemExit:
        # Click ends so in one case only: the reader went away, and stdout is silenced already.
        return BROKEN_PIPE
    except BrokenPipeError:
        return _gone()
    # The outermost frame: nothing may reach the person as a traceback.
    except Exception as error:  # noqa: BLE001
        return _last_words(error, chosen, chosen.json or typed)


def _last_words(error: BaseException, chosen: Chosen, in_json: bool) -> int:
    """Say why it ended; whoever has stopped listening misses it."""
    try:
        if isinstance(error, OSError):
            error = _system(error)
        if isinstance(error, CallboardError):
            status = _refuse(error, chosen, in_json)
        elif isinstance(error, KeyboardInterrupt | click.Abort):
            status = _interrupted(chosen, in_json)
        elif isinstance(error, click.ClickException):
            status = _misused(error, in_json)
        else:
            status = _fault(error, in_json)
        sys.stdout.flush()
        return status
    except BrokenPipeError:
        return _gone()
    except OSError:
        return REFUSED


def _gone() -> int:
    """The reader went away: say nothing more, also not while Python closes stdout."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return BROKEN_PIPE


def _refuse(error: CallboardError, chosen: Chosen, in_json: bool) -> int:
    if in_json:
        write_json(with_hints({"error": error.document()}, chosen.pasteable))
    else:
        write_text(_refusal(error), err=True, paste=chosen.pasteable)
    return CONTENTION if error.code in _TRY_AGAIN else REFUSED


def _refusal(error: CallboardError) -> list[Block]:
    blocks: list[Block] = [bad(f"refused: {error.message}")]
    faults = error.details.get("faults")
    if isinstance(faults, list) and len(faults) > 1:
        blocks += [
            f"  {fault['pointer'] or '/'}: {fault['message']}" for fault in faults[:_MAX_FAULTS]
        ]
        if len(faults) > _MAX_FAULTS:
            blocks.append(f"  and {len(faults) - _MAX_FAULTS} more")
    candidates = error.details.get("candidates")
    if isinstance(candidates, list):
        blocks += [f"  {_candidate(one)}" for one in candidates]
    if error.hint:
        blocks.append(Hint(error.hint))
    blocks.append(faint(f"code: {error.code}"))
    return blocks


def _candidate(one: Any) -> str:
    if isinstance(one, dict):
        return f"{one['work_id'][:12]}  {one['graph_id']}:{one['node_key']}"
    return str(one)


def _interrupted(chosen: Chosen, in_json: bool) -> int:
    """Stopped by hand: a person knows it, a program is still owed its one document."""
    if in_json and not chosen.answered:
        message = "stopped by Ctrl-C before the answer; what it asked for may stand or not"
        hint = "look at callboard status first; with the same --request-id it is safe to repeat"
        document = {"code": "interrupted", "message": message, "hint": hint, "details": {}}
        write_json(with_hints({"error": document}, chosen.pasteable))
    return INTERRUPTED


def _misused(error: click.ClickException, in_json: bool) -> int:
    if in_json:
        hint = "callboard --help"
        if isinstance(error, click.UsageError) and error.ctx is not None:
            hint = f"{error.ctx.command_path} --help"
        message = error.format_message()
        write_json({"error": {"code": "usage", "message": message, "hint": hint, "details": {}}})
    elif isinstance(error, click.exceptions.NoArgsIsHelpError):
        write_text(error.format_message().splitlines(), err=True)
    else:
        write_text(_usage(error), err=True)
    return USAGE


def _usage(error: click.ClickException) -> list[Block]:
    """Click's own words, by way of `write_text`: they quote what was typed."""
    blocks: list[Block] = []
    if isinstance(error, click.UsageError) and error.ctx is not None:
        blocks += error.ctx.get_usage().splitlines()
        blocks += [f"Try '{error.ctx.command_path} --help' for help.", ""]
    message = f"Error: {error.format_message()}"
    # The one message of several lines; it lists the choices and quotes nothing that was typed.
    missing = isinstance(error, click.MissingParameter)
    return [*blocks, *(message.expandtabs(4).splitlines() if missing else [message])]


def _system(error: OSError) -> CallboardError:
    """The machine refused something no part of Callboard expected: a full disk, no more files."""
    reason = os.strerror(error.errno) if error.errno else type(error).__name__
    return CallboardError(
        "system_refused",
        f"the system refused a read or write at {_place(error)}: {reason}",
        "see to the disk, the memory or the rights of this user, then run the same command again",
        {"errno": error.errno},
    )


def _place(error: BaseException) -> str:
    """The last line of ours the error passed."""
    place = "callboard"
    for frame in traceback.extract_tb(error.__traceback__):
        if _PACKAGE in frame.filename:
            place = f"{frame.filename.rsplit(_PACKAGE, 1)[1]}:{frame.lineno}"
    return place


def _fault(error: BaseException, in_json: bool) -> int:
    """A defect of ours: its kind and place, never its text, which may hold what was submitted."""
    message = f"a fault of Callboard itself: {type(error).__name__} at {_place(error)}"
    hint = "report these two lines; CALLBOARD_DEBUG=1 shows more, read it before you share it"
    if os.environ.get("CALLBOARD_DEBUG"):
        traceback.print_exception(error)
    if in_json:
        document = {"code": "internal_fault", "message": message, "hint": hint, "details": {}}
        write_json({"error": document})
    else:
        write_text([Line(message), f"next: {hint}"], err=True)
    return FAULT


@click.command(
    cls=Root,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    invoke_without_command=False,
)
@click.version_option(__version__, prog_name="callboard", message="%(prog)s %(version)s")
@board_options
def root() -> None:
    """Post work for AI agents, run it in fair turns, and see it verified."""


def main() -> NoReturn:
    """The console script.

    The process ends without tearing its objects down: for a board of ten thousand nodes that would
    take a tenth of the time of the whole command.
    """
    status = FAULT
    try:
        # Started with a stream closed, the process has None in its place.
        sys.stdout = sys.stdout or os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")
        sys.stderr = sys.stderr or os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")
        root.main()
    except SystemExit as ended:
        status = int(ended.code or 0)
    finally:
        with contextlib.suppress(OSError):
            sys.stderr.flush()
        os._exit(status)
