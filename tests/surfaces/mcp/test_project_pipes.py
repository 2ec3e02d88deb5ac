"""A project's server at the ends of its pipes: what was asked is answered, and told in words."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.ambient import ROOT
from tests.surfaces.mcp.test_process import HELLO, READY, call, lines
from tests.surfaces.project.shared import Shared


@pytest.fixture
def shared(tmp_path: Path) -> Shared:
    return Shared(tmp_path / "demo").begin()


def exchange(shared: Shared, *messages: Any) -> list[Any]:
    """What the server answers to all that is piped in at once."""
    done = subprocess.run(
        [sys.executable, "-m", "callboard", "mcp", "project", "--repo", str(shared.folder)],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        input=lines(*messages),
        capture_output=True,
        timeout=120,
        check=True,
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_what_was_asked_before_the_end_is_answered(shared: Shared) -> None:
    # More than can be answered in the moment in which a server might give up.
    asked = [call(number, "project_status") for number in range(2, 122)]
    answers = exchange(shared, HELLO, READY, *asked)
    assert [one["id"] for one in answers] == list(range(1, 122))
    assert [one for one in answers if "error" in one] == []
    assert answers[-1]["result"]["structuredContent"]["project"]["key"] == "demo"


def test_who_asks_before_the_handshake_is_told_of_it(shared: Shared) -> None:
    (answer,) = exchange(shared, call(7, "project_status"))
    assert answer["id"] == 7
    assert answer["error"]["code"] == -32602
    assert "send `initialize` first" in answer["error"]["message"]
