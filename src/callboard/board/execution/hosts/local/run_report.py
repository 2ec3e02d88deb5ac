"""A run's report, read back for people: how its commands ended, what became of each Claim.

It is written by the supervisor into the run's folder and is no evidence: whatever is missing,
damaged or of another shape is left out, and nothing is ever decided by it.
"""

from __future__ import annotations

from typing import Any

from callboard import canonical, files
from callboard.board.execution.hosts.local.run_folder import RunFolder
from callboard.errors import CallboardError

MAX_REPORT_BYTES = 4 * 1024 * 1024
_MAX_TEXT = 1_000
_MAX_REFUSALS = 32
_CLAIM_TEXTS = ("outcome", "reason", "detail", "published")
_REFUSAL_TEXTS = ("code", "message", "hint")
_COMMAND_TEXTS = ("command", "ended", "program")
_COMMAND_NUMBERS = ("exit_code", "signal", "duration_ms")


def read_report(folder: RunFolder) -> dict[str, Any] | None:
    """The report in a run's folder; None where there is none that can be read."""
    try:
        data = files.read_bounded(folder.report, MAX_REPORT_BYTES, what="report")
        report = canonical.decode(data, limit_bytes=MAX_REPORT_BYTES)
    except CallboardError:
        return None
    return report if isinstance(report, dict) else None


def claim_ending(report: dict[str, Any], claim_id: str) -> dict[str, Any]:
    """How one Claim of the run ended, as far as the report says.

    `{conclusion, trouble, outcome, reason, detail, published, delivery, command, program, ended,
    exit_code, signal, start_error, duration_ms}`, each only where it is known; the last command
    counts. `delivery` is what stood against publishing its outputs, `{code, message, hint}`.
    """
    found = _texts(report, ("conclusion", "trouble"))
    claim = _claim(report, claim_id)
    found |= _texts(claim, _CLAIM_TEXTS)
    if isinstance(trouble := claim.get("trouble"), dict):
        found["delivery"] = _texts(trouble, _REFUSAL_TEXTS)
    commands = _objects(report.get("commands"))
    if commands:
        last = commands[-1]
        found |= _texts(last, _COMMAND_TEXTS)
        found |= {name: last[name] for name in _COMMAND_NUMBERS if type(last.get(name)) is int}
        if isinstance(last.get("reason"), str):
            found["start_error"] = last["reason"][:_MAX_TEXT]
    return found


def claim_refusals(report: dict[str, Any], claim_id: str) -> list[dict[str, Any]]:
    """What a run staged for a Claim, or for none, and the board did not take.

    At most 32 of `{code, count, message, hint, of_claim}` in the order of the report, those of the
    Claim first: one for each code, with the words of the first that had it.
    """
    found: dict[tuple[bool, str], dict[str, Any]] = {}
    for of_claim, listed in (
        (True, _claim(report, claim_id).get("refusals")),
        (False, report.get("unattributed")),
    ):
        for one in _objects(listed):
            texts = _texts(one, _REFUSAL_TEXTS)
            if "code" in texts:
                new = {**texts, "count": 0, "of_claim": of_claim}
                found.setdefault((of_claim, texts["code"]), new)["count"] += 1
    return list(found.values())[:_MAX_REFUSALS]


def _claim(report: dict[str, Any], claim_id: str) -> dict[str, Any]:
    claims = _objects(report.get("claims"))
    return next((one for one in claims if one.get("claim_id") == claim_id), {})


def _objects(value: Any) -> list[dict[str, Any]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _texts(value: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {
        name: text[:_MAX_TEXT]
        for name in names
        if isinstance(text := value.get(name), str) and text
    }
