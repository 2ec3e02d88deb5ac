"""Controls: requests to the board in the name of a completed Claim.

Source: specification 1, §§7.12, 7.14. A request is named after the intent it came from, so that
however often it is asked there is one; what first became of it is kept under a ref of the Claim.
Nothing is asked before the Claim's Completion, or after its delivery was decided.
"""

from __future__ import annotations

from callboard.board.outputs.authority import Desk, EffectContext, Place
from callboard.board.outputs.claims import BatchOutput, BodyOutput, Output
from callboard.board.outputs.control_receipt import (
    MAX_RECEIPT_BYTES,
    ControlReceipt,
    read_receipt,
    receipt_bytes,
)
from callboard.board.outputs.descriptor import (
    CONTROLS,
    BatchEntry,
    ControlEntry,
    Entry,
    SubmitEntry,
    batch_entry,
    entry_kind,
    number_in,
    numbered_ref,
    submit_entry,
)
from callboard.board.outputs.handlers.kept import body_of, read_proven
from callboard.board.outputs.handlers.unverified import unverified
from callboard.board.outputs.resources import Target
from callboard.errors import CallboardError


class SubmitHandler:
    """The output type `submit`: a plan is posted as the Claim's children."""

    type = "submit"

    def foresee(self, context: EffectContext, output: Output) -> Target:
        """The board's own ref."""
        return _queue(context)

    def prepare(self, context: EffectContext, output: Output) -> SubmitEntry:
        """Rehearse the plan upon the board as it is, and store it as a blob."""
        assert isinstance(output, BodyOutput)
        data = body_of(output)
        _desk(context.place).rehearse_plan(data)
        entry = submit_entry(context.place.claim_id, output, context.repository.write_blob(data))
        _check_free(context.place, entry)
        return entry

    def scope(self, context: EffectContext, entry: Entry) -> Target:
        """The board's own ref."""
        return _queue(context)

    def apply(self, place: Place, entry: Entry) -> None:
        """Post the plan, unless it was answered before."""
        assert isinstance(entry, SubmitEntry)
        _check_ref(place, entry, "submit")
        if not _is_answered(place, entry):
            plan = read_proven(place.repository, entry.plan, entry.sha256, entry.size_bytes)
            _keep(place, entry, _desk(place).submit(entry.request_id, plan))

    def verify(self, place: Place, entry: Entry) -> None:
        """Read what became of the request, and that the board has it where it was accepted."""
        assert isinstance(entry, SubmitEntry)
        _check_ref(place, entry, "submit")
        _verify(place, entry)


class DispatchNextHandler:
    """The output type `dispatch_next`: the next fair batch of the Claim's own pool."""

    type = "dispatch_next"

    def foresee(self, context: EffectContext, output: Output) -> Target:
        """The board's own ref."""
        return _queue(context)

    def prepare(self, context: EffectContext, output: Output) -> BatchEntry:
        """Only name the request: what would be granted is decided when it is asked."""
        assert isinstance(output, BatchOutput)
        _desk(context.place)
        entry = batch_entry(context.place.claim_id, output, context.pool)
        _check_free(context.place, entry)
        return entry

    def scope(self, context: EffectContext, entry: Entry) -> Target:
        """The board's own ref."""
        return _queue(context)

    def apply(self, place: Place, entry: Entry) -> None:
        """Ask for the batch, unless it was answered before."""
        assert isinstance(entry, BatchEntry)
        _check_ref(place, entry, "batch")
        if not _is_answered(place, entry):
            receipt = _desk(place).dispatch_next(
                entry.request_id, entry.pool, entry.max_claims, entry.max_dispatches
            )
            _keep(place, entry, receipt)

    def verify(self, place: Place, entry: Entry) -> None:
        """As for a plan."""
        assert isinstance(entry, BatchEntry)
        _check_ref(place, entry, "batch")
        _verify(place, entry)


def _desk(place: Place) -> Desk:
    if place.desk is None:
        raise CallboardError(
            "control_unavailable",
            f"nobody here can ask the board in the name of Claim {place.claim_id}",
            "the run itself does, or whoever reconciles it: callboard reconcile",
        )
    return place.desk


def _queue(context: EffectContext) -> Target:
    return Target(repository=context.repository_name, ref=_desk(context.place).queue_ref)


def _check_free(place: Place, entry: ControlEntry) -> None:
    """Refuse with `ref_conflict` where what becomes of the request could not be noted."""
    repository = place.repository
    rival = repository.ref_in_the_way(entry.ref)
    if rival is None and repository.read_ref(entry.ref) is not None:
        try:
            _answered(place, entry)
        except CallboardError:
            rival = entry.ref
    if rival is not None:
        raise CallboardError(
            "ref_conflict",
            f"what becomes of a request is noted under {entry.ref}, and {rival!r} stands in its "
            "way",
            f"leave refs/callboard/ to Callboard: git update-ref -d {rival}",
            {"ref": entry.ref, "found": rival},
        )


def _check_ref(place: Place, entry: ControlEntry, kind: str) -> None:
    if entry.ref != numbered_ref(CONTROLS, place.claim_id, kind, number_in(entry.ref)):
        raise unverified(f"the request {entry.request_id}", f"names a foreign ref, {entry.ref}")


def _answered(place: Place, entry: ControlEntry) -> ControlReceipt | None:
    """What first became of a request; None where nobody has noted anything yet."""
    blob = place.repository.read_ref(entry.ref)
    if blob is None:
        return None
    receipt = read_receipt(place.repository.read_blob(blob, MAX_RECEIPT_BYTES))
    if (receipt.kind, receipt.request_id) != (entry_kind(entry), entry.request_id):
        raise unverified(f"the ref {entry.ref}", f"tells of another request, {receipt.request_id}")
    return receipt


def _is_answered(place: Place, entry: ControlEntry) -> bool:
    """Whether what first became of a request is noted, and noted truly: of two that ask at once one
    may have been told that there is nothing, and the other one have been granted it."""
    receipt = _answered(place, entry)
    if receipt is None:
        return False
    return receipt.outcome == "accepted" or _desk(place).commit_of(entry.request_id) is None


def _keep(place: Place, entry: ControlEntry, receipt: ControlReceipt) -> None:
    """Note what became of a request; that it was accepted goes over that it was not."""
    repository = place.repository
    blob = repository.write_blob(receipt_bytes(receipt))
    if not repository.set_ref(entry.ref, None, blob) and receipt.outcome == "accepted":
        noted = repository.read_ref(entry.ref)
        if noted != blob:
            # False where another process put the same right at the same time.
            repository.set_ref(entry.ref, noted, blob)


def _verify(place: Place, entry: ControlEntry) -> None:
    receipt = _answered(place, entry)
    if receipt is None:
        raise unverified(f"the request {entry.request_id}", "was not answered yet")
    noted = receipt.commit_id if isinstance(receipt.commit_id, str) else None
    found = _desk(place).commit_of(entry.request_id)
    if found != noted:
        raise unverified(
            f"the request {entry.request_id}",
            f"stands in {found or 'no commit'} of the board, not in {noted or 'none'}",
        )
