"""A fault at one named step of a Callboard process, for the tests of what survives it.

Python imports this file at the start of every process that has its folder on PYTHONPATH. With
`FAULT` set it wraps one function of one module and acts when that is called; the code under test
knows nothing of it. Standard library only, as it runs before anything else.

`FAULT` is a JSON object: `role` (`dispatcher` or `supervisor`: which processes are meant),
`target` (`module:qualified.name`), `when` (`before` or `after` the call), `match` (a text that the
call's arguments must contain), `action` (`kill`; `kill_both`: the parent too; `hold`: wait until
the file `until` is there), and `mark`, a file made when it happens, so that it happens only once.
"""

from __future__ import annotations

import functools
import importlib.abc
import importlib.machinery
import importlib.util
import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

_HOLD_STEP_S = 0.01
_HOLD_STEPS = 12_000


class Fault:
    """One fault of this process."""

    def __init__(self, document: dict[str, str]) -> None:
        self.module, self.name = document["target"].split(":")
        self._when = document["when"]
        self._match = document.get("match", "")
        self._action = document["action"]
        self._mark = document["mark"]
        self._until = document.get("until", "")

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
        if self._action == "kill_both" and _dispatches(os.getppid()):
            os.kill(os.getppid(), signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)


class Finder(importlib.abc.MetaPathFinder):
    """Installs a fault right after its module was loaded, before anybody can import from it."""

    def __init__(self, fault: Fault) -> None:
        self._fault = fault

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """The ordinary spec of the one module, with an addition to its loading."""
        if fullname != self._fault.module:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        assert spec is not None
        loader = spec.loader
        assert loader is not None
        load = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            load(module)
            self._fault.install(module)

        # As an assignment it would be one to a method, which the type checker refuses.
        setattr(loader, "exec_module", exec_module)  # noqa: B010
        return spec


def _dispatches(pid: int) -> bool:
    """Whether that process is a dispatcher of these tests, and not who adopted its orphans."""
    with open(f"/proc/{pid}/cmdline", "rb") as stream:
        return b"dispatching.py" in stream.read()


def _role() -> str:
    supervises = "callboard.board.execution.hosts.local.supervisor" in sys.orig_argv
    return "supervisor" if supervises else "dispatcher"


def _start() -> None:
    text = os.environ.get("FAULT")
    if text:
        document = json.loads(text)
        if document["role"] == _role():
            sys.meta_path.insert(0, Finder(Fault(document)))


_start()
