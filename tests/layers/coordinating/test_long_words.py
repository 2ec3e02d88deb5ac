"""What agents say at the greatest length that a file may have: it stops no layer."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.layers.machine import Machine

MOST = 1024 * 1024


@pytest.mark.parametrize("short", [0, 1, 300, 700, 1500])
def test_a_control_of_the_greatest_length_ends_its_layer_and_its_parent_goes_on(
    tmp_path: Path, short: int
) -> None:
    machine = Machine(tmp_path)
    child = machine.descend()
    identity = child.document["identity"]
    value = {
        "schema_version": 2, "control_id": "c", "state": "stopped", "stop_reason": "goal_met",
        "producer": {name: identity[name] for name in ("session_id", "role", "attempt_id")},
        "created_at_ms": 1, "eval_receipt_ref": machine.pass_checks(child), "summary": "",
    }  # fmt: skip
    room = MOST - short - len(json.dumps(value))
    value["summary"] = "\U0001f600" * (room // 4) + "x" * (room % 4)
    said = json.dumps(value, ensure_ascii=False).encode()
    assert len(said) == MOST - short
    child.path("control").write_bytes(said)
    state = machine.end()
    assert (state.status, state.stop_detail) == ("goal_met", "\U0001f600" * 4000)
    # Nothing of it is lost.
    assert (child.path("attempt_root") / "control.json").read_bytes() == said
    assert machine.begin().layer.session.depth == 0
    ((outcome, _),) = machine.layers.outcomes()
    assert outcome.stop_reason == "goal_met"
    assert machine.layers.check() == ()
