"""Agents without a Claim: started with what they may know, answered for what they asked.

Source: specification 1, §7.12. An agent proposes and requests; what it staged is published here, by
the trusted side, once it is over. Each request is named after the intent it came from, so that an
activation may be settled again after any crash, and changes nothing a second time.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from msgspec import UNSET, UnsetType, structs

from callboard import canonical, files
from callboard.board import outcomes
from callboard.board.board import Board
from callboard.board.execution.activation_files import (
    CLIENT_VARIABLE,
    ActivationFiles,
)
from callboard.board.execution.hosts.local.run_folder import RunFolder
from callboard.board.execution.intent_checks import INTENT_CHECKS, read_plan
from callboard.board.outputs.agent_intents import AgentIntent, BatchIntent, PlanIntent
from callboard.board.outputs.agent_staging import take_intents
from callboard.board.outputs.claims import Refusal
from callboard.board.outputs.context import CONTEXT_VARIABLE, AgentTerms
from callboard.board.outputs.folder import StagingFolder
from callboard.board.outputs.messages import Terms
from callboard.board.outputs.staging import prepare_folder
from callboard.board.protocol.agent_roles import AgentRole
from callboard.board.protocol.policy import Record
from callboard.board.protocol.scalars import Identity
from callboard.board.publishing.intents import Nothing
from callboard.board.reading.activation import Viewer
from callboard.board.storage.refusals import UNWRITABLE
from callboard.board.storage.remote_refusals import UNPUBLISHED
from callboard.errors import CallboardError
from callboard.validate import parse

AGENTS_FOLDER = "agents"
MAX_RECORD_BYTES = 64 * 1024
_ID = re.compile(r"[0-9a-f]{32}")
# Nothing was judged, so the intent is still to be answered.
_UNJUDGED = UNPUBLISHED | UNWRITABLE


class _Record(Record, frozen=True, kw_only=True):
    """What the trusted side keeps of an activation, out of the agent's sight."""

    version: Literal[1]
    board: Identity
    role: AgentRole
    terms: AgentTerms | UnsetType = UNSET


@dataclass(frozen=True, slots=True)
class Activation:
    """One start of an agent. `root` is its folder; the agent is told of `files` and `staging`."""

    id: str
    root: Path
    role: AgentRole
    terms: AgentTerms | None

    @property
    def files(self) -> ActivationFiles:
        """What the agent reads."""
        return ActivationFiles(self.root / "agent")

    @property
    def staging(self) -> Path:
        """Where the agent leaves its wishes."""
        return self.root / "agent" / "staging"

    @property
    def taken(self) -> Path:
        """Where its wishes lie once they were taken in; the agent stages nothing there."""
        return self.root / "taken"

    @property
    def outcomes(self) -> Path:
        """What became of its intents, for who settles it again."""
        return self.root / "outcomes.json"

    def variables(self, environment: Mapping[str, str]) -> dict[str, str]:
        """The environment of the agent: that of its person, but for what steers Git or us.

        The agent's own model may need anything else that is there, so this keeps no secret from it;
        it is the tools that cannot reach a board.
        """
        kept = {
            name: value
            for name, value in environment.items()
            if not name.startswith(("GIT_", "CALLBOARD_"))
        }
        search = kept.get("PATH", os.defpath)
        return kept | {
            "PATH": f"{RunFolder(self.root).bin}{os.pathsep}{search}",
            CONTEXT_VARIABLE: str(self.files.context),
            CLIENT_VARIABLE: str(self.files.client),
        }


@dataclass(slots=True)
class Settled:
    """What became of one activation: its intents in their order, and messages that do not stand."""

    intents: list[dict[str, Any]] = field(default_factory=list)
    refusals: list[dict[str, Any]] = field(default_factory=list)

    @property
    def is_refused(self) -> bool:
        """Whether anything that the agent asked was refused."""
        return bool(self.refusals) or any(one["status"] == "refused" for one in self.intents)

    def document(self) -> dict[str, Any]:
        """The JSON form."""
        return {"intents": self.intents, "refusals": self.refusals}


def activate(board: Board, role: AgentRole, terms: AgentTerms) -> Activation:
    """Make the private folder of a new agent, with a snapshot of the board as it is now.

    Raises `role_forbidden` for a worker, which only a launch makes, and `activation_failed`.
    """
    if role == "worker":
        raise CallboardError(
            "role_forbidden",
            "a worker is made by a launch of the board, not by starting an agent",
            "start it as observer, producer or dispatcher",
        )
    if terms.pool is not None:
        board.pool_name(terms.pool)
    projection = board.history().projection
    if projection.tip is not None:
        terms = structs.replace(terms, pools=sorted(projection.policy.pools))
    identity = secrets.token_hex(16)
    root = board.site.folders.state / AGENTS_FOLDER / identity
    can_ask = role != "observer"
    activation = Activation(identity, root, role, terms if can_ask else None)
    viewer = Viewer(role, board.site.principal if can_ask else board.site.known_principal)
    try:
        root.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        for place in (root, activation.files.root):
            place.mkdir(mode=0o700)
        folder = RunFolder(root)
        folder.bin.mkdir(mode=0o700)
        folder.put_command(activation.files.context)
        record = _Record(
            version=1, board=board.site.key, role=role, terms=terms if can_ask else UNSET
        )
        files.publish(root / "activation.json", canonical.encode(record), private=True)
        if can_ask:
            prepare_folder(activation.staging, Terms())
        activation.files.put_snapshot(board.view(), viewer)
        activation.files.put_client([str(folder.command)])
        activation.files.put(
            viewer, staging=activation.staging if can_ask else None, terms=activation.terms
        )
    except OSError as error:
        raise CallboardError(
            "activation_failed",
            f"the agent's folder cannot be written: {error.strerror}",
            "check free space and permissions of the state folder: callboard whoami",
        ) from error
    return activation


@contextlib.contextmanager
def holding(activation: Activation) -> Iterator[int]:
    """Keep an activation to oneself, while its agent runs or its intents are answered.

    Answers the descriptor that holds it; a process that inherits it holds it as well. Raises
    `activation_running` where somebody else has it; a dead process has nothing.
    """
    with (activation.root / "lock").open("ab") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise CallboardError(
                "activation_running",
                f"activation {activation.id} is in the hands of a living process",
                "wait until its agent, and all that it started, has ended",
                {"activation": activation.id},
            ) from error
        yield lock.fileno()


def activation_of(board: Board, identity: str) -> Activation:
    """The activation of that id on this board; `activation_unknown`."""
    root = board.site.folders.state / AGENTS_FOLDER / identity
    if not _ID.fullmatch(identity) or not root.is_dir():
        raise _unknown(identity, "there is none of that id here")
    data = files.read_bounded(
        root / "activation.json", MAX_RECORD_BYTES, what="the record of an activation"
    )
    record = parse(
        _Record, canonical.decode(data), what="record of an activation", code="activation_damaged"
    )
    if record.board != board.site.key:
        raise _unknown(identity, "it belongs to another board")
    terms = record.terms if isinstance(record.terms, AgentTerms) else None
    return Activation(identity, root, record.role, terms)


def unsettled(board: Board) -> tuple[list[Activation], list[str]]:
    """The activations on this board that nobody has settled to the end, the oldest first, those
    whose agent still runs among them; and the ids of those whose record cannot be read."""
    folder = board.site.folders.state / AGENTS_FOLDER
    found: list[tuple[int, Activation]] = []
    damaged: list[str] = []
    for root in folder.iterdir() if folder.is_dir() else ():
        if (root / "settled").exists():
            continue
        try:
            activation = activation_of(board, root.name)
        except CallboardError as error:
            # Another board's, or cut short before its record was written: nothing is in that.
            if error.code not in ("activation_unknown", "file_missing"):
                damaged.append(root.name)
            continue
        found.append((root.stat().st_mtime_ns, activation))
    ordered = sorted(found, key=lambda one: (one[0], one[1].id))
    return [activation for _at, activation in ordered], sorted(damaged)


def settle(board: Board, environment: Mapping[str, str], activation: Activation) -> Settled:
    """Publish what an agent staged, each intent for itself and in the order they came.

    Call it while `holding` the activation. What is staged is taken in once: from then on nothing
    more can be, and an intent that was answered keeps its first answer. Raises what leaves an
    intent without any answer, as an unreachable remote does; settling goes on from there when it is
    called again.
    """
    known = outcomes.read(activation.outcomes, activation.id)
    if (activation.root / "settled").exists() or activation.terms is None:
        (activation.root / "settled").touch()
        intents = [{**one, "replayed": True} for one in known.intents]
        return Settled(intents, known.refusals)
    _take_in(activation)
    accepted, refusals = take_intents(
        activation.taken, activation.role, activation.terms, INTENT_CHECKS
    )
    answers = {one["intent_id"]: one for one in known.intents}
    found = Settled(refusals=[_refusal(one) for one in refusals])
    for intent in accepted:
        answer = answers.get(intent.intent_id)
        if answer is None:
            answer = _answered(board, environment, activation, intent)
            found.intents.append(answer)
            outcomes.keep(activation.outcomes, activation.id, found.document())
        else:
            found.intents.append({**answer, "replayed": True})
    outcomes.keep(activation.outcomes, activation.id, found.document())
    (activation.root / "settled").touch()
    return found


def _take_in(activation: Activation) -> None:
    """Move what the agent staged out of its reach; whoever still stages is refused."""
    if not activation.staging.exists():
        return
    try:
        with contextlib.suppress(CallboardError), StagingFolder(activation.staging) as folder:
            folder.close_for_good()
        activation.staging.rename(activation.taken)
    except OSError as error:
        raise outcomes.unwritable(activation.id, "staging folder", error) from error


def _refusal(refusal: Refusal) -> dict[str, Any]:
    document = refusal.document()
    return {name: value for name, value in document.items() if name != "claim_handle"}


def _answered(
    board: Board, environment: Mapping[str, str], activation: Activation, intent: AgentIntent
) -> dict[str, Any]:
    request_id = _request_id(activation, intent)
    document: dict[str, Any] = {
        "intent_id": intent.intent_id,
        "kind": intent.kind,
        "request_id": request_id,
    }
    try:
        if isinstance(intent, PlanIntent):
            receipt = _posted(board, activation, intent, request_id)
        else:
            receipt = _granted(board, environment, intent, request_id)
    except CallboardError as error:
        if error.code in _UNJUDGED:
            raise
        return {**document, "status": "refused", "replayed": False, "error": error.document()}
    return {**document, **receipt}


def _posted(
    board: Board, activation: Activation, intent: PlanIntent, request_id: str
) -> dict[str, Any]:
    assert intent.data is not None
    role: Literal["producer", "dispatcher"] = (
        "dispatcher" if activation.role == "dispatcher" else "producer"
    )
    (part,) = board.submit(read_plan(intent.data), request_id=request_id, role=role)
    return _receipt(board, part.outcome, request_id)


def _granted(
    board: Board, environment: Mapping[str, str], intent: BatchIntent, request_id: str
) -> dict[str, Any]:
    asked = board.batch(intent.pool, intent.max_claims, intent.max_dispatches)
    answer = board.dispatch(environment, asked, request_id=request_id)
    return {
        **_receipt(board, answer.outcome, request_id),
        "launches": [
            {"dispatch_id": one.dispatch_id, "status": one.status, "run_id": one.run_id}
            for one in answer.launches
        ],
        "troubles": {name: error.document() for name, error in answer.troubles.items()},
    }


def _receipt(board: Board, outcome: Any, request_id: str) -> dict[str, Any]:
    receipt = board.receipt(outcome, request_id=request_id)
    return {
        "status": "nothing" if isinstance(outcome, Nothing) else "accepted",
        "replayed": bool(receipt.get("replayed", False)),
        **({"reason": outcome.reason} if isinstance(outcome, Nothing) else {}),
        "receipt": receipt,
    }


def _request_id(activation: Activation, intent: AgentIntent) -> str:
    """The request that an intent becomes; the same whenever it is asked again."""
    name = canonical.encode({"activation": activation.id, "intent_id": intent.intent_id})
    return f"a_{canonical.sha256_hex(name)}"


def _unknown(identity: str, found: str) -> CallboardError:
    return CallboardError(
        "activation_unknown",
        f"no activation {identity[:80]!r} can be settled: {found}",
        "callboard agent settle without an id settles all that are open",
        {"activation": identity[:80]},
    )
