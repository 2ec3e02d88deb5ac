"""The checks of a layer's goal: running them, and whether a receipt still speaks of what is there.

Source: layers.md §4. A receipt holds for one goal, the exact check files and one state of the
repository; once any of them has changed it says nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from callboard.errors import CallboardError
from callboard.layers import references, stored, subject
from callboard.layers.around import Around
from callboard.layers.assigned import Assigned
from callboard.layers.checks import run_check
from callboard.layers.records import base
from callboard.layers.records.evaluation import Check, CheckResult, EvalReceipt, GitSubject
from callboard.layers.tree import Layer
from callboard.layers.yaml_records.faults import Faults
from callboard.layers.yaml_records.typed import read_yaml
from callboard.visible import visible

CHECKS = "eval_checks"
RECEIPTS = "eval_receipts"
MAX_CHECK_BYTES = 256 * 1024
_SUFFIXES = (".yaml", ".yml")


@dataclass(frozen=True, slots=True)
class CheckFile:
    """One check as its file has it."""

    name: str
    sha256: str
    check: Check


def checks_of(around: Around, layer: Layer) -> tuple[CheckFile, ...]:
    """All checks of a layer, by name. Raises `eval_check_invalid` with every fault of every file,
    and `eval_checks_missing` where there is none."""
    faults = Faults()
    found = []
    for name in around.disk.names(layer.file(CHECKS)):
        if name.startswith(".") or not name.endswith(_SUFFIXES):
            continue
        data = around.disk.read(layer.file(CHECKS, name), MAX_CHECK_BYTES, what=visible(name))
        read: Any = read_yaml(data, Check, name, faults)  # type: ignore[arg-type]
        if read is not None:
            found.append(CheckFile(name, base.digest(data), read[0]))
    if faults.count:
        raise CallboardError(
            "eval_check_invalid",
            faults.summary("the folder of checks"),
            "correct each check; the faults are told with file, line and column",
            faults.details(),
        )
    if not found:
        raise CallboardError(
            "eval_checks_missing",
            f"there is no check in {CHECKS}",
            "the reviewer writes checks first, one YAML file each",
        )
    return tuple(found)


def evaluate(around: Around, assigned: Assigned) -> EvalReceipt:
    """Run all checks of the layer's goal, and publish the receipt.

    Raises `role_not_allowed`, `eval_check_invalid`, `eval_checks_missing`, and
    `eval_subject_changed` where the repository did not stay as it was meanwhile.
    """
    assigned.check_role(assigned.contract.evaluation_roles, "run the checks of the goal")
    layer = assigned.layer
    checks = checks_of(around, layer)
    before = _subject(around)
    receipt_id = f"{assigned.attempt_id}_{around.random(8)}"
    folder = f"{layer.trace_place}/attempts/{assigned.attempt_id}/eval_{receipt_id}"
    around.disk.make_folder(folder)
    results = tuple(run_check(around, assigned, one, folder) for one in checks)
    after = _subject(around)
    if before != after:
        raise CallboardError(
            "eval_subject_changed",
            "the repository changed while the checks ran, so they speak of no one state of it",
            "let nothing else work on it meanwhile, and no check change files that Git knows",
            {"before": base.document(before), "after": base.document(after)},
        )
    receipt = _receipt(around, assigned, receipt_id, results, before)
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


def fault_of(around: Around, layer: Layer, ref: str) -> CallboardError | None:
    """Why the receipt at `ref` does not show that the layer's goal is met now; None: it does."""
    try:
        receipt = _read(around, layer, ref)
    except CallboardError as error:
        return _unfit("eval_receipt_unknown", f"{ref!r} is no receipt of this layer", error.message)
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
    found = _subject(around)
    if found != receipt.subject:
        return _unfit(
            "eval_subject_changed",
            "the repository is not in the state that was checked",
            f"HEAD {found.head}, then {receipt.subject.head}",
        )
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
