"""The longest record of every closing step against the room that was kept for it."""

import pytest

from . import writing
from .brim import DIGITS, QUOTES, REASON, Brim, padded, stretched_actor
from .budget import reserve
from .canon import Doc, Refused, canonical, fingerprint
from .desk import plain_policy
from .model import Board
from .policies import CEILINGS
from .records import commit as commit_shape

EVIDENCE, RESULT = CEILINGS["evidence_bytes"], CEILINGS["result_bytes"]
REPOSITORY = "o" * 100 + "/" + "r" * 155
WORKER = ".callboard/workers/" + "w" * 232 + ".toml"
WORK, CLAIM, GROUP = "a" * 64, "c_" + "0" * 64 + "_256", "d_" + "0" * 64 + "_256"
LAST_MOMENT = 9007199254740991

# What each step frees at least, by the formulas of the budget, with no attempt left.
CLOSING = 2 * RESULT + 2 * EVIDENCE + 8192
RECORD = 2 * EVIDENCE + 12288
GROUP_END = 2 * EVIDENCE + 8192
HELD = 8192

RECONCILER = stretched_actor({"role": "reconciler", "principal": DIGITS, "repository": REPOSITORY})
SENDER = {**RECONCILER, "role": "dispatcher"}
RUNNER = {**RECONCILER, "role": "worker", "workflow": WORKER, "run_attempt": 1}
RUNNER.update(dispatch_id=GROUP, claim_handle="h16")

RUN: Doc = {
    "run_id": DIGITS,
    "run_attempt": 1,
    "repository": REPOSITORY,
    "workflow": WORKER,
    "ref": "f" * 64,
    "principal": DIGITS,
    "event": "workflow_dispatch",
}
CLAIM_END: Doc = {
    "kind": "ClaimCancellation",
    "work_id": WORK,
    "claim_id": CLAIM,
    "reason": REASON,
    "retry_not_before": LAST_MOMENT,
}
WORK_END: Doc = {"kind": "WorkCancellation", "work_id": WORK, "reason": REASON, "claim_id": CLAIM}
STEP: Doc = {"kind": "Dispatch", "dispatch_id": GROUP, "reason": REASON}
NAMES: Doc = {"work_id": WORK, "claim_id": CLAIM, "completion_id": QUOTES}
# The evidence of a real record is never longer than its limit; here it is just as long.
PROOF = padded(EVIDENCE)
RELEASE: Doc = {"kind": "Release", "dispatch_id": GROUP, "evidence": PROOF}
COMPLETION: Doc = {
    "kind": "Completion",
    "work_id": WORK,
    "claim_id": CLAIM,
    "dispatch_id": GROUP,
    "claim_handle": "h16",
    "run_id": DIGITS,
    "run_attempt": 1,
}

CASES: dict[str, tuple[str, Doc, list[Doc], int]] = {
    "started": (
        "dispatch",
        SENDER,
        [{**STEP, "state": "started", "sender": SENDER, "credential_principal": DIGITS}],
        RECORD,
    ),
    "bound": ("dispatch", RECONCILER, [{**STEP, "state": "bound", "run": RUN}], RECORD),
    "unresolved": ("dispatch", RECONCILER, [{**STEP, "state": "unresolved"}], RECORD),
    "completed": ("finish", RUNNER, [COMPLETION], HELD),
    "given up": ("finish", RUNNER, [CLAIM_END], HELD),
    "taken away": ("cancel_claim", RECONCILER, [CLAIM_END], HELD),
    "exhausted": ("cancel_claim", RECONCILER, [CLAIM_END, WORK_END], HELD + CLOSING),
    "ended": ("cancel_work", RECONCILER, [WORK_END], CLOSING),
    "delivered": (
        "result",
        RECONCILER,
        [{"kind": "Result", **NAMES, "descriptor": padded(RESULT), "evidence": PROOF}],
        CLOSING,
    ),
    "lost": (
        "delivery_failure",
        RECONCILER,
        [
            {
                "kind": "DeliveryFailure",
                **NAMES,
                "reason": REASON,
                "disposition": "unknown",
                "evidence": PROOF,
            }
        ],
        CLOSING,
    ),
    "released": ("release", RECONCILER, [RELEASE], GROUP_END),
    "released with one": ("release", RECONCILER, [CLAIM_END, RELEASE], GROUP_END + HELD),
    "released with all": (
        "release",
        RECONCILER,
        [*[CLAIM_END] * 16, *[WORK_END] * 16, RELEASE],
        GROUP_END + 16 * (HELD + CLOSING),
    ),
}


def longest(kind: str, actor: Doc, operations: list[Doc]) -> Doc:
    """A commit in which every name is as long as it may be and doubles when it is escaped."""
    parameters: Doc = {"operations": operations}
    if kind == "finish":
        parameters = {"dispatch_id": GROUP, "claim_handle": "h16", "outcome": "completed"}
    request = {"id": QUOTES, "kind": kind, "parameters": parameters}
    request["fingerprint"] = fingerprint(actor, kind, parameters)
    return {
        "version": 3,
        "id": QUOTES,
        "previous": QUOTES,
        "request": request,
        "actor": actor,
        "policy_epoch": QUOTES,
        "at": LAST_MOMENT,
        "operations": operations,
        "trace": {"trace_id": QUOTES, "span_id": QUOTES, "publisher_attempt": 4096},
    }


@pytest.mark.parametrize("name", CASES)
def test_what_is_kept_for_a_step_holds_its_longest_record(name: str) -> None:
    kind, actor, operations, kept = CASES[name]
    if kind == "dispatch":
        operations = [{**operations[0], "evidence": PROOF}]
    made = longest(kind, actor, operations)
    assert len(canonical(made)) + 1 <= kept
    # Evidence only stands in for any of its length; whatever needs none has its proper shape.
    needing = ("Release", "Result", "DeliveryFailure")
    plain = [{name: value for name, value in op.items() if name != "evidence"} for op in operations]
    whole = [op for op in plain if op["kind"] not in needing]
    if whole:
        commit_shape(longest(kind, actor, whole), "commit")


class Echo:
    """A peer that is the model itself: what is left to assert is that closing always fits."""

    def __init__(self) -> None:
        self.board = Board()

    def apply(self, commit: Doc) -> str | None:
        try:
            self.board.apply(commit)
        except Refused as refusal:
            return refusal.reason
        return None

    def sums(self) -> tuple[int, int]:
        tables = self.board.tables()
        return (tables["ledger_bytes"], reserve(tables)) if tables["policy"] else (0, 0)


@pytest.mark.parametrize("wordy", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_a_full_board_drains_while_workers_and_classes_change(seed: int, wordy: bool) -> None:
    limits = {**CEILINGS, "ledger_bytes": 150_000, "recovery_bytes": 600_000}
    policy = plain_policy(
        {"default": {"max_claims": 3}},
        limits=limits,
        allowed_repositories=[writing.REPOSITORY, writing.OTHER_REPOSITORY],
    )
    brim = Brim(seed, policy, Echo(), wordy)
    brim.fill(claims_first=seed % 2 == 0)
    brim.stuff()
    brim.drain()
    brim.reopen()
    assert brim.verdicts["submit: ledger_limit"] > 0
