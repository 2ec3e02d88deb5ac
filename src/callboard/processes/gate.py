"""The first program of a run's process: waits for the word to go, then becomes the real command.

Started as a script by `processes`, with the standard library alone; arguments are the descriptor
to read the order from, the one to report on, and the supervisor's pid. It must execute nothing
unless the whole order has arrived, so a supervisor that dies first leaves no trace of a run.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys

NOT_STARTED = 125
HEADER_BYTES = 8
_PR_SET_PDEATHSIG = 1


def main() -> None:
    """Wait for the order, report `G`, execute; report `E` and the errno where that fails."""
    order_end, report_end, supervisor = (int(argument) for argument in sys.argv[1:4])
    os.set_inheritable(report_end, False)
    _die_with_supervisor()
    # The supervisor may have ended before the line above took effect.
    if os.getppid() != supervisor:
        os._exit(NOT_STARTED)
    order = _read_order(order_end)
    if order is None:
        os._exit(NOT_STARTED)
    os.close(order_end)
    argv, env = order
    os.write(report_end, b"G")
    _reset_signals()
    try:
        os.execvpe(argv[0], argv, env)
    except OSError as error:
        os.write(report_end, b"E%d" % (error.errno or 0))
    os._exit(NOT_STARTED)


def encode_order(argv: list[bytes], env: dict[bytes, bytes]) -> bytes:
    """The order as it travels: its length in eight bytes, then JSON with bytes as Latin-1."""
    body = json.dumps(
        {
            "argv": [word.decode("latin-1") for word in argv],
            "env": {name.decode("latin-1"): value.decode("latin-1") for name, value in env.items()},
        }
    ).encode("ascii")
    return len(body).to_bytes(HEADER_BYTES, "big") + body


def _read_order(descriptor: int) -> tuple[list[bytes], dict[bytes, bytes]] | None:
    """The whole order, or None where the pipe closed before all of it was there."""
    with os.fdopen(descriptor, "rb", closefd=False) as stream:
        data = stream.read()
    body = data[HEADER_BYTES:]
    if len(data) < HEADER_BYTES or len(body) != int.from_bytes(data[:HEADER_BYTES], "big"):
        return None
    order = json.loads(body)
    argv = [word.encode("latin-1") for word in order["argv"]]
    return argv, {
        name.encode("latin-1"): value.encode("latin-1") for name, value in order["env"].items()
    }


def _die_with_supervisor() -> None:
    """Ask Linux to kill this process, also after it became the command, with its supervisor."""
    # An additional guard only: elsewhere the next start of the board finds and stops the orphans.
    with contextlib.suppress(ImportError, OSError, AttributeError):
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)


def _reset_signals() -> None:
    """Give the command the dispositions of a fresh login, whatever the supervisor ignores."""
    for number in signal.valid_signals():
        if number not in (signal.SIGKILL, signal.SIGSTOP):
            # The C library keeps some real-time signals for itself.
            with contextlib.suppress(OSError, ValueError):
                signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])


if __name__ == "__main__":
    main()
