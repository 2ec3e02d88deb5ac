"""Runners as processes: finding the one of an attempt, and asking it to end its harness.

A runner is known by its record, and by its arguments where somebody took that away. Nothing is
signalled that is not proven to be the runner.
"""

from __future__ import annotations

import contextlib
import signal
import tempfile
from collections.abc import Iterator
from typing import IO

from callboard.errors import CallboardError
from callboard.layers.around import Around
from callboard.layers.records.attempt import RecordedProcess
from callboard.layers.records.base import document
from callboard.processes import members
from callboard.processes.identity import ProcessIdentity, look, of, state


def identity_of(process: RecordedProcess) -> ProcessIdentity:
    """The recorded process. Raises `identity_invalid`."""
    return ProcessIdentity.from_document(document(process))


def recorded(identity: ProcessIdentity) -> RecordedProcess:
    """How a process is recorded."""
    return RecordedProcess(
        pid=identity.pid,
        started=identity.started,
        boot_id=identity.boot_id,
        host=identity.host,
        pid_namespace=identity.pid_namespace,
    )


def command_line(around: Around, place: str) -> list[str]:
    """The command line of the runner of the attempt whose folder is `place`."""
    return [*around.runner, str(around.disk.root), place]


def at_work(around: Around, place: str) -> ProcessIdentity | None:
    """The runner of the attempt at `place` that lives on this machine, record or not."""
    own = command_line(around, place)[-2:]
    for facts in members.living(members.everyone()):
        if members.words_of(facts)[-2:] == own:
            found = of(facts.pid)
            if found is not None and found.started == facts.started:
                return found
    return None


def ask_to_end(runner: ProcessIdentity) -> bool:
    """Ask a runner to stop its harness; False: it is not known to be alive here."""
    facts = look(runner.pid)
    if facts is None or facts.started != runner.started or state(runner) != "alive":
        return False
    asked = members.send(facts, signal.SIGTERM)
    # A stopped process hears nothing before it goes on.
    members.send(facts, signal.SIGCONT)
    return asked


@contextlib.contextmanager
def scratch(data: bytes = b"") -> Iterator[IO[bytes]]:
    """A file without a name that holds `data`; `storage_failed` where there is no room for it."""
    with contextlib.ExitStack() as cleanup:
        try:
            stream = cleanup.enter_context(tempfile.TemporaryFile())
            stream.write(data)
            stream.flush()
            stream.seek(0)
        except OSError as error:
            raise CallboardError(
                "storage_failed",
                f"no temporary file of {len(data)} bytes can be made: {error.strerror or error}",
                "make room in the folder for temporary files ($TMPDIR), and do it again",
            ) from error
        yield stream
