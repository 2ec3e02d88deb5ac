"""Checkpoints: one root commit with the whole state, in the place of the history it names.

Source: specification 1, §7.10; wire-v3 §8. Made from a validated history and read back as strictly
as anything foreign. Pure: the caller says which Git commit holds the history, and writes.
"""

from __future__ import annotations

import base64
import binascii
import zlib
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct

from callboard.board.projection.document import Document, state_document
from callboard.board.projection.restore import restored
from callboard.board.projection.snapshot import RequestRecord
from callboard.board.projection.state import Projection
from callboard.board.protocol import commit as wire
from callboard.board.protocol import identities
from callboard.board.protocol.envelope import check_actor
from callboard.board.protocol.operations import Actor, Checkpoint
from callboard.canonical import (
    MAX_ARRAY_MEMBERS,
    MAX_DEPTH,
    MAX_LINE_BYTES,
    MAX_PARSE_BYTES,
    encode_trusted,
    sha256_hex,
    within_profile,
)
from callboard.errors import CallboardError
from callboard.validate import parse

PLAIN, COMPRESSED = "requests", "requests_compressed"
_LEVEL = 9
_RAW = -zlib.MAX_WBITS
_HINT = "the checkpoint was altered or written by a faulty program; go back to the commit before it"


class Made(Struct, frozen=True, kw_only=True):
    """A checkpoint that is not written yet: its line with newline, and what it is made of."""

    commit: wire.QueueCommit
    line: bytes
    prior_bytes: int
    is_compressed: bool


def make(data: bytes, projection: Projection, *, prior_git_sha: str, at: int, actor: Actor) -> Made:
    """The checkpoint of the validated ledger `data`, whose state is `projection`.

    `prior_git_sha` is the Git commit that holds `data`, `at` the decision time (Unix ms). Raises
    `queue_missing` for an empty ledger, `record_invalid` or `actor_invalid` for arguments that no
    record could hold, and `checkpoint_limit` where the state fits no line.
    """
    state = state_document(projection)
    parameters = _parameters(data, str(projection.tip), prior_git_sha, state)
    check_actor(actor)
    request_id = identities.checkpoint_request_id(parameters.prior_tip, prior_git_sha)

    def commit(form: Document) -> wire.QueueCommit:
        operation = Checkpoint(**msgspec.structs.asdict(parameters), state=form)
        return wire.QueueCommit(
            version=3,
            id=identities.commit_id(None, request_id),
            previous=None,
            request=wire.CheckpointRequest(
                id=request_id,
                fingerprint=identities.fingerprint(actor, "checkpoint", parameters),
                parameters=parameters,
            ),
            actor=actor,
            policy_epoch=str(projection.policy_epoch),
            at=at,
            operations=[operation],
        )

    found = commit(state)
    line = encode_trusted(found)
    is_compressed = len(line) > MAX_LINE_BYTES or len(state[PLAIN]) > MAX_ARRAY_MEMBERS
    if is_compressed:
        found = commit(_compressed(state))
        line = encode_trusted(found)
    _check_fits(found, line, projection)
    return Made(commit=found, line=line + b"\n", prior_bytes=len(data), is_compressed=is_compressed)


def _parameters(
    data: bytes, prior_tip: str, prior_git_sha: str, state: Document
) -> wire.CheckpointParameters:
    return parse(
        wire.CheckpointParameters,
        {
            "prior_git_sha": prior_git_sha,
            "prior_tip": prior_tip,
            "history_sha256": sha256_hex(data),
            "state_sha256": sha256_hex(encode_trusted(state)),
        },
        what="checkpoint",
    )


def _compressed(state: Document) -> Document:
    packer = zlib.compressobj(_LEVEL, zlib.DEFLATED, _RAW)
    packed = packer.compress(encode_trusted(state[PLAIN])) + packer.flush()
    others = {name: value for name, value in state.items() if name != PLAIN}
    return {**others, COMPRESSED: base64.b64encode(packed).decode("ascii")}


_STATE_DEPTH = 3
"""How deep a checkpoint's state stands in its line."""


def _check_fits(commit: wire.QueueCommit, line: bytes, projection: Projection) -> None:
    if len(line) > MAX_LINE_BYTES:
        raise CallboardError(
            "checkpoint_limit",
            f"the state, with {projection.counters.work} Work and {projection.counters.claims} "
            f"Claims, would need a line of {len(line)} bytes, at most {MAX_LINE_BYTES} are allowed",
            "nothing was written; a board this full is continued on a new branch",
            {"limit": "line_bytes", "bytes": len(line), "limit_bytes": MAX_LINE_BYTES},
        )
    operation = commit.operations[0]
    assert isinstance(operation, Checkpoint)
    if not within_profile(operation.state, _STATE_DEPTH):
        raise CallboardError(
            "checkpoint_limit",
            f"a payload or descriptor would be nested deeper than {MAX_DEPTH} levels in the state",
            "nothing was written; a board with so deep a payload cannot be made smaller",
            {"limit": "depth"},
        )


class _Expanded(NamedTuple):
    """A checkpoint's state without its requests, its requests, and the bytes of both together."""

    state: dict[str, Any]
    requests: Any
    plain: bytes


def read_root(commit: wire.QueueCommit) -> Projection:
    """The state that a checkpoint commit stands for, before the commit itself counts.

    Raises `checkpoint_mismatch` where digests or identities are not those of the content,
    `checkpoint_invalid` where the state is none that a history could have.
    """
    request = commit.request
    (operation,) = commit.operations
    if not isinstance(request, wire.CheckpointRequest) or not isinstance(operation, Checkpoint):
        raise _invalid("", "the commit is no checkpoint")
    asked = request.parameters
    for name in asked.__struct_fields__:
        if getattr(operation, name) != getattr(asked, name):
            raise _mismatch(name, getattr(operation, name), getattr(asked, name), "parameters")
    wanted = identities.checkpoint_request_id(asked.prior_tip, asked.prior_git_sha)
    if request.id != wanted:
        raise _mismatch("request id", request.id, wanted, "prior tip and commit")
    expanded = _expand(operation.state)
    found = sha256_hex(expanded.plain)
    if found != asked.state_sha256:
        raise _mismatch("state_sha256", asked.state_sha256, found, "state")
    projection = restored(expanded.state, expanded.requests, expanded.plain)
    if projection.tip != asked.prior_tip:
        raise _mismatch("prior_tip", asked.prior_tip, projection.tip, "state")
    if commit.policy_epoch != projection.policy_epoch:
        raise _mismatch("policy_epoch", commit.policy_epoch, projection.policy_epoch, "state")
    if encode_trusted(state_document(projection)) != expanded.plain:
        raise _invalid("", "the state says something that no projection has")
    return projection


def prove(commit: wire.QueueCommit, prior: Projection) -> None:
    """Refuse a checkpoint whose state is not `prior`, that of the ledger it stands for:
    `checkpoint_mismatch`."""
    request = commit.request
    assert isinstance(request, wire.CheckpointRequest)
    wanted = sha256_hex(encode_trusted(state_document(prior)))
    if request.parameters.state_sha256 != wanted:
        raise _mismatch(
            "state_sha256", request.parameters.state_sha256, wanted, "history, replayed,"
        )


def _expand(state: dict[str, Any]) -> _Expanded:
    others = dict(state)
    forms = [name for name in (PLAIN, COMPRESSED) if name in others]
    if len(forms) != 1:
        raise _invalid(f"/{PLAIN}", "stand once, either plain or compressed")
    found = others.pop(forms[0])
    if forms == [PLAIN] and isinstance(found, list) and len(found) > MAX_ARRAY_MEMBERS:
        raise CallboardError(
            "resource_limit",
            f"{len(found)} requests stand plainly, more than the {MAX_ARRAY_MEMBERS} of an array",
            _HINT,
            {"limit": MAX_ARRAY_MEMBERS},
        )
    requests = found if forms == [PLAIN] else _unpack(found)
    return _Expanded(others, requests, encode_trusted({**others, PLAIN: requests}))


class _NotCanonical(Exception):
    """A number that no canonical record holds."""


def _no_float(_text: str) -> float:
    raise _NotCanonical


_requests_decoder = msgspec.json.Decoder(list[RequestRecord], float_hook=_no_float)


def _unpack(found: object) -> list[RequestRecord]:
    """The compressed array, which may have more members than an array in a line.

    Bounded before it is inflated, and read into records at once, so that a small text cannot
    become a large tree.
    """
    at = f"/{COMPRESSED}"
    if not isinstance(found, str):
        raise _invalid(at, "is not a string")
    try:
        packed = base64.b64decode(found.encode("ascii"), validate=True)
        unpacker = zlib.decompressobj(_RAW)
        plain = unpacker.decompress(packed, MAX_PARSE_BYTES)
        rest = unpacker.decompress(unpacker.unconsumed_tail, 1) if not unpacker.eof else b""
    except (UnicodeEncodeError, binascii.Error, zlib.error) as error:
        raise _invalid(at, f"cannot be inflated: {error}") from error
    if rest:
        raise CallboardError(
            "resource_limit",
            f"the checkpoint's requests inflate to more than {MAX_PARSE_BYTES} bytes",
            _HINT,
            {"limit_bytes": MAX_PARSE_BYTES},
        )
    if not unpacker.eof or unpacker.unused_data or base64.b64encode(packed) != found.encode():
        raise _invalid(at, "is not one whole stream")
    try:
        requests = _requests_decoder.decode(plain)
    except (msgspec.MsgspecError, _NotCanonical, UnicodeDecodeError, RecursionError) as error:
        raise _invalid(at, f"holds no requests: {error}") from error
    if encode_trusted(requests) != plain:
        raise _invalid(at, "is not the canonical array")
    return requests


def _invalid(pointer: str, what: str) -> CallboardError:
    return CallboardError(
        "checkpoint_invalid",
        f"checkpoint state: {pointer or 'the document'}: {what}",
        _HINT,
        {"faults": [{"pointer": pointer, "message": what}]},
    )


def _mismatch(name: str, found: object, wanted: object, whose: str) -> CallboardError:
    return CallboardError(
        "checkpoint_mismatch",
        f"the checkpoint's {name} is {found}, that of its {whose} is {wanted}",
        _HINT,
        {"field": name},
    )
