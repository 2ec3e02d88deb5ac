"""One command, run to its end in a session of its own, with everything it started accounted for.

The process is held at a gate until its identity is on record; after that it is timed, its output
kept within bounds, and what its leader leaves behind stopped or named. Knows nothing of boards,
registries or recipes, and signals only processes that are proven to be the command's.
"""

from __future__ import annotations

import contextlib
import errno
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Literal

from callboard.errors import CallboardError
from callboard.processes import gate
from callboard.processes.family import Family, present_now
from callboard.processes.identity import ProcessFacts, ProcessIdentity, of
from callboard.processes.logs import CappedLog, LogSummary
from callboard.processes.members import RUN_MARK, Survivor

Cause = Literal["exited", "timed_out", "stopped"]
Ended = Literal["exited", "signalled", "timed_out", "stopped", "start_failed", "unfinished"]

_CHUNK_BYTES = 65_536
# More than a pipe holds by default, less than a survivor can use to keep the drain going.
_LAST_DRAIN_BYTES = 2 * 1024 * 1024
_LOOK_EVERY_S = 0.02
_LEADER_WATCHED_LOOK_EVERY_S = 1.0
_KILL_WAIT_S = 5.0


@dataclass(frozen=True, slots=True)
class Command:
    """What to run. Times in seconds, sizes in bytes.

    `env` is the whole environment; the run's mark is added to it. `stdout` and `stderr` are files
    that do not exist yet; `stdin` is a file to read, or None for an empty one. `grace_s` is the
    time between TERM and KILL.
    """

    argv: tuple[str, ...]
    env: Mapping[str, str]
    cwd: Path
    stdout: Path
    stderr: Path
    timeout_s: float
    stdin: Path | None = None
    grace_s: float = 5.0
    log_limit_bytes: int = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a command ended.

    `ended` is the supervisor's view: by itself (`exited`, `signalled`), by us (`timed_out`,
    `stopped`), not at all (`unfinished`: even KILL did not end it in time), or never begun
    (`start_failed`, with `reason` an errno name, `gate` or `invalid_argument`). `exit_code` and
    `signal` are the leader's own status, at most one of them set. `survivors` still ran when the
    outcome was taken.
    """

    ended: Ended
    exit_code: int | None
    signal: int | None
    reason: str | None
    duration_ms: int
    stdout: LogSummary
    stderr: LogSummary
    survivors: tuple[Survivor, ...]

    def document(self) -> dict[str, object]:
        """The JSON form."""
        return {
            "ended": self.ended,
            "exit_code": self.exit_code,
            "signal": self.signal,
            "reason": self.reason,
            "duration_ms": self.duration_ms,
            "stdout": self.stdout.document(),
            "stderr": self.stderr.document(),
            "survivors": [survivor.document() for survivor in self.survivors],
        }


def hold(
    command: Command, *, run_id: str, monotonic: Callable[[], float] = time.monotonic
) -> HeldProcess:
    """Start the process of `command`, held before anything of the command executes.

    Record `.identity` durably, then `.run()` it; leaving the `with` block without doing so, or
    the death of this process, ends it unexecuted. Call from a thread that outlives the run, in a
    process that starts nothing else meanwhile. Raises `CallboardError` `process_start_failed`
    where not even the gate can start (missing folder, no such stdin, logs that exist already).
    """
    if signal.getsignal(signal.SIGCHLD) == signal.SIG_IGN:
        raise _not_held(command, "SIGCHLD is ignored here, and with it how commands end", "SIGCHLD")
    try:
        with contextlib.ExitStack() as cleanup:
            return HeldProcess(command, run_id, monotonic, cleanup)
    except OSError as error:
        reason = errno.errorcode.get(error.errno or 0, "EIO")
        place = f" at {os.fsdecode(error.filename)!r}" if error.filename else ""
        raise _not_held(command, f"{reason}{place}", reason) from error


def _not_held(command: Command, what: str, reason: str) -> CallboardError:
    return CallboardError(
        "process_start_failed",
        f"a process in {str(command.cwd)!r} cannot be prepared: {what}",
        "check the folder, and that the log files are new and the input exists",
        {"reason": reason},
    )


class HeldProcess:
    """A process waiting at the gate; made by `hold`. Not to be shared between threads."""

    identity: ProcessIdentity

    def __init__(
        self,
        command: Command,
        run_id: str,
        monotonic: Callable[[], float],
        cleanup: contextlib.ExitStack,
    ) -> None:
        self._command = command
        self._monotonic = monotonic
        self._mark = {RUN_MARK: run_id}
        self._stop_read, self._stop_write = _pipe(cleanup)
        self._report, report_write = _pipe(cleanup)
        order_read, self._order = _pipe(cleanup)
        for end in (self._stop_read, self._stop_write, self._report):
            os.set_blocking(end.fileno(), False)
        stdin = cleanup.enter_context((command.stdin or Path(os.devnull)).open("rb"))
        self._stdout = cleanup.enter_context(CappedLog(command.stdout, command.log_limit_bytes))
        self._stderr = cleanup.enter_context(CappedLog(command.stderr, command.log_limit_bytes))
        before = present_now()
        self._process = self._start(order_read, report_write, stdin)
        for end in (order_read, report_write, stdin):
            end.close()
        identity = of(self._process.pid)
        assert identity is not None, "an unreaped child is always in the process table"
        self.identity = identity
        self._family = Family(self._process.pid, run_id, before)
        self._pipes: list[tuple[IO[bytes], CappedLog]] = []
        for pipe, log in (
            (self._process.stdout, self._stdout),
            (self._process.stderr, self._stderr),
        ):
            assert pipe is not None
            self._pipes.append((cleanup.enter_context(pipe), log))
        self._cleanup = cleanup.pop_all()
        self._used = False

    def _start(
        self, order: IO[bytes], report: IO[bytes], stdin: IO[bytes]
    ) -> subprocess.Popen[bytes]:
        order_end, report_end, own = order.fileno(), report.fileno(), os.getpid()
        return subprocess.Popen(
            [sys.executable, "-I", "-S", gate.__file__, str(order_end), str(report_end), str(own)],
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=self._command.cwd,
            env=self._mark,
            pass_fds=(order_end, report_end),
            start_new_session=True,
            bufsize=0,
        )

    def __enter__(self) -> HeldProcess:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.abandon()

    def abandon(self) -> None:
        """End the process if it was not run; afterwards nothing of it is left."""
        if self._used:
            return
        self._used = True
        with self._cleanup:
            self._end_at_once()

    def request_stop(self) -> None:
        """Ask for the run to be stopped as at its time limit; safe in a signal handler."""
        # ValueError: the run is over, and its pipe closed.
        with contextlib.suppress(OSError, ValueError):
            os.write(self._stop_write.fileno(), b"S")

    def run(self) -> Outcome:
        """Let the command execute and stay with it to the end; once only.

        Returns when the leader has ended, what else its group and session held is gone or named,
        and the logs are durable.
        """
        if self._used:
            raise _not_held(self._command, "it was run or abandoned before", "used")
        self._used = True
        with self._cleanup:
            try:
                return self._supervise()
            except BaseException:
                # No way out of here may leave the command running unattended.
                self._end_at_once()
                raise

    # --- supervision --------------------------------------------------------------------------

    def _supervise(self) -> Outcome:
        began = self._monotonic()
        sent = self._send_order()
        with selectors.DefaultSelector() as selector:
            for pipe, log in self._pipes:
                os.set_blocking(pipe.fileno(), False)
                selector.register(pipe, selectors.EVENT_READ, log)
            cause = self._until_leader_ends(selector, began + self._command.timeout_s)
            # What was started by a command that is stopped goes with it, wherever it moved to; so
            # does what one leaves that failed, as it may be tried again beside it.
            tree = self._family.tree() if cause != "exited" else self._left_by_a_failure()
            self._clear(selector, tree)
        self._last_drain()
        duration_ms = max(0, round((self._monotonic() - began) * 1000))
        survivors = self._family.survivors()
        status = None if self._leader_lives() else self._process.wait()
        self._stdout.close()
        self._stderr.close()
        ended, reason = self._judge(cause, status, sent)
        if ended == "start_failed":
            # It is the gate's own, and says nothing of the command.
            status = None
        return Outcome(
            ended=ended,
            exit_code=status if status is not None and status >= 0 else None,
            signal=-status if status is not None and status < 0 else None,
            reason=reason,
            duration_ms=duration_ms,
            stdout=self._stdout.summary(),
            stderr=self._stderr.summary(),
            survivors=survivors,
        )

    def _judge(self, cause: Cause, status: int | None, sent: bool) -> tuple[Ended, str | None]:
        report = _read_some(self._report.fileno()) or b""
        if not sent:
            return "start_failed", "invalid_argument"
        if report.startswith(b"GE"):
            return "start_failed", errno.errorcode.get(int(report[2:] or b"0"), "EIO")
        if status is None:
            return "unfinished", None
        if cause != "exited":
            return cause, None
        if not report:
            return "start_failed", "gate"
        return ("signalled" if status < 0 else "exited"), None

    def _send_order(self) -> bool:
        """Hand the command over; False where it can never be executed as it stands."""
        argv = [os.fsencode(word) for word in self._command.argv]
        variables = {**self._command.env, **self._mark}
        env = {os.fsencode(name): os.fsencode(value) for name, value in variables.items()}
        sendable = (
            bool(argv)
            and all(b"\0" not in word for word in (*argv, *env, *env.values()))
            and all(name and b"=" not in name for name in env)
        )
        # A gate that died first breaks the pipe; that is judged by what it did not report.
        with self._order, contextlib.suppress(BrokenPipeError):
            remaining = memoryview(gate.encode_order(argv, env) if sendable else b"")
            while remaining:
                remaining = remaining[os.write(self._order.fileno(), remaining) :]
        return sendable

    def _until_leader_ends(self, selector: selectors.BaseSelector, deadline: float) -> Cause:
        with contextlib.ExitStack() as watch:
            selector.register(self._stop_read, selectors.EVENT_READ)
            watch.callback(selector.unregister, self._stop_read)
            pace_s = self._watch_leader(selector, watch)
            while self._leader_lives():
                left_s = deadline - self._monotonic()
                if left_s <= 0:
                    return "timed_out"
                if self._pump(selector, min(left_s, pace_s)):
                    return "stopped"
        return "exited"

    def _watch_leader(self, selector: selectors.BaseSelector, watch: contextlib.ExitStack) -> float:
        """Let the leader's end wake the selector, if possible; how often to look anyway, in s."""
        if sys.platform == "linux" and hasattr(os, "pidfd_open"):
            # OSError: an old kernel, or one that forbids it.
            with contextlib.suppress(OSError):
                descriptor = os.pidfd_open(self._process.pid)
                watch.callback(os.close, descriptor)
                selector.register(descriptor, selectors.EVENT_READ)
                watch.callback(selector.unregister, descriptor)
                return _LEADER_WATCHED_LOOK_EVERY_S
        return _LOOK_EVERY_S

    def _left_by_a_failure(self) -> list[ProcessFacts]:
        """What still runs where the leader ended badly; what a good end leaves is let be."""
        options = os.WEXITED | os.WNOHANG | os.WNOWAIT
        ended = os.waitid(os.P_PID, self._process.pid, options)
        is_good = ended is not None and (ended.si_code, ended.si_status) == (os.CLD_EXITED, 0)
        return [] if is_good else self._family.rest()

    def _leader_lives(self) -> bool:
        """Whether the leader runs. It is not reaped: its number and group stay its own."""
        options = os.WEXITED | os.WNOHANG | os.WNOWAIT
        return os.waitid(os.P_PID, self._process.pid, options) is None

    def _pump(self, selector: selectors.BaseSelector, wait_s: float) -> bool:
        """Move waiting output into the logs, waiting up to `wait_s`; True when asked to stop."""
        stop = False
        for key, _events in selector.select(max(0.0, wait_s)):
            if key.fileobj is self._stop_read:
                stop = True
            elif isinstance(key.data, CappedLog):
                data = _read_some(key.fd)
                if data == b"":
                    selector.unregister(key.fileobj)
                key.data.write(data or b"")
        return stop

    def _clear(self, selector: selectors.BaseSelector, tree: list[ProcessFacts]) -> None:
        """TERM, grace, KILL for all that is left; the output goes on being drained."""
        steps = ((signal.SIGTERM, self._command.grace_s), (signal.SIGKILL, _KILL_WAIT_S))
        for number, wait_s in steps:
            left = self._family.left(tree)
            self._family.send(left, number)
            deadline = self._monotonic() + wait_s
            while left and self._monotonic() < deadline:
                self._pump(selector, _LOOK_EVERY_S)
                left = self._family.left(tree)
                if number == signal.SIGKILL:
                    self._family.send(left, number)
            if not left:
                return

    def _last_drain(self) -> None:
        """Take what the pipes still hold; survivors may keep them open, so no end is awaited."""
        for pipe, log in self._pipes:
            drained_bytes = 0
            while drained_bytes < _LAST_DRAIN_BYTES and (data := _read_some(pipe.fileno())):
                log.write(data)
                drained_bytes += len(data)

    def _end_at_once(self) -> None:
        if self._process.returncode is None:
            self._family.send_to_group(signal.SIGKILL)
            # One that even KILL does not end has to be left to the system.
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_KILL_WAIT_S)


def _pipe(cleanup: contextlib.ExitStack) -> tuple[IO[bytes], IO[bytes]]:
    """A pipe whose ends close with `cleanup`, and may be closed before."""
    read, write = os.pipe()
    return (
        cleanup.enter_context(os.fdopen(read, "rb", buffering=0)),
        cleanup.enter_context(os.fdopen(write, "wb", buffering=0)),
    )


def _read_some(descriptor: int) -> bytes | None:
    """What a non-blocking pipe holds: b"" at its end, None while it is empty."""
    try:
        return os.read(descriptor, _CHUNK_BYTES)
    except BlockingIOError:
        return None
