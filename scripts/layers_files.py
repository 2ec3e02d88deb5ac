"""Where the files of layers lie, who writes each, and which record it is.

Every folder that a layer is made with has a line here, or the page is not made.
"""

from __future__ import annotations

import msgspec

from callboard.layers.finishing import GitReceipt
from callboard.layers.records import (
    assignment,
    attempt,
    control,
    evaluation,
    items,
    outcomes,
    requests,
    session,
    state,
    workflow,
)
from callboard.layers.records.events import EVENTS
from callboard.layers.sets.judging import SetContract
from callboard.layers.updates import Update
from callboard.layers.user_stop import StopRequest

Kind = type[msgspec.Struct]

_EVENTS = ", ".join(f"[{one.__name__}](#{one.__name__.lower()})" for one in EVENTS)
SET: list[tuple[str, Kind | None, str]] = [
    ("contract.yaml", SetContract, "the roles, what each may do, and what ends a layer"),
    (
        "workflows/ROLE/config.yaml",
        workflow.RoleConfig,
        "when a role goes, and what carries it out",
    ),
    ("workflows/ROLE/prompt.md", None, "what the role is told; a template"),
]
LAYER: list[tuple[str, str, Kind | None, str]] = [
    ("session.json", "engine, once", session.Session, "who the layer is"),
    ("goal.md", "engine, once", None, "the goal, word for word"),
    ("goal_contract.json", "engine, once", session.GoalContract, "the goal with its criteria"),
    ("workflow_contract.json", "engine, once", workflow.WorkflowContract, "the set, frozen"),
    ("workflows/ROLE/…", "engine, once", None, "the files of each role, frozen"),
    ("state.json", "coordinator", state.State, "where it stands: the truth"),
    ("stop_request.json", "user", StopRequest, "in a root: that the tree is to end"),
    (
        "events.jsonl",
        "coordinator, `layers accept`",
        None,
        f"what happened, an event a line, each at most once: {_EVENTS}",
    ),
    ("control.json", "agents", control.Control, "an attempt's word that the layer is over"),
    (
        "control_rejected/DIGEST.receipt.json",
        "coordinator",
        control.ControlRejection,
        "why a control was not followed; the control lies beside it",
    ),
    ("inputs/updates.jsonl", "user", Update, "what the user added, a record a line"),
    (
        "inputs/accepted_request.json",
        "engine, once",
        requests.ChildRequest,
        "in a child: its request",
    ),
    ("inputs/artifacts/…", "engine, once", None, "in a child: the files that it was given"),
    (
        "project_state/work_items.md",
        "planner",
        items.ItemFields,
        "the ledger; a block for each item",
    ),
    (
        "project_state/dispatch_inputs/REQUEST.json",
        "dispatcher, once",
        requests.DispatchSnapshot,
        "why this child was asked for",
    ),
    ("project_state/…", "agents", None, "plans, decisions, `finished.md`"),
    ("child_requests/pending/…", "dispatcher", requests.ChildRequest, "asks for a child layer"),
    (
        "child_requests/accepted/REQUEST.receipt.json",
        "coordinator, once",
        requests.Acceptance,
        "that it became one; the request lies beside it",
    ),
    (
        "child_requests/rejected/….receipt.json",
        "coordinator, once",
        requests.Rejection,
        "why it did not; the file lies beside it, unchanged",
    ),
    ("children.json", "coordinator", requests.ChildrenIndex, "all children"),
    ("children/SESSION/…", "", None, "each child, with the same files"),
    (
        "child_outcomes/REQUEST.json",
        "coordinator, once",
        outcomes.ChildOutcome,
        "its end, as facts",
    ),
    (
        "parent_acceptance/REQUEST.json",
        "planner or user, once",
        outcomes.ParentAcceptance,
        "what is thought of that",
    ),
    (
        "eval_checks/….yaml",
        "reviewer",
        None,
        "checks: [by a command](#commandcheck), [by a judge](#judgecheck)",
    ),
    ("eval_readiness/…", "reviewer", None, "notes on whether the checks are fit to be run"),
    ("eval_receipts/RECEIPT.json", "`layers evaluate`", evaluation.EvalReceipt, "that checks ran"),
    (
        "git_receipts/ATTEMPT.subject.json",
        "coordinator",
        GitReceipt,
        "the repository before and after an attempt",
    ),
    ("git_receipts/…", "agents", None, "what was committed"),
    ("delivery_receipts/…", "agents", None, "what was delivered"),
    ("trace_seals/ATTEMPT.json", "runner", attempt.TraceSeal, "the digest of a trace's manifest"),
    ("protocol_failures/…", "agents", None, "what could not be done by the rules"),
    ("protocol_failures/updates_NUMBER", "coordinator", None, "updates that nobody could read"),
    (
        "attempts/ATTEMPT/assignment.json",
        "coordinator, once",
        assignment.Assignment,
        "all it is given",
    ),
    ("attempts/ATTEMPT/prompt.md", "coordinator, once", None, "the prompt, filled in"),
    ("attempts/ATTEMPT/workflow_snapshot/…", "coordinator, once", None, "what that was made from"),
    ("attempts/ATTEMPT/process.json", "runner, once", attempt.AttemptProcess, "who carries it out"),
    ("attempts/ATTEMPT/usage.json", "agents", attempt.UsageReport, "what it used, if it says so"),
    ("attempts/ATTEMPT/result.json", "runner, once", attempt.AttemptResult, "how it ended"),
    (
        "attempts/ATTEMPT/finished.json",
        "coordinator, once",
        attempt.AttemptFinished,
        "what came of it",
    ),
]
BESIDE: list[tuple[str, Kind | None, str]] = [
    ("repository.json", session.RepositoryIdentity, "which checkout this is"),
    (".gitignore", None, "keeps the folder out of Git"),
    (
        "coordinator.lock, coordinator.json",
        attempt.RecordedProcess,
        "who coordinates, while one does",
    ),
    (
        "traces/ROOT/sessions/SESSION/attempts/ATTEMPT/manifest.json",
        attempt.TraceManifest,
        "every file of the trace",
    ),
    (
        "traces/…/prompt.md, stdout.log, stderr.log, git_before.json, git_after.json, …",
        None,
        "what an attempt was asked, its raw output, and whatever it left there",
    ),
]
