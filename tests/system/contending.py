"""One of many processes on one board, started as a program: does one thing until it is told to end.

Arguments: the verb (`submit`, `dispatch`, `checkpoint` or `read`), repository, config folder, state
folder, the file that ends it, and a name. Beside the file that ends it, it makes `ready-NAME` and
waits for `go`, so that all of them begin together. A dispatching one carries each Claim through its
whole life on the board without running anything, so that nothing but the writing is measured.
Prints what it did as JSON.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from threading import Event
from typing import Any

from callboard.board.board import Accepted, Board, Folders, new_request_id
from callboard.board.execution.dispatcher import Dispatcher
from callboard.board.execution.hosts.local.registry import new_run_id
from callboard.board.execution.settle import Settler, run_of
from callboard.board.execution.site import Site
from callboard.board.publishing import lifecycle
from callboard.board.publishing.lifecycle import Proof
from callboard.board.publishing.plan import parse_plan


def submitting(board: Board, name: str, end: Path) -> Iterator[dict[str, Any]]:
    """Small plans, each posted twice under one request id, as after a lost answer."""
    number = 0
    while not end.exists():
        number += 1
        nodes = [
            {"key": f"{name}-{number}-a", "payload": {"text": name}, "fairness_key": name},
            {"key": f"{name}-{number}-b", "payload": {}, "after": [f"{name}-{number}-a"]},
        ]
        plan = parse_plan({"graph": name, "nodes": nodes})
        request_id = f"submit-{name}-{number}"
        for _again in range(2):
            (part,) = board.submit(plan, request_id=request_id)
            answer = part.outcome
            assert isinstance(answer, Accepted)
            yield {"request_id": request_id, "commit_id": answer.request.id}


class Host:
    """A host whose runs take no time."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._dispatcher = Dispatcher(site, os.environ)
        self._settler = Settler(site)

    def carry(self, dispatch_id: str) -> None:
        """Take a group from its start marker to its Release."""
        site = self._site
        publish = site.publisher.publish
        actor = self._dispatcher.actor
        started = publish(lifecycle.start(dispatch_id, actor, site.principal))
        assert isinstance(started, Accepted)
        assert started.request.actor == actor
        state = site.publisher.refresh().projection.dispatches[dispatch_id]
        run = run_of(site, state, new_run_id())
        worker = site.run_actor(
            "worker", workflow=run.workflow, run_id=run.run_id, dispatch_id=dispatch_id
        )
        publish(lifecycle.bind(dispatch_id, run, worker))
        for member in state.assignment.claims:
            actor = site.run_actor(
                "worker",
                workflow=run.workflow,
                run_id=run.run_id,
                dispatch_id=dispatch_id,
                claim_handle=member.handle,
            )
            publish(lifecycle.finish(dispatch_id, member.handle, "completed", actor))
            assert self._settler.settle(member.work_id) == "verified"
        proof = Proof("terminal_run", "host_api", conclusion="success")
        publish(lifecycle.release(dispatch_id, proof, "run_ended", site.actor("reconciler")))


def dispatching(board: Board, end: Path) -> Iterator[dict[str, Any]]:
    """Batches of up to three Claims in two groups; ends between two batches."""
    host = Host(board.site)
    while not end.exists():
        request_id = new_request_id()
        answer = board.grant(max_claims=3, max_dispatches=2, request_id=request_id)
        if not isinstance(answer, Accepted):
            continue
        claims = board.history().projection.claims
        for dispatch_id in dict.fromkeys(
            claims[one].claim.dispatch_id for one in answer.request.claims
        ):
            host.carry(dispatch_id)
        yield {
            "request_id": request_id,
            "commit_id": answer.request.id,
            "claims": list(answer.request.claims),
        }


def compacting(board: Board, end: Path) -> Iterator[dict[str, Any]]:
    """Checkpoints, one after the other."""
    while not end.exists():
        document = board.checkpoint()
        sys.stderr.write(f"{document['commit_id']}\n")
        sys.stderr.flush()
        yield {"request_id": document["request_id"], "commit_id": document["commit_id"]}


def reading(board: Board, end: Path) -> Iterator[dict[str, Any]]:
    """Only looks; what it has seen must never become less."""
    seen = 0
    while not end.exists():
        projection = board.history().projection
        assert projection.ordinal >= seen
        if projection.ordinal > seen:
            seen = projection.ordinal
            yield {"commits": seen, "works": projection.counters.work}


def await_others(end: Path, name: str) -> None:
    """Begin with the others."""
    end.with_name(f"ready-{name}").touch()
    pause = Event()
    while not end.with_name("go").exists():
        pause.wait(0.01)


def main() -> None:
    """Do one part until the file is there."""
    verb, repository, config, state, end, name = sys.argv[1:]
    with Board.open(repository, Folders(Path(config), Path(state))) as board:
        board.history()
        await_others(Path(end), name)
        if verb == "submit":
            done = list(submitting(board, name, Path(end)))
        elif verb == "checkpoint":
            done = list(compacting(board, Path(end)))
        elif verb == "read":
            done = list(reading(board, Path(end)))
        else:
            done = list(dispatching(board, Path(end)))
    sys.stdout.write(json.dumps(done) + "\n")


if __name__ == "__main__":
    main()
