"""The command line's entry: finds the verb, runs it, and ends with its exit status.

Verbs are imported when they are called, so that starting up stays quick. No command is decided
here; `endings` says what went wrong.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
from collections.abc import MutableMapping, Sequence
from typing import Any, NoReturn

import click

from callboard import __version__, telemetry
from callboard.surfaces.cli.chosen import Chosen, board_options
from callboard.surfaces.cli.endings import BROKEN_PIPE, FAULT, gone, last_words
from callboard.surfaces.cli.verbs import VERBS


class Root(click.Group):
    """The group of all verbs, each imported on its first use."""

    def list_commands(self, _context: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, _context: click.Context, name: str) -> click.Command | None:
        if name not in VERBS:
            return None
        module, attribute, _help = VERBS[name]
        found = getattr(importlib.import_module(f"callboard.surfaces.cli.{module}"), attribute)
        assert isinstance(found, click.Command)
        return found

    def resolve_command(
        self, context: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in VERBS and not args[0].startswith("-"):
            import difflib

            close = difflib.get_close_matches(args[0], list(VERBS), n=1)
            hint = f" Did you mean {close[0]!r}?" if close else ""
            raise click.UsageError(f"No such command {args[0]!r}.{hint}", context)
        return super().resolve_command(context, args)

    def format_commands(self, _context: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, verb[2]) for name, verb in VERBS.items()])

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
    except SystemExit:
        # Click ends so in one case only: the reader went away, and stdout is silenced already.
        return BROKEN_PIPE
    except BrokenPipeError:
        return gone()
    # The outermost frame: nothing may reach the person as a traceback.
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001
        return last_words(error, chosen, chosen.json or typed)


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
        telemetry.begin(os.environ)
        root.main()
    except SystemExit as ended:
        status = int(ended.code or 0)
    finally:
        telemetry.end()
        with contextlib.suppress(OSError):
            sys.stderr.flush()
        os._exit(status)
