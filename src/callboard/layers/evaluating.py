"""Running the checks of a layer's goal, and the receipt and the report of that.

Source: layers.md §4. A receipt is only written where the repository stayed as it was meanwhile.
"""

from __future__ import annotations

from msgspec import structs

from callboard.errors import CallboardError
from callboard.layers import checks, reporting
from callboard.layers.around import Around
from callboard.layers.assigned import Assigned
from callboard.layers.check_files import checks_of
from callboard.layers.receipts import RECEIPTS, subject_now
from callboard.layers.records import base
from callboard.layers.records.evaluation import CheckResult, EvalReceipt, GitSubject

REPORT = "report.md"
MAX_DETAILS_BYTES = 512 * 1024
"""Of the details of all checks in one receipt; the report has more of them."""


def evaluate(around: Around, assigned: Assigned) -> EvalReceipt:
    """Run all checks of the layer's goal, and publish the receipt.

    Raises `role_not_allowed`, `eval_check_invalid`, `eval_checks_missing`, and
    `eval_subject_changed` where the repository did not stay as it was meanwhile. A report for
    people lies in the attempt's trace, and its digest in the receipt.
    """
    assigned.check_role(assigned.contract.evaluation_roles, "run the checks of the goal")
    layer = assigned.layer
    present = checks_of(around, layer)
    before = subject_now(around)
    receipt_id = f"{assigned.attempt_id}_{around.random(8)}"
    folder = f"{layer.trace_place}/attempts/{assigned.attempt_id}/eval_{receipt_id}"
    around.disk.make_folder(folder)
    results = tuple(checks.run_check(around, assigned, one, folder) for one in present)
    after = subject_now(around)
    if before != after:
        raise CallboardError(
            "eval_subject_changed",
            "the repository changed while the checks ran, so they speak of no one state of it",
            "let nothing else work on it meanwhile, and no check change files that Git knows",
            {"before": base.document(before), "after": base.document(after)},
        )
    receipt = _receipt(around, assigned, receipt_id, results, before)
    report = reporting.report(assigned.assignment.goal, receipt, results, present)
    around.disk.publish(f"{folder}/{REPORT}", report)
    receipt = structs.replace(receipt, report_sha256=base.digest(report))
    around.disk.publish_new(layer.file(RECEIPTS, f"{receipt_id}.json"), base.encode(receipt))
    return receipt


def _receipt(
    around: Around,
    assigned: Assigned,
    receipt_id: str,
    results: tuple[CheckResult, ...],
    found: GitSubject,
) -> EvalReceipt:
    session = assigned.layer.session
    is_passed = all(one.verdict == "pass" for one in results)
    room = MAX_DETAILS_BYTES // len(results)
    results = tuple(
        structs.replace(one, detail=checks.shortened(one.detail, room)) for one in results
    )
    return EvalReceipt(
        schema_version=1,
        receipt_id=receipt_id,
        session_id=session.session_id,
        goal_id=assigned.assignment.goal.goal_id,
        goal_contract_sha256=session.goal_contract_sha256,
        subject=found,
        attempt_id=assigned.attempt_id,
        role=assigned.assignment.identity.role,
        checks=results,
        verdict="pass" if is_passed else "fail",
        report_sha256=None,
        created_at_ms=around.clock.now_ms(),
    )
