"""A fault at one named step of a Callboard process, for the tests of what survives it.

Python imports this file at the start of every process that has its folder on PYTHONPATH. With
`FAULT` set it wraps one function of one module and acts when that is called; the code under test
knows nothing of it. Standard library only, as it runs before anything else.

`FAULT` is a JSON object, or a list of them: `role` (`dispatcher`, `supervisor` or `reconciler`:
which processes are meant), `target` (`module:qualified.name`), `when` (`before` or `after` the
call), `match` (a text that the call's arguments must contain), `action` (`kill`; `kill_both`: the
parent too; `hold`: wait until the file `until` is there; `lose`: the answer of a call that was made
is lost; `tips`: write down the board's tip before and after the call), and `mark`, a file made when
it happens, so that it happens only once.

`CLOCK_BACK` names a file. As long as it is there, the clock of every process is an hour slow.
"""

from __future__ import annotations

import functools
import importlib.abc
import importlib.machinery
import importlib.util
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

_HOLD_STEP_S = 0.01
_HOLD_STEPS = 12_000
_HOUR_MS = 3_600_000


class Fault:
    """One fault of this process."""

    def __init__(self, document: dict[str, str]) -> None:
        self.module, self.name = document["target"].split(":")
        self._when = document["when"]
        self._match = document.get("match", "")
        self._action = document["action"]
        self._mark = document["mark"]
        self._until = document.get("until", "")
        self._repository = document.get("repository", "")

    def install(self, module: ModuleType) -> None:
        """Put the wrapper in the function's place."""
        *path, last = self.name.split(".")
        owner: Any = module
        for step in path:
            owner = getattr(owner, step)
        setattr(owner, last, self._wrapped(getattr(owner, last)))

    def _wrapped(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def wrapper(*positional: Any, **named: Any) -> Any:
            meant = self._match in repr((positional, named))
            if meant and self._action == "tips":
                before = _tip(self._repository)
                answer = function(*positional, **named)
                with open(self._mark, "a", encoding="ascii") as stream:
                    stream.write(f"{before} {_tip(self._repository)}\n")
                return answer
            if meant and self._when == "before":
                self._act()
            answer = function(*positional, **named)
            if meant and self._when == "after":
                self._act()
            return answer

        return wrapper

    def _act(self) -> None:
        try:
            os.close(os.open(self._mark, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        except FileExistsError:
            return
        if self._action == "hold":
            pause = threading.Event()
            for _step in range(_HOLD_STEPS):
                if os.path.exists(self._until):
                    return
                pause.wait(_HOLD_STEP_S)
            return
        if self._action == "lose":
            # Only a process that has begun its work gets here, so this is no import of ours.
            from callboard.errors import CallboardError

            raise CallboardError("outcome_unknown", "the answer was lost", "look again")
        if self._action == "kill_both" and _dispatches(os.getppid()):
            os.kill(os.getppid(), signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)


class Finder(importlib.abc.MetaPathFinder):
    """Installs faults right after their module was loaded, before anybody can import from it."""

    def __init__(self, faults: Sequence[Fault | Clock]) -> None:
        self._faults = faults
        self._module = faults[0].module

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """The ordinary spec of the one module, with an addition to its loading."""
        if fullname != self._module:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        assert spec is not None
        loader = spec.loader
        assert loader is not None
        load = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            load(module)
            for fault in self._faults:
                fault.install(module)

        # As an assignment it would be one to a method, which the type checker refuses.
        setattr(loader, "exec_module", exec_module)  # noqa: B010
        return spec


def _dispatches(pid: int) -> bool:
    """Whether that process is a dispatcher of these tests, and not who adopted its orphans."""
    with open(f"/proc/{pid}/cmdline", "rb") as stream:
        return b"dispatching.py" in stream.read()


def _tip(repository: str) -> str:
    """Where the board's branch is, as Git says it."""
    words = ["git", "rev-parse", "--verify", "--quiet", "refs/heads/work-queue"]
    found = subprocess.run(words, cwd=repository, capture_output=True, text=True, check=False)
    return found.stdout.strip() or "absent"


class Clock:
    """The machine's clock, an hour slow for as long as there is a file of that name."""

    module = "callboard.clock"

    def __init__(self, path: str) -> None:
        self._path = path

    def install(self, module: ModuleType) -> None:
        """Let the system's clock look for the file each time it is asked."""
        told = module.SystemClock.now_ms

        def now_ms(clock: Any) -> int:
            return int(told(clock)) - (_HOUR_MS if os.path.exists(self._path) else 0)

        module.SystemClock.now_ms = now_ms


def _role() -> str:
    if "callboard.board.execution.hosts.local.supervisor" in sys.orig_argv:
        return "supervisor"
    return "reconciler" if "reconcile" in sys.orig_argv else "dispatcher"


def _start() -> None:
    back = os.environ.get("CLOCK_BACK")
    if back:
        sys.meta_path.insert(0, Finder([Clock(back)]))
    text = os.environ.get("FAULT")
    if text:
        given = json.loads(text)
        documents = given if isinstance(given, list) else [given]
        faults = [Fault(one) for one in documents if one["role"] == _role()]
        for module in dict.fromkeys(one.module for one in faults):
            sys.meta_path.insert(0, Finder([one for one in faults if one.module == module]))


_start()
