"""The first program of a kept command's process: ties it to its keeper, then becomes the command.

Started as a script by `standing_in`, with the standard library alone; arguments are the keeper's
pid, the descriptor to report a failure on, and the command. It must leave files, folder,
environment and ignored signals as they are.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main() -> None:
    """Become the command, or report the errno of why not."""
    keeper, report = int(sys.argv[1]), int(sys.argv[2])
    os.set_inheritable(report, False)
    _leave_signals()
    _die_with(keeper)
    argv = sys.argv[3:]
    try:
        os.execvpe(argv[0], argv, os.environ)
    except OSError as error:
        os.write(report, b"%d" % (error.errno or 0))
    os._exit(127)


def _leave_signals() -> None:
    """Take back what Python itself set; what the keeper's caller ignores stays ignored."""
    for name in ("SIGPIPE", "SIGXFSZ"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_DFL)
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


def _die_with(keeper: int) -> None:
    """Ask Linux to kill this process, also after it became the command, with its keeper."""
    with contextlib.suppress(ImportError, OSError, AttributeError):
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    # The keeper may have ended before the line above took effect.
    if os.getppid() != keeper:
        os._exit(127)


if __name__ == "__main__":
    main()
