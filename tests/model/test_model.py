"""The reference model against facts it did not choose itself.

Published vectors are used where they are at hand; the same facts stand here as literals, so that
nothing is skipped without them.
"""

import json
import os
import random
from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from .admission import definition
from .budget import reserve, work_reserve
from .canon import Doc, Refused, commit_identity, size, text_digest
from .clocks import by_bytes, by_number, fresh_clock, pick, shown
from .desk import Desk, plain_policy
from .history import random_history
from .model import Board
from .mutations import mutations
from .writing import evidence, person, reseal, seal, work

DEFAULT_VECTORS = Path(__file__).resolve().parents[3] / "shared" / "vectors"
VECTORS = Path(os.environ.get("CALLBOARD_VECTORS", str(DEFAULT_VECTORS)))
SEEDS = range(24)


def published(name: str) -> Any:
    """A vector file, or None where there is none."""
    path = VECTORS / name
    return json.loads(path.read_text("utf-8")) if path.is_file() else None


# Shares


def serve(weights: dict[Any, int], times: int, clock: Any = None) -> tuple[Counter[Any], Any]:
    """Count the winners while everybody stays eligible."""
    clock = clock or fresh_clock()
    order = by_number if isinstance(next(iter(weights)), int) else by_bytes
    counts: Counter[Any] = Counter()
    for _ in range(times):
        winner, clock = pick(clock, weights, list(weights), order)
        counts[winner] += 1
    return counts, clock


def test_keys_share_by_weight() -> None:
    counts, _ = serve({"a": 5, "b": 3, "c": 2}, 10_000)
    assert counts == {"a": 5000, "b": 3000, "c": 2000}


def test_classes_share_by_weight_and_split_within() -> None:
    classes, keys = {1: 8, 2: 4, 3: 2, 4: 1, 5: 1}, {"a": 5, "b": 3, "c": 2}
    counts: Counter[int] = Counter()
    inside: Counter[str] = Counter()
    outer, inner = fresh_clock(), fresh_clock()
    for _ in range(16_000):
        level, outer = pick(outer, classes, list(classes), by_number)
        counts[level] += 1
        if level == 3:
            key, inner = pick(inner, keys, list(keys), by_bytes)
            inside[key] += 1
    assert counts == {1: 8000, 2: 4000, 3: 2000, 4: 1000, 5: 1000}
    assert inside == {"a": 1000, "b": 600, "c": 400}


def test_every_ten_grants_are_fair_and_no_prefix_strays_far() -> None:
    weights = {"a": 5, "b": 3, "c": 2}
    clock = fresh_clock()
    counts: Counter[str] = Counter()
    for done in range(1, 201):
        winner, clock = pick(clock, weights, list(weights), by_bytes)
        counts[winner] += 1
        for key, weight in weights.items():
            assert abs(counts[key] - Fraction(done * weight, 10)) < 3
        if done % 10 == 0:
            assert counts == {key: done * weight // 10 for key, weight in weights.items()}


@pytest.mark.parametrize("known", [False, True])
def test_newcomer_and_returner_alternate_without_catching_up(known: bool) -> None:
    weights = {"old": 1, "late": 1}
    clock = fresh_clock()
    if known:
        _, clock = pick(clock, weights, ["late"], by_bytes)
    for _ in range(1000):
        _, clock = pick(clock, weights, ["old"], by_bytes)
    winners = []
    for _ in range(8):
        winner, clock = pick(clock, weights, ["old", "late"], by_bytes)
        winners.append(winner)
    assert winners in (["late", "old"] * 4, ["old", "late"] * 4)


def test_a_clock_can_be_put_down_and_taken_up_again() -> None:
    weights = {"a": 5, "b": 3, "c": 2}
    _, clock = serve(weights, 17)
    straight, _ = serve(weights, 100, clock)
    again, _ = serve(weights, 100, {name: clock[name] for name in ("v", "pass", "active")})
    assert straight == again


def test_an_empty_set_moves_nothing() -> None:
    _, clock = serve({"a": 1}, 3)
    assert pick(clock, {"a": 1}, [], by_bytes) == (None, clock)


def test_ties_go_by_number_and_by_bytes() -> None:
    assert pick(fresh_clock(), {10: 1, 9: 1}, [10, 9], by_number)[0] == 9
    names = {"\uffff": 1, "\U00010000": 1, "z": 1}
    assert pick(fresh_clock(), names, list(names)[:2], by_bytes)[0] == "\uffff"


def test_ticks_use_all_configured_weights() -> None:
    _, clock = pick(fresh_clock(), {"": 1, "a": 2, "b": 3}, ["a"], by_bytes)
    assert shown(clock, [1, 2, 3]) == {"v": "3", "pass": {"a": "6"}, "active": {"a": True}}


# Selection

CLASSES = [8, 4, 2, 1, 1]


def case(nodes: list[tuple[str, int, str, str]], expected: str, **fields: Any) -> Doc:
    """A selection case: nodes are (key, priority, account, profile) in order of acceptance."""
    made: Doc = {
        "mode": "weighted-priority",
        "class_weights": CLASSES,
        "accounting_weights": {"": 1},
        "max_claims": len(expected.split()),
        "max_dispatches": 1,
        "profile_max": 16,
        "share_keys": False,
        "reason": "claim_budget_reached",
    }
    made["nodes"] = [
        {"key": key, "priority": level, "account": account, "profile": profile, "enqueued": 99 - at}
        for at, (key, level, account, profile) in enumerate(nodes)
    ]
    made["expected"] = expected.split()
    made.update(fields)
    return made


OWN_SELECTION = [
    case(
        [("a", 3, "", "default"), ("b", 3, "", "default"), ("c", 3, "", "default")],
        "a b c",
        max_dispatches=3,
        profile_max=1,
    ),
    case(
        [("x1", 3, "", "x"), ("y1", 3, "", "y"), ("x2", 3, "", "x")],
        "x1",
        max_claims=3,
        reason="dispatch_budget_blocked",
    ),
    case(
        [("c1", 3, "", "w"), ("a1", 1, "", "w"), ("a2", 1, "", "w"), ("e1", 5, "", "w")],
        "a1 a2 c1 e1",
        mode="strict-priority",
    ),
    case(
        [(f"{key}{n}", 3, key, "w") for n in range(1, 5) for key in ("a", "b")],
        "a1 a2 b1 a3 a4 b2",
        accounting_weights={"": 1, "a": 2, "b": 1},
        share_keys=True,
    ),
    case(
        [(f"p{level}{c}", level, "", "w") for level in range(1, 6) for c in "abcdefghi"],
        "p1a p1b p2a p1c p1d p2b p3a p1e p1f p2c p1g p1h p2d p3b p4a p5a",
    ),
]


@pytest.mark.parametrize("facts", [*OWN_SELECTION, *(published("selection.json") or [])])
def test_selection(facts: Doc) -> None:
    profiles = {
        node["profile"]: {"max_claims": facts["profile_max"], "share_keys": facts["share_keys"]}
        for node in facts["nodes"]
    }
    policy = plain_policy(
        profiles,
        mode=facts["mode"],
        class_weights=facts["class_weights"],
        accounting_weights=facts["accounting_weights"],
    )
    nodes = [
        work(
            policy,
            "graph",
            node["key"],
            "default",
            node["enqueued"],
            priority=node["priority"],
            fairness_key=node["account"],
            worker_profile=node["profile"],
        )
        for node in facts["nodes"]
    ]
    desk = Desk(policy, nodes)
    budget = {"max_claims": facts["max_claims"], "max_dispatches": facts["max_dispatches"]}
    found = desk.grant(1000, **budget)
    keys = {node["work_id"]: node["node_key"] for node in nodes}
    assert [keys[op["work_id"]] for op in found["operations"]] == facts["expected"]
    assert found["reason"] == facts["reason"]
    assert found["operations"][0]["claim_id"] == f"c_{text_digest('r2')}_1"


# Delivery

OWN_DELIVERY: list[Doc] = [
    {"at": 303999, "attempts": 0, "disposition": "unknown", "expected": "reconciliation_pending"},
    {"at": 303999, "attempts": 4, "disposition": "unknown", "expected": "reconciliation_pending"},
    {"at": 4000, "attempts": 5, "disposition": "unknown", "expected": "allowed"},
    {"at": 304000, "attempts": 0, "disposition": "unknown", "expected": "allowed"},
    {"at": 304001, "disposition": "partial", "effects": "partial", "expected": "allowed"},
    {"at": 304000, "disposition": "none", "effects": "none", "expected": "evidence_invalid"},
    {"at": 304000, "disposition": "partial", "expected": "evidence_invalid"},
    {
        "at": 304000,
        "disposition": "none",
        "effects": "none",
        "receipt": "never-began",
        "expected": "allowed",
    },
    {
        "at": 304000,
        "disposition": "none",
        "effects": "unknown",
        "receipt": "of-something",
        "expected": "evidence_invalid",
    },
    {
        "at": 303999,
        "attempts": 4,
        "disposition": "none",
        "effects": "none",
        "receipt": "never-began",
        "expected": "reconciliation_pending",
    },
]
PUBLISHED_DELIVERY = published("delivery-deadlines.json") or {"cases": []}


@pytest.mark.parametrize("facts", [*OWN_DELIVERY, *PUBLISHED_DELIVERY["cases"]])
def test_delivery_deadlines(facts: Doc) -> None:
    policy = plain_policy()
    desk = Desk(policy, [work(policy, "g", "root", "default", 0)])
    ids = desk.done("501", 4000)
    names = [name for name in ("effects", "receipt") if name in facts]
    proof: Doc = {name: facts[name] for name in names}
    if facts.get("attempts"):
        proof["attempts"] = facts["attempts"]
    outcome = "allowed"
    try:
        desk.give_up(ids, facts["at"], facts["disposition"], **proof)
    except Refused as refusal:
        outcome = refusal.reason
    assert outcome == facts["expected"]
    barrier = desk.board.tables()["works"][ids["work_id"]]["barrier"]
    assert barrier == ("failed" if outcome == "allowed" else "pending")


# Graphs


def diamond() -> tuple[Desk, dict[str, str]]:
    """top above left and right, both above join; submitted last node first."""
    policy = plain_policy()
    nodes: list[Doc] = []
    ids: dict[str, str] = {}
    for key, above in (
        ("top", []),
        ("left", ["top"]),
        ("right", ["top"]),
        ("join", ["left", "right"]),
    ):
        edges = [{"kind": "work", "work_id": ids[name]} for name in above]
        nodes.append(work(policy, "d", key, "default", 0, depends_on=edges))
        ids[key] = nodes[-1]["work_id"]
    return Desk(policy, nodes[::-1]), ids


def test_a_join_waits_for_both_results() -> None:
    desk, ids = diamond()
    assert desk.board.explain_work(ids["join"], 1000) == "dependency_wait"
    top = desk.done("501", 1000)
    assert top["work_id"] == ids["top"]
    assert desk.board.explain_work(ids["left"], 1000) == "dependency_result_unavailable"
    assert desk.board.plan("default", 1000, 9, 9, 49152, "r")["reason"] == "no_eligible_work"
    desk.deliver(top, 1000)
    # Right was submitted before left, so it comes first.
    right = desk.done("502", 1000)
    assert right["work_id"] == ids["right"]
    desk.deliver(right, 1000)
    left = desk.done("503", 1000)
    assert desk.board.explain_work(ids["join"], 1000) == "dependency_result_unavailable"
    desk.deliver(left, 1000)
    assert desk.board.explain_work(ids["join"], 1000) == "eligible"
    member = desk.grant(1000)["assignments"][0]["claims"][0]
    assert [ref["work_id"] for ref in member["result_refs"]] == [ids["left"], ids["right"]]


def test_a_cancelled_ancestor_shows_all_the_way_down() -> None:
    desk, ids = diamond()
    op = {"kind": "WorkCancellation", "work_id": ids["top"], "reason": "obsolete"}
    desk.write("cancel_work", person("administrator", "900"), [op], 1000)
    assert desk.board.explain_work(ids["join"], 1000) == "dependency_failed"
    assert desk.board.explain_work(ids["top"], 1000) == "ownership_cancelled"


def test_a_failed_delivery_blocks_and_lets_a_remedy_in() -> None:
    desk, ids = diamond()
    top = desk.done("501", 1000)
    desk.give_up(top, 1000, "unknown", attempts=5)
    assert desk.board.explain_work(ids["join"], 1000) == "dependency_delivery_failed"
    proof = evidence(desk.dispatch_of(top), "reconciliation", "7", 1000, receipt="checked")
    remedy = {"work_id": ids["top"], "disposition": "inspection", "evidence": proof}
    node = work(plain_policy(), "d", "again", "default", 0, replacement_of=remedy)
    desk.write("submit", person("producer", "101"), [node], 1000, {"nodes": [node]})
    assert desk.board.explain_work(node["work_id"], 1000) == "eligible"
    assert desk.board.explain_work(ids["left"], 1000) == "dependency_delivery_failed"


def test_only_known_nodes_again_keep_their_place() -> None:
    desk, ids = diamond()
    tables = desk.board.tables()
    known = definition(tables["works"][ids["left"]])
    before = tables["works"][ids["left"]]["position"]
    desk.write("submit", person("producer", "101"), [known], 2000, {"nodes": [known]})
    assert desk.board.tables()["works"][ids["left"]]["position"] == before


# Bytes


def test_reserve_of_one_open_work_at_the_defaults() -> None:
    policy = plain_policy()
    desk = Desk(policy, [work(policy, "g", "root", "default", 0)])
    assert reserve(desk.board.tables()) == 3 * (4 * 1024 + 8192) + 2 * 4096 + 2 * 1024 + 8192
    claimed = {"state": "claimed", "attempts": 1, "pool": "default", "barrier": "none"}
    assert work_reserve(policy, claimed) == 2 * 12288 + 18432 + 8192


def fill(workflow: str, most: int) -> int:
    """How many open Work fit."""
    policy = plain_policy({"default": {"workflow": workflow}})
    desk = Desk(policy, [work(policy, "g", "n0", "default", 0)])
    count = 1
    for step in (100, 100, 100, 1, 1, 1, 1, 1, 1, 1, 1):
        if count + step > most:
            return count
        nodes = [work(policy, "g", f"n{count + n}", "default", 0) for n in range(step)]
        try:
            desk.write("submit", person("producer", "101"), nodes, 1000, {"nodes": nodes})
        except Refused as refusal:
            if refusal.reason != "ledger_limit":
                raise
            return count
        count += step
    return count


def test_github_work_is_bound_by_the_recovery_budget() -> None:
    assert fill(".github/workflows/w.lock.yml", 400) == 303
    assert fill(".callboard/workers/w.toml", 304) == 304


# Random histories

HISTORIES = {seed: random_history(seed, 60) for seed in SEEDS}


@pytest.mark.parametrize("seed", SEEDS)
def test_a_history_is_accepted_and_its_faults_are_not(seed: int) -> None:
    history = HISTORIES[seed]
    found: dict[int, list[Any]] = {}
    for mutation in mutations(history, seed):
        found.setdefault(mutation.index, []).append(mutation)
    board = Board()
    for index, commit in enumerate(history):
        for mutation in found.get(index, []):
            other = board.copy()
            for step in mutation.commits[:-1]:
                other.apply(step)
            tip = other.tables()["tip"]
            with pytest.raises(Refused) as refusal:
                other.apply(mutation.commits[-1])
            assert mutation.code in (None, refusal.value.reason), mutation.note
            assert other.tables()["tip"] == tip
        board.apply(commit)
    assert board.state()["stats"]["transactions"] == len(history)


def test_a_refused_commit_leaves_no_trace() -> None:
    for mutation in mutations(HISTORIES[3], 3):
        board = Board()
        for commit in [*HISTORIES[3][: mutation.index], *mutation.commits[:-1]]:
            board.apply(commit)
        before = board.state()
        with pytest.raises(Refused):
            board.apply(mutation.commits[-1])
        assert board.state() == before


def test_an_exact_repetition_changes_nothing() -> None:
    board = Board()
    for commit in HISTORIES[1]:
        board.apply(commit)
        before = board.state()
        board.apply(json.loads(json.dumps(commit)))
        assert board.state() == before
    for commit in HISTORIES[1]:
        board.apply(commit)
    assert board.state() == before


def test_histories_are_the_same_for_the_same_seed() -> None:
    assert random_history(5, 40) == random_history(5, 40)
    assert random_history(5, 40) != random_history(6, 40)


def test_true_is_not_one() -> None:
    """Python calls them equal; on the wire they are two values."""
    policy = plain_policy()
    node = work(policy, "g", "root", "default", 0, priority=1)
    desk = Desk(policy, [node])
    other = work(policy, "g", "next", "default", 0, priority=1)
    tip = desk.board.tables()["tip"]
    producer = person("producer", "101")
    given = {"nodes": [{**other, "priority": True}]}
    commit = seal(tip, "submit", producer, given, [other], 1000, "r9", "p1")
    with pytest.raises(Refused):
        desk.board.apply(commit)
    assert commit["id"] == commit_identity(tip, "r9")
    with pytest.raises(Refused):
        desk.board.apply(reseal({**commit, "operations": [{**other, "priority": True}]}))


def test_histories_visit_every_kind_of_record_and_every_stop() -> None:
    kinds: Counter[str] = Counter()
    stops: Counter[str] = Counter()
    rng = random.Random(0)
    for history in HISTORIES.values():
        board = Board()
        for commit in history:
            board.apply(commit)
            kinds.update(op["kind"] for op in commit["operations"])
            tables = board.tables()
            for pool in tables["policy"]["pools"]:
                most, groups = rng.choice([1, 2, 256]), rng.choice([1, 2, 256])
                room = rng.choice([600, 1000, 49152])
                found = board.plan(pool, commit["at"], most, groups, room, "r")
                stops[found["reason"]] += 1
                for assignment in found["assignments"]:
                    assert size(assignment) <= room
    expected = "Policy Work Claim Completion Dispatch Result DeliveryFailure Observation"
    expected += " ClaimCancellation WorkCancellation Release Control"
    expected += " Deployment WorkPriority IssueLink IssueComment"
    assert set(kinds) == set(expected.split())
    reasons = "no_work no_eligible_work grants_paused capacity_blocked claim_budget_reached"
    reasons += " dispatch_budget_blocked assignment_size_blocked"
    assert set(reasons.split()) <= set(stops)


def test_clocks_on_a_board_show_only_after_a_grant() -> None:
    policy = plain_policy(accounting_weights={"": 1, "a": 2})
    nodes = [work(policy, "g", "root", "default", 0, fairness_key="a", priority=2)]
    desk = Desk(policy, nodes)
    assert desk.board.state()["clocks"] == {}
    desk.grant(1000)
    assert desk.board.state()["clocks"] == {
        "default": {
            "classes": {"v": "2", "pass": {"2": "4"}, "active": {"2": True}},
            "keys": {"2": {"v": "1", "pass": {"a": "2"}, "active": {"a": True}}},
        }
    }
