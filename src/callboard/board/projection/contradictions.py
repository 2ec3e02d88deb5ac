"""What in a restored state contradicts itself, so that no valid history could have led to it.

Source: specification 1, §7.10; wire-v3 §§6, 8. A checkpoint stands for a history that may not be at
hand, so each thing that is said twice in it must agree, and each thing that is named must be there.
It judges; it changes nothing and never follows a reference before it is known to lead somewhere.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import UNSET

from callboard.board.projection.contradictions_of_evolution import EvolutionContradictions
from callboard.board.projection.contradictions_of_runs import RunContradictions
from callboard.board.projection.grounds import CANCELLING, Ground, belong, plain
from callboard.board.projection.snapshot import (
    ClockRecord,
    RequestRecord,
    StateRecord,
    WorkRecord,
)
from callboard.board.protocol import envelope, identities
from callboard.board.protocol.operations import WorkDependency
from callboard.board.protocol.rules import observation_faults, policy_faults, work_faults
from callboard.canonical import encode_trusted, sha256_hex
from callboard.errors import CallboardError
from callboard.validate import MAX_FAULTS, Fault, pointer_step, show

FIRST_GENERATION = "initial"


class Contradictions:
    """Looks through one state and its requests; `found` lists what is wrong, with pointers."""

    def __init__(self, state: StateRecord, requests: list[RequestRecord]) -> None:
        self._ground = Ground(state, requests)
        self._state = state
        self._requests = requests
        self._commits = self._ground.commits
        self.found: list[Fault] = []

    def look(self) -> list[Fault]:
        """Everything that is wrong, up to `MAX_FAULTS`; what builds on it is not looked at."""
        runs = RunContradictions(self._ground)
        evolution = EvolutionContradictions(self._ground)
        stages = (
            self._requests_stand,
            self._policy_stands,
            evolution.routes,
            self._works_stand,
            evolution.works,
            runs.claims,
            runs.dispatches,
            evolution.mirrors,
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
        yield from belong(
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
            yield from self._ground.commit(f"{at}/completion_id", work.completion_id, ("finish",))
            place = self._commits.get(str(work.completion_id))
            wanted = None if place is None else self._requests[place].at
            yield from self._listed("completion_times", work.work_id, wanted)
        if verified:
            yield from self._ground.commit(
                f"{at}/result_commit_id", work.result_commit_id, ("result",)
            )
        if cancelled:
            yield from self._ground.commit(
                f"{at}/cancellation_commit_id", work.cancellation_commit_id, CANCELLING
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
            yield Fault(f"/{name}/{key}", f"{show(found)} is not {show(plain(wanted))}, the Work's")

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


_CLASSES = frozenset("12345")


def _clock(at: str, clock: ClockRecord, names: frozenset[str] | None) -> Iterator[Fault]:
    for name in sorted(clock.active):
        if not clock.active[name] or name not in clock.passes:
            yield Fault(f"{at}/active{pointer_step(name)}", "is not true, or has no pass")
    for name in sorted(clock.passes):
        if names is not None and name not in names:
            yield Fault(f"{at}/pass{pointer_step(name)}", "is no priority class")
