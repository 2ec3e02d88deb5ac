"""Ledgers of any size for the benchmarks, made by the engine itself from whole task lives.

Deterministic: the same size gives the same bytes. Nearly all Work is settled at the end, as on a
board that has been in use for a while.
"""

from __future__ import annotations

from callboard.board.ledger import replay
from callboard.board.projection.entities import DispatchState
from callboard.board.projection.state import Projection
from callboard.board.protocol import commit as wire
from callboard.board.protocol import identities
from callboard.board.protocol import operations as ops
from callboard.board.protocol.envelope import read_line
from callboard.board.protocol.policy import (
    CEILINGS,
    PolicyDocument,
    Pool,
    Profile,
    Reconciliation,
    Retry,
)
from callboard.board.publishing import administration, lifecycle
from callboard.board.publishing.assembly import assemble
from callboard.board.publishing.intents import DispatchNext, Intent, Nothing, Submit
from callboard.board.publishing.lifecycle import Proof
from callboard.board.publishing.plan import parse_plan

KEYS = 64
BACKLOG = 224
ROOM_TO_SUBMIT = 256 * 1024
"""How far below the watermark the last plan is posted."""
NODES_A_PLAN = 64
REPOSITORY = "example/app"
DISPATCHER = ops.Actor(role="dispatcher", principal="7", repository=REPOSITORY)
SENDER = ops.Actor(
    role="dispatcher",
    principal="7",
    repository=REPOSITORY,
    workflow=".callboard/dispatch",
    run_id="77",
    run_attempt=1,
)
RECONCILER = ops.Actor(role="reconciler", principal="7", repository=REPOSITORY)
ADMINISTRATOR = ops.Actor(role="administrator", principal="7", repository=REPOSITORY)
PRODUCER = ops.Actor(role="producer", principal="7", repository=REPOSITORY)


def policy() -> PolicyDocument:
    """One pool, one worker, 64 keys of different weight beside the default one."""
    profile = Profile(
        workflow=".callboard/workers/default.toml",
        ref="a" * 40,
        trust_domain="default",
        credential_scope="repository",
        effect_scope=REPOSITORY,
        max_claims=1,
        share_keys=False,
    )
    return PolicyDocument(
        mode="weighted-priority",
        class_weights=[8, 4, 2, 1, 1],
        accounting_weights={"": 1, **{f"key-{n}": 1 + n % 5 for n in range(KEYS)}},
        authorization="aw",
        producers={},
        pools={
            "default": Pool(
                default_profile="default",
                profiles={"default": profile},
                logical_limit=64,
                native_limit=64,
                allowed_repositories=[REPOSITORY],
                max_observation_age_ms=60_000,
                retry=Retry(max_attempts=3, backoff_ms=30_000),
                reconciliation=Reconciliation(max_attempts=5, deadline_ms=300_000),
            )
        },
        limits=CEILINGS,
    )


class Writer:
    """Writes commit after commit at a moving time and keeps the lines."""

    def __init__(self) -> None:
        self.projection = Projection()
        self.lines: list[bytes] = []
        self.size_bytes = 0
        self._at = 1_700_000_000_000

    def publish(self, intent: Intent) -> bool:
        """Append what the intent makes; False where it makes nothing."""
        self._at += 7
        candidate = intent.build(self.projection, self._at, self._commit_id(intent))
        if isinstance(candidate, Nothing):
            return False
        commit = assemble(self.projection, intent, candidate, self._at)
        line = replay.commit_bytes(commit)
        replay.apply(self.projection, read_line(line[:-1]))
        self.lines.append(line)
        self.size_bytes += len(line)
        return True

    def _commit_id(self, intent: Intent) -> str:
        return identities.commit_id(self.projection.tip, intent.request_id)


def submit(writer: Writer, number: int, nodes: int = NODES_A_PLAN) -> None:
    """Post a graph: one root, the rest in two layers behind it."""
    keys = [f"n{index}" for index in range(nodes)]
    plan = parse_plan(
        {
            "graph": f"campaign-{number}",
            "nodes": [
                {
                    "key": key,
                    "payload": {"task": f"check part {index} of campaign {number}", "n": index},
                    "fairness_key": f"key-{(number + index) % KEYS}",
                    "priority": 1 + index % 5,
                    "after": [] if index == 0 else [keys[(index - 1) // 8]],
                }
                for index, key in enumerate(keys)
            ],
        }
    )
    writer.publish(Submit(f"submit-{number}", PRODUCER, plan, policy, lambda _routes, _works: None))


def settle_one(writer: Writer, number: int) -> bool:
    """Grant, launch, finish, verify and release one Work; False where none is ready."""
    parameters = wire.DispatchNextParameters(
        pool="default", max_claims=1, max_dispatches=1, max_bytes=49_152
    )
    if not writer.publish(DispatchNext(f"grant-{number}", DISPATCHER, parameters)):
        return False
    end_dispatch(writer, next(iter(writer.projection.open_dispatches)), number)
    return True


def end_dispatch(writer: Writer, dispatch_id: str, number: int) -> None:
    """Launch, finish, verify and release a granted group; `number` names its run."""
    state = writer.projection.dispatches[dispatch_id]
    run = host_run(state, 10**38 + number)
    worker = worker_of(state, run)
    writer.publish(lifecycle.start(dispatch_id, SENDER, "7"))
    writer.publish(lifecycle.bind(dispatch_id, run, worker))
    for member in state.assignment.claims:
        acting = worker_of(state, run, member.handle)
        writer.publish(lifecycle.finish(dispatch_id, member.handle, "completed", acting))
        proof = Proof("delivery", "verified_receipts", receipt="git-readback")
        outputs: dict[str, object] = {"version": 1, "outputs": []}
        writer.publish(lifecycle.deliver(member.work_id, outputs, proof, RECONCILER))
    ended = Proof("terminal_run", "host_api", conclusion="success")
    writer.publish(lifecycle.release(dispatch_id, ended, "run_ended", RECONCILER))


def host_run(state: DispatchState, number: int) -> ops.Run:
    """A run of this host that fits a group."""
    return ops.Run(
        run_id=str(number),
        run_attempt=1,
        repository=REPOSITORY,
        workflow=state.profile.workflow,
        ref=state.profile.ref,
        principal="7",
        event="host_dispatch",
    )


def worker_of(state: DispatchState, run: ops.Run, handle: str = "h1") -> ops.Actor:
    """The worker of a group's run, for one member."""
    return ops.Actor(
        role="worker",
        principal="7",
        repository=REPOSITORY,
        workflow=state.profile.workflow,
        run_id=run.run_id,
        run_attempt=1,
        dispatch_id=state.assignment.dispatch_id,
        claim_handle=handle,
    )


def ledger_of_bytes(size_bytes: int) -> bytes:
    """A ledger of about `size_bytes` with about `BACKLOG` open Work all along.

    That is as much as the reserve has room for where the ledger comes near its watermark. What
    goes beyond the watermark is what may: everything is cancelled, and then there are controls.
    """
    writer = Writer()
    plans = runs = 0
    watermark = min(size_bytes, CEILINGS.ledger_bytes - ROOM_TO_SUBMIT)
    while writer.size_bytes < watermark:
        counters = writer.projection.counters
        if counters.available < BACKLOG:
            submit(writer, plans)
            plans += 1
        elif settle_one(writer, runs):
            runs += 1
    if watermark < size_bytes:
        _cancel(writer, "drain", list(writer.projection.works))
    while size_bytes - writer.size_bytes > 2048:
        paused = writer.projection.admission_paused
        name = f"control-{len(writer.lines)}"
        writer.publish(
            administration.control(name, "admission_paused", not paused, "benchmark", ADMINISTRATOR)
        )
    return b"".join(writer.lines)


def _cancel(writer: Writer, name: str, works: list[str]) -> None:
    """End those of the Work that wait."""
    left = [one for one in works if writer.projection.works[one].state == "available"]
    for start in range(0, len(left), CEILINGS.operations):
        part = left[start : start + CEILINGS.operations]
        intent = administration.cancel_work(f"{name}-{start}", part, "not_needed", PRODUCER)
        writer.publish(intent)


def ledger_of_nodes(nodes: int) -> bytes:
    """A ledger with at least `nodes` Work: half settled by runs, half cancelled, one plan open."""
    writer = Writer()
    plans = runs = 0
    while writer.projection.counters.work < nodes:
        submit(writer, plans)
        plans += 1
        for _run in range(NODES_A_PLAN // 2):
            runs += settle_one(writer, runs)
        posted = writer.projection.requests[f"submit-{plans - 1}"].works
        _cancel(writer, f"cancel-{plans}", list(posted))
    submit(writer, plans)
    return b"".join(writer.lines)
