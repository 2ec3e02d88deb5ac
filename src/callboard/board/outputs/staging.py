"""The private staging folder of a run, as the worker's commands write it.

Source: specification 1, §7.14. Whoever stages only says what it wishes: each wish is one file that
appears whole or not at all, and no effect follows from it here. It needs no credentials, no
repository and no ledger.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from callboard import canonical
from callboard.board.outputs import scope
from callboard.board.outputs.claims import Output
from callboard.board.outputs.folder import (
    MAX_MESSAGE_BYTES,
    MAX_MESSAGES,
    TERMS,
    StagingFolder,
    blob_name,
    message_name,
)
from callboard.board.outputs.judgement import Accepted, BodyChecks, Judge, Loader, not_loaded
from callboard.board.outputs.memory_body import memory_bytes
from callboard.board.outputs.messages import BODY_LIMITS, Outcome, StagedMessage, Terms, read_terms
from callboard.board.outputs.playing import play
from callboard.board.protocol.commit import AssignedClaim, Assignment
from callboard.errors import CallboardError
from callboard.files import publish
from callboard.regular import read_regular, shown_name
from callboard.validate import parse

MAX_ASSIGNMENT_BYTES = 256 * 1024


class Given(NamedTuple):
    """A selector as somebody gave it, whatever that was: also null, which is not leaving it out."""

    value: canonical.Json


Selector = str | Given | None
"""The handle of a Claim; None where none was given."""


class AgentReceipt(NamedTuple):
    """The answer to a staged wish that is no Claim's."""

    intent_id: str

    def document(self) -> dict[str, object]:
        """The JSON form."""
        return {"intent_id": self.intent_id, "status": "staged"}


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

    `selector` is the handle as it was given, None where none was. `checks` judge bodies at once, as
    the trusted side will. All methods raise `CallboardError` with the codes of `Judge.accept`,
    `staging_limit`, `staging_invalid` or `staging_failed`, and then have staged nothing.
    """

    def __init__(
        self, folder: Path, assignment: Assignment, checks: BodyChecks | None = None
    ) -> None:
        self._folder = folder
        self._assignment = assignment
        self._checks = checks or {}

    def finish(self, outcome: Outcome, selector: Selector = None) -> Receipt:
        """Stage how a Claim ended. Saying the same again answers the first intent."""
        return self._stage("finish", selector, {"outcome": outcome})

    def finished(self, selector: Selector = None) -> Outcome | None:
        """The outcome that is staged for a Claim, if one is."""
        return self._judge().tallies[self.resolve(selector).handle].outcome

    def outputs(self) -> dict[str, tuple[Outcome | None, tuple[Output, ...]]]:
        """What is staged for each handle: its outcome, and its outputs without their bytes."""
        tallies = self._judge().tallies
        return {name: (tally.outcome, tally.outputs) for name, tally in tallies.items()}

    def artifact(self, path: Path, name: str | None = None, selector: Selector = None) -> Receipt:
        """Copy a regular file into the staging folder and stage it as `name` (else its own).

        A symbolic link, folder, pipe or device is `file_not_regular`. What the file becomes
        later does not matter.
        """
        data = read_regular(
            str(path), self.artifact_bytes(), what="the artifact", code="artifact_limit"
        )
        return self.content(data, path.name if name is None else name, selector)

    def artifact_bytes(self) -> int:
        """How many bytes one artifact may have."""
        with StagingFolder(self._folder) as staged:
            return _terms(staged).artifact_bytes

    def content(self, data: bytes, name: str, selector: Selector = None) -> Receipt:
        """Stage bytes at hand as the artifact `name`."""
        return self._stage("artifact", selector, {"name": name, **_named(data)}, data)

    def note(self, text: str, selector: Selector = None) -> Receipt:
        """Stage a comment on the Claim's node."""
        return self._body("note", text.encode("utf-8", "surrogatepass"), selector)

    def memory(self, document: bytes, selector: Selector = None) -> Receipt:
        """Stage what is to be remembered, a JSON object as the recipe's schema has it."""
        # One that is too large is refused as such, by the rule for all bodies.
        fits = len(document) <= BODY_LIMITS["memory"]
        return self._body("memory", memory_bytes(document) if fits else document, selector)

    def submit(self, plan: bytes, selector: Selector = None) -> Receipt:
        """Stage a plan, as JSON, to be posted in the Claim's name once it is completed."""
        return self._body("submit", plan, selector)

    def own(self, output_type: str, document: bytes, selector: Selector = None) -> Receipt:
        """Stage an output of a project's own type; its body is a JSON object."""
        return self._body("output", document, selector, {"type": output_type})

    def dispatch_next(
        self,
        max_claims: int = 1,
        max_dispatches: int = 1,
        pool: str | None = None,
        selector: Selector = None,
    ) -> Receipt:
        """Stage the wish for the next fair batch of the run's pool."""
        return self._stage("dispatch_next", selector, batch_body(max_claims, max_dispatches, pool))

    def noop(self, reason: str, selector: Selector = None) -> Receipt:
        """Stage word that nothing was to be done."""
        return self._stage("noop", selector, {"reason": reason})

    def patch(
        self,
        selector: Selector = None,
        *,
        paths: Sequence[str] = (),
        is_empty: Callable[[], bool] | None = None,
    ) -> Receipt:
        """Stage the wish that the work tree, as the run leaves it, becomes a commit; with `paths`
        what lies at or below them.

        `is_empty` may say that there is nothing to make it of: `patch_empty`. It is asked last.
        """

        def check() -> None:
            if is_empty is not None and is_empty():
                raise CallboardError(
                    "patch_empty",
                    "the work tree is as it was when the run began",
                    "change files first, then stage the patch",
                )

        body: dict[str, canonical.Json] = {"paths": list(paths)} if paths else {}
        return self._stage("patch", selector, body, check=check)

    def check_finish(self, selector: Selector = None) -> AssignedClaim:
        """Judge, before long work, that its outcome could be staged; answers the member."""
        with StagingFolder(self._folder):
            return self.resolve(selector)

    def resolve(self, selector: Selector = None) -> AssignedClaim:
        """The member that a selector means."""
        return scope.resolve(self._assignment, selected(selector))

    def _judge(self) -> Judge:
        with StagingFolder(self._folder) as staged:
            return self._replayed(staged)[0]

    def _body(
        self,
        kind: str,
        data: bytes,
        selector: Selector,
        more: dict[str, canonical.Json] | None = None,
    ) -> Receipt:
        return self._stage(kind, selector, {**(more or {}), **_named(data)}, data)

    def _stage(
        self,
        kind: str,
        selector: Selector,
        body: dict[str, canonical.Json],
        data: bytes | None = None,
        check: Callable[[], None] | None = None,
    ) -> Receipt:
        value = {
            "kind": kind,
            "intent_id": new_intent_id(),
            **selected(selector),
            **body,
        }
        with StagingFolder(self._folder) as staged:
            staged.hold()
            staged.check_open()
            # The bytes at hand are judged now; those beside earlier messages were, when they were.
            judge, number = self._replayed(staged, lambda message: _own_bytes(message, body, data))
            accepted: Accepted = judge.accept(value)
            if not accepted.repeated:
                if check is not None:
                    check()
                publish_intent(staged, number + 1, value, data)
        return Receipt(accepted.intent_id, accepted.handle)

    def _replayed(self, staged: StagingFolder, load: Loader = not_loaded) -> tuple[Judge, int]:
        """A judge that has seen what is staged, and the last number in use."""
        judge = Judge(self._assignment, _terms(staged), load, self._checks)
        last = 0
        # What stands refused does not count, and says so when the run ends.
        for verdict in play(staged.messages(), judge):
            last = verdict.message.number
        return judge, last


def batch_body(max_claims: int, max_dispatches: int, pool: str | None) -> dict[str, canonical.Json]:
    """The fields of a wish for a batch; a pool only where one was named."""
    asked: dict[str, canonical.Json] = {
        "max_claims": max_claims,
        "max_dispatches": max_dispatches,
    }
    return asked if pool is None else {**asked, "pool": pool}


def new_intent_id() -> str:
    """An id that no other intent has."""
    return f"i_{secrets.token_hex(16)}"


def publish_intent(
    staged: StagingFolder, number: int, value: dict[str, canonical.Json], data: bytes | None
) -> None:
    """Put a message, and the bytes that belong to it, into the folder, from `number` on.

    Raises `staging_limit` or `staging_failed`.
    """
    message = canonical.encode(value)
    if len(message) > MAX_MESSAGE_BYTES:
        raise CallboardError(
            "staging_limit",
            f"the message has {len(message)} bytes, at most {MAX_MESSAGE_BYTES} are taken",
            "use shorter names",
        )
    with _disk(staged.path):
        if data is not None:
            # Where the bytes are there already, they were staged before, perhaps by another name.
            with suppress(FileExistsError):
                staged.put(blob_name(str(value["sha256"])), data)
        while number <= MAX_MESSAGES:
            try:
                staged.put(message_name(number), message)
                return
            except FileExistsError:
                number += 1
    raise CallboardError(
        "staging_limit",
        f"this run has staged {MAX_MESSAGES} messages, no more are taken",
        "deliver fewer, larger files",
        {"limit": MAX_MESSAGES},
    )


def _named(data: bytes) -> dict[str, canonical.Json]:
    return {"sha256": canonical.sha256_hex(data), "size_bytes": len(data)}


def _own_bytes(
    message: StagedMessage, body: dict[str, canonical.Json], data: bytes | None
) -> bytes | None:
    return data if body.get("sha256") == message.sha256 else None


def selected(selector: Selector) -> dict[str, canonical.Json]:
    """A selector as a message has it: left out where none was given."""
    if selector is None:
        return {}
    return {scope.SELECTOR: selector.value if isinstance(selector, Given) else selector}


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
