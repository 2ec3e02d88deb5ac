"""What a run left behind, told apart by Claim: accepted outputs, refusals, the outcome.

Source: specification 1, §7.14. Plain values that pass from the taking of messages to the effects;
an output is always one accepted message of exactly one Claim.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from callboard.board.outputs.fault_document import bounded_details
from callboard.board.outputs.messages import Outcome
from callboard.errors import CallboardError


@dataclass(frozen=True, slots=True)
class Refusal:
    """One message that was not accepted, or one output that could not be made.

    `source` is the message's file, `handle` the Claim it belongs to, None where it names none.
    `details` are kept where the host is at fault, so that a person can find out why.
    """

    code: str
    message: str
    hint: str
    source: str
    handle: str | None = None
    details: Mapping[str, object] = field(default_factory=dict)

    @classmethod
    def of(cls, error: CallboardError, source: str, handle: str | None = None) -> Refusal:
        """The refusal that an error stands for."""
        return cls(error.code, error.message, error.hint, source, handle)

    @classmethod
    def of_host(cls, error: CallboardError, source: str, handle: str) -> Refusal:
        """The refusal of an output that the host could not make, with the error's details."""
        return replace(cls.of(error, source, handle), details=bounded_details(error))

    def document(self) -> dict[str, object]:
        """The JSON form for reports."""
        return {
            "code": self.code,
            "message": self.message,
            "hint": self.hint,
            "source": self.source,
            "claim_handle": self.handle,
            **({"details": dict(self.details)} if self.details else {}),
        }


@dataclass(frozen=True, slots=True)
class PatchCommit:
    """A commit that is already in the repository's object store: full ids in hex."""

    commit: str
    tree: str
    parent: str


@dataclass(frozen=True, slots=True)
class ArtifactOutput:
    """A file to deliver. `data` is None only on the worker's own side, which keeps no bytes."""

    intent_id: str
    name: str
    sha256: str
    size_bytes: int
    data: bytes | None = field(repr=False)
    type: Literal["artifact"] = "artifact"


@dataclass(frozen=True, slots=True)
class PatchOutput:
    """A commit to deliver; `commit` is None until the work tree has become one.

    `paths` are those that it may change, all where there are none.
    """

    intent_id: str
    commit: PatchCommit | None = None
    paths: tuple[str, ...] = ()
    type: Literal["patch"] = "patch"


@dataclass(frozen=True, slots=True)
class BodyOutput:
    """An output whose whole content is one body of bytes: a note, a memory, a plan, an own type's.

    `number` counts the Claim's outputs of that type from 1. `data` as with an artifact.
    """

    intent_id: str
    type: str
    number: int
    sha256: str
    size_bytes: int
    data: bytes | None = field(repr=False)


@dataclass(frozen=True, slots=True)
class BatchOutput:
    """A request for the next fair batch of the Claim's own pool; `number` as with a body."""

    intent_id: str
    number: int
    max_claims: int
    max_dispatches: int
    type: Literal["dispatch_next"] = "dispatch_next"


@dataclass(frozen=True, slots=True)
class NoopOutput:
    """Word that nothing was to be done."""

    intent_id: str
    reason: str
    type: Literal["noop"] = "noop"


Output = ArtifactOutput | PatchOutput | BodyOutput | BatchOutput | NoopOutput


@dataclass(frozen=True, slots=True)
class ClaimOutputs:
    """One member of the assignment when its run is over.

    `reason` says why the outcome is what it is: `finished`, `worker_cancelled`, `no_finish`, or
    the code of what stood against completing. Outputs of a cancelled Claim are `suppressed`.
    """

    handle: str
    claim_id: str
    work_id: str
    outcome: Outcome
    reason: str
    detail: str = ""
    outputs: tuple[Output, ...] = ()
    suppressed: tuple[Output, ...] = ()
    refusals: tuple[Refusal, ...] = ()

    def cancelled(self, reason: str, detail: str) -> ClaimOutputs:
        """The same Claim, not to be completed after all."""
        return replace(
            self,
            outcome="cancelled",
            reason=reason,
            detail=detail,
            outputs=(),
            suppressed=self.suppressed + self.outputs,
        )

    def document(self) -> dict[str, object]:
        """The JSON form for reports; no file contents."""
        return {
            "claim_handle": self.handle,
            "claim_id": self.claim_id,
            "work_id": self.work_id,
            "outcome": self.outcome,
            "reason": self.reason,
            "detail": self.detail,
            "outputs": [_output_document(output) for output in self.outputs],
            "suppressed": [_output_document(output) for output in self.suppressed],
            "refusals": [refusal.document() for refusal in self.refusals],
        }


@dataclass(frozen=True, slots=True)
class Intake:
    """Everything a run staged: its Claims in assignment order, and what belongs to none.

    `ignored` names files of the staging folder that are no messages, as messages may show them.
    """

    claims: tuple[ClaimOutputs, ...]
    unattributed: tuple[Refusal, ...] = ()
    ignored: tuple[str, ...] = ()

    def claim(self, handle: str) -> ClaimOutputs:
        """The member with that handle; `claim_scope_invalid` where there is none."""
        for claim in self.claims:
            if claim.handle == handle:
                return claim
        raise CallboardError(
            "claim_scope_invalid",
            f"{handle!r} is no claim of this run",
            "handles: " + ", ".join(claim.handle for claim in self.claims),
        )

    def document(self) -> dict[str, object]:
        """The JSON form for reports."""
        return {
            "claims": [claim.document() for claim in self.claims],
            "unattributed": [refusal.document() for refusal in self.unattributed],
            "ignored": list(self.ignored),
        }


def _output_document(output: Output) -> dict[str, object]:
    found: dict[str, object] = {"type": output.type, "intent_id": output.intent_id}
    if isinstance(output, ArtifactOutput | BodyOutput):
        if isinstance(output, ArtifactOutput):
            found["name"] = output.name
        return found | {"sha256": output.sha256, "size_bytes": output.size_bytes}
    if isinstance(output, BatchOutput):
        return found | {"max_claims": output.max_claims, "max_dispatches": output.max_dispatches}
    if isinstance(output, NoopOutput):
        return found | {"reason": output.reason}
    if output.paths:
        found["paths"] = list(output.paths)
    return found | ({"commit": output.commit.commit} if output.commit else {})
