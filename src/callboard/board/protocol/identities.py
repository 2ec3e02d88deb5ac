"""Identities that follow from content, never from counters or clocks.

Source: wire-v3 §§3, 4. The inputs are trusted records; the answers are part of the wire.
"""

from __future__ import annotations

from callboard.board.protocol.operations import Actor, Gate, Observation, Payload
from callboard.board.protocol.policy import Record
from callboard.canonical import encode_trusted, sha256_hex

ROOT_NODE_KEY = "root"


def work_id(graph_id: str, node_key: str) -> str:
    """The Work's identity: its place in its graph."""
    return sha256_hex(encode_trusted({"graph_id": graph_id, "node_key": node_key}))


def root_graph_id(payload: Payload) -> str:
    """The graph of an independent Work that names none."""
    return sha256_hex(encode_trusted(payload))


def commit_id(previous: str | None, request_id: str) -> str:
    """The id a writer gives a commit on top of `previous` (None at genesis)."""
    text = request_id if previous is None else f"{previous}\n{request_id}"
    return "q_" + sha256_hex(text.encode())


def checkpoint_request_id(prior_tip: str, prior_git_sha: str) -> str:
    """The request that replaces the history up to `prior_tip`, held by that Git commit (§8)."""
    return "checkpoint_" + sha256_hex(f"{prior_tip}\n{prior_git_sha}".encode())


def claim_id(request_id: str, index: int) -> str:
    """The `index`-th (from 1) Claim of a fair prefix."""
    return f"c_{sha256_hex(request_id.encode())}_{index}"


def dispatch_id(request_id: str, index: int) -> str:
    """The `index`-th (from 1) group of a fair prefix."""
    return f"d_{sha256_hex(request_id.encode())}_{index}"


def handle(index: int) -> str:
    """The `index`-th (from 1) member of a group."""
    return f"h{index}"


def epoch_id(request_id: str) -> str:
    """The policy epoch that a request establishes."""
    return "p_" + sha256_hex(request_id.encode())


def fingerprint(actor: Actor, kind: str, parameters: Record) -> str:
    """What a request means: who asks for what, apart from the tip it met."""
    return fingerprint_of_bytes(actor, kind, encode_trusted(parameters))


def fingerprint_of_bytes(actor: Actor, kind: str, parameters: bytes) -> str:
    """The fingerprint, from the canonical bytes of the parameters."""
    who = encode_trusted(actor)
    return sha256_hex(
        b'{"actor":%b,"kind":"%b","parameters":%b}' % (who, kind.encode(), parameters)
    )


def gate_identity(gate: Gate | Observation) -> str:
    """The gate's identity, display coordinates left out, its condition included."""
    resource = gate.resource
    return encode_trusted(
        {
            "condition": gate.condition,
            "host": resource.host,
            "kind": resource.kind,
            "repository_id": resource.repository_id,
            "resource_id": resource.resource_id,
        }
    ).decode()
