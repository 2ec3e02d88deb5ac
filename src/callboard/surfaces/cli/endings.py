"""How a command ends: the exit statuses, and the last words of one that did not come to its answer.

No traceback and nothing that was submitted reaches the person.
"""

from __future__ import annotations

import contextlib
import os
import sys
from typing import Any

import click

from callboard.errors import CallboardError
from callboard.faults import fault_line
from callboard.surfaces.cli.chosen import Chosen
from callboard.surfaces.cli.render import (
    Block,
    Hint,
    bad,
    document_text,
    faint,
    short,
    with_hints,
    write_json,
    write_text,
)

REFUSED = 1
USAGE = 2
NOTHING = 3
"""A normal answer that granted nothing, or found nothing ready."""
CONTENTION = 4
FAULT = 70
INTERRUPTED = 130
BROKEN_PIPE = 141
TERMINATED = 143

_TRY_AGAIN = frozenset({"busy", "contention", "coordinator_busy", "registry_busy", "source_busy"})
_MAX_FAULTS = 20
_PACKAGE = f"{os.sep}callboard{os.sep}"


def last_words(error: BaseException, chosen: Chosen, in_json: bool) -> int:
    """Say why it ended, and answer its exit status; whoever has stopped listening misses it."""
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
        return gone()
    except OSError:
        _cry(f"callboard: it could not say why it ended: {_name_of(error)}")
        return REFUSED
    # A fault of the words themselves: whoever waits for them is told at least that, and of what.
    except Exception as second:  # noqa: BLE001
        _cry(
            f"callboard: a fault of Callboard itself: {type(second).__name__} at {_place(second)}, "
            f"while it was about to tell of {_name_of(error)}"
        )
        return FAULT


def _name_of(error: BaseException) -> str:
    """The code of a refusal, else the kind of error; never its text."""
    return error.code if isinstance(error, CallboardError) else type(error).__name__


def _cry(line: str) -> None:
    """The line on standard error by the shortest way there is; where that fails too, nothing can
    be said any more."""
    with contextlib.suppress(OSError, ValueError):
        sys.stderr.write(line.encode("ascii", "backslashreplace").decode() + "\n")
        sys.stderr.flush()


def gone() -> int:
    """The reader went away: say nothing more, also not while Python closes stdout."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return BROKEN_PIPE


def _refuse(error: CallboardError, chosen: Chosen, in_json: bool) -> int:
    # A refusal after the answer is no second answer.
    if in_json and not chosen.answered:
        write_json(with_hints({"error": error.document()}, chosen.pasteable))
    else:
        write_text(_refusal(error), err=True, paste=chosen.pasteable)
    return CONTENTION if error.code in _TRY_AGAIN else REFUSED


def _refusal(error: CallboardError) -> list[Block]:
    blocks: list[Block] = [bad(f"refused: {error.message}")]
    faults = error.details.get("faults")
    if isinstance(faults, list) and len(faults) > 1:
        blocks += [
            f"  {_told(fault)}"
            for fault in faults[:_MAX_FAULTS]
            # The first faults of a file are told by the message already.
            if "file" not in fault or _told(fault) not in error.message
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


def _told(fault: dict[str, Any]) -> str:
    places = {name: fault.get(name) for name in ("file", "line", "column", "pointer")}
    return fault_line(fault["message"], **places)


def _candidate(one: Any) -> str:
    """One of several that fit: a node of a board, a session of a project, or whatever it is."""
    if isinstance(one, dict):
        if {"work_id", "graph_id", "node_key"} <= one.keys():
            return f"{short(one['work_id'])}  {one['graph_id']}:{one['node_key']}"
        if {"id", "work", "branch", "agent"} <= one.keys():
            return f"{one['id']}  {one['agent']} at {one['work']} on {one['branch']}"
        return document_text(one)
    return str(one)


def _interrupted(chosen: Chosen, in_json: bool) -> int:
    """Stopped by hand: a person knows it, a program is still owed its one document."""
    if in_json and not chosen.answered:
        message = "stopped by Ctrl-C before the answer; what it asked for may stand or not"
        hint = "look at callboard status first; with the same --request-id it is safe to repeat"
        write_json(with_hints(_error("interrupted", message, hint), chosen.pasteable))
    return INTERRUPTED


def _misused(error: click.ClickException, in_json: bool) -> int:
    if in_json:
        hint = "callboard --help"
        if isinstance(error, click.UsageError) and error.ctx is not None:
            hint = f"{error.ctx.command_path} --help"
        write_json(_error("usage", error.format_message(), hint))
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
    import traceback

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
        import traceback

        traceback.print_exception(error)
    if in_json:
        write_json(_error("internal_fault", message, hint))
    else:
        write_text([message, Hint(hint)], err=True)
    return FAULT


def _error(code: str, message: str, hint: str) -> dict[str, Any]:
    """An end that is no refusal by the board, in the form that refusals have."""
    return {"error": {"code": code, "message": message, "hint": hint, "details": {}}}
