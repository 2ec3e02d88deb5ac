"""Repository settings: `.callboard/config.toml`, read into typed values or refused by name.

Source: specification 1, §§7.1, 7.9; wire-v3 §10. Settings only propose a policy; the installed one
is authoritative, and nothing here can turn scheduling off or point at a particular Work.
"""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import UNSET, Meta, UnsetType

from callboard.board.protocol.policy import Mode, Record
from callboard.board.protocol.scalars import CountBound, FairnessKey, Identity, Weight
from callboard.board.publishing.names import name_faults
from callboard.board.publishing.toml_text import read_toml
from callboard.validate import Fault, faults_of, parse, pointer_step, refuse

CONFIG_PATH = ".callboard/config.toml"
MAX_CONFIG_BYTES = 262_144
DEFAULT_BRANCH = "work-queue"
MAX_KEYS = 1024

_DISABLING = ("enabled", "disabled", "disable", "scheduler", "scheduling", "advisory", "storage")
_SELECTING = ("work", "work_id", "works", "nodes", "select", "selector", "filter", "prefer")


class RetrySettings(Record, frozen=True, kw_only=True):
    """Attempts a Work gets, and the pause after each, in seconds."""

    max_attempts: Annotated[int, Meta(ge=1, le=16)] = 3
    backoff_seconds: Annotated[int, Meta(ge=1, le=3600)] = 30


class ReconciliationSettings(Record, frozen=True, kw_only=True):
    """How often and how long evidence that does not come is looked for, in attempts and seconds."""

    max_attempts: Annotated[int, Meta(ge=1, le=16)] = 5
    deadline_seconds: Annotated[int, Meta(ge=1, le=3600)] = 300


class PoolSettings(Record, frozen=True, kw_only=True):
    """One pool; settings left out follow the queue's."""

    concurrency: CountBound | UnsetType = UNSET
    per_account_limit: CountBound | UnsetType = UNSET
    workers: Annotated[list[Identity], Meta(min_length=1, max_length=256)] | UnsetType = UNSET
    default_worker: Identity | UnsetType = UNSET


class IssueSettings(Record, frozen=True, kw_only=True):
    """Mirror issues; they need a host that has issues."""

    label: Identity | UnsetType = UNSET


class QueueSettings(Record, frozen=True, kw_only=True):
    """The table `[work_queue]`; every key has the default of §7.1."""

    mode: Mode = "weighted-priority"
    concurrency: CountBound = 16
    pending_limit: CountBound = 4096
    accounting_weights: (
        Annotated[dict[FairnessKey, Weight], Meta(min_length=1, max_length=1024)] | UnsetType
    ) = UNSET
    retry: RetrySettings = RetrySettings()
    reconciliation: ReconciliationSettings = ReconciliationSettings()
    issues: bool | IssueSettings = False
    pools: (
        Annotated[dict[Identity, PoolSettings], Meta(min_length=1, max_length=64)] | UnsetType
    ) = UNSET


class BoardSettings(Record, frozen=True, kw_only=True):
    """The table `[board]`: where the board lives, and what happens to it by itself.

    `remote` names the remote whose branch it is; without it the branch is the repository's own. A
    call to the remote is stopped after `remote_timeout_seconds`. `follow_head`: workers follow
    HEAD (§7.10). From `checkpoint_percent` of the policy's `ledger_bytes` on, a `run` compacts the
    log; 0 is never.
    """

    branch: Identity = DEFAULT_BRANCH
    remote: Identity | UnsetType = UNSET
    remote_timeout_seconds: Annotated[int, Meta(ge=1, le=3600)] = 60
    follow_head: bool = True
    checkpoint_percent: Annotated[int, Meta(ge=0, le=100)] = 18


class Settings(Record, frozen=True, kw_only=True):
    """The whole file."""

    board: BoardSettings = BoardSettings()
    work_queue: QueueSettings = QueueSettings()


def read_settings(data: bytes | None) -> Settings:
    """The settings in `data`; a missing file, table or key gives its default.

    Raises `CallboardError` `config_invalid` with one entry a faulty property.
    """
    if data is None:
        return Settings()
    value = _toml(data)
    faults = _refused_by_name(value)
    named = {fault.pointer for fault in faults}
    faults.extend(fault for fault in faults_of(Settings, value) if fault.pointer not in named)
    queue = value.get("work_queue")
    if isinstance(queue, dict):
        faults.extend(_queue_faults(queue))
    if faults:
        raise refuse(
            "config_invalid", CONFIG_PATH, faults, "correct the setting and commit the file"
        )
    return parse(Settings, value, what=CONFIG_PATH, code="config_invalid")


def read_board_settings(data: bytes | None) -> BoardSettings:
    """Only the table `[board]`: a fault elsewhere must not keep anybody from the board."""
    value = {} if data is None else _toml(data).get("board", {})
    return parse(BoardSettings, value, what=f"{CONFIG_PATH} [board]", code="config_invalid")


def _toml(data: bytes) -> dict[str, Any]:
    return read_toml(data, path=CONFIG_PATH, code="config_invalid", limit_bytes=MAX_CONFIG_BYTES)


def _refused_by_name(value: dict[str, object]) -> list[Fault]:
    """Settings that would take scheduling away, or aim it, are refused with their reason."""
    faults: list[Fault] = []
    queue = value.get("work_queue")
    for table, place in ((value, ""), (queue, "/work_queue")):
        if not isinstance(table, dict):
            continue
        for name in table:
            if name in _DISABLING:
                faults.append(Fault(f"{place}/{name}", "scheduling cannot be switched off"))
            elif name in _SELECTING:
                faults.append(Fault(f"{place}/{name}", "a setting cannot pick a particular Work"))
    return faults


def _queue_faults(queue: dict[str, object]) -> list[Fault]:
    faults: list[Fault] = []
    weights = queue.get("accounting_weights")
    if isinstance(weights, dict) and weights.get("", 1) != 1:
        faults.append(
            Fault("/work_queue/accounting_weights/", "the default key always has weight 1")
        )
    if isinstance(weights, dict) and len({"", *weights}) > MAX_KEYS:
        faults.append(
            Fault(
                "/work_queue/accounting_weights",
                f"{len({'', *weights})} keys with the default one, at most {MAX_KEYS} are allowed",
            )
        )
    pools = queue.get("pools")
    if isinstance(pools, dict):
        for name in pools:
            faults.extend(name_faults(str(name), "/work_queue/pools" + pointer_step(name)))
    return faults
