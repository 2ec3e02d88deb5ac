"""Whether a Claim's outputs are there, told from Git alone.

Source: specification 1, §7.15; wire-v3 §9. It needs neither the run nor its staging folder, has no
effect, and takes nobody's word: what it cannot read back it reports as missing.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from callboard.board.outputs.authority import Place
from callboard.board.outputs.bounds import Bounds, Unmet
from callboard.board.outputs.descriptor import (
    Descriptor,
    Entry,
    as_payload,
    describe,
    prepared_ref,
)
from callboard.board.outputs.handlers import gate
from callboard.board.outputs.installed import has_verifier
from callboard.board.outputs.prepared import read_prepared
from callboard.board.outputs.registered import judge
from callboard.board.protocol.contract import Verification
from callboard.board.protocol.operations import Payload
from callboard.errors import CallboardError

# What the repository holds is itself the fault; everything else is a fault of this attempt to look.
_FOUND_WRONG = frozenset(
    {
        "artifact_name_invalid", "descriptor_invalid", "duplicate_key", "handler_failed",
        "handler_missing", "invalid_json", "invalid_unicode", "noncanonical_number",
        "object_corrupt", "object_missing", "object_wrong_kind", "output_limit",
        "output_not_declared", "output_refused", "output_unverified", "patch_empty", "ref_invalid",
        "resource_limit",
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Delivery:
    """What was found of a Claim's outputs.

    `descriptor` describes the outputs that read back as they should; it is the Result's exactly
    when `verified`. `missing` says what stands against it, empty when verified.
    """

    verified: bool
    descriptor: Payload
    missing: tuple[Unmet, ...] = ()

    @property
    def disposition(self) -> str:
        """What a DeliveryFailure may say of the effects: `partial` where some of them are there,
        else `unknown`. Never `none`: that nothing is found does not prove that nothing was done.
        """
        return "partial" if self.descriptor["outputs"] else "unknown"


def verify_delivery(place: Place, payload: Payload) -> Delivery:
    """Read a completed Claim's outputs back and hold them against the contract in its `payload`.

    All outputs that were prepared must be there, also those the contract does not insist on. Raises
    `CallboardError` only where the repository or the board could not be read; then nothing is
    known.
    """
    found: list[Entry] = []
    missing: list[Unmet] = []
    try:
        bounds = Bounds(payload, None)
    except CallboardError as error:
        return _delivery(found, [Unmet(error.code, error.message)])
    prepared = _prepared(place, missing)
    if prepared is None and not bounds.writes_nothing and not missing:
        missing.append(
            Unmet("delivery_unprepared", f"there is no ref {prepared_ref(place.claim_id)}")
        )
    counts: dict[str, int] = {}
    for entry in prepared.outputs if prepared else ():
        output_type = gate.entry_type(entry)
        try:
            bounds.check(output_type, counts.get(output_type, 0) + 1)
            gate.verify(place, entry)
        except CallboardError as error:
            missing.append(_missing(error))
            continue
        counts[output_type] = counts.get(output_type, 0) + 1
        found.append(entry)
        missing.extend(_judged(place, entry, bounds.verification(output_type)))
    missing.extend(bounds.unmet(counts))
    return _delivery(found, missing)


def _judged(place: Place, entry: Entry, asked: Verification | None) -> list[Unmet]:
    """What the contract's own verifier has against an output that is there; one that is not
    registered here is among what the bounds lack."""
    if asked is None or not has_verifier(asked.verifier_id):
        return []
    try:
        wrong = judge(place.repository, asked, msgspec.to_builtins(entry))
    except CallboardError as error:
        return [_missing(error)]
    if wrong is None:
        return []
    return [
        Unmet("verification_failed", f"{asked.verifier_id} of {gate.entry_type(entry)}: {wrong}")
    ]


def _prepared(place: Place, missing: list[Unmet]) -> Descriptor | None:
    try:
        return read_prepared(place.repository, place.claim_id)
    except CallboardError as error:
        missing.append(_missing(error))
        return None


def _missing(error: CallboardError) -> Unmet:
    if error.code not in _FOUND_WRONG:
        raise error
    return Unmet(error.code, error.message)


def _delivery(found: list[Entry], missing: list[Unmet]) -> Delivery:
    return Delivery(not missing, as_payload(describe(found)), tuple(missing))
