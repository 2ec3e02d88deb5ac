"""Several Claims in one run: each answers for itself, whatever becomes of its siblings."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from callboard.board.protocol import operations as ops
from tests.repositories import git
from tests.system.world import World, make_world, recipe

# One agent a Claim, side by side, each with a script of its own from its payload.
CREW = r"""
set -u
python3 - "$CALLBOARD_ASSIGNMENT" <<'END' > crew
import json, shlex, sys
for claim in json.load(open(sys.argv[1]))["claims"]:
    print(claim["handle"], shlex.quote(claim["work"]["agent"]))
END
while read -r handle agent; do
  eval "agent=$agent"
  HANDLE=$handle sh -c "$agent" &
done < crew
wait
"""
DELIVERS = {"artifact": {"min": 0, "max": 4}, "patch": {"min": 0, "max": 1}, "note": 1}
STAGE = (
    "mkdir -p work/$HANDLE && echo by $HANDLE > work/$HANDLE/out.txt && "
    "callboard worker artifact work/$HANDLE/out.txt --claim $HANDLE && "
    "callboard worker patch work/$HANDLE --claim $HANDLE && "
    "callboard worker note from-$HANDLE --claim $HANDLE"
)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """A board whose worker takes up to four tasks a run, and starts an agent for each."""
    # What one agent waits for and another one says goes through a pipe that both can find.
    setup = ["sh", "-c", 'mkfifo "$TMPDIR/go"']
    crew = recipe(["sh", "-c", CREW], outputs=[*DELIVERS, "submit"], max_claims=4, setup=setup)
    config = "[work_queue]\nretry = {max_attempts = 1, backoff_seconds = 1}\n"
    made = make_world(tmp_path / "world", recipes={"default": crew}, config=config)
    yield made
    made.end()


def node(key: str, agent: str, contract: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"key": key, "payload": {"agent": agent}, "contract": contract or DELIVERS}


def run_batch(world: World, *nodes: dict[str, Any]) -> dict[str, Any]:
    """Run them in one run; answers its report's claims by handle."""
    world.submit(*nodes)
    world.run()
    (row,) = world.rows()
    report = json.loads((world.folders.state / "runs" / row.run_id / "report.json").read_text())
    assert len(report["claims"]) == len(nodes)
    return {one["claim_handle"]: one for one in report["claims"]}


def delivered(world: World) -> dict[str, str]:
    """Every ref of an output, with what it holds for people."""
    refs = git("for-each-ref", "--format=%(refname)", cwd=world.path).split()
    found = {}
    for ref in refs:
        if ref.startswith(("refs/callboard/artifacts/", "refs/callboard/notes/")):
            found[ref] = git("cat-file", "blob", ref, cwd=world.path)
        elif ref.startswith("refs/heads/callboard/"):
            found[ref] = git("diff", "--name-only", f"{ref}~", ref, cwd=world.path)
    return found


def test_one_completes_one_crashes_one_is_never_finished(world: World) -> None:
    claims = run_batch(
        world,
        node("done", f"callboard worker exec --claim $HANDLE -- sh -ec '{STAGE}'"),
        node("crashed", f"callboard worker exec --claim $HANDLE -- sh -ec '{STAGE}; kill -9 $$'"),
        node("silent", STAGE),
    )
    assert {handle: one["outcome"] for handle, one in claims.items()} == {
        "h1": "completed",
        "h2": "cancelled",
        "h3": "cancelled",
    }
    assert (claims["h2"]["reason"], claims["h3"]["reason"]) == ("worker_cancelled", "no_finish")
    assert [len(claims[one]["suppressed"]) for one in ("h1", "h2", "h3")] == [0, 3, 3]
    found = delivered(world)
    assert sorted(found.values()) == ["by h1", "from-h1", "work/h1/out.txt"]
    works = world.works()
    claim_id = str(works["done"].claim_id)
    assert all(claim_id in ref for ref in found if ref.startswith("refs/callboard/"))
    assert (works["done"].barrier, works["crashed"].barrier, works["silent"].barrier) == (
        "verified",
        "none",
        "none",
    )
    operations = world.operations()
    assert len([one for one in operations if isinstance(one, ops.Completion)]) == 1
    assert len([one for one in operations if isinstance(one, ops.Result)]) == 1
    assert len([one for one in operations if isinstance(one, ops.ClaimCancellation)]) == 2
    assert len([one for one in operations if isinstance(one, ops.Release)]) == 1


def test_a_sibling_lends_nothing(world: World) -> None:
    """An agent that speaks for others: their own word counts, each message for whom it names."""
    nosy = (
        "callboard worker artifact README --name mine --claim $HANDLE; "
        "callboard worker artifact README --name theirs --claim h2; "
        "callboard worker artifact README --name nobodys; "
        "callboard worker artifact README --name strangers --claim h9; "
        "callboard worker finish completed --claim $HANDLE"
    )
    contract = {"artifact": {"min": 0, "max": 4}}
    claims = run_batch(
        world,
        node("nosy", nosy, contract),
        node("given-up", "callboard worker finish cancelled --claim $HANDLE", contract),
    )
    assert [one["name"] for one in claims["h1"]["outputs"]] == ["mine"]
    assert [one["name"] for one in claims["h2"]["suppressed"]] == ["theirs"]
    assert list(delivered(world).values()) == ["the user's own"]
    assert next(iter(delivered(world))).endswith("/mine")


def test_a_minimum_is_each_claims_own(world: World) -> None:
    """What one delivers makes up for nothing that another lacks."""
    two = "callboard worker note one --claim $HANDLE; callboard worker note two --claim $HANDLE"
    end = "callboard worker finish completed --claim $HANDLE"
    claims = run_batch(
        world,
        node("rich", f"{two}; {end}", {"note": {"min": 1, "max": 2}}),
        node("poor", end, {"note": {"min": 1, "max": 2}}),
    )
    assert claims["h1"]["outcome"] == "completed"
    assert (claims["h2"]["outcome"], claims["h2"]["reason"]) == ("cancelled", "output_missing")
    assert claims["h2"]["detail"] == "0 of 1 note outputs are there"
    assert sorted(delivered(world).values()) == ["one", "two"]


def test_mixed_outcomes_release_only_what_they_fulfil(world: World) -> None:
    done = "callboard worker finish completed --claim $HANDLE"
    lost = "callboard worker finish cancelled --claim $HANDLE"
    none: dict[str, Any] = {"kind": "none"}
    world.submit(
        node("a", done, none),
        node("b", lost, none),
        node("c", done, none),
        {**node("join", done, none), "after": ["a", "c"]},
        {**node("waits", done, none), "after": ["b"]},
    )
    world.run()
    barriers = {key: state.barrier for key, state in world.works().items()}
    assert barriers == {
        "a": "verified", "b": "none", "c": "verified", "join": "verified", "waits": "none",
    }  # fmt: skip
    assert world.works()["b"].state == "cancelled"
    assert len(world.rows()) == 2


def test_the_work_tree_is_shared_and_each_patch_is_told_apart(world: World) -> None:
    mine = (
        "mkdir -p $HANDLE && echo $HANDLE > $HANDLE/file && "
        "callboard worker patch $HANDLE --claim $HANDLE && "
        "callboard worker finish completed --claim $HANDLE"
    )
    first = f'{mine}; echo > "$TMPDIR/go"'
    greedy = (
        'read -r _ < "$TMPDIR/go"; '
        "callboard worker patch --claim $HANDLE; callboard worker patch h1 --claim $HANDLE; "
        "callboard worker patch h1/file --claim $HANDLE; "
        "callboard worker finish completed --claim $HANDLE"
    )
    patch = {"patch": {"min": 0, "max": 1}}
    claims = run_batch(
        world, node("one", first, patch), node("two", mine, patch), node("greedy", greedy, patch)
    )
    assert [one["outcome"] for one in claims.values()] == ["completed"] * 3
    assert claims["h3"]["outputs"] == []
    found = sorted(delivered(world).values())
    assert found == ["h1/file", "h2/file"]


def test_a_plan_names_no_node_that_only_a_sibling_has_staged(world: World) -> None:
    """Keys of plans that are staged and not posted are the names that messages give each other."""
    plan = '{"graph": "kids", "nodes": [{"key": "%s", "payload": {"agent": "%s"}%s}]}'
    end = "callboard worker finish completed --claim $HANDLE"
    one = plan % ("one", "true", "")
    two = plan % ("two", "true", ', "after": ["one"]')
    stage = "echo '%s' | callboard worker submit - --claim $HANDLE"
    submit = {"submit": {"min": 0, "max": 2}}
    lender = f"{stage % one}; callboard worker finish cancelled --claim $HANDLE"
    claims = run_batch(
        world,
        node("lender", lender, submit),
        node("borrower", f"{stage % two}; {end}", submit),
    )
    assert [one["type"] for one in claims["h1"]["suppressed"]] == ["submit"]
    borrower = claims["h2"]
    assert (borrower["outcome"], borrower["reason"]) == ("cancelled", "output_failed")
    (refusal,) = borrower["refusals"]
    assert refusal["code"] == "plan_invalid"
    assert "no node 'one' in this plan or graph" in refusal["message"] + str(refusal["details"])
    assert sorted(world.works()) == ["borrower", "lender"]
