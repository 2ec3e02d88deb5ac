"""The list of ended members in a run's folder: written, read back, refused if it is another one."""

from __future__ import annotations

from pathlib import Path

import pytest

from callboard.board.outputs.closed import (
    MAX_CLOSED_BYTES,
    ClosedClaim,
    ClosedClaims,
    closed_bytes,
    read_closed,
)
from callboard.errors import CallboardError
from tests.board.outputs import scene

TWO = scene.assignment(scene.BOTH, scene.BOTH)
SECOND = ClosedClaim(
    handle="h2",
    claim_id=TWO.claims[1].claim_id,
    work_id=TWO.claims[1].work_id,
    state="cancelled",
    reason="not_needed",
)


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    path = tmp_path / "claims.json"
    path.write_bytes(closed_bytes(ClosedClaims(closed=[SECOND])))
    found = read_closed(path)
    assert found.closed == [SECOND]
    assert (found.of("h1"), found.of("h2")) == (None, SECOND)
    assert found.open_members(TWO) == [TWO.claims[0]]
    assert SECOND.text() == "h2 was cancelled before this run began (not_needed)"


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"[]", "claims_invalid"),
        (b"{}", "claims_invalid"),
        (b'{"closed":[{"handle":"h1"}]}', "claims_invalid"),
        (b'{"closed":[],"more":1}', "claims_invalid"),
        (b"{", "invalid_json"),
        (b" " * (MAX_CLOSED_BYTES + 1), "claims_invalid"),
    ],
)
def test_anything_else_is_refused(tmp_path: Path, data: bytes, code: str) -> None:
    path = tmp_path / "claims.json"
    path.write_bytes(data)
    with pytest.raises(CallboardError) as refusal:
        read_closed(path)
    assert refusal.value.code == code
    with pytest.raises(CallboardError) as refusal:
        read_closed(tmp_path / "none")
    assert refusal.value.code == "file_missing"
