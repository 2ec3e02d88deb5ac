"""Handlers and verifiers that do everything they must not, each under an entry point of its own."""

from __future__ import annotations

import ctypes
import os
import pwd
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from callboard.board.outputs.own import Output, Place, Read, Refused, Request


class Good:
    """Keeps its body's text under a ref beside the body."""

    def prepare(self, request: Request) -> Mapping[str, Any]:
        return {"said": request.body.get("say", "")}

    def scope(self, output: Output) -> Mapping[str, Any] | None:
        ref = f"refs/callboard/own/{output.claim_id}/kept-{output.number}"
        return {"repository": output.repository, "ref": ref}

    def apply(self, output: Output, place: Place) -> None:
        if not place.create(str(output.data["said"]).encode()):
            raise Refused("something else stands there")

    def verify(self, output: Output, place: Place) -> str | None:
        found = place.read(output.target["ref"])
        return None if found == str(output.data["said"]).encode() else "it was not kept"


class Looks(Good):
    """Tells in its data what it can see of its surroundings while it prepares."""

    def prepare(self, request: Request) -> Mapping[str, Any]:
        home = Path.home()
        return {
            "said": "",
            "variables": sorted(os.environ),
            "home": [one.name for one in home.iterdir()],
            "same": str(home) == os.environ["TMPDIR"] == os.getcwd(),
            "user": str(home) == pwd.getpwuid(os.getuid()).pw_dir,
            "path": "" in sys.path,
        }


class Prints(Good):
    """Writes where an answer is expected."""

    def prepare(self, request: Request) -> Mapping[str, Any]:
        sys.stdout.write('{"answer": {"data": {}, "target": null}}')
        sys.stdout.flush()
        os.write(1, b"x" * 100_000)
        os.write(2, b"x" * 100_000)
        return super().prepare(request)


class Raises(Good):
    """Raises in each of its methods, an exit among others."""

    def prepare(self, request: Request) -> Mapping[str, Any]:
        kinds: dict[str, BaseException] = {
            "value": ValueError("a \x1b[31mword\n" + "x" * 1000),
            "exit": SystemExit(0),
            "interrupt": KeyboardInterrupt(),
            "group": ExceptionGroup("many", [ValueError("one")]),
        }
        kind = request.body.get("how")
        if kind in kinds:
            raise kinds[kind]
        return super().prepare(request)

    def apply(self, output: Output, place: Place) -> None:
        raise RuntimeError(f"the password is {os.environ.get('SECRET')}")

    def verify(self, output: Output, place: Place) -> str | None:
        raise RuntimeError(f"the password is {os.environ.get('SECRET')}")


class Dies(Good):
    """Ends its process in ways that nobody can catch."""

    def prepare(self, request: Request) -> Mapping[str, Any]:
        if request.body["die"] == "exit":
            os._exit(0)
        if request.body["die"] == "abort":
            os.abort()
        ctypes.string_at(0)
        raise AssertionError


class Hangs(Good):
    """Waits for ever, and leaves a process that does so too."""

    def prepare(self, request: Request) -> Mapping[str, Any]:
        child = subprocess.Popen(["sleep", "600"])
        Path(request.body["pid"]).write_text(str(child.pid))
        threading.Event().wait()
        raise AssertionError


class Nonsense(Good):
    """Answers what it likes."""

    def prepare(self, request: Request) -> Mapping[str, Any]:
        answers: dict[str, Any] = {
            "none": None,
            "list": [1],
            "float": {"a": 1.5},
            "deep": _deep(),
            "object": {"a": object()},
            "surrogate": {"a": "\ud800"},
            "keys": {1: 2},
            "large": {"a": "x" * 1024},
            "huge": {"a": "x" * 200_000},
        }
        found: Mapping[str, Any] = answers[request.body["answer"]]
        return found


class Aims(Good):
    """Names whatever target its body says."""

    def prepare(self, request: Request) -> Mapping[str, Any]:
        return dict(request.body)

    def scope(self, output: Output) -> Mapping[str, Any] | None:
        found: Mapping[str, Any] | None = output.body["target"]
        return found


class Lies(Good):
    """Says that nothing is lacking, but not as it should; or that all is."""

    def verify(self, output: Output, place: Place) -> str | None:
        # Whatever its type is: that is the lie.
        answer: str | None = output.body["verify"]
        return answer


class Refuses(Good):
    """Takes nothing."""

    def prepare(self, request: Request) -> Mapping[str, Any]:
        raise Refused("not \x1b[31mthis\none")


class Broken:
    """Cannot even be made."""

    def __init__(self) -> None:
        raise OSError("no")


class Half:
    """Lacks most of what a handler has."""

    def prepare(self, request: Request) -> Mapping[str, Any]:
        return {}


def _deep() -> dict[str, Any]:
    made: dict[str, Any] = {}
    for _level in range(80):
        made = {"a": made}
    return made


def judge(output: Mapping[str, Any], expected: Mapping[str, Any], read: Read) -> Any:
    """A verifier that does as `expected` says."""
    do = expected["do"]
    if do == "read":
        return None if read(output["blob"]).decode() == expected["text"] else "other words"
    if do == "path":
        return read(output["commit"], expected["path"]).decode()
    if do == "raise":
        raise ValueError("no")
    if do == "exit":
        os._exit(0)
    if do == "wait":
        Path(expected["pid"]).write_text(str(os.getpid()))
        threading.Event().wait()
    if do == "look":
        return ",".join(sorted(os.environ))
    return expected.get("answer")


steady = Good()
