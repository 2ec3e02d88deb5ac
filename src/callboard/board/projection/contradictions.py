"""What in a restored state contradicts itself, so that no valid history could have led to it.

Source: specification 1, §7.10; wire-v3 §§6, 8. A checkpoint stands for a history that may not be at
hand, so each thing that is said twice in it must agree, and each thing that is named must be there.
It judges; it changes nothing and never follows a reference before it is known to lead somewhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import UNSET

from callboard.board.projection import reserve
from callboard.board.projection.snapshot import (
    ClaimRecord,
    ClockRecord,
    DispatchRecord,
    RequestRecord,
    StateRecord,
    WorkRecord,
)
from callboard.board.protocol import envelope, identities
from callboard.board.protocol.operations import WorkDependency
from callboard.board.protocol.rules import observation_faults, policy_faults, work_faults
from callboard.board.protocol.validate import MAX_FAULTS, Fault, pointer_step, show
from callboard.canonical import encode_trusted, sha256_hex
from callboard.errors import CallboardError

FIRST_GENERATION = "initial"


class Contradictions:
    """Looks through one state and its requests; `found` lists what is wrong, with pointers."""

    def __init__(self, state: StateRecord, requests: list[RequestRecord]) -> None:
        self._state = state
        self._requests = requests
        self._commits = {one.id: place for place, one in enumerate(requests)}
        self.found: list[Fault] = []

    def look(self) -> list[Fault]:
        """Everything that is wrong, up to `MAX_FAULTS`; what builds on it is not looked at."""
        stages = (
            self._requests_stand,
            self._policy_stands,
            self._works_stand,
            self._claims_stand,
            self._dispatches_stand,
            self._observations_stand,
            self._clocks_stand,
            self._totals_agree,
        )
        for stage in stages:
            for fault in stage():
                self.found.append(fault)
                if len(self.found) >= MAX_FAULTS:
                    return self.found
            if self.found:
                return self.found
        return self.found

    # --- requests ---

    def _requests_stand(self) -> Iterator[Fault]:
        state, requests = self._state, self._requests
        if not requests:
            yield Fault("/requests", "no request stands, and a history has one at least")
            return
        if len(self._commits) != len(requests):
            yield Fault("/requests", "a commit id stands twice")
        if len({one.request_id for one in requests}) != len(requests):
            yield Fault("/requests", "a request id stands twice")
        if requests[0].kind not in ("submit", "policy"):
            yield Fault("/requests/0/kind", f"a {requests[0].kind} begins no board")
        last = requests[-1]
        for name, found, wanted in (
            ("tip", state.tip, last.id),
            ("policy_epoch", state.policy_epoch, last.policy_epoch),
            ("last_at", state.last_at, last.at),
        ):
            if found != wanted:
                yield Fault(f"/{name}", f"{show(found)} is not {show(wanted)}, the last request's")
        for place, request in enumerate(requests):
            yield from self._request(f"/requests/{place}", request)

    def _request(self, at: str, request: RequestRecord) -> Iterator[Fault]:
        if request.policy_epoch not in self._state.seen_epochs:
            yield Fault(f"{at}/policy_epoch", f"{show(request.policy_epoch)} was never installed")
        if request.actor.repository != self._state.repository:
            yield Fault(f"{at}/actor/repository", "is not the board's")
        try:
            envelope.check_asking(request.actor, request.kind)
        except CallboardError as error:
            yield Fault(f"{at}/kind", error.message)
        parameters = request.dispatch_parameters
        if (request.kind == "dispatch_next") != (parameters is not UNSET):
            yield Fault(f"{at}/dispatch_parameters", "belong to a dispatch_next, and to none else")
        elif parameters is not UNSET:
            asked = encode_trusted(parameters)
            if request.parameters_digest != sha256_hex(asked):
                yield Fault(f"{at}/parameters_digest", "is not that of the parameters")
            if request.fingerprint != identities.fingerprint_of_bytes(
                request.actor, request.kind, asked
            ):
                yield Fault(f"{at}/fingerprint", "is not that of actor, kind and parameters")
        if (request.kind == "dispatch_next") != bool(request.claims):
            yield Fault(f"{at}/claims", "a dispatch_next has Claims, and nothing else has")

    def _commit(self, at: str, commit_id: object, kinds: tuple[str, ...]) -> Iterator[Fault]:
        """Whether a commit stands that may have done this."""
        place = self._commits.get(commit_id) if isinstance(commit_id, str) else None
        if place is None:
            yield Fault(at, f"{show(_plain(commit_id))} is no commit of this history")
        elif self._requests[place].kind not in kinds:
            yield Fault(at, f"commit {show(commit_id)} is a {self._requests[place].kind}")

    # --- the policy ---

    def _policy_stands(self) -> Iterator[Fault]:
        state = self._state
        for fault in policy_faults(state.policy):
            yield Fault("/policy" + fault.pointer, fault.message)
        for name, marks, needed in (
            ("seen_epochs", state.seen_epochs, {one.policy_epoch for one in self._requests}),
            (
                "seen_generations",
                state.seen_generations,
                {FIRST_GENERATION, state.credential_generation},
            ),
        ):
            if not all(marks.values()):
                yield Fault(f"/{name}", "marks are true")
            for one in sorted(needed - marks.keys()):
                yield Fault(f"/{name}{pointer_step(one)}", "is missing")
        for one in state.seen_epochs.keys() - {one.policy_epoch for one in self._requests}:
            yield Fault(f"/seen_epochs{pointer_step(one)}", "no request was made under it")

    # --- Work ---

    def _works_stand(self) -> Iterator[Fault]:
        places: set[tuple[int, int]] = set()
        pools: dict[str, str] = {}
        for work_id, work in self._state.works.items():
            at = f"/works/{work_id}"
            if work.work_id != work_id:
                yield Fault(f"{at}/work_id", f"{work.work_id} is not the key")
            for fault in work_faults(work):
                yield Fault(at + fault.pointer, fault.message)
            if pools.setdefault(work.graph_id, work.pool) != work.pool:
                yield Fault(f"{at}/pool", f"the graph is in {show(pools[work.graph_id])}")
            place = (work.position.commit, work.position.operation)
            if place in places:
                yield Fault(f"{at}/position", "another Work has the same place")
            places.add(place)
            yield from self._position(at, work)
            yield from self._predecessors(at, work)
            yield from self._work_facts(at, work)
        if not self.found:
            yield from self._cycles()

    def _position(self, at: str, work: WorkRecord) -> Iterator[Fault]:
        ordinal = work.position.commit
        if ordinal >= len(self._requests) or self._requests[ordinal].kind != "submit":
            yield Fault(f"{at}/position/commit", f"commit {ordinal} submitted nothing")
        elif ordinal == 0 and work.position.operation == 0:
            yield Fault(f"{at}/position/operation", "the first commit begins with its Policy")

    def _predecessors(self, at: str, work: WorkRecord) -> Iterator[Fault]:
        works = self._state.works
        waits = False
        for index, edge in enumerate(work.depends_on):
            if not isinstance(edge, WorkDependency):
                continue
            known = works.get(edge.work_id)
            if known is None or known.graph_id != work.graph_id:
                yield Fault(f"{at}/depends_on/{index}", f"{edge.work_id} is not in the graph")
            elif known.position.commit > work.position.commit:
                yield Fault(f"{at}/depends_on/{index}", f"{edge.work_id} came later")
            waits = waits or known is None or known.barrier != "verified"
        if waits and work.state in ("claimed", "completed"):
            yield Fault(f"{at}/state", f"is {work.state} before its predecessors are verified")
        if work.replacement_of is not UNSET:
            old = works.get(work.replacement_of.work_id)
            if old is None or old.barrier != "failed":
                yield Fault(f"{at}/replacement_of/work_id", "is no Work whose delivery failed")

    def _work_facts(self, at: str, work: WorkRecord) -> Iterator[Fault]:
        """Which fields come with which state, and what they name."""
        completed, cancelled = work.state == "completed", work.state == "cancelled"
        verified, failed = work.barrier == "verified", work.barrier == "failed"
        if completed != (work.barrier != "none"):
            yield Fault(f"{at}/barrier", f"{work.barrier} on {work.state} Work")
        yield from _belong(
            at,
            work,
            {
                "claim_id": work.state in ("claimed", "completed"),
                "completion_id": completed,
                "result": verified,
                "result_commit_id": verified,
                "disposition": failed,
                "cancellation_reason": cancelled,
                "cancellation_commit_id": cancelled,
            },
        )
        if completed:
            yield from self._commit(f"{at}/completion_id", work.completion_id, ("finish",))
            place = self._commits.get(str(work.completion_id))
            wanted = None if place is None else self._requests[place].at
            yield from self._listed("completion_times", work.work_id, wanted)
        if verified:
            yield from self._commit(f"{at}/result_commit_id", work.result_commit_id, ("result",))
        if cancelled:
            yield from self._commit(
                f"{at}/cancellation_commit_id", work.cancellation_commit_id, _CANCELLING
            )
            yield from self._listed("cancellations", work.work_id, work.cancellation_commit_id)
        if verified or failed:
            yield from self._listed("terminal_barriers", work.work_id, work.barrier)
        if not cancelled and not (completed and work.barrier != "pending"):
            yield from self._open_work(at, work)

    def _open_work(self, at: str, work: WorkRecord) -> Iterator[Fault]:
        """What is not settled was admitted under the installed policy."""
        pool = self._state.policy.pools.get(work.pool)
        if pool is None:
            yield Fault(f"{at}/pool", f"there is no pool {show(work.pool)}")
            return
        profile = pool.profiles.get(work.worker_profile)
        if profile is None or profile.trust_domain != work.batch_trust_domain:
            yield Fault(f"{at}/worker_profile", "the pool has no such profile and trust domain")
        limit = pool.retry.max_attempts - (work.state == "available")
        if work.attempts > limit:
            yield Fault(f"{at}/attempts", f"{work.attempts} of {pool.retry.max_attempts} are used")
        admitted = self._requests[work.position.commit : work.position.commit + 1]
        if any(one.policy_epoch != self._state.policy_epoch for one in admitted):
            yield Fault(f"{at}/position", "open Work is older than the installed policy")

    def _listed(self, name: str, key: str, wanted: object) -> Iterator[Fault]:
        found = getattr(self._state, name).get(key)
        if found != wanted:
            yield Fault(
                f"/{name}/{key}", f"{show(found)} is not {show(_plain(wanted))}, the Work's"
            )

    def _cycles(self) -> Iterator[Fault]:
        """One of the Work that waits for itself, if any: what is left when all else is taken."""
        works = self._state.works
        open_edges = {key: len(work.predecessors) for key, work in works.items()}
        dependents: dict[str, list[str]] = {}
        for key, work in works.items():
            for predecessor in work.predecessors:
                dependents.setdefault(predecessor, []).append(key)
        free = [key for key, count in open_edges.items() if not count]
        while free:
            key = free.pop()
            del open_edges[key]
            for dependent in dependents.get(key, ()):
                open_edges[dependent] -= 1
                if not open_edges[dependent]:
                    free.append(dependent)
        for key in sorted(open_edges)[:1]:
            yield Fault(f"/works/{key}/depends_on", "leads back to the Work itself")

    # --- Claims ---

    def _claims_stand(self) -> Iterator[Fault]:
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
        yield from _belong(
            at, claim, {"terminal_commit_id": ended, "cancellation_reason": cancelled}
        )
        if claim.retry_not_before is not UNSET and not cancelled:
            yield Fault(f"{at}/retry_not_before", f"belongs to no {claim.state} Claim")
        if ended:
            kinds = _CANCELLING if cancelled else ("finish",)
            yield from self._commit(f"{at}/terminal_commit_id", claim.terminal_commit_id, kinds)
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

    # --- dispatches ---

    def _dispatches_stand(self) -> Iterator[Fault]:
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
        place = self._commits.get(one.commit_id)
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
        yield from _belong(at, one, {"sender": launched, "run": one.state == "bound"})
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

    # --- gates, clocks, totals ---

    def _observations_stand(self) -> Iterator[Fault]:
        state = self._state
        gates = set()
        for key, one in state.observation_ids.items():
            at = f"/observation_ids{pointer_step(key)}"
            if one.observation_id != key:
                yield Fault(f"{at}/observation_id", "is not the key")
            if one.credential_generation not in state.seen_generations:
                yield Fault(f"{at}/credential_generation", "was never in use")
            for fault in observation_faults(one):
                yield Fault(at + fault.pointer, fault.message)
            gates.add(identities.gate_identity(one))
        for key, one in state.observations.items():
            at = f"/observations{pointer_step(key)}"
            if key != identities.gate_identity(one):
                yield Fault(at, "the key is not the gate's identity")
            if state.observation_ids.get(one.observation_id) != one:
                yield Fault(at, f"{show(one.observation_id)} stands otherwise")
        if gates != state.observations.keys():
            yield Fault("/observations", "are not one for each gate that was seen")
        if state.observation_writes != len(state.observation_ids):
            yield Fault("/observation_writes", f"{len(state.observation_ids)} observations stand")

    def _clocks_stand(self) -> Iterator[Fault]:
        policy = self._state.policy
        for name, clocks in self._state.clocks.items():
            at = f"/clocks{pointer_step(name)}"
            if name not in policy.pools:
                yield Fault(at, "there is no such pool")
            yield from _clock(f"{at}/classes", clocks.classes, _CLASSES)
            for priority, clock in clocks.keys.items():
                yield from _clock(f"{at}/keys/{priority}", clock, None)

    def _totals_agree(self) -> Iterator[Fault]:
        state = self._state
        counted = {"available": 0, "claimed": 0, "completed": 0, "cancelled": 0}
        gates = set()
        for work in state.works.values():
            counted[work.state] += 1
            for gate in work.gates:
                gates.add((work.graph_id, identities.gate_identity(gate)))
        counted |= {
            "work": len(state.works),
            "claims": len(state.claims),
            "dispatches": sum(not one.released for one in state.dispatches.values()),
            "transactions": len(self._requests),
            "nodes": len(state.works) + len(gates),
        }
        for name, number in counted.items():
            if getattr(state.stats, name) != number:
                yield Fault(f"/stats/{name}", f"{getattr(state.stats, name)}, counted are {number}")
        states = [(key, one.state, one.barrier) for key, one in state.works.items()]
        for name, keys in (
            ("completion_times", {key for key, phase, _ in states if phase == "completed"}),
            ("cancellations", {key for key, phase, _ in states if phase == "cancelled"}),
            ("terminal_barriers", {key for key, _, one in states if one in ("verified", "failed")}),
        ):
            for key in sorted(getattr(state, name).keys() - keys)[:1]:
                yield Fault(f"/{name}/{key}", "names Work to which that has not happened")


_CANCELLING = ("finish", "release", "cancel_claim", "cancel_work")
_CLASSES = frozenset("12345")


def _belong(at: str, record: Any, wanted: dict[str, bool]) -> Iterator[Fault]:
    """Fields that are there exactly when they are wanted."""
    for name, needed in wanted.items():
        if (getattr(record, name) is not UNSET) != needed:
            what = "is missing" if needed else "has no place"
            yield Fault(f"{at}/{name}", f"{what}, the state being {record.state}")


def _clock(at: str, clock: ClockRecord, names: frozenset[str] | None) -> Iterator[Fault]:
    for name in sorted(clock.active):
        if not clock.active[name] or name not in clock.passes:
            yield Fault(f"{at}/active{pointer_step(name)}", "is not true, or has no pass")
    for name in sorted(clock.passes):
        if names is not None and name not in names:
            yield Fault(f"{at}/pass{pointer_step(name)}", "is no priority class")


def _plain(value: object) -> object:
    return None if value is UNSET else value
