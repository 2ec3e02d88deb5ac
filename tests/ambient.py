"""What surrounds a test run: the environment it starts from and the data that lies outside.

Keeps the developer's Git identity, configuration, home folder and terminal out of every test. It
must not set up anything that a test is about: repositories, boards and clocks belong to the tests.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
DEEP = os.environ.get("CALLBOARD_DEEP") == "1"
"""Whether the exhaustive versions of sampled tests run (`make test-deep`)."""

# The suite's own switches; workers of a parallel run inherit them from the first process.
_SWITCHES = ("CALLBOARD_DEEP", "CALLBOARD_SPECIFICATION", "CALLBOARD_VECTORS")
_PREFIXES = ("CALLBOARD_", "CLICOLOR", "GIT_", "OTEL_", "PIP_", "UV_", "XDG_")
_NAMES = (
    "COLUMNS", "EDITOR", "EMAIL", "FORCE_COLOR", "LANG", "LANGUAGE", "LINES", "PAGER",
    "PYTHONHOME", "PYTHONPATH", "PYTHONWARNINGS", "SSH_ASKPASS", "TRACEPARENT", "VIRTUAL_ENV",
    "VISUAL",
)  # fmt: skip
_HEEDED: dict[int, Callable[[int, FrameType | None], Any] | signal.Handlers] = {
    signal.SIGHUP: signal.SIG_DFL,
    signal.SIGINT: signal.default_int_handler,
    signal.SIGQUIT: signal.SIG_DFL,
}


def scrub(home: Path) -> None:
    """Give this process, and all it starts, a known environment with `home` as the home folder.

    A shell that started it in the background has it ignore Ctrl-C and Ctrl-\\, `nohup` the end of
    the terminal; both are undone as well.
    """
    for number, otherwise in _HEEDED.items():
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, otherwise)
    for name in list(os.environ):
        ambient = name in _NAMES or name.startswith(("LC_", *_PREFIXES))
        if ambient and name not in _SWITCHES:
            del os.environ[name]
    os.environ |= {
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "HOME": str(home),
        "LC_ALL": "C.UTF-8",
        "NO_COLOR": "1",
        "TERM": "dumb",
        "TZ": "UTC",
        "XDG_CACHE_HOME": str(home / "cache"),
        "XDG_CONFIG_HOME": str(home / "config"),
        "XDG_DATA_HOME": str(home / "data"),
        "XDG_STATE_HOME": str(home / "state"),
    }
    time.tzset()


def vectors_folder() -> Path | None:
    """The folder of conformance vectors, or None where this checkout has none beside it.

    `CALLBOARD_VECTORS` names it; otherwise it is looked for next to the repository. A folder that
    was named and does not exist is an error, so that a conformance run never passes by accident.
    """
    return _outside("CALLBOARD_VECTORS", "vectors")


def specification_folder() -> Path | None:
    """The folder with the text of the specification, or None where there is none beside this.

    `CALLBOARD_SPECIFICATION` names it, else it is looked for as the vectors are.
    """
    return _outside("CALLBOARD_SPECIFICATION", "spec")


def _outside(variable: str, name: str) -> Path | None:
    """A folder that lies outside the repository: the named one, else that beside it."""
    named = os.environ.get(variable)
    if named:
        folder = Path(named)
        if not folder.is_dir():
            raise FileNotFoundError(f"{variable} names {named!r}, which is not a folder")
        return folder
    beside = ROOT.parent / "shared" / name
    return beside if beside.is_dir() else None
