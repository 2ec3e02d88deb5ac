"""What git says of a remote is shown without what stands before the host in an address."""

from __future__ import annotations

import pytest

from callboard.board.storage.remote_refusals import without_secrets


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("fatal: unable to look up user:pw@127.0.0.1 (port 1)", "unable to look up 127.0.0.1"),
        ("fatal: unable to access 'https://user:p@w@host/x'", "access 'https://host/x'"),
        ("ssh: connect to host git@host port 22", "connect to host git@host port 22"),
    ],
)
def test_no_password_is_shown(said: str, shown: str) -> None:
    assert shown in without_secrets(said)
    assert "pw" not in without_secrets(said)
