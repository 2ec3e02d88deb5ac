"""`callboard project claim keep`: a claim that is renewed as long as a command runs.

The command stands in this process's place: signals reach it, and its end is the end. Where the
claim is lost it is stopped with all that it has started, unless it is to go on.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import sys
from threading import Event, Lock
from typing import TYPE_CHECKING, Any

import click

from callboard.errors import CallboardError
from callboard.surfaces.cli.chosen import Chosen, project_options
from callboard.surfaces.cli.project import tether
from callboard.surfaces.cli.project.caller import caller_of
from callboard.surfaces.cli.project.values import Whole
from callboard.surfaces.cli.render import write_json
from callboard.surfaces.cli.standing_in import check_command, end_like, run_command
from callboard.visible import visible

if TYPE_CHECKING:
    import psutil

    from callboard.project.keeping import Keeper, Loss
    from callboard.project.records import Claim

GRACE_MS = 10_000


@click.command(
    short_help="Hold a claim while a command runs.",
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
@click.option("--session", required=True, metavar="TEXT", help="The session that holds its work.")
@click.option(
    "--ttl-ms",
    type=Whole(),
    required=True,
    metavar="N",
    help="The claim ends so many milliseconds after the last renewal, 250 at least, and never "
    "earlier than it would have; a renewal comes each third of it.",
)
@click.option(
    "--let-run", is_flag=True, help="Where the claim is lost, say so and let the command go on."
)
@click.option(
    "--grace-ms",
    type=click.IntRange(0, 3_600_000),
    default=GRACE_MS,
    show_default=True,
    metavar="N",
    help="How long a command that is stopped has between SIGTERM and SIGKILL.",
)
@click.option(
    "--expected-revision",
    type=Whole(),
    metavar="N",
    help="Refuse the first renewal, and do not begin, unless the project is at this revision.",
)
@click.option(
    "--request-id",
    metavar="ID",
    help="Name the first renewal. Said again it is no new one; the claim is renewed and kept "
    "all the same, and the command runs again.",
)
@project_options
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
@click.pass_context
def keep(
    ctx: click.Context,
    session: str,
    ttl_ms: int | float,
    let_run: bool,
    grace_ms: int,
    expected_revision: int | float | None,
    request_id: str | None,
    command: tuple[str, ...],
) -> None:
    """Run COMMAND, and renew the session's claim until it ends.

    The exit status is the command's own. A claim that is released, taken over or lapsed is told of
    at once on standard error, and the command is stopped; the status is then 1 (claim_lost). After
    the command the claim stays until its end. With --json the command's standard output goes to
    standard error. Where this process is killed (SIGKILL), Linux kills the command, not what that
    has started; on other systems, and with --let-run, it goes on after its claim.
    """
    from callboard.project.keeping import Keeper

    caller = caller_of(ctx)
    # Before the claim is touched: it is not to end otherwise by a slip of the pen.
    check_command(command[0], os.environ)
    stopper = Stopper(is_on=not let_run, grace_s=grace_ms / 1000)
    keeper = Keeper(
        caller,
        session,
        ttl_ms,
        lost=stopper.lost,
        troubled=_say_trouble,
        expected_revision=expected_revision,
        request_id=request_id,
    )
    in_json = ctx.ensure_object(Chosen).json
    with keeper:
        stdout = sys.stderr.fileno() if in_json else None
        try:
            status = run_command(
                command,
                os.environ,
                stdout=stdout,
                begun=stopper.begin,
                tether=None if let_run else tether.__file__,
            )
        finally:
            stopper.end()
    _end(ctx, keeper, stopper, status, in_json=in_json)


def _end(
    ctx: click.Context, keeper: Keeper, stopper: Stopper, status: int, *, in_json: bool
) -> None:
    if stopper.has_stopped:
        assert keeper.loss is not None
        raise CallboardError(
            "claim_lost",
            f"the command was stopped: {keeper.loss.message}",
            "change nothing more in its name; who holds the work now: `callboard project claim "
            f"show --work {shlex.quote(keeper.claim.work)}`",
            {"state": keeper.loss.kind, "claim": keeper.claim.id, "exit_status": status},
        )
    if in_json:
        import msgspec

        document: dict[str, Any] = {
            "project_revision": keeper.revision,
            "claim": msgspec.to_builtins(_as_it_is_now(ctx, keeper)),
            "state": "kept" if keeper.loss is None else keeper.loss.kind,
            "renewals": keeper.renewals,
            "exit_status": status,
        }
        ctx.ensure_object(Chosen).answered = True
        write_json(document)
    end_like(ctx, status)


def _as_it_is_now(ctx: click.Context, keeper: Keeper) -> Claim:
    """The claim; where it was lost, as the project has it by now, if the project can be asked."""
    if keeper.loss is None:
        return keeper.claim
    with contextlib.suppress(CallboardError), caller_of(ctx).open() as project:
        found = project.sessions.show(keeper.claim.session).claim
        if found is not None:
            return found
    return keeper.claim


def _say_trouble(error: CallboardError) -> None:
    _say(f"the claim cannot be renewed now, trying again: {error}")


def _say(text: str) -> None:
    click.echo(visible(text), err=True)


class Stopper:
    """Stops the command, once it has begun, where its claim is lost."""

    def __init__(self, *, is_on: bool, grace_s: float) -> None:
        self._is_on = is_on
        self._grace_s = grace_s
        self._lock = Lock()
        self._has_ended = Event()
        self._process: psutil.Process | None = None
        self._tree: list[psutil.Process] = []
        self._is_lost = False
        self.has_stopped = False

    def begin(self, pid: int) -> None:
        """The command runs."""
        import psutil

        with self._lock:
            self._process = psutil.Process(pid)
            if self._is_lost:
                self._terminate()

    def end(self) -> None:
        """The command is over."""
        self._has_ended.set()

    def lost(self, loss: Loss) -> None:
        """The claim is lost: say so, and see the command to its end."""
        _say(f"the claim is lost: {loss.message}")
        if not self._is_on:
            return
        with self._lock:
            self._is_lost = True
            self._terminate()
        self._has_ended.wait(self._grace_s)
        with self._lock:
            _kill(self._tree)

    def _terminate(self) -> None:
        """Ask the command, and all that it has started, to end."""
        import psutil

        if self._process is None or self._has_ended.is_set():
            return
        self.has_stopped = True
        self._tree = [self._process]
        with contextlib.suppress(psutil.Error):
            self._tree += self._process.children(recursive=True)
        for one in self._tree:
            with contextlib.suppress(psutil.Error):
                one.terminate()


def _kill(tree: list[psutil.Process]) -> None:
    """End what is left of it. Each is known by more than its number, so nobody else is meant."""
    import psutil

    for one in tree:
        with contextlib.suppress(psutil.Error):
            for child in one.children(recursive=True):
                child.kill()
            one.kill()
