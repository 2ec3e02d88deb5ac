"""What in the Claims and launches of a restored state contradicts the rest of it.

Source: specification 1, §§7.8, 7.14; wire-v3 §§6, 8. The Work and the requests are known to agree
already, so that references to them may be followed. It judges and changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import UNSET

from callboard.board.projection import reserve
from callboard.board.projection.grounds import CANCELLING, Ground, belong
from callboard.board.projection.snapshot import (
    ClaimRecord,
    DispatchRecord,
    RequestRecord,
    WorkRecord,
)
from callboard.canonical import encode_trusted
from callboard.validate import Fault, pointer_step, show


class RunContradictions:
    """Looks through Claims, then through the dispatches that they make up."""

    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        self._state = ground.state
        self._requests = ground.requests

    def claims(self) -> Iterator[Fault]:
        """Claims beside the requests that made them and the Work they are on."""
        claims = self._state.claims
        granted = [one for request in self._requests for one in request.claims]
        if len(set(granted)) != len(granted) or set(granted) != claims.keys():
            yield Fault("/claims", "are not those of the requests, each once")
            return
        attempts: dict[str, int] = {}
        for request in self._requests:
            for claim_id in request.claims:
                claim = claims[claim_id]
                attempts[claim.work_id] = attempts.get(claim.work_id, 0) + 1
                yield from self._claim(f"/claims{pointer_step(claim_id)}", claim_id, claim, request)
        for work_id, work in self._state.works.items():
            if work.attempts != attempts.get(work_id, 0):
                yield Fault(
                    f"/works/{work_id}/attempts", f"{attempts.get(work_id, 0)} Claims stand"
                )
            if work.claim_id is not UNSET and work.claim_id not in claims:
                yield Fault(f"/works/{work_id}/claim_id", "is no Claim")

    def _claim(
        self, at: str, claim_id: str, claim: ClaimRecord, request: RequestRecord
    ) -> Iterator[Fault]:
        if claim.claim_id != claim_id:
            yield Fault(f"{at}/claim_id", "is not the key")
        if (claim.commit_id, claim.request_id) != (request.id, request.request_id):
            yield Fault(
                f"{at}/request_id", f"the Claim is one of request {show(request.request_id)}"
            )
        work = self._state.works.get(claim.work_id)
        if work is None:
            yield Fault(f"{at}/work_id", "is no Work")
            return
        ended, cancelled = claim.state != "open", claim.state == "cancelled"
        yield from belong(
            at, claim, {"terminal_commit_id": ended, "cancellation_reason": cancelled}
        )
        if claim.retry_not_before is not UNSET and not cancelled:
            yield Fault(f"{at}/retry_not_before", f"belongs to no {claim.state} Claim")
        if ended:
            kinds = CANCELLING if cancelled else ("finish",)
            yield from self._ground.commit(
                f"{at}/terminal_commit_id", claim.terminal_commit_id, kinds
            )
        wanted = {"open": "claimed", "completed": "completed"}.get(claim.state)
        holds = work.claim_id == claim_id
        if holds != (wanted is not None) or (holds and work.state != wanted):
            yield Fault(f"{at}/state", f"{claim.state} on Work that is {work.state}")
        if claim.state == "completed" and claim.terminal_commit_id != work.completion_id:
            yield Fault(f"{at}/terminal_commit_id", "is not the Work's Completion")
        if len(set(claim.observations)) != len(claim.observations) or not all(
            one in self._state.observation_ids for one in claim.observations
        ):
            yield Fault(f"{at}/observations", "are not observations, each once")

    def dispatches(self) -> Iterator[Fault]:
        """Launches beside their Claims, their requests and the installed policy."""
        members: set[str] = set()
        runs: set[str] = set()
        for key, one in self._state.dispatches.items():
            at = f"/dispatches{pointer_step(key)}"
            if one.dispatch_id != key:
                yield Fault(f"{at}/dispatch_id", "is not the key")
            yield from self._assignment(at, one, members)
            yield from self._launch(at, one)
            if one.run is not UNSET:
                if one.run.run_id in runs:
                    yield Fault(f"{at}/run/run_id", "serves another dispatch too")
                runs.add(one.run.run_id)
        if members != self._state.claims.keys():
            yield Fault("/dispatches", "their members are not the Claims")

    def _assignment(self, at: str, one: DispatchRecord, members: set[str]) -> Iterator[Fault]:
        place = self._ground.commits.get(one.commit_id)
        request = None if place is None else self._requests[place]
        if request is None or (request.request_id, request.policy_epoch) != (
            one.request_id,
            one.policy_epoch,
        ):
            yield Fault(f"{at}/commit_id", "is not the commit of its request and epoch")
            return
        asked = request.dispatch_parameters
        if asked is UNSET or asked.pool != one.pool:
            yield Fault(f"{at}/pool", "is not the one its request asked for")
        handles = set()
        for index, member in enumerate(one.claims):
            where = f"{at}/claims/{index}"
            claim = self._state.claims.get(member.claim_id)
            found = (member.work_id, one.dispatch_id, member.handle, one.commit_id)
            if claim is None or found != (
                claim.work_id,
                claim.dispatch_id,
                claim.handle,
                claim.commit_id,
            ):
                yield Fault(where, f"is not Claim {show(member.claim_id)}")
                continue
            if member.claim_id in members or member.handle in handles:
                yield Fault(where, "stands twice")
            members.add(member.claim_id)
            handles.add(member.handle)
            if claim.state == "open" and one.released:
                yield Fault(f"{at}/released", f"Claim {show(member.claim_id)} is open")
            work = self._state.works[claim.work_id]
            yield from self._member(where, one, work, encode_trusted(member.work))
            yield from self._references(where, work, member.result_refs)

    @staticmethod
    def _member(at: str, one: DispatchRecord, work: WorkRecord, payload: bytes) -> Iterator[Fault]:
        if payload != encode_trusted(work.payload):
            yield Fault(f"{at}/work", "is not the Work's payload")
        found = (one.pool, one.worker_profile, one.profile.trust_domain)
        if found != (work.pool, work.worker_profile, work.batch_trust_domain):
            yield Fault(at, f"its Work is of another pool, profile or trust domain than {found}")

    def _references(self, at: str, work: WorkRecord, references: list[Any]) -> Iterator[Fault]:
        wanted = []
        for work_id in work.predecessors:
            known = self._state.works[work_id]
            if known.result is UNSET:
                yield Fault(at, f"was granted before the Result of {work_id}")
                return
            wanted.append((work_id, known.result_commit_id, encode_trusted(known.result)))
        found = [
            (one.work_id, one.result_commit_id, encode_trusted(one.descriptor))
            for one in references
        ]
        if found != wanted:
            yield Fault(f"{at}/result_refs", "are not the Results of its Work's predecessors")

    def _launch(self, at: str, one: DispatchRecord) -> Iterator[Fault]:
        launched = one.state != "reserved"
        yield from belong(at, one, {"sender": launched, "run": one.state == "bound"})
        if launched != bool(one.lifecycle_writes):
            yield Fault(f"{at}/lifecycle_writes", f"{one.lifecycle_writes} on a {one.state} launch")
        pinned = one.profile.principal
        principal = one.credential_principal
        if launched and pinned is UNSET and principal is UNSET:
            yield Fault(f"{at}/credential_principal", "is missing")
        if principal is not UNSET and (not launched or pinned not in (UNSET, principal)):
            yield Fault(f"{at}/credential_principal", "is not the one of this launch")
        if not launched and one.reason is not UNSET:
            yield Fault(f"{at}/reason", "belongs to no reserved launch")
        run = one.run
        if run is not UNSET and (run.repository, run.workflow, run.ref) != (
            self._state.repository,
            one.profile.workflow,
            one.profile.ref,
        ):
            yield Fault(f"{at}/run", "is not one of the profile")
        pool = self._state.policy.pools.get(one.pool)
        if one.released:
            return
        if pool is None or one.policy_epoch != self._state.policy_epoch:
            yield Fault(f"{at}/policy_epoch", "an unreleased dispatch is older than the policy")
        elif one.lifecycle_writes > reserve.lifecycle_limit(pool):
            yield Fault(f"{at}/lifecycle_writes", f"more than {reserve.lifecycle_limit(pool)}")
