"""What a project implements for output types and verifiers of its own; the only part of it we keep.

Source: specification 1, §7.14. A project installs a package beside Callboard and names its handlers
under the entry points `callboard.outputs` (output type -> a class or an instance) and its verifiers
under `callboard.verifiers` (verifier id -> a callable). Each call happens in a process of its own,
which nothing but a plain JSON answer comes back from; this module starts none and decides nothing.

`prepare` and verifiers get an environment without credentials, `apply` and `verify` that of whoever
delivers. Whether, when and within what a handler is called is decided before, for all types alike.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

OUTPUTS = "callboard.outputs"
VERIFIERS = "callboard.verifiers"
MAX_DATA_BYTES = 1024
"""The most that `data` of one output may take as canonical JSON."""

Json = Any
"""A plain JSON value: objects, arrays, strings, integers, booleans and null."""


class Refused(Exception):
    """Raised by a handler that does not take an output; its text is shown to people."""


@dataclass(frozen=True, slots=True)
class Request:
    """One accepted output of one Claim. `number` counts the Claim's outputs of the type from 1,
    `attempt` the Claims of the Work; `work` is the payload of the node, `repository` the board's
    `owner/name`. `body` is what the worker wrote: untrusted."""

    type: str
    number: int
    body: Mapping[str, Json]
    claim_id: str
    work_id: str
    attempt: int
    work: Mapping[str, Json]
    repository: str


@dataclass(frozen=True, slots=True)
class Output:
    """One prepared output: `body` as it was taken, `data` what `prepare` answered, and `target`
    what its effect touches. Claim, type and number name it for good: no other output has them.
    `repository` is the board's `owner/name`."""

    type: str
    number: int
    body: Mapping[str, Json]
    data: Mapping[str, Json]
    claim_id: str
    work_id: str
    attempt: int
    repository: str
    target: Mapping[str, Json]


class Place(Protocol):
    """The repository as a handler's effect reaches it."""

    @property
    def git_folder(self) -> str:
        """The path of the repository's Git folder."""
        ...

    def read(self, ref: str, limit_bytes: int = 1024 * 1024) -> bytes | None:
        """The bytes of the blob under a ref; None where there is no such ref."""
        ...

    def create(self, data: bytes) -> bool:
        """Keep `data` as a blob under the `ref` of the output's own target, which must not exist
        yet; False where something else stands there. Again with the same bytes it is True."""
        ...


class Handler(Protocol):
    """One output type. Every method may be called any number of times for the same output."""

    def prepare(self, request: Request) -> Mapping[str, Json]:
        """Judge an output, and answer what its effect needs to know, at most 1 KiB of JSON. No
        effect: the Claim may still be cancelled. Raises `Refused`."""
        ...

    def scope(self, output: Output) -> Mapping[str, Json] | None:
        """What the effect will touch, as a target of a resource scope; its `repository` is the
        board's. None, or a target that the Work and its worker may not touch, is refused. Called
        once, right after `prepare`; `target` of the output is still empty."""
        ...

    def apply(self, output: Output, place: Place) -> None:
        """Have the effect. Again for the same output it must change nothing, whatever a process
        that was killed has left of it. Raises `Refused`."""
        ...

    def verify(self, output: Output, place: Place) -> str | None:
        """Look, without any effect, whether the effect is there: None, or what is lacking."""
        ...


Read = Callable[..., bytes]
"""`read(blob)` answers the bytes of a blob, `read(commit, path)` those of a file in a commit."""
Verifier = Callable[[Mapping[str, Json], Mapping[str, Json], Read], str | None]
"""`verifier(output, expected, read)`: None where the output, as its descriptor has it, is what
`expected` of the contract's `verification` asks for, else what is wrong with it."""
