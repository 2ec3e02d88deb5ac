"""The checks of a layer's goal: running them, and whether a receipt still speaks of what is there.

Source: layers.md §4. A receipt holds for one goal, the exact check files and one state of the
repository; once any of them has changed it says nothing.
"""

from __future__ import annotations

from msgspec import structs

from callboard.errors import CallboardError
from callboard.layers import checks, references, reporting, stored, subject
from callboard.layers.around import Around
from callboard.layers.assigned import Assigned
from callboard.layers.check_files import checks_of
from callboard.layers.records import base
from callboard.layers.records.evaluation import CheckResult, EvalReceipt, GitSubject
from callboard.layers.records.workflow import WorkflowContract
from callboard.layers.tree import Layer
from callboard.visible import visible

REPORT = "report.md"
RECEIPTS = "eval_receipts"
MAX_DETAILS_BYTES = 512 * 1024
"""Of the details of all checks in one receipt; the report has more of them."""

NOT_SHOWN = frozenset(
    {
        "eval_receipt_unknown",
        "eval_failed",
        "eval_goal_other",
        "eval_checks_changed",
        "eval_subject_changed",
    }
)
"""The codes of a receipt that does not show that a goal is met now."""


def evaluate(around: Around, assigned: Assigned) -> EvalReceipt:
    """Run all checks of the layer's goal, and publish the receipt.

    Raises `role_not_allowed`, `eval_check_invalid`, `eval_checks_missing`, and
    `eval_subject_changed` where the repository did not stay as it was meanwhile. A report for
    people lies in the attempt's trace, and its digest in the receipt.
    """
    assigned.check_role(assigned.contract.evaluation_roles, "run the checks of the goal")
    layer = assigned.layer
    present = checks_of(around, layer)
    before = _subject(around)
    receipt_id = f"{assigned.attempt_id}_{around.random(8)}"
    folder = f"{layer.trace_place}/attempts/{assigned.attempt_id}/eval_{receipt_id}"
    around.disk.make_folder(folder)
    results = tuple(checks.run_check(around, assigned, one, folder) for one in present)
    after = _subject(around)
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


def fault_of(
    around: Around, layer: Layer, contract: WorkflowContract, ref: str
) -> CallboardError | None:
    """Why the receipt at `ref` does not show that the layer's goal is met now; None: it does."""
    try:
        receipt = _read(around, layer, ref)
    except CallboardError as error:
        what = f"{visible(ref)[:200]!r} is no receipt of this layer"
        return _unfit("eval_receipt_unknown", what, error.message)
    failed = [one.check_id for one in receipt.checks if one.verdict != "pass"]
    if receipt.verdict != "pass" or failed:
        return _unfit(
            "eval_failed", f"the receipt {receipt.receipt_id} says fail", ", ".join(failed)
        )
    if (receipt.session_id, receipt.goal_contract_sha256) != (
        layer.session.session_id,
        layer.session.goal_contract_sha256,
    ):
        return _unfit("eval_goal_other", f"the receipt is of {receipt.session_id}", receipt.goal_id)
    foreign = _foreign(around, layer, contract, receipt, ref)
    if foreign is not None:
        return _unfit("eval_receipt_unknown", f"the receipt {receipt.receipt_id} is none", foreign)
    try:
        present = {one.name: one.sha256 for one in checks_of(around, layer)}
    except CallboardError as error:
        return _unfit("eval_checks_changed", "the checks cannot be read any more", error.message)
    checked = {one.file: one.sha256 for one in receipt.checks}
    if present != checked:
        names = sorted(set(present.items()) ^ set(checked.items()))
        return _unfit(
            "eval_checks_changed",
            "the checks are not those that ran",
            ", ".join(n for n, _ in names),
        )
    try:
        found = _subject(around)
    except CallboardError as error:
        what = "the state of the repository cannot be told"
        return _unfit("eval_subject_changed", what, error.message)
    if found != receipt.subject:
        return _unfit(
            "eval_subject_changed",
            "the repository is not in the state that was checked",
            f"now {found.head} with {found.dirty}, then {receipt.subject.head} with"
            f" {receipt.subject.dirty}",
        )
    return None


def _foreign(
    around: Around, layer: Layer, contract: WorkflowContract, receipt: EvalReceipt, ref: str
) -> str | None:
    """Why no attempt of this layer can have made the receipt, in words; None: one can."""
    if not ref.endswith(f"/{receipt.receipt_id}.json"):
        return "its file has another name"
    if receipt.role not in contract.evaluation_roles:
        return f"the role {receipt.role} may not run the checks"
    is_of_role = receipt.attempt_id.partition("_")[2] == receipt.role
    if not is_of_role or around.disk.kind(layer.file("attempts", receipt.attempt_id)) != "folder":
        return f"this layer has no attempt {receipt.attempt_id} of {receipt.role}"
    return None


def _read(around: Around, layer: Layer, ref: str) -> EvalReceipt:
    place = references.place_of(around.disk, layer, ref)
    folder, _, name = place.rpartition("/")
    if folder != layer.file(RECEIPTS) or not name.endswith(".json"):
        raise CallboardError("reference_invalid", f"it is not in {RECEIPTS}", "cite a receipt")
    return stored.read_record(around.disk, place, EvalReceipt)


def _subject(around: Around) -> GitSubject:
    if around.git is None:
        return GitSubject(head=None, dirty=None)
    return subject.subject_of(around.git, around.disk.root)


def _unfit(code: str, what: str, cause: str) -> CallboardError:
    return CallboardError(
        code, f"{what}: {cause}" if cause else what, "run the checks again, and cite their receipt"
    )
