"""Scalars and the small closed records that commits are made of.

Only single records are judged here, never the board. An unknown field, a missing one and a null
where a field should be absent are all refused with `schema_invalid`.
"""

import re
from collections.abc import Callable
from typing import Any

from .canon import SAFE, Doc, Refused

Check = Callable[[Any, str], None]

REASON = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,127}")
DECIMAL = re.compile(r"[1-9][0-9]{0,255}")
HEX40 = re.compile(r"[0-9a-f]{40}")
HEX64 = re.compile(r"[0-9a-f]{64}")
REPOSITORY = re.compile(r"[A-Za-z0-9_.-]+/[A-Za-z0-9_.-]+")
GITHUB_WORKER = re.compile(r"\.github/workflows/[^/]+\.lock\.yml")
LOCAL_WORKER = re.compile(r"\.callboard/workers/[^/]+\.toml")


def bad(where: str, why: str) -> Refused:
    """The refusal of a malformed record."""
    return Refused("schema_invalid", f"{where}: {why}")


def has_control(text: str, with_delete: bool = True) -> bool:
    """Whether a text holds an ASCII control character."""
    return any(ord(c) < 32 or (with_delete and ord(c) == 127) for c in text)


def identity(value: Any, where: str) -> None:
    """1 to 256 bytes without control characters."""
    if not isinstance(value, str) or not 1 <= len(value.encode("utf-8")) <= 256:
        raise bad(where, "no identity")
    if has_control(value):
        raise bad(where, "control character")


def fairness_key(value: Any, where: str) -> None:
    """0 to 128 bytes without control characters."""
    if not isinstance(value, str) or len(value.encode("utf-8")) > 128 or has_control(value):
        raise bad(where, "no accounting key")


def matching(pattern: re.Pattern[str]) -> Check:
    """A string that the pattern matches as a whole."""

    def check(value: Any, where: str) -> None:
        if not isinstance(value, str) or pattern.fullmatch(value) is None:
            raise bad(where, f"does not match {pattern.pattern}")

    return check


reason_code = matching(REASON)
decimal = matching(DECIMAL)
digest_hex = matching(HEX64)


def revision(value: Any, where: str) -> None:
    """A Git object id, short or long hash."""
    if not isinstance(value, str) or not (HEX40.fullmatch(value) or HEX64.fullmatch(value)):
        raise bad(where, "no revision")


def repository(value: Any, where: str) -> None:
    """owner/name."""
    identity(value, where)
    if REPOSITORY.fullmatch(value) is None:
        raise bad(where, "not owner/name")


def worker_path(value: Any, where: str) -> None:
    """A worker file of either kind of host."""
    identity(value, where)
    if ".." in value or not (GITHUB_WORKER.fullmatch(value) or LOCAL_WORKER.fullmatch(value)):
        raise bad(where, "no worker file")


def on_github(profile: Doc) -> bool:
    """Whether a profile's worker is a GitHub workflow."""
    return GITHUB_WORKER.fullmatch(profile["workflow"]) is not None


def integer(low: int, high: int) -> Check:
    """A whole number within bounds; a boolean is none."""

    def check(value: Any, where: str) -> None:
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise bad(where, f"no integer in {low}..{high}")

    return check


timestamp = integer(0, SAFE)
weight = integer(1, 1000)
priority = integer(1, 5)
claim_bound = integer(1, 16)
count_bound = integer(1, 4096)
duration = integer(1, 3_600_000)


def boolean(value: Any, where: str) -> None:
    """true or false."""
    if not isinstance(value, bool):
        raise bad(where, "no boolean")


def anything(value: Any, where: str) -> None:
    """Any value at all."""


def any_object(value: Any, where: str) -> None:
    """Any JSON object."""
    if not isinstance(value, dict):
        raise bad(where, "no object")


def one_of(*choices: Any) -> Check:
    """One of a few literal values."""

    def check(value: Any, where: str) -> None:
        if not any(value == choice and type(value) is type(choice) for choice in choices):
            raise bad(where, f"none of {choices}")

    return check


def listing(item: Check, low: int, high: int, unique: bool = False) -> Check:
    """An array within bounds, each member checked."""

    def check(value: Any, where: str) -> None:
        if not isinstance(value, list) or not low <= len(value) <= high:
            raise bad(where, f"no array of {low}..{high}")
        for index, member in enumerate(value):
            item(member, f"{where}[{index}]")
            if unique and member in value[:index]:
                raise bad(where, "a member twice")

    return check


def mapping(key: Check, item: Check, low: int, high: int) -> Check:
    """An object used as a table, keys and members checked."""

    def check(value: Any, where: str) -> None:
        if not isinstance(value, dict) or not low <= len(value) <= high:
            raise bad(where, f"no table of {low}..{high}")
        for name, member in value.items():
            key(name, f"{where} key")
            item(member, f"{where}.{name}")

    return check


def closed(required: dict[str, Check], optional: dict[str, Check] | None = None) -> Check:
    """An object with exactly these fields."""
    extra = optional or {}

    def check(value: Any, where: str) -> None:
        if not isinstance(value, dict):
            raise bad(where, "no object")
        for name in required:
            if name not in value:
                raise bad(where, f"{name} is missing")
        for name, member in value.items():
            rule = required.get(name) or extra.get(name)
            if rule is None:
                raise bad(where, f"unknown field {name}")
            rule(member, f"{where}.{name}")

    return check


actor_shape = closed(
    {
        "role": one_of(
            "administrator", "producer", "dispatcher", "worker", "reconciler", "projector"
        ),
        "principal": decimal,
        "repository": repository,
    },
    {
        "workflow": identity,
        "run_id": decimal,
        "run_attempt": count_bound,
        "dispatch_id": identity,
        "claim_handle": identity,
    },
)


def actor(value: Any, where: str) -> None:
    """Who asked; a worker names the one run it is."""
    actor_shape(value, where)
    if ("run_id" in value) != ("run_attempt" in value):
        raise bad(where, "run_id and run_attempt come as a pair")
    if value["role"] == "worker":
        for name in ("workflow", "run_id", "dispatch_id"):
            if name not in value:
                raise bad(where, f"a worker needs {name}")
        if value["run_attempt"] != 1:
            raise bad(where, "a worker is attempt 1")


resource = closed(
    {
        "kind": one_of("issue", "pull_request"),
        "host": identity,
        "repository": repository,
        "repository_id": decimal,
        "resource_id": decimal,
        "number": decimal,
    }
)

CONDITIONS = {"issue": ("completed", "closed"), "pull_request": ("merged",)}

work_edge = closed({"kind": one_of("work"), "work_id": digest_hex})
gate_edge = closed(
    {
        "kind": one_of("issue", "pull_request"),
        "resource": resource,
        "condition": one_of("completed", "closed", "merged"),
    }
)


def dependency(value: Any, where: str) -> None:
    """One predecessor of a Work."""
    any_object(value, where)
    if value.get("kind") == "work":
        work_edge(value, where)
        return
    gate_edge(value, where)
    if value["resource"]["kind"] != value["kind"]:
        raise bad(where, "the resource is of another kind")
    if value["condition"] not in CONDITIONS[value["kind"]]:
        raise bad(where, "the condition does not fit the kind")


evidence_shape = closed(
    {
        "kind": one_of("prelaunch", "nonlaunch", "terminal_run", "delivery", "reconciliation"),
        "source": one_of(
            "trusted_publisher", "github_api", "trusted_activation", "verified_receipts", "host_api"
        ),
        "repository": repository,
        "workflow": identity,
        "ref": revision,
        "principal": decimal,
        "checked_at": timestamp,
    },
    {
        "run_id": decimal,
        "run_attempt": one_of(1),
        "status": one_of("completed"),
        "conclusion": reason_code,
        "receipt": identity,
        "attempts": integer(1, 4096),
        "effects": one_of("none", "partial", "unknown"),
    },
)


def evidence(value: Any, where: str) -> None:
    """What a trusted observer says about a run."""
    evidence_shape(value, where)
    if ("run_id" in value) != ("run_attempt" in value):
        raise bad(where, "run_id and run_attempt come as a pair")


run = closed(
    {
        "run_id": decimal,
        "run_attempt": one_of(1),
        "repository": repository,
        "workflow": identity,
        "ref": revision,
        "principal": decimal,
        "event": one_of("workflow_dispatch", "host_dispatch"),
    }
)

replacement = closed(
    {
        "work_id": digest_hex,
        "disposition": one_of("idempotent", "compensated", "inspection"),
        "evidence": evidence,
    }
)
