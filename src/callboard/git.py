"""The user's own `git`, run by argument list with nothing of the surroundings let in.

Every call has a time limit, a bounded answer and a fixed environment; decisions rest on exit
status and machine-readable output, never on words. It must never reach a network or run a hook.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from callboard.errors import CallboardError

_CHUNK_BYTES = 65_536
_ERROR_TAIL_BYTES = 2_000
_REAP_S = 5.0

# Settings of a command line win over those of any file, whoever wrote it.
_SETTINGS = (
    f"core.hooksPath={os.devnull}",
    f"core.attributesFile={os.devnull}",
    f"core.excludesFile={os.devnull}",
    "core.fsmonitor=false",
    "core.untrackedCache=false",
    "core.splitIndex=false",
    "core.sparseCheckout=false",
    "core.logAllRefUpdates=false",
    "core.protectHFS=true",
    "core.protectNTFS=true",
    "credential.helper=",
    "gc.auto=0",
    "maintenance.auto=false",
    "protocol.allow=never",
    "submodule.recurse=false",
    "commit.gpgSign=false",
)


@dataclass(frozen=True, slots=True)
class Answer:
    """How a call ended: its exit status, and its standard output unless that went to a file."""

    status: int
    output: bytes


class Git:
    """The `git` found on `search_path`. Raises `CallboardError` `git_missing` without one."""

    def __init__(self, search_path: str) -> None:
        found = shutil.which("git", path=search_path)
        if found is None:
            raise CallboardError(
                "git_missing", "there is no `git` on the search path", "install Git 2.31 or newer"
            )
        self._executable = found
        self._environment = {
            "PATH": search_path,
            "HOME": os.devnull,
            "XDG_CONFIG_HOME": os.devnull,
            "LC_ALL": "C",
            "TZ": "UTC",
            "GIT_ALLOW_PROTOCOL": "none",
            "GIT_ATTR_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_LITERAL_PATHSPECS": "1",
            "GIT_NO_LAZY_FETCH": "1",
            "GIT_NO_REPLACE_OBJECTS": "1",
            "GIT_OPTIONAL_LOCKS": "0",
            "GIT_TERMINAL_PROMPT": "0",
        }

    def run(
        self,
        arguments: Sequence[str | bytes],
        *,
        git_dir: Path | None,
        work_tree: Path | None = None,
        settings: Sequence[str] = (),
        variables: Mapping[str, str] | None = None,
        stdin: bytes | IO[bytes] = b"",
        stdout: IO[bytes] | None = None,
        statuses: Sequence[int] = (0,),
        timeout_s: float = 120.0,
        limit_bytes: int = 64 * 1024 * 1024,
    ) -> Answer:
        """One call, in the repository `git_dir` (given outright, so that none is searched for).

        All paths are absolute. `settings` go over those of the repository's own configuration.

        Raises `CallboardError` `git_failed` for an exit status outside `statuses`, `git_timeout`
        or `git_output_limit`; the whole process group is gone by then. `stdin` and `stdout` may
        be open files, read and written by git itself.
        """
        command: list[str | bytes] = [self._executable]
        if git_dir is not None:
            command += ["--git-dir", str(git_dir)]
        if work_tree is not None:
            command += ["--work-tree", str(work_tree)]
        for setting in (*_SETTINGS, *settings):
            command += ["-c", setting]
        call = _Call(str(arguments[0]), timeout_s, limit_bytes)
        status, output, complaint = call.run(
            [*command, *arguments],
            cwd=work_tree or Path("/"),
            environment={**self._environment, **(variables or {})},
            stdin=stdin,
            stdout=stdout,
        )
        if status not in statuses:
            raise CallboardError(
                "git_failed",
                f"git {arguments[0]!s} ended with status {status} in {str(git_dir)!r}",
                "look at what git said, in the details",
                {"command": str(arguments[0]), "status": status, "stderr": complaint},
            )
        return Answer(status, output)

    def text(self, arguments: Sequence[str | bytes], *, git_dir: Path) -> str:
        """The one line that a call answers with, stripped."""
        answer = self.run(arguments, git_dir=git_dir, limit_bytes=_CHUNK_BYTES)
        return answer.output.decode("utf-8", "surrogateescape").strip()


class _Call:
    """One child process from start to end, its pipes served from a single loop."""

    def __init__(self, name: str, timeout_s: float, limit_bytes: int) -> None:
        self._name = name
        self._deadline = time.monotonic() + timeout_s
        self._timeout_s = timeout_s
        self._limit_bytes = limit_bytes
        self._output = bytearray()
        self._complaint = bytearray()

    def run(
        self,
        command: list[str | bytes],
        *,
        cwd: Path,
        environment: Mapping[str, str],
        stdin: bytes | IO[bytes],
        stdout: IO[bytes] | None,
    ) -> tuple[int, bytes, str]:
        try:
            process = subprocess.Popen(
                command,
                cwd=cwd,
                env=environment,
                stdin=subprocess.PIPE if isinstance(stdin, bytes) else stdin,
                stdout=subprocess.PIPE if stdout is None else stdout,
                stderr=subprocess.PIPE,
                start_new_session=True,
                bufsize=0,
            )
        except OSError as error:
            raise CallboardError(
                "git_failed",
                f"git {self._name} cannot be started in {str(cwd)!r}: {error.strerror}",
                "check that the folder is still there, and the machine's limits",
                {"command": self._name, "errno": error.errno},
            ) from error
        with process:
            try:
                self._serve(process, stdin if isinstance(stdin, bytes) else b"")
                process.wait(max(0.0, self._deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                _end(process)
                raise self._too_slow() from None
            except BaseException:
                _end(process)
                raise
        complaint = self._complaint.decode("utf-8", "replace")
        return process.returncode, bytes(self._output), complaint

    def _serve(self, process: subprocess.Popen[bytes], data: bytes) -> None:
        remaining = memoryview(data)
        with selectors.DefaultSelector() as selector:
            for pipe in (process.stdout, process.stderr):
                if pipe is not None:
                    selector.register(pipe, selectors.EVENT_READ)
            if process.stdin is not None:
                os.set_blocking(process.stdin.fileno(), False)
                selector.register(process.stdin, selectors.EVENT_WRITE)
            while selector.get_map():
                ready = selector.select(max(0.0, self._deadline - time.monotonic()))
                if not ready and time.monotonic() >= self._deadline:
                    raise self._too_slow()
                for key, _events in ready:
                    if key.fileobj is process.stdin:
                        remaining = _feed(process.stdin, remaining)
                        done = not remaining
                    else:
                        sink = self._output if key.fileobj is process.stdout else self._complaint
                        done = not self._take(key.fd, sink)
                    if done:
                        selector.unregister(key.fileobj)
                        if key.fileobj is process.stdin:
                            process.stdin.close()

    def _take(self, descriptor: int, sink: bytearray) -> bool:
        data = os.read(descriptor, _CHUNK_BYTES)
        sink += data
        if sink is self._complaint:
            del sink[:-_ERROR_TAIL_BYTES]
        elif len(sink) > self._limit_bytes:
            raise CallboardError(
                "git_output_limit",
                f"git {self._name} answered with more than {self._limit_bytes} bytes",
                "the repository is larger than this step can handle",
                {"command": self._name, "limit_bytes": self._limit_bytes},
            )
        return bool(data)

    def _too_slow(self) -> CallboardError:
        return CallboardError(
            "git_timeout",
            f"git {self._name} took longer than {self._timeout_s:g} s and was stopped",
            "try again when the machine or its disk is less busy",
            {"command": self._name, "timeout_s": self._timeout_s},
        )


def _feed(pipe: IO[bytes], remaining: memoryview) -> memoryview:
    """Write a part; what is left to write, nothing where git does not want more."""
    try:
        return remaining[os.write(pipe.fileno(), remaining[:_CHUNK_BYTES]) :]
    except BlockingIOError:
        return remaining
    except BrokenPipeError:
        return memoryview(b"")


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill the call's process group; it is our child and unreaped, so the number is its own."""
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_REAP_S)
