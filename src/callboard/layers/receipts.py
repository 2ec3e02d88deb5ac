"""Whether the receipt of an evaluation still shows that a layer's goal is met.

Source: layers.md §4. A receipt is of one layer, its goal, the checks that ran and one state of the
repository; once any of them is another it shows nothing. It runs and writes nothing.
"""

from __future__ import annotations

from callboard.errors import CallboardError
from callboard.layers import references, stored, subject
from callboard.layers.around import Around
from callboard.layers.check_files import checks_of
from callboard.layers.disk import OF_MACHINE
from callboard.layers.records.evaluation import EvalReceipt, GitSubject
from callboard.layers.records.workflow import WorkflowContract
from callboard.layers.tree import Layer
from callboard.visible import visible

RECEIPTS = "eval_receipts"

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


def ref_of(receipt: EvalReceipt) -> str:
    """How the layer of a receipt cites it."""
    return f"session:/{RECEIPTS}/{receipt.receipt_id}.json"


def fault_of(
    around: Around, layer: Layer, contract: WorkflowContract, ref: str
) -> CallboardError | None:
    """Why the receipt at `ref` does not show that the layer's goal is met now; None: it does."""
    try:
        receipt = _read(around, layer, ref)
    except CallboardError as error:
        if error.code in OF_MACHINE:
            raise
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
    return _changed(around, layer, receipt)


def _changed(around: Around, layer: Layer, receipt: EvalReceipt) -> CallboardError | None:
    """What is otherwise than when the checks ran."""
    try:
        present = {one.name: one.sha256 for one in checks_of(around, layer)}
    except CallboardError as error:
        if error.code in OF_MACHINE:
            raise
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
        found = subject_now(around)
    except CallboardError as error:
        if error.code in OF_MACHINE:
            raise
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


def subject_now(around: Around) -> GitSubject:
    """The state that the repository is in; nothing of it where there is no git."""
    if around.git is None:
        return GitSubject(head=None, dirty=None)
    return subject.subject_of(around.git, around.disk.root)


def _unfit(code: str, what: str, cause: str) -> CallboardError:
    return CallboardError(
        code, f"{what}: {cause}" if cause else what, "run the checks again, and cite their receipt"
    )
