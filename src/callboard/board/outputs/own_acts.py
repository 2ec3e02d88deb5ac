"""What the child process does: finds the project's code by its entry point, calls it, tells how.

Whatever that code raises or answers becomes one JSON object. Nothing of ours is decided here: the
process that asked holds the answer against every rule.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping
from typing import Any

from callboard import canonical
from callboard.board.outputs.own import Output, Refused, Request
from callboard.errors import CallboardError

MAX_READ_BYTES = 8 * 1024 * 1024
_MAX_WORDS = 300


class _Wrong(Exception):
    """The project's code gave an answer of another type than it has to."""


def act(question: Mapping[str, Any]) -> bytes:
    """The answer to a question, as canonical JSON: `answer`, `refused`, `wrong` or `raised`."""
    try:
        answer: dict[str, Any] = {"answer": _ACTS[question["act"]](question)}
        return canonical.encode(answer)
    except Refused as refusal:
        answer = {"refused": _words(str(refusal))}
    except _Wrong as wrong:
        answer = {"wrong": _words(str(wrong))}
    except BaseException as error:  # noqa: BLE001 - code of others may raise anything, also exits
        answer = {"raised": _described(error, told=bool(question["tell"]))}
    return canonical.encode(answer)


def _prepare(question: Mapping[str, Any]) -> dict[str, Any]:
    handler = _loaded(question)
    request = Request(**question["request"])
    data = handler.prepare(request)
    if not isinstance(data, Mapping):
        raise _Wrong(f"prepare answered {_kind(data)}, not an object")
    output = Output(
        type=request.type,
        number=request.number,
        body=request.body,
        data=data,
        claim_id=request.claim_id,
        work_id=request.work_id,
        attempt=request.attempt,
        repository=request.repository,
        target={},
    )
    target = handler.scope(output)
    if target is not None and not isinstance(target, Mapping):
        raise _Wrong(f"scope answered {_kind(target)}, not an object")
    return {"data": dict(data), "target": None if target is None else dict(target)}


def _apply(question: Mapping[str, Any]) -> None:
    output = Output(**question["output"])
    with _Repository(question["git_folder"], output) as place:
        answer = _loaded(question).apply(output, place)
    if answer is not None:
        raise _Wrong(f"apply answered {_kind(answer)}, not None")


def _verify(question: Mapping[str, Any]) -> str | None:
    output = Output(**question["output"])
    with _Repository(question["git_folder"], output) as place:
        return _reason(_loaded(question).verify(output, place), "verify")


def _judge(question: Mapping[str, Any]) -> str | None:
    verifier = _loaded(question)
    with _Repository(question["git_folder"], None) as place:
        try:
            answer = verifier(question["output"], question["expected"], place.read_object)
        except Refused as refusal:
            return _words(str(refusal))
        return _reason(answer, "the verifier")


_ACTS: dict[str, Callable[[Mapping[str, Any]], Any]] = {
    "prepare": _prepare,
    "apply": _apply,
    "verify": _verify,
    "judge": _judge,
}


class _Repository:
    """The repository as the project's code reaches it; opened for one call."""

    def __init__(self, git_folder: str, output: Output | None) -> None:
        from callboard.board.storage.repository import Repository

        self.git_folder = git_folder
        self._output = output
        self._repository = Repository.discover(git_folder)

    def __enter__(self) -> _Repository:
        return self

    def __exit__(self, *_exception: object) -> None:
        self._repository.close()

    def read(self, ref: str, limit_bytes: int = 1024 * 1024) -> bytes | None:
        found = self._repository.read_ref(ref)
        if found is None:
            return None
        return self._repository.read_blob(found, min(limit_bytes, MAX_READ_BYTES))

    def read_object(self, oid: str, path: str | None = None) -> bytes:
        if path is None:
            return self._repository.read_blob(oid, MAX_READ_BYTES)
        data = self._repository.read_file(oid, path, MAX_READ_BYTES)
        if data is None:
            raise Refused(f"there is no {path} in commit {oid[:12]}")
        return data

    def create(self, data: bytes) -> bool:
        ref = None if self._output is None else self._output.target.get("ref")
        if not isinstance(ref, str):
            raise _Wrong("create was called, and the output's target names no ref")
        blob = self._repository.write_blob(data)
        made = self._repository.set_ref(ref, None, blob)
        return made or self._repository.read_ref(ref) == blob


def _loaded(question: Mapping[str, Any]) -> Any:
    """The project's handler or verifier; a class becomes an instance."""
    from importlib.metadata import entry_points

    (found,) = entry_points(group=question["group"], name=question["name"])
    loaded = found.load()
    return loaded() if isinstance(loaded, type) else loaded


def _reason(answer: object, who: str) -> str | None:
    if answer is None or isinstance(answer, str):
        return answer if answer is None else _words(answer)
    raise _Wrong(f"{who} answered {_kind(answer)}, neither None nor text")


def _kind(value: object) -> str:
    return type(value).__name__


def _described(error: BaseException, *, told: bool) -> str:
    """What was raised and where; its text only where it can hold no secret."""
    frames = traceback.extract_tb(error.__traceback__)
    where = f" at {frames[-1].filename}:{frames[-1].lineno}" if frames else ""
    text = f": {error}" if told or isinstance(error, CallboardError) else ""
    return _words(f"{_kind(error)}{where}{text}")


def _words(text: str) -> str:
    plain = "".join(char if char.isprintable() else " " for char in text)
    return plain if len(plain) <= _MAX_WORDS else plain[: _MAX_WORDS - 3] + "..."
