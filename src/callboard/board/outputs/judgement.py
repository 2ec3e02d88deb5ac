"""Which staged messages stand, each judged on its own and against those before it.

Source: specification 1, §7.14. The worker's commands and the trusted side use this same code, so
that what a worker was told is what happens. It does no I/O but through the loader it is given.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from callboard import canonical
from callboard.board.outputs import scope
from callboard.board.outputs.artifact_names import check_name, collision_key
from callboard.board.outputs.bounds import Bounds
from callboard.board.outputs.claims import ArtifactOutput, Output, PatchOutput
from callboard.board.outputs.descriptor import (
    Entry,
    artifact_estimate,
    check_size,
    patch_estimate,
)
from callboard.board.outputs.messages import (
    ArtifactMessage,
    FinishMessage,
    Message,
    Outcome,
    PatchMessage,
    Terms,
    read_message,
)
from callboard.board.protocol.commit import AssignedClaim, Assignment
from callboard.board.protocol.validate import show
from callboard.errors import CallboardError

Loader = Callable[[ArtifactMessage], bytes | None]
"""Answers an artifact's bytes, proven to be those of its digest, or refuses."""


def not_loaded(_message: ArtifactMessage) -> None:
    """The loader of the worker's own side: its claims about its files are judged later."""
    return


class Accepted(NamedTuple):
    """The answer to a message that stands; `repeated`: an earlier one said the same."""

    intent_id: str
    handle: str
    repeated: bool


class Tally:
    """What one Claim has staged so far. `bounds` is the refusal of a contract that has none."""

    def __init__(self, member: AssignedClaim, terms: Terms) -> None:
        self.member = member
        self.outcome: Outcome | None = None
        self.finish_id = ""
        self.artifacts: dict[str, ArtifactOutput] = {}
        self.patch: PatchOutput | None = None
        self.bounds: Bounds | CallboardError
        self._entries: list[Entry] = []
        self._terms = terms
        try:
            self.bounds = Bounds(member.work, terms.recipe)
        except CallboardError as error:
            self.bounds = error

    @property
    def outputs(self) -> tuple[Output, ...]:
        """The accepted outputs: artifacts in the order they came, then the patch."""
        patch = () if self.patch is None else (self.patch,)
        return (*self.artifacts.values(), *patch)

    def check_room(self, output_type: str, count: int, entry: Entry) -> None:
        """Judge one more output against the contract, the recipe and the descriptor's size."""
        if isinstance(self.bounds, CallboardError):
            raise self.bounds
        self.bounds.check(output_type, count)
        check_size([*self._entries, entry], self._terms.result_bytes)

    def describe(self, entry: Entry) -> None:
        """Count the entry of an output that was accepted."""
        self._entries.append(entry)


class Judge:
    """Judges a run's messages one after the other; the first of two that disagree stands."""

    def __init__(self, assignment: Assignment, terms: Terms, load: Loader) -> None:
        self._assignment = assignment
        self._terms = terms
        self._load = load
        self._seen: dict[str, bytes] = {}
        self._artifacts = 0
        self._bytes = 0
        self.tallies = {member.handle: Tally(member, terms) for member in assignment.claims}

    def resolve(self, value: canonical.Json) -> str:
        """The handle a decoded message belongs to; before anything else of it is believed."""
        if not isinstance(value, dict):
            raise CallboardError(
                "message_invalid",
                f"{show(value)} is not an object",
                "stage messages with callboard worker",
            )
        return scope.resolve(self._assignment, value).handle

    def accept(self, value: canonical.Json) -> Accepted:
        """Take in a decoded message, or refuse it and change nothing.

        Raises `CallboardError`: the codes of `scope.resolve`, `message_invalid`,
        `intent_conflict`, `finish_conflict`, `output_not_declared`, `output_limit`,
        `artifact_limit`, `artifact_name_invalid`, `artifact_name_taken`, `result_limit`,
        `contract_invalid`, or those of the loader.
        """
        handle = self.resolve(value)
        message = read_message(value)
        if self._repeats(message, value):
            return Accepted(message.intent_id, handle, True)
        tally = self.tallies[handle]
        if isinstance(message, FinishMessage):
            earlier = self._finish(tally, message)
        elif isinstance(message, ArtifactMessage):
            earlier = self._artifact(tally, message)
        else:
            earlier = self._patch(tally, message)
        self._seen[message.intent_id] = canonical.encode(value)
        return Accepted(earlier or message.intent_id, handle, bool(earlier))

    def _repeats(self, message: Message, value: canonical.Json) -> bool:
        known = self._seen.get(message.intent_id)
        if known is not None and known != canonical.encode(value):
            raise CallboardError(
                "intent_conflict",
                f"the intent {message.intent_id} was staged before with other content",
                "give each message an id of its own",
                {"intent_id": message.intent_id},
            )
        return known is not None

    def _finish(self, tally: Tally, message: FinishMessage) -> str:
        if tally.outcome is None:
            tally.outcome = message.outcome
            tally.finish_id = message.intent_id
            return ""
        if tally.outcome != message.outcome:
            raise CallboardError(
                "finish_conflict",
                f"{tally.member.handle} was finished as {tally.outcome} already, "
                f"{message.outcome} disagrees",
                "the first outcome stands; a claim is finished once",
                {"outcome": tally.outcome, "claim_handle": tally.member.handle},
            )
        return tally.finish_id

    def _artifact(self, tally: Tally, message: ArtifactMessage) -> str:
        check_name(message.name)
        earlier = _same_name(tally, message)
        if earlier is not None:
            return earlier.intent_id
        claim_id = tally.member.claim_id
        entry = artifact_estimate(
            claim_id, message.name, message.sha256, message.size_bytes, self._terms.oid_length
        )
        tally.check_room("artifact", len(tally.artifacts) + 1, entry)
        self._check_limits(message)
        data = self._load(message)
        tally.artifacts[message.name] = ArtifactOutput(
            message.intent_id, message.name, message.sha256, message.size_bytes, data
        )
        tally.describe(entry)
        self._artifacts += 1
        self._bytes += message.size_bytes
        return ""

    def _check_limits(self, message: ArtifactMessage) -> None:
        terms = self._terms
        if message.size_bytes > terms.artifact_bytes:
            found = f"{message.name!r} has {message.size_bytes} bytes"
            limit = f"an artifact may have {terms.artifact_bytes}"
        elif self._artifacts >= terms.run_artifacts:
            found = f"{message.name!r} is one artifact more"
            limit = f"a run may stage {terms.run_artifacts}"
        elif self._bytes + message.size_bytes > terms.run_bytes:
            found = f"with {message.name!r} the artifacts have {self._bytes + message.size_bytes}"
            limit = f"a run may stage {terms.run_bytes} bytes"
        else:
            return
        raise CallboardError(
            "artifact_limit",
            f"{found}, {limit}",
            "deliver less, compress it, or make it part of the patch",
            {
                "artifact_bytes": terms.artifact_bytes,
                "run_artifacts": terms.run_artifacts,
                "run_bytes": terms.run_bytes,
            },
        )

    def _patch(self, tally: Tally, message: PatchMessage) -> str:
        if tally.patch is not None:
            return tally.patch.intent_id
        entry = patch_estimate(tally.member.work_id, self._terms.oid_length)
        tally.check_room("patch", 1, entry)
        tally.patch = PatchOutput(message.intent_id)
        tally.describe(entry)
        return ""


def _same_name(tally: Tally, message: ArtifactMessage) -> ArtifactOutput | None:
    """The same artifact staged before; `artifact_name_taken` where only the name is the same."""
    key = collision_key(message.name)
    for known in tally.artifacts.values():
        if collision_key(known.name) != key:
            continue
        if known.name == message.name and known.sha256 == message.sha256:
            return known
        raise CallboardError(
            "artifact_name_taken",
            f"{tally.member.handle} has an artifact {known.name!r} already, {message.name!r} "
            "would hide it",
            "stage it under another --name",
            {"name": known.name},
        )
    return None
