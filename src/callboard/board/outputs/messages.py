"""What a worker stages: one closed record a wish, and the terms it is told.

Source: specification 1, §7.14; wire-v3 §5 (Finish intent). A message is a wish of an untrusted
side; nothing here believes or does anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal, Self

from msgspec import UNSET, Meta, UnsetType

from callboard import canonical
from callboard.board.protocol.memory_rules import MemoryRules
from callboard.board.protocol.operations import Payload
from callboard.board.protocol.policy import CEILINGS, Record
from callboard.board.protocol.scalars import Digest, Identity
from callboard.errors import CallboardError
from callboard.validate import near, parse, show

MEBIBYTE = 1024 * 1024
MAX_RESULT_BYTES = CEILINGS.result_bytes
MAX_PATCH_PATHS = 64
MAX_REASON = 500

IntentId = Annotated[str, Meta(pattern=r"\A[A-Za-z0-9][A-Za-z0-9_-]{0,63}\Z")]
Count = Annotated[int, Meta(ge=0, le=128)]
Asked = Annotated[int, Meta(ge=1, le=256)]
Size = Annotated[int, Meta(ge=0, le=canonical.MAX_SAFE_INTEGER)]
Outcome = Literal["completed", "cancelled"]


class _Message(Record, frozen=True, kw_only=True, tag_field="kind"):
    intent_id: IntentId
    claim_handle: Identity | UnsetType = UNSET


class FinishMessage(_Message, frozen=True, kw_only=True, tag="finish"):
    """How one Claim ended, as its worker says."""

    outcome: Outcome


class ArtifactMessage(_Message, frozen=True, kw_only=True, tag="artifact"):
    """A file whose bytes lie beside the message under their SHA-256."""

    name: str
    sha256: Digest
    size_bytes: Size


class PatchMessage(_Message, frozen=True, kw_only=True, tag="patch"):
    """The wish that the work tree, as the run leaves it, becomes a commit; with `paths` only what
    lies at or below them."""

    paths: Annotated[list[str], Meta(min_length=1, max_length=MAX_PATCH_PATHS)] | UnsetType = UNSET


class _BodyMessage(_Message, frozen=True, kw_only=True, tag_field="kind"):
    sha256: Digest
    size_bytes: Size


class NoteMessage(_BodyMessage, frozen=True, kw_only=True, tag="note"):
    """A comment on the Claim's node: UTF-8 text beside the message."""


class MemoryMessage(_BodyMessage, frozen=True, kw_only=True, tag="memory"):
    """What is to be remembered: a JSON document beside the message."""


class SubmitMessage(_BodyMessage, frozen=True, kw_only=True, tag="submit"):
    """A plan to be posted, as JSON beside the message."""


class OwnMessage(_BodyMessage, frozen=True, kw_only=True, tag="output"):
    """An output of a project's own type; its JSON body lies beside the message."""

    type: str


class DispatchNextMessage(_Message, frozen=True, kw_only=True, tag="dispatch_next"):
    """The wish for the next fair batch; the run's own pool where none is named."""

    max_claims: Asked = 1
    max_dispatches: Asked = 1
    pool: Identity | UnsetType = UNSET


class NoopMessage(_Message, frozen=True, kw_only=True, tag="noop"):
    """Word that nothing was to be done, and why."""

    reason: Annotated[str, Meta(min_length=1, max_length=MAX_REASON)]


BodyMessage = NoteMessage | MemoryMessage | SubmitMessage | OwnMessage
StagedMessage = ArtifactMessage | BodyMessage
"""Messages whose bytes lie beside them."""
Message = FinishMessage | PatchMessage | DispatchNextMessage | NoopMessage | StagedMessage

_TYPES: dict[str, type[Message]] = {
    "finish": FinishMessage,
    "artifact": ArtifactMessage,
    "patch": PatchMessage,
    "note": NoteMessage,
    "memory": MemoryMessage,
    "submit": SubmitMessage,
    "dispatch_next": DispatchNextMessage,
    "noop": NoopMessage,
    "output": OwnMessage,
}

BODY_LIMITS: dict[str, int] = {
    "note": 16 * 1024,
    "memory": 64 * 1024,
    "submit": 256 * 1024,
    "output": 64 * 1024,
}
"""Kind of message -> the most bytes that its body may have."""


def kind_of(message: Message) -> str:
    """The kind, which is the message's tag."""
    return str(message.__struct_config__.tag)


def output_type(message: Message) -> str:
    """The type of the output that a message asks for; `finish` for none."""
    return message.type if isinstance(message, OwnMessage) else kind_of(message)


class Range(Record, frozen=True, kw_only=True):
    """How many outputs of one type, at least and at most."""

    min: Count
    max: Count


class MemoryTerms(Record, frozen=True, kw_only=True):
    """What a memory of the run must be: the file and the branches it is for, and its schema."""

    path: Identity
    branch: Identity
    schema: Payload


class Terms(Record, frozen=True, kw_only=True):
    """What a run may deliver: the recipe's bounds a Claim, by output type, and the limits.

    `outputs` is absent where the recipe is not known; then the Work's contract alone counts.
    The artifact limits are bytes each, files a run and bytes a run; `result_bytes` bounds each
    Claim's descriptor in canonical JSON; `max_dispatches` is what all requests of the run for
    further launches may ask for together. `memory` is there where one may be delivered.
    """

    outputs: dict[Identity, Range] | UnsetType = UNSET
    artifact_bytes: Annotated[int, Meta(ge=0, le=64 * MEBIBYTE)] = 8 * MEBIBYTE
    run_artifacts: Annotated[int, Meta(ge=0, le=1024)] = 64
    run_bytes: Annotated[int, Meta(ge=0, le=1024 * MEBIBYTE)] = 64 * MEBIBYTE
    result_bytes: Annotated[int, Meta(ge=1, le=MAX_RESULT_BYTES)] = MAX_RESULT_BYTES
    object_format: Literal["sha1", "sha256"] = "sha256"
    max_dispatches: Annotated[int, Meta(ge=0, le=256)] = 1
    memory: MemoryTerms | UnsetType = UNSET

    @classmethod
    def of(
        cls,
        outputs: Mapping[str, tuple[int, int]],
        *,
        object_format: str = "sha256",
        result_bytes: int = MAX_RESULT_BYTES,
        max_dispatches: int = 1,
        memory: MemoryRules | None = None,
    ) -> Self:
        """The terms for a recipe's outputs, `{type: (min, max)}`, with the default limits."""
        return cls(
            outputs={name: Range(min=least, max=most) for name, (least, most) in outputs.items()},
            object_format="sha1" if object_format == "sha1" else "sha256",
            result_bytes=result_bytes,
            max_dispatches=max_dispatches,
            memory=UNSET
            if memory is None
            else MemoryTerms(path=memory.path, branch=memory.branch, schema=dict(memory.schema)),
        )

    @property
    def recipe(self) -> dict[str, tuple[int, int]] | None:
        """The recipe's outputs as `{type: (min, max)}`; None where it is not known."""
        if isinstance(self.outputs, UnsetType):
            return None
        return {name: (rule.min, rule.max) for name, rule in self.outputs.items()}

    @property
    def oid_length(self) -> int:
        """The hex length of an object name; the longer one where nothing is known."""
        return 40 if self.object_format == "sha1" else 64


def read_message(value: canonical.Json) -> Message:
    """A decoded message as its record, or `message_invalid` with every fault."""
    kind = value.get("kind") if isinstance(value, dict) else None
    known = _TYPES.get(kind) if isinstance(kind, str) else None
    if known is None:
        close = near(kind, list(_TYPES)) if isinstance(kind, str) else ""
        raise CallboardError(
            "message_invalid",
            f"a message of the kind {show(kind)} is not known{close}",
            f"known kinds: {', '.join(_TYPES)}; stage them with callboard worker",
        )
    return parse(known, value, what="staged message", code="message_invalid")


def read_terms(data: bytes) -> Terms:
    """Stated terms, or `terms_invalid`, or a codec code."""
    return parse(Terms, canonical.decode(data), what="terms of the run", code="terms_invalid")
