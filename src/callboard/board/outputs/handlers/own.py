"""A project's own output types: our half of them, the same for all.

Source: specification 1, §7.14. The body is kept under a ref of the Claim like a note; the effect is
the project's code, asked in a process of its own. What it may touch was said when it was prepared,
stands in the entry, and is judged by the gate like every other target: no code is asked again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from callboard import canonical
from callboard.board.outputs import own_call
from callboard.board.outputs.authority import EffectContext, Place
from callboard.board.outputs.bodies import json_object
from callboard.board.outputs.claims import BodyOutput, Output
from callboard.board.outputs.descriptor import (
    OWN,
    Entry,
    OwnEntry,
    number_in,
    numbered_ref,
    own_entry,
)
from callboard.board.outputs.handlers.kept import body_of, check_free, keep, read_kept
from callboard.board.outputs.handlers.unverified import unverified
from callboard.board.outputs.own import MAX_DATA_BYTES
from callboard.board.outputs.resources import Target, parse_target
from callboard.errors import CallboardError


class OwnHandler:
    """The output type `type`, one of a project's own."""

    def __init__(self, output_type: str) -> None:
        self.type = output_type

    def foresee(self, context: EffectContext, output: Output) -> None:
        """Only the project's code tells, which is asked without credentials and has no effect."""
        return

    def prepare(self, context: EffectContext, output: Output) -> OwnEntry:
        """Store the body as a blob, and have the project's code judge it without credentials."""
        assert isinstance(output, BodyOutput)
        place = context.place
        body = body_of(output)
        request = {
            "type": self.type,
            "number": output.number,
            "body": json_object(body, "output"),
            "claim_id": place.claim_id,
            "work_id": place.work_id,
            "attempt": place.attempt,
            "work": dict(context.payload),
            "repository": context.repository_name,
        }
        answer = own_call.ask(own_call.PREPARE, self.type, {"request": request})
        target = self._target(answer["target"])
        data = answer["data"]
        size = len(canonical.encode(data))
        if size > MAX_DATA_BYTES:
            raise self._failed(f"answered data of {size} bytes, at most {MAX_DATA_BYTES} are kept")
        blob = context.repository.write_blob(body)
        entry = own_entry(place.claim_id, output, blob, data, target)
        check_free(context.repository, entry.ref, entry.blob)
        return entry

    def scope(self, context: EffectContext, entry: Entry) -> Target:
        """What the project's code said that the effect touches."""
        assert isinstance(entry, OwnEntry)
        return entry.target

    def apply(self, place: Place, entry: Entry) -> None:
        """Set the ref of the body, then have the project's effect."""
        assert isinstance(entry, OwnEntry)
        self._check_ref(place, entry)
        keep(place.repository, entry.ref, entry.blob)
        own_call.ask(own_call.APPLY, self.type, self._question(place, entry))

    def verify(self, place: Place, entry: Entry) -> None:
        """Read the body back, then have the project's code look for its effect."""
        assert isinstance(entry, OwnEntry)
        self._check_ref(place, entry)
        lacking = own_call.ask(own_call.VERIFY, self.type, self._question(place, entry))
        if lacking is not None:
            raise unverified(f"the output {self.type}", f"is not there: {lacking}")

    def _question(self, place: Place, entry: OwnEntry) -> Mapping[str, Any]:
        """The output as the project's code has it; its body as the ref has it."""
        body = read_kept(place.repository, entry.ref, entry.blob, entry.sha256, entry.size_bytes)
        output = {
            "type": self.type,
            "number": number_in(entry.ref),
            "body": json_object(body, "output"),
            "data": entry.data,
            "claim_id": place.claim_id,
            "work_id": place.work_id,
            "attempt": place.attempt,
            "repository": entry.target.repository,
            "target": entry.target.document(),
        }
        return {"output": output, "git_folder": str(place.repository.common_dir)}

    def _target(self, value: object) -> Target:
        if value is None:
            raise CallboardError(
                "effect_scope_denied",
                f"what this {self.type} would touch is not said",
                "its handler has to name a target in scope; only a no-op touches nothing",
                {"type": self.type},
            )
        return parse_target(value)

    def _check_ref(self, place: Place, entry: OwnEntry) -> None:
        expected = numbered_ref(OWN, place.claim_id, self.type, number_in(entry.ref))
        if (entry.ref, entry.output_type) != (expected, self.type):
            raise unverified(f"the output {self.type}", f"names a foreign ref, {entry.ref}")

    def _failed(self, what: str) -> CallboardError:
        return own_call.failed(own_call.PREPARE, self.type, what)
