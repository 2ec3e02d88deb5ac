"""Running a command as if it stood in this process's place, and ending as it did.

The command has this process's files, folder and environment; signals that arrive here reach it.
What its end means is the caller's to say.
"""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import FrameType
from typing import NoReturn

import click

from callboard.errors import CallboardError

_FORWARDED = tuple(
    getattr(signal, name)
    for name in ("SIGHUP", "SIGINT", "SIGQUIT", "SIGTERM", "SIGUSR1", "SIGUSR2", "SIGWINCH")
    if hasattr(signal, name)
)


def run_command(
    argv: Sequence[str],
    environment: Mapping[str, str],
    *,
    stdout: int | None = None,
    keep: Sequence[int] = (),
    begun: Callable[[int], None] | None = None,
    tether: str | None = None,
) -> int:
    """Run `argv` to its end; its exit status, or minus the number of the signal that ended it.

    `stdout` is a descriptor that stands in for this process's own; those in `keep` stay open in the
    command and in all that it starts. `begun` is told its process id. `tether` is the script by
    which Linux kills the command, though not what that has started, where this process is killed;
    elsewhere it goes on. Raises `command_not_found` or `command_not_executable` where it could not
    be started.
    """
    relay = _Relay()
    with relay.installed():
        try:
            if tether is None or sys.platform != "linux":
                process = subprocess.Popen(
                    list(argv), env=dict(environment), stdout=stdout, pass_fds=keep
                )
            else:
                process = _tethered(tether, argv, environment, stdout, keep)
        except (OSError, ValueError) as error:
            raise _not_started(argv[0], error) from error
        with process:
            relay.serve(process)
            if begun is not None:
                begun(process.pid)
            return process.wait()


def check_command(program: str, environment: Mapping[str, str]) -> None:
    """Refuse as `run_command` would what is not there or may not be executed; nothing is run."""
    if "\0" in program:
        raise _not_started(program, ValueError())
    folders = [""] if os.path.dirname(program) else os.get_exec_path(environment)
    refused = errno.ENOENT
    for folder in folders:
        place = os.path.join(folder, program)
        if os.path.isfile(place) and os.access(place, os.X_OK):
            return
        if os.path.exists(place):
            refused = errno.EACCES
    raise _not_started(program, OSError(refused, os.strerror(refused)))


def _tethered(
    tether: str,
    argv: Sequence[str],
    environment: Mapping[str, str],
    stdout: int | None,
    keep: Sequence[int],
) -> subprocess.Popen[bytes]:
    """The command, started by way of the script. Raises as `Popen` does."""
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as reports:
        try:
            process = subprocess.Popen(
                [sys.executable, "-I", "-S", tether, str(os.getpid()), str(writing), *argv],
                env=dict(environment),
                stdout=stdout,
                pass_fds=[*keep, writing],
            )
        finally:
            os.close(writing)
        # It ends when the command has begun, as that does not have the other end.
        report = reports.read()
    if report:
        process.wait()
        raise OSError(int(report), os.strerror(int(report)))
    return process


def end_like(ctx: click.Context, status: int) -> NoReturn:
    """End as the command did, by the same signal where it was one."""
    if status < 0:
        sys.stdout.flush()
        sys.stderr.flush()
        if -status not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(-status, signal.SIG_DFL)
        _leave_no_core()
        os.kill(os.getpid(), -status)
        # A signal whose default is to be ignored ends nobody.
        ctx.exit(128 - status)
    ctx.exit(status)


def _leave_no_core() -> None:
    """The command may have dumped core; this process has nothing to tell."""
    import resource

    _soft, hard = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (0, hard))


class _Relay:
    """Passes signals on to one process; those that come before it exists wait for it."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._early: list[int] = []

    @contextlib.contextmanager
    def installed(self) -> Iterator[None]:
        """Relay while the context lasts; then the dispositions are as they were.

        A signal that is ignored stays ignored, as the command inherits that.
        """
        before = {number: signal.getsignal(number) for number in _FORWARDED}
        try:
            for number, disposition in before.items():
                if disposition != signal.SIG_IGN:
                    signal.signal(number, self._pass_on)
            yield
        finally:
            for number, disposition in before.items():
                signal.signal(number, disposition)

    def serve(self, process: subprocess.Popen[bytes]) -> None:
        """Begin to pass on to `process`."""
        self._process = process
        for number in self._early:
            process.send_signal(number)

    def _pass_on(self, number: int, _frame: FrameType | None) -> None:
        if self._process is None:
            self._early.append(number)
        else:
            self._process.send_signal(number)


def _not_started(program: str, error: OSError | ValueError) -> CallboardError:
    shown = ascii(program)[:200]
    if isinstance(error, FileNotFoundError):
        return CallboardError(
            "command_not_found",
            f"there is no command {shown}",
            "check its name and PATH",
        )
    found = error.strerror if isinstance(error, OSError) else "it holds a NUL character"
    return CallboardError(
        "command_not_executable",
        f"the command {shown} cannot be run: {found}",
        "check the file and its permissions",
    )
