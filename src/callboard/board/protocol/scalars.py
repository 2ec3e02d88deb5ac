"""The scalar types of the wire and their bounds.

Source: wire-v3 §2. They are annotations only; `validate.py` and msgspec enforce them. Lengths
given here in characters are completed by `utf8_bytes`, the bound in UTF-8 bytes.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from callboard.canonical import MAX_SAFE_INTEGER

MAX_IDENTITY_BYTES = 256
MAX_FAIRNESS_KEY_BYTES = 128
MAX_LOCATION_BYTES = 4096
MAX_DURATION_MS = 3_600_000


def _text(minimum: int, maximum: int, pattern: str | None = None) -> Meta:
    """Text without control characters. That and the bound in bytes are not msgspec's to check:
    `validate.py` does, or the reader of a whole line for all of its text at once."""
    return Meta(
        min_length=minimum,
        max_length=maximum,
        pattern=pattern,
        extra={"utf8_bytes": maximum, "no_control": True},
    )


Identity = Annotated[str, _text(1, MAX_IDENTITY_BYTES)]
FairnessKey = Annotated[str, _text(0, MAX_FAIRNESS_KEY_BYTES)]
Location = Annotated[str, _text(1, MAX_LOCATION_BYTES)]
"""A ref or a path. The wire has no bound of its own for them; an artifact's ref may be longer than
an Identity."""
ReasonCode = Annotated[str, Meta(pattern=r"\A[A-Za-z0-9][A-Za-z0-9_.:-]{0,127}\Z")]
Decimal = Annotated[str, Meta(pattern=r"\A[1-9][0-9]{0,255}\Z")]
Revision = Annotated[str, Meta(pattern=r"\A(?:[0-9a-f]{40}|[0-9a-f]{64})\Z")]
Digest = Annotated[str, Meta(pattern=r"\A[0-9a-f]{64}\Z")]
RepositoryName = Annotated[
    str, _text(3, MAX_IDENTITY_BYTES, r"\A[^/\x00-\x20\x7f]+/[^/\x00-\x20\x7f]+\Z")
]
WorkflowPath = Annotated[
    str,
    _text(
        1,
        MAX_IDENTITY_BYTES,
        r"\A(?!.*\.\.)(?:\.github/workflows/[^/\x00-\x1f\x7f]+\.lock\.yml"
        r"|\.callboard/workers/[^/\x00-\x1f\x7f]+\.toml)\Z",
    ),
]
Timestamp = Annotated[int, Meta(ge=0, le=MAX_SAFE_INTEGER)]
Duration = Annotated[int, Meta(ge=1, le=MAX_DURATION_MS)]
Weight = Annotated[int, Meta(ge=1, le=1000)]
Priority = Annotated[int, Meta(ge=1, le=5)]
ClaimBound = Annotated[int, Meta(ge=1, le=16)]
CountBound = Annotated[int, Meta(ge=1, le=4096)]
Attempt = Annotated[int, Meta(ge=1, le=4096)]
FirstAttempt = Literal[1]

PRIORITIES = (1, 2, 3, 4, 5)
GITHUB_WORKFLOW_PREFIX = ".github/workflows/"


def is_github(workflow: str) -> bool:
    """Whether a profile's workflow runs on a GitHub host (wire-v3 §5, Profile)."""
    return workflow.startswith(GITHUB_WORKFLOW_PREFIX)
