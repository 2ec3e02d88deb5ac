"""Which staged messages stand, each judged on its own and against those before it.

Source: specification 1, §7.14. The worker's commands and the trusted side use this same code, so
that what a worker was told is what happens. It does no I/O but through the loader it is given.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import NamedTuple

from msgspec import UNSET, UnsetType

from callboard import canonical
from callboard.board.outputs import scope
from callboard.board.outputs.artifact_names import check_name, collision_key
from callboard.board.outputs.bodies import check_form
from callboard.board.outputs.bounds import NOOP, Bounds
from callboard.board.outputs.claims import (
    ArtifactOutput,
    BatchOutput,
    BodyOutput,
    NoopOutput,
    Output,
    PatchOutput,
)
from callboard.board.outputs.descriptor import Entry, check_size
from callboard.board.outputs.estimates import estimate
from callboard.board.outputs.memory_body import check_memory
from callboard.board.outputs.messages import (
    BODY_LIMITS,
    ArtifactMessage,
    BodyMessage,
    DispatchNextMessage,
    FinishMessage,
    MemoryMessage,
    MemoryTerms,
    NoopMessage,
    Outcome,
    OwnMessage,
    PatchMessage,
    StagedMessage,
    Terms,
    kind_of,
    output_type,
    read_message,
)
from callboard.board.outputs.patch_paths import check_paths, overlap
from callboard.board.outputs.repeats import Repeats
from callboard.board.protocol.commit import AssignedClaim, Assignment
from callboard.board.protocol.output_types import is_own_type
from callboard.errors import CallboardError
from callboard.validate import show

Loader = Callable[[StagedMessage], bytes | None]
"""Answers the bytes beside a message, proven to be those of its digest, or refuses."""
BodyChecks = Mapping[str, Callable[[bytes], None]]
"""Output type -> what judges the bytes of its body, and raises its refusal."""


def not_loaded(_message: StagedMessage) -> None:
    """The loader of the worker's own side: its claims about its files are judged later."""
    return


class Accepted(NamedTuple):
    """The answer to a message that stands; `repeated`: an earlier one said the same."""

    intent_id: str
    handle: str
    repeated: bool


class Tally:
    """What one Claim has staged so far. `bounds` is the refusal of a contract that has none."""

    def __init__(self, member: AssignedClaim, pool: str, terms: Terms) -> None:
        self.member = member
        self.outcome: Outcome | None = None
        self.finish_id = ""
        self.accepted: dict[str, Output] = {}
        self.bounds: Bounds | CallboardError
        self._entries: list[Entry] = []
        self._pool = pool
        self._terms = terms
        try:
            self.bounds = Bounds(member.work, terms.recipe)
        except CallboardError as error:
            self.bounds = error

    @property
    def outputs(self) -> tuple[Output, ...]:
        """The accepted outputs in the order they came, but the patch last: it is made last."""
        found = [one for one in self.accepted.values() if one.type != "patch"]
        return (*found, *self.of_type("patch"))

    def of_type(self, output_type: str) -> list[Output]:
        """The accepted outputs of one type."""
        return [one for one in self.accepted.values() if one.type == output_type]

    def check_room(self, output: Output) -> None:
        """Judge one more output against the contract, the recipe and the descriptor's size."""
        if isinstance(self.bounds, CallboardError):
            raise self.bounds
        self.bounds.check(output.type, len(self.of_type(output.type)) + 1)
        check_size([*self._entries, *self._described(output)], self._terms.result_bytes)

    def add(self, output: Output) -> None:
        """Count an output that was accepted."""
        self._entries.extend(self._described(output))
        self.accepted[output.intent_id] = output

    def _described(self, output: Output) -> list[Entry]:
        if isinstance(self.bounds, Bounds) and not self.bounds.declares(output.type):
            return []
        return [estimate(self.member, self._pool, output, self._terms)]


class Judge:
    """Judges a run's messages one after the other; the first of two that disagree stands.

    `checks` judge bodies whose form only their own type knows.
    """

    def __init__(
        self, assignment: Assignment, terms: Terms, load: Loader, checks: BodyChecks | None = None
    ) -> None:
        self._assignment = assignment
        self._terms = terms
        self._load = load
        self._checks = checks or {}
        self._repeats = Repeats()
        self.tallies = {
            member.handle: Tally(member, assignment.pool, terms) for member in assignment.claims
        }

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
        `artifact_limit`, `artifact_name_invalid`, `artifact_name_taken`, `body_limit`,
        `patch_path_invalid`, `patch_paths_required`, `patch_overlap`, `pool_forbidden`,
        `dispatch_budget_exceeded`, `memory_foreign`, `memory_invalid`, `result_limit`,
        `contract_invalid`, or those of the loader and of the checks.
        """
        handle = self.resolve(value)
        message = read_message(value)
        if self._repeats.knows(message.intent_id, value):
            return Accepted(message.intent_id, handle, True)
        tally = self.tallies[handle]
        if isinstance(message, FinishMessage):
            earlier = self._finish(tally, message)
        elif isinstance(message, ArtifactMessage):
            earlier = self._artifact(tally, message)
        elif isinstance(message, PatchMessage):
            earlier = self._patch(tally, message)
        elif isinstance(message, DispatchNextMessage):
            earlier = self._batch(tally, message)
        elif isinstance(message, NoopMessage):
            earlier = self._noop(tally, message)
        else:
            earlier = self._body(tally, message)
        self._repeats.note(message.intent_id, value)
        return Accepted(earlier or message.intent_id, handle, bool(earlier))

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

    def _standing(self) -> list[Output]:
        """What the run would deliver by now; a Claim that is given up takes up no room."""
        return [
            output
            for tally in self.tallies.values()
            if tally.outcome != "cancelled"
            for output in tally.outputs
        ]

    def _artifact(self, tally: Tally, message: ArtifactMessage) -> str:
        check_name(message.name)
        earlier = _same_name(tally, message)
        if earlier is not None:
            return earlier.intent_id
        output = ArtifactOutput(
            message.intent_id, message.name, message.sha256, message.size_bytes, None
        )
        tally.check_room(output)
        self._check_limits(message)
        tally.add(replace(output, data=self._load(message)))
        return ""

    def _check_limits(self, message: ArtifactMessage) -> None:
        terms = self._terms
        kept = [one for one in self._standing() if isinstance(one, ArtifactOutput)]
        total_bytes = sum(one.size_bytes for one in kept) + message.size_bytes
        if message.size_bytes > terms.artifact_bytes:
            found = f"{message.name!r} has {message.size_bytes} bytes"
            limit = f"an artifact may have {terms.artifact_bytes}"
        elif len(kept) >= terms.run_artifacts:
            found = f"{message.name!r} is one artifact more"
            limit = f"a run may stage {terms.run_artifacts}"
        elif total_bytes > terms.run_bytes:
            found = f"with {message.name!r} the artifacts have {total_bytes}"
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

    def _body(self, tally: Tally, message: BodyMessage) -> str:
        kind = output_type(message)
        limit = BODY_LIMITS[kind_of(message)]
        if isinstance(message, OwnMessage) and not is_own_type(kind):
            raise CallboardError(
                "output_type_invalid",
                f"{show(kind)} is no project's own output type",
                "their names are lower-case words with a dot between, such as acme.ticket",
                {"type": kind},
            )
        if message.size_bytes > limit:
            raise CallboardError(
                "body_limit",
                f"a {kind} of {message.size_bytes} bytes is too large, at most {limit} are taken",
                "say less, or deliver it as an artifact",
                {"type": kind, "bytes": message.size_bytes, "limit_bytes": limit},
            )
        known = tally.of_type(kind)
        for one in known:
            if isinstance(one, BodyOutput) and one.sha256 == message.sha256:
                return one.intent_id
        output = BodyOutput(
            message.intent_id, kind, len(known) + 1, message.sha256, message.size_bytes, None
        )
        tally.check_room(output)
        data = self._load(message)
        if data is not None:
            check_body(message, data, self._checks)
            if isinstance(message, MemoryMessage):
                self._check_memory(data, tally.member.work_id)
        tally.add(replace(output, data=data))
        return ""

    def _check_memory(self, data: bytes, work_id: str) -> None:
        terms = self._terms.memory
        if isinstance(terms, MemoryTerms):
            check_memory(data, terms.schema, terms.path, work_id)

    def _batch(self, tally: Tally, message: DispatchNextMessage) -> str:
        if message.pool not in (UNSET, self._assignment.pool):
            raise CallboardError(
                "pool_forbidden",
                f"pool {message.pool!r} is not the run's own, {self._assignment.pool!r}",
                "leave the pool out; a worker asks for its own pool only",
                {"pool": message.pool, "own": self._assignment.pool},
            )
        asked = [one for one in self._standing() if isinstance(one, BatchOutput)]
        spent = sum(one.max_dispatches for one in asked)
        check_budget(spent, message.max_dispatches, self._terms.max_dispatches)
        number = len(tally.of_type("dispatch_next")) + 1
        output = BatchOutput(message.intent_id, number, message.max_claims, message.max_dispatches)
        tally.check_room(output)
        tally.add(output)
        return ""

    def _noop(self, tally: Tally, message: NoopMessage) -> str:
        known = tally.of_type(NOOP)
        if known and isinstance(known[0], NoopOutput) and known[0].reason == message.reason:
            return known[0].intent_id
        output = NoopOutput(message.intent_id, message.reason)
        tally.check_room(output)
        tally.add(output)
        return ""

    def _patch(self, tally: Tally, message: PatchMessage) -> str:
        """A run's Claims share its work tree: of several each says which paths are its own."""
        paths = () if isinstance(message.paths, UnsetType) else check_paths(message.paths)
        known = tally.of_type("patch")
        if known and isinstance(known[0], PatchOutput) and known[0].paths == paths:
            return known[0].intent_id
        output = PatchOutput(message.intent_id, None, paths)
        tally.check_room(output)
        if not paths and len(self.tallies) > 1:
            raise CallboardError(
                "patch_paths_required",
                f"the work tree is shared by {len(self.tallies)} claims, and the patch of "
                f"{tally.member.handle} does not say what of it is its own",
                "name the files or folders that this claim has changed: callboard worker patch "
                f"--claim {tally.member.handle} PATH",
                {"claim_handle": tally.member.handle},
            )
        self._check_shared(tally, paths)
        tally.add(output)
        return ""

    def _check_shared(self, tally: Tally, paths: tuple[str, ...]) -> None:
        for other in self.tallies.values():
            if other is tally or other.outcome == "cancelled":
                continue
            for patch in other.of_type("patch"):
                assert isinstance(patch, PatchOutput)
                shared = overlap(paths, patch.paths)
                if shared is not None:
                    raise CallboardError(
                        "patch_overlap",
                        f"{shared!r} is in the patch of {other.member.handle} already",
                        "one path of the work tree belongs to one claim's patch",
                        {"path": shared, "claim_handle": other.member.handle},
                    )


def check_body(message: StagedMessage, data: bytes, checks: BodyChecks) -> None:
    """Judge the bytes beside a message: their form, then what their type makes of them."""
    if isinstance(message, ArtifactMessage):
        return
    check_form(kind_of(message), data)
    check = checks.get(output_type(message))
    if check is not None:
        check(data)


def check_budget(spent: int, asked: int, budget: int) -> None:
    """Refuse with `dispatch_budget_exceeded` a request for more launches than a run has left."""
    if spent + asked > budget:
        raise CallboardError(
            "dispatch_budget_exceeded",
            f"{asked} more launches make {spent + asked}, {budget} may be asked for in all",
            "ask for fewer; the budget is the recipe's max_dispatches, or an agent's "
            "--max-dispatches",
            {"asked": asked, "spent": spent, "budget": budget},
        )


def _same_name(tally: Tally, message: ArtifactMessage) -> ArtifactOutput | None:
    """The same artifact staged before; `artifact_name_taken` where only the name is the same."""
    key = collision_key(message.name)
    for known in tally.of_type("artifact"):
        assert isinstance(known, ArtifactOutput)
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
