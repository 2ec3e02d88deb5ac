"""One layer by itself: its records, the digests of what was frozen, and what lies beside them."""

from __future__ import annotations

from dataclasses import dataclass, field

from callboard.errors import CallboardError
from callboard.layers import tree, updates
from callboard.layers.checking.attempts import check_attempts
from callboard.layers.checking.desk import MAX_INPUT_BYTES, Desk
from callboard.layers.names import is_id
from callboard.layers.records.base import Record, digest
from callboard.layers.records.control import ControlRejection
from callboard.layers.records.evaluation import EvalReceipt
from callboard.layers.records.outcomes import ChildOutcome, ParentAcceptance
from callboard.layers.records.requests import (
    MAX_INDEX_BYTES,
    Acceptance,
    ChildrenIndex,
    ChildRequest,
    DispatchSnapshot,
    Rejection,
)
from callboard.layers.records.session import GoalContract, Session
from callboard.layers.records.state import State
from callboard.layers.records.workflow import WorkflowContract
from callboard.layers.tree import Layer

_FILES = frozenset(
    {"session.json", "goal.md", "goal_contract.json", "workflow_contract.json", "state.json"}
    | {"children.json", "events.jsonl", "control.json", "stop_request.json"}
)
_TOP = frozenset({"workflows"} | {folder.partition("/")[0] for folder in tree.FOLDERS})
_RECEIPT = ".receipt.json"
_AGENTS = (
    "inputs", "inputs/artifacts", "project_state", "project_state/dispatch_inputs", "eval_checks",
    "eval_readiness", "eval_receipts", "git_receipts", "delivery_receipts", "protocol_failures",
    "control_rejected", "child_requests/pending",
)  # fmt: skip
"""Where agents may put what they like, as long as it is plain."""


@dataclass(slots=True)
class Facts:
    """What one layer says of itself; None for what is damaged."""

    place: str
    session: Session | None
    state: State | None = None
    index: ChildrenIndex | None = None
    request: ChildRequest | None = None
    """What it was made from."""
    request_sha256: str | None = None
    accepted: dict[str, Acceptance] = field(default_factory=dict)
    bodies: dict[str, str] = field(default_factory=dict)
    """The digest of each accepted body, by request."""
    outcomes: dict[str, ChildOutcome] = field(default_factory=dict)
    outcome_sha256: dict[str, str] = field(default_factory=dict)
    acceptances: dict[str, ParentAcceptance] = field(default_factory=dict)

    def file(self, *names: str) -> str:
        """The place of something in the layer's folder."""
        return "/".join((self.place, *names))

    @property
    def session_id(self) -> str:
        """By the name of its folder."""
        return self.place.rpartition("/")[2]

    @property
    def depth(self) -> int:
        """By the place of its folder."""
        return len(tree.ids_of(self.place)) - 1


def check_layer(desk: Desk, place: str) -> Facts:
    """Everything that can be told of a layer without its parent and children."""
    facts = Facts(place, None)
    try:
        facts.session = tree.read_layer(desk.disk, place).session
    except CallboardError as error:
        desk.findings.refused(facts.file("session.json"), error)
    _check_inventory(desk, facts)
    contract = _check_frozen(desk, facts)
    _check_state(desk, facts)
    _check_index(desk, facts)
    _check_requests(desk, facts)
    _check_outcomes(desk, facts)
    _check_own_request(desk, facts)
    _check_receipts(desk, facts)
    check_attempts(desk, place, facts.session, facts.state, contract)
    return facts


def _check_inventory(desk: Desk, facts: Facts) -> None:
    for name, kind in desk.entries(facts.place):
        expected = (name in _FILES and kind == "file") or (name in _TOP and kind == "folder")
        desk.stray(facts.place, name, kind, expected=expected)
    for folder in tree.FOLDERS:
        if facts.file(folder) not in desk.survey.folders:
            desk.findings.add("layer_corrupt", facts.file(folder), "the folder is missing")
    for name, kind in desk.entries(facts.file("child_requests")):
        expected = kind == "folder" and name in ("accepted", "pending", "rejected")
        desk.stray(facts.file("child_requests"), name, kind, expected=expected)
    for name, kind in desk.entries(facts.file("attempts")):
        expected = kind == "folder" and is_id(name)
        desk.stray(facts.file("attempts"), name, kind, expected=expected)
    for name, kind in desk.entries(facts.file("children")):
        expected = desk.is_layer(facts.file("children"), name, kind)
        desk.stray(facts.file("children"), name, kind, expected=expected)
    for folder in ("child_requests/accepted", "child_outcomes", "parent_acceptance", "trace_seals"):
        for name, kind in desk.entries(facts.file(folder)):
            expected = kind == "file" and name.endswith(".json")
            desk.stray(facts.file(folder), name, kind, expected=expected)
    for folder in _AGENTS:
        for name, kind in desk.entries(facts.file(folder)):
            if f"{folder}/{name}" != updates.NAME:
                desk.stray(facts.file(folder), name, kind, expected=True)
    _check_updates(desk, facts)


def _check_updates(desk: Desk, facts: Facts) -> None:
    place = facts.file(updates.NAME)
    if not desk.has(place):
        return
    try:
        wrong = updates.unreadable(desk.disk, place)
    except CallboardError as error:
        desk.findings.refused(place, error)
        return
    if wrong is not None:
        desk.findings.add("updates_unreadable", place, wrong)


def _check_frozen(desk: Desk, facts: Facts) -> WorkflowContract | None:
    session = facts.session
    goal, contract = (
        (None, None)
        if session is None
        else (session.goal_contract_sha256, session.workflow_contract_sha256)
    )
    desk.unchanged(facts.file("goal.md"), None if session is None else session.goal_sha256)
    desk.frozen(facts.file("goal_contract.json"), GoalContract, goal)
    place = facts.file("workflow_contract.json")
    found = desk.frozen(place, WorkflowContract, contract)
    if found is not None and session is not None and found.workflow_set != session.workflow_set:
        message = f"it is of the set {found.workflow_set}, the layer's is {session.workflow_set}"
        desk.findings.add("layer_corrupt", place, message)
    _check_workflows(desk, facts, found)
    return found


def _check_workflows(desk: Desk, facts: Facts, contract: WorkflowContract | None) -> None:
    """The configs and prompts that the layer keeps are those that its contract names."""
    folder = facts.file("workflows")
    roles = [] if contract is None else [role.name for role in contract.roles]
    for name, kind in desk.entries(folder):
        expected = kind == "folder" and (contract is None or name in roles)
        desk.stray(folder, name, kind, expected=expected)
    for role in () if contract is None else contract.roles:
        own = f"{folder}/{role.name}"
        desk.unchanged(f"{own}/config.yaml", role.config_sha256)
        desk.unchanged(f"{own}/prompt.md", role.prompt_sha256)
        for name, kind in desk.entries(own):
            expected = kind == "file" and name in ("config.yaml", "prompt.md")
            desk.stray(own, name, kind, expected=expected)


def _check_state(desk: Desk, facts: Facts) -> None:
    place = facts.file("state.json")
    if facts.session is None:
        facts.state = desk.record(place, State)
        return
    try:
        facts.state = tree.read_state(desk.disk, Layer(facts.place, facts.session))
    except CallboardError as error:
        desk.findings.refused(place, error)


def _check_index(desk: Desk, facts: Facts) -> None:
    facts.index = desk.record(facts.file("children.json"), ChildrenIndex, MAX_INDEX_BYTES)


def _check_requests(desk: Desk, facts: Facts) -> None:
    folder = facts.file("child_requests", "accepted")
    for name in desk.files(folder, ".json"):
        place = f"{folder}/{name}.json"
        if name.endswith(".receipt"):
            receipt = desk.record(place, Acceptance)
            if receipt is not None and _named(desk, place, receipt.request_id, name[:-8]):
                facts.accepted[receipt.request_id] = receipt
            continue
        data = desk.data(place)
        body = None if data is None else desk.parsed(place, data, ChildRequest)
        if body is not None and data is not None and _named(desk, place, body.request_id, name):
            facts.bodies[name] = digest(data)
            _check_snapshot(desk, facts, body)
    for request_id, receipt in facts.accepted.items():
        found = facts.bodies.get(request_id)
        place = f"{folder}/{request_id}.json"
        if found is not None:
            desk.same(place, found, receipt.body_sha256)
        elif not desk.has(place):
            desk.findings.add("layer_corrupt", place, "the body of an accepted request is missing")
    for request_id in sorted(facts.bodies.keys() - facts.accepted.keys()):
        place = f"{folder}/{request_id}{_RECEIPT}"
        if not desk.has(place):
            message = f"the request {request_id} was archived and has no receipt"
            desk.findings.add("topology_broken", place, message)
    _check_rejected(desk, facts)


def _check_snapshot(desk: Desk, facts: Facts, body: ChildRequest) -> None:
    """Snapshots of the dispatcher are immutable, so the digest in the request still holds."""
    for entry in body.inputs:
        head, _, path = entry.ref.partition(":/project_state/dispatch_inputs/")
        if head in ("parent", f"session:{facts.session_id}") and "/" not in path and path != "..":
            place = facts.file("project_state", "dispatch_inputs", path)
            desk.frozen(place, DispatchSnapshot, entry.sha256)


def _check_rejected(desk: Desk, facts: Facts) -> None:
    folder = facts.file("child_requests", "rejected")
    kept: set[str] = set()
    for name in desk.files(folder, _RECEIPT):
        receipt = desk.record(f"{folder}/{name}{_RECEIPT}", Rejection)
        if receipt is None or receipt.kept_as is None:
            continue
        kept.add(receipt.kept_as)
        # Without a digest, it was nothing that could be read: a link, a folder, a pipe.
        if receipt.body_sha256 is not None:
            desk.unchanged(f"{folder}/{receipt.kept_as}", receipt.body_sha256)
    for name, kind in desk.entries(folder):
        if name not in kept:
            desk.stray(folder, name, kind, expected=name.endswith(_RECEIPT))


def _check_outcomes(desk: Desk, facts: Facts) -> None:
    folder = facts.file("child_outcomes")
    for name in desk.files(folder, ".json"):
        place = f"{folder}/{name}.json"
        data = desk.data(place)
        outcome = None if data is None else desk.parsed(place, data, ChildOutcome)
        if outcome is not None and data is not None:
            _named(desk, place, outcome.request_id, name)
            facts.outcomes[name] = outcome
            facts.outcome_sha256[name] = digest(data)
    folder = facts.file("parent_acceptance")
    for name in desk.files(folder, ".json"):
        place = f"{folder}/{name}.json"
        acceptance = desk.record(place, ParentAcceptance)
        if acceptance is not None and _named(desk, place, acceptance.request_id, name):
            facts.acceptances[name] = acceptance


def _check_own_request(desk: Desk, facts: Facts) -> None:
    """What the layer was made from, and its copies of the inputs."""
    place = facts.file("inputs", "accepted_request.json")
    if facts.depth == 0:
        if desk.has(place):
            desk.findings.add("foreign_file", place, "a root layer is made from no request")
        return
    data = desk.data(place)
    if data is None:
        return
    facts.request_sha256 = digest(data)
    facts.request = desk.parsed(place, data, ChildRequest)
    if facts.request is None:
        return
    session = facts.session
    if session is not None and facts.request.request_id != session.request_id:
        message = f"it is the request {facts.request.request_id}, not {session.request_id}"
        desk.findings.add("layer_corrupt", place, message)
    there = _artifacts(desk, facts)
    for entry in facts.request.inputs:
        if entry.sha256 not in there:
            desk.findings.add(
                "hash_mismatch", facts.file("inputs", "artifacts"),
                f"no file has the digest {entry.sha256} of the accepted input {entry.ref}",
            )  # fmt: skip


def _artifacts(desk: Desk, facts: Facts) -> set[str]:
    """The digests of all files that were frozen into the layer."""
    found: set[str] = set()
    folders = [facts.file("inputs", "artifacts")]
    for folder in folders:
        for name, kind in desk.entries(folder):
            if kind == "folder":
                folders.append(f"{folder}/{name}")
            elif kind == "file" and not name.startswith("."):
                data = desk.data(f"{folder}/{name}", MAX_INPUT_BYTES)
                found |= set() if data is None else {digest(data)}
    return found


def _check_receipts(desk: Desk, facts: Facts) -> None:
    for folder, ending, kind in _RECORDS:
        for name in desk.files(facts.file(folder), ending):
            if (is_id(name) and "." not in name) or ending == _RECEIPT:
                desk.record(f"{facts.file(folder)}/{name}{ending}", kind)
    folder = facts.file("project_state", "dispatch_inputs")
    for name in desk.files(folder, ".json"):
        place = f"{folder}/{name}.json"
        snapshot = desk.record(place, DispatchSnapshot)
        if snapshot is not None:
            _named(desk, place, snapshot.request_id, name)


_RECORDS: tuple[tuple[str, str, type[Record]], ...] = (
    ("eval_receipts", ".json", EvalReceipt),
    ("control_rejected", _RECEIPT, ControlRejection),
)


def _named(desk: Desk, place: str, request_id: str, name: str) -> bool:
    if request_id == name:
        return True
    message = f"it speaks of the request {request_id}, its name of {name}"
    desk.findings.add("layer_corrupt", place, message)
    return False
