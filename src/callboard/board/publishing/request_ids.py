"""Request ids: drawn for whoever gives none, judged where one is given; and reasons, judged.

Source: specification 1, §7.7. An id is what makes a change idempotent; what it stands for is the
ledger's to say.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Container

from callboard.board.protocol.scalars import ReasonCode
from callboard.board.publishing.names import name_faults
from callboard.errors import CallboardError
from callboard.validate import faults_of, refuse, show


def new_request_id() -> str:
    """A fresh request id: `r_` and 128 random bits in hex."""
    return "r_" + secrets.token_hex(16)


def checked_request_id(given: str | None) -> str:
    """The id given, or a fresh one. Raises `request_id_invalid`."""
    if given is None:
        return new_request_id()
    faults = name_faults(given, "/request_id")
    if faults:
        raise refuse("request_id_invalid", "request id", faults, "give a plain name")
    return given


def numbered(stem: str, standing: Callable[[], Container[str]]) -> Callable[[], str]:
    """What answers, each time, the first of `<stem>.1`, `.2` and so on that does not stand yet."""
    number = 1

    def name() -> str:
        nonlocal number
        known = standing()
        # What stands once stands for good, so that none is looked at twice.
        while f"{stem}.{number}" in known:
            number += 1
        return f"{stem}.{number}"

    return name


def check_reason(reason: str) -> None:
    """Refuse with `reason_invalid` what is no reason code."""
    if faults_of(ReasonCode, reason):
        raise CallboardError(
            "reason_invalid",
            f"{show(reason)} is no reason code",
            "1 to 128 letters, digits, '_', '.', ':' and '-', such as not_needed",
        )
