"""A campaign is revised while its runs are at work: who wins a race, and what stays either way."""

from __future__ import annotations

import pytest

from callboard.board.protocol import operations as ops
from callboard.errors import CallboardError
from tests.system.draining import Command, slow
from tests.system.world import BOTH, World
from tests.waiting import until

FINISH = "callboard.board.publishing.lifecycle:finish"
VERIFY = "callboard.board.outputs.delivery:verify_delivery"


def hold(world: World, target: str) -> dict[str, str]:
    """A supervisor that waits before that step until the file `on` is there."""
    fault = world.fault(target, "before", role="supervisor")
    return {**fault, "action": "hold", "until": str(world.file("on"))}


def cancel(world: World, *work_ids: str) -> None:
    with world.open() as board:
        board.cancel([*work_ids], reason="superseded")


def try_to_cancel(world: World, work_id: str) -> str | None:
    """None where it is cancelled, else the code of the refusal."""
    try:
        cancel(world, work_id)
    except CallboardError as error:
        return error.code
    return None


def test_a_cancellation_before_the_completion_takes_its_effect(world: World) -> None:
    (work_id,) = world.submit({"key": "r1/a", "contract": BOTH})
    process = world.start("serve", workers=1, fault=hold(world, FINISH))
    world.wait_for(world.file("killed"))
    cancel(world, work_id)
    # The run may still deliver, so that its place is not free.
    assert len(world.history().projection.open_dispatches) == 1
    look = Command(world, "cutover", "check", "--graph", "g", "--old", "r1/", "--json")
    kinds = [one["kind"] for one in look.document(3)["violations"]]
    assert kinds == ["admission_open", "grants_open", "reservation"]
    world.file("on").touch()
    until(lambda: not world.history().projection.open_dispatches)
    process.terminate()
    world.finish(process)
    assert (world.works()["r1/a"].state, len(world.journal)) == ("cancelled", 1)
    world.check_settled()


def test_a_completion_before_the_cancellation_stands(world: World) -> None:
    (work_id,) = world.submit({"key": "r1/a", "contract": BOTH})
    # No dispatcher goes on that could settle it meanwhile.
    world.finish(world.start("dispatch", workers=1, fault=hold(world, VERIFY)))
    world.wait_for(world.file("killed"))
    with pytest.raises(CallboardError) as refused:
        cancel(world, work_id)
    assert refused.value.code == "work_closed"
    assert world.works()["r1/a"].barrier == "pending"
    world.file("on").touch()
    until(lambda: world.works()["r1/a"].barrier == "verified")
    world.check_settled()


def test_cancellations_and_completions_at_once_have_one_winner_each(world: World) -> None:
    ids = world.submit(*(slow(world, f"r1/{number}") for number in range(4)))
    process = world.start("serve", workers=4)
    for number in range(4):
        world.wait_for(world.file(f"r1-{number}-here"))
    world.file("go").touch()
    answers = {work_id: try_to_cancel(world, work_id) for work_id in ids}
    assert set(answers.values()) <= {None, "work_closed"}
    won = {work_id for work_id, code in answers.items() if code is None}
    until(lambda: all(state.is_settled for state in world.works().values()))
    until(lambda: not world.history().projection.open_dispatches)
    process.terminate()
    world.finish(process)
    completed = {one.work_id for one in world.operations() if isinstance(one, ops.Completion)}
    assert completed == set(ids) - won
    world.check_settled()


def test_a_strict_cutover_from_a_running_revision_to_the_next(world: World) -> None:
    ids = world.submit(slow(world, "r1/a"), {"key": "r1/b", "after": ["r1/a"], "contract": BOTH})
    process = world.start("serve", workers=1)
    world.wait_for(world.file("r1-a-here"))
    drain = Command(world, "drain", "--admission", "--reason", "cutover")
    drain.wait_for("waits for r1/a: running")
    check = ("cutover", "check", "--graph", "g", "--old", "r1/")
    said = Command(world, *check).end(3)
    assert said.startswith("cutover pending: graph g, keys r1/*: 3 things in its way\n")
    assert "of another machine" not in said
    cancel(world, ids[1])
    world.file("go").touch()
    drain.end(0)
    assert Command(world, *check).end(0).startswith("cutover complete: graph g, keys r1/*: 1 ")
    with world.open() as board:
        board.set_paused("admission", False, reason="cutover")
    world.submit({"key": "r2/b", "after": ["r1/a"], "contract": BOTH})
    # New nodes stand, and nothing is granted yet.
    assert Command(world, "drain", "--check", "--json").document(0)["drained"]
    with world.open() as board:
        board.set_paused("grants", False, reason="cutover")
    until(lambda: world.works()["r2/b"].barrier == "verified")
    process.terminate()
    world.finish(process)
    world.check_settled()
