"""Sixteen processes at one project: nothing but typed conflicts, nothing lost, all come on."""

from __future__ import annotations

import json
import subprocess
import sys

from tests.ambient import DEEP, ROOT
from tests.project.world import World

SECONDS = 30 if DEEP else 3
CONFLICTS = {"claim_held", "claim_not_holder", "revision_conflict"}


def test_many_processes_at_once(world: World) -> None:
    before = world.project.info().revision
    program = [sys.executable, "-m", "tests.project.contending", str(world.root)]
    processes = [
        subprocess.Popen(
            [*program, f"agent-{number}", str(number), str(SECONDS)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(16)
    ]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    told = []
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    for process in processes:
        output, _nothing = process.communicate()
        assert process.returncode == 0
        told.append(json.loads(output))
    done = [one["done"] for one in told]
    assert {code for one in told for code in one["refused"]} <= CONFLICTS
    assert world.project.info().revision == before + sum(done)
    # The least lucky one is not far behind the average.
    assert min(done) * 6 > sum(done) / len(done)
    check_history(world)


def check_history(world: World) -> None:
    """No work was ever held twice, by what the events say, and fences rose by one."""
    raw = world.raw()
    rows = raw.execute(
        "SELECT type, work, session, body FROM events WHERE type LIKE 'claim.%' ORDER BY seq"
    ).fetchall()
    raw.close()
    holder: dict[str, str] = {}
    fences: dict[str, int] = {}
    for type, work, session, body in rows:
        if type == "claim.acquired":
            assert work not in holder
            holder[work] = session
            fence = json.loads(body)["fence"]
            assert fence == fences.get(work, 0) + 1
            fences[work] = fence
        else:
            assert holder.pop(work) == session
    assert rows
    found = world.project.doctor.check().findings
    assert [one for one in found if one.severity == "error"] == []
