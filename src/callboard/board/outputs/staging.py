"""The private staging folder of a run, as the worker's commands write it.

Source: specification 1, §7.14. Whoever stages only says what it wishes: each wish is one file that
appears whole or not at all, and no effect follows from it here. It needs no credentials, no
repository and no ledger.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from callboard import canonical
from callboard.board.outputs import scope
from callboard.board.outputs.folder import (
    MAX_MESSAGE_BYTES,
    MAX_MESSAGES,
    TERMS,
    StagingFolder,
    blob_name,
    message_name,
)
from callboard.board.outputs.judgement import Accepted, Judge, not_loaded
from callboard.board.outputs.messages import Outcome, Terms, read_terms
from callboard.board.outputs.regular import read_regular, shown_name
from callboard.board.protocol.commit import AssignedClaim, Assignment
from callboard.board.protocol.validate import parse
from callboard.errors import CallboardError
from callboard.files import publish

MAX_ASSIGNMENT_BYTES = 256 * 1024


class Receipt(NamedTuple):
    """The answer to a staged wish; `handle` is the Claim it will be taken for."""

    intent_id: str
    handle: str

    def document(self) -> dict[str, object]:
        """The JSON form."""
        return {"intent_id": self.intent_id, "status": "staged"}


def prepare_folder(folder: Path, terms: Terms) -> None:
    """Make the empty staging folder of a new run, mode 0700, and put the run's terms into it.

    For the trusted side, which never reads the terms back. Raises `staging_invalid` where
    anything stands there already, `staging_failed`.
    """
    with _disk(folder):
        try:
            folder.mkdir(mode=0o700)
        except FileExistsError as error:
            raise CallboardError(
                "staging_invalid",
                f"{shown_name(str(folder))!r} exists already",
                "give each run a staging folder of its own",
            ) from error
        folder.chmod(0o700)
        publish(folder / TERMS, canonical.encode(terms), private=True)


def read_assignment(path: Path) -> Assignment:
    """The assignment in the file that the host wrote for the run.

    Raises `assignment_invalid`, `file_missing`, `file_not_regular` or a codec code.
    """
    data = read_regular(
        str(path), MAX_ASSIGNMENT_BYTES, what="the assignment", code="resource_limit"
    )
    value = canonical.decode(data, limit_bytes=MAX_ASSIGNMENT_BYTES)
    return parse(Assignment, value, what="assignment", code="assignment_invalid")


class Stager:
    """Stages a worker's wishes, each refused at once where the trusted side would refuse it.

    `selector` is the handle as it was given, None where none was. All methods raise
    `CallboardError` with the codes of `Judge.accept`, `staging_limit`, `staging_invalid` or
    `staging_failed`, and then have staged nothing.
    """

    def __init__(self, folder: Path, assignment: Assignment) -> None:
        self._folder = folder
        self._assignment = assignment

    def finish(self, outcome: Outcome, selector: str | None = None) -> Receipt:
        """Stage how a Claim ended. Saying the same again answers the first intent."""
        return self._stage("finish", selector, {"outcome": outcome})

    def finished(self, selector: str | None = None) -> Outcome | None:
        """The outcome that is staged for a Claim, if one is."""
        with StagingFolder(self._folder) as staged:
            judge, _number = self._replayed(staged)
        return judge.tallies[judge.resolve(_selected(selector))].outcome

    def artifact(self, path: Path, name: str | None = None, selector: str | None = None) -> Receipt:
        """Copy a regular file into the staging folder and stage it as `name` (else its own).

        A symbolic link, folder, pipe or device is `file_not_regular`. What the file becomes
        later does not matter.
        """
        data = read_regular(
            str(path), self.artifact_bytes(), what="the artifact", code="artifact_limit"
        )
        return self.artifact_data(data, path.name if name is None else name, selector)

    def artifact_bytes(self) -> int:
        """How many bytes one artifact may have."""
        with StagingFolder(self._folder) as staged:
            return _terms(staged).artifact_bytes

    def artifact_data(self, data: bytes, name: str, selector: str | None = None) -> Receipt:
        """Stage bytes as the artifact `name`."""
        body: dict[str, canonical.Json] = {
            "name": name,
            "sha256": canonical.sha256_hex(data),
            "size_bytes": len(data),
        }
        return self._stage("artifact", selector, body, data)

    def patch(
        self, selector: str | None = None, *, is_empty: Callable[[], bool] | None = None
    ) -> Receipt:
        """Stage the wish that the work tree, as the run leaves it, becomes a commit.

        `is_empty` may say that there is nothing to make it of: `patch_empty`. It is asked last.
        """

        def check() -> None:
            if is_empty is not None and is_empty():
                raise CallboardError(
                    "patch_empty",
                    "the work tree is as it was when the run began",
                    "change files first, then stage the patch",
                )

        return self._stage("patch", selector, {}, check=check)

    def check_finish(self, selector: str | None = None) -> AssignedClaim:
        """Judge, before long work, that its outcome could be staged; answers the member."""
        with StagingFolder(self._folder):
            return scope.resolve(self._assignment, _selected(selector))

    def _stage(
        self,
        kind: str,
        selector: str | None,
        body: dict[str, canonical.Json],
        data: bytes | None = None,
        check: Callable[[], None] | None = None,
    ) -> Receipt:
        value = {
            "kind": kind,
            "intent_id": f"i_{secrets.token_hex(16)}",
            **_selected(selector),
            **body,
        }
        with StagingFolder(self._folder) as staged:
            judge, number = self._replayed(staged)
        accepted: Accepted = judge.accept(value)
        if not accepted.repeated:
            if check is not None:
                check()
            with _disk(self._folder):
                if data is not None:
                    self._publish_blob(str(body["sha256"]), data)
                self._publish_message(number + 1, canonical.encode(value))
        return Receipt(accepted.intent_id, accepted.handle)

    def _replayed(self, staged: StagingFolder) -> tuple[Judge, int]:
        """A judge that has seen what is staged, and the last number in use."""
        judge = Judge(self._assignment, _terms(staged), not_loaded)
        last = 0
        for message in staged.messages():
            last = message.number
            if message.error is None:
                # What stands refused does not count, and says so when the run ends.
                _accept_quietly(judge, message.value)
        return judge, last

    def _publish_blob(self, sha256: str, data: bytes) -> None:
        try:
            publish(self._folder / blob_name(sha256), data, private=True, replace=False)
        except FileExistsError:
            # The same bytes were staged before, perhaps under another name.
            return

    def _publish_message(self, number: int, data: bytes) -> None:
        if len(data) > MAX_MESSAGE_BYTES:
            raise CallboardError(
                "staging_limit",
                f"the message has {len(data)} bytes, at most {MAX_MESSAGE_BYTES} are taken",
                "use shorter names",
            )
        while number <= MAX_MESSAGES:
            try:
                publish(self._folder / message_name(number), data, private=True, replace=False)
                return
            except FileExistsError:
                number += 1
        raise CallboardError(
            "staging_limit",
            f"this run has staged {MAX_MESSAGES} messages, no more are taken",
            "deliver fewer, larger files",
            {"limit": MAX_MESSAGES},
        )


def _selected(selector: str | None) -> dict[str, canonical.Json]:
    return {} if selector is None else {scope.SELECTOR: selector}


def _accept_quietly(judge: Judge, value: canonical.Json) -> None:
    try:
        judge.accept(value)
    except CallboardError:
        return


def _terms(staged: StagingFolder) -> Terms:
    data = staged.terms()
    return Terms() if data is None else read_terms(data)


@contextmanager
def _disk(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise CallboardError(
            "staging_failed",
            f"cannot write into {shown_name(str(folder))!r}: {error.strerror}",
            "check free space and permissions, then stage it again",
        ) from error
