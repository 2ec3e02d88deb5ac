"""Settings: defaults, and every fault by its name."""

from __future__ import annotations

import pytest

from callboard.board.publishing.config import Settings, read_settings
from callboard.errors import CallboardError


def faults(text: str | bytes) -> dict[str, str]:
    with pytest.raises(CallboardError) as caught:
        read_settings(text.encode() if isinstance(text, str) else text)
    assert caught.value.code == "config_invalid"
    found = caught.value.details.get("faults", [])
    assert isinstance(found, list)
    return {fault["pointer"]: fault["message"] for fault in found}


@pytest.mark.parametrize("data", [None, b"", b"[work_queue]\n", b"[board]\n", b"# nothing\n"])
def test_what_is_missing_takes_its_default(data: bytes | None) -> None:
    settings = read_settings(data)
    assert settings == Settings()
    queue = settings.work_queue
    assert (queue.mode, queue.concurrency, queue.pending_limit) == ("weighted-priority", 16, 4096)
    assert (queue.retry.max_attempts, queue.retry.backoff_seconds) == (3, 30)
    looks = queue.reconciliation
    assert (looks.max_attempts, looks.deadline_seconds) == (5, 300)
    assert settings.board.branch == "work-queue"


def test_every_setting_is_read() -> None:
    settings = read_settings(
        b"""
        [board]
        branch = "queue"
        [work_queue]
        mode = "strict-priority"
        concurrency = 8
        pending_limit = 30
        accounting_weights = {"" = 1, "project-a" = 2}
        retry = {max_attempts = 2, backoff_seconds = 5}
        reconciliation = {max_attempts = 16, deadline_seconds = 3600}
        issues = {label = "work"}
        [work_queue.pools.default]
        per_account_limit = 2
        workers = ["default"]
        default_worker = "default"
        """
    )
    assert settings.board.branch == "queue"
    looks = settings.work_queue.reconciliation
    assert (looks.max_attempts, looks.deadline_seconds) == (16, 3600)
    assert settings.work_queue.accounting_weights == {"": 1, "project-a": 2}


@pytest.mark.parametrize(
    ("text", "pointer", "message"),
    [
        ("[work_queue]\nconcurency = 1", "/work_queue/concurency", "did you mean 'concurrency'"),
        ("[work_queu]", "/work_queu", "did you mean 'work_queue'"),
        ("[work_queue]\nconcurrency = true", "/work_queue/concurrency", "true is not an integer"),
        ("[work_queue]\nconcurrency = 4097", "/work_queue/concurrency", "4097 is outside"),
        ("[work_queue.retry]\nmax_attempts = 17", "/work_queue/retry/max_attempts", "17"),
        ("[work_queue.retry]\nbackoff_seconds = 1.5", "/work_queue/retry/backoff_seconds", "1.5"),
        (
            "[work_queue.reconciliation]\nmax_attempts = 0",
            "/work_queue/reconciliation/max_attempts",
            "0 is outside",
        ),
        (
            "[work_queue.reconciliation]\ndeadline_seconds = 3601",
            "/work_queue/reconciliation/deadline_seconds",
            "3601 is outside",
        ),
        (
            "[work_queue.reconciliation]\ndeadline_ms = 1",
            "/work_queue/reconciliation/deadline_ms",
            "did you mean 'deadline_seconds'",
        ),
        ("[work_queue]\nreconcilation = {}", "/work_queue/reconcilation", "'reconciliation'"),
        ("[work_queue]\nscheduler = false", "/work_queue/scheduler", "cannot be switched off"),
        ("enabled = false", "/enabled", "cannot be switched off"),
        ("[work_queue]\nfilter = 'x'", "/work_queue/filter", "cannot pick"),
        (
            "[work_queue.accounting_weights]\na = 0",
            "/work_queue/accounting_weights/a",
            "0 is outside",
        ),
        ("[work_queue.accounting_weights]\n'' = 3", "/work_queue/accounting_weights/", "weight 1"),
        ("[work_queue.pools.'a..b']", "/work_queue/pools/a..b", "'..'"),
        ("[work_queue.pools.'-a']", "/work_queue/pools/-a", "starts with '-'"),
        ("work_queue = 3", "/work_queue", "3 is not an object"),
    ],
)
def test_a_bad_setting_is_named_with_what_was_found(text: str, pointer: str, message: str) -> None:
    assert message in faults(text)[pointer]


def test_all_bad_settings_are_named_at_once() -> None:
    text = "[work_queue]\nmode = 'x'\nconcurrency = 0\nenabled = false\n"
    assert set(faults(text)) == {
        "/work_queue/mode",
        "/work_queue/concurrency",
        "/work_queue/enabled",
    }


@pytest.mark.parametrize("data", [b"[", b"a = 1\na = 2\n", b"\xff", b"a = " + b"[" * 3000])
def test_what_is_no_toml_is_refused(data: bytes) -> None:
    faults(data)


def test_a_large_file_is_not_parsed() -> None:
    with pytest.raises(CallboardError) as caught:
        read_settings(b"#" * 262_145)
    assert caught.value.code == "resource_limit"
