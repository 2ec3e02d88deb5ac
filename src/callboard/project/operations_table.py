"""The operations of a project as surfaces offer them: the only list of them.

Command line, agents' tools, their parity test and the reference page are made from it. It knows
names and shapes, judges nothing and imports nothing of the database.
"""

from __future__ import annotations

from typing import Any

from callboard.project.operation import Operation, Parameter


def _text(name: str, help: str, **more: Any) -> Parameter:
    return Parameter(name, "text", help, **more)


EXPECTED = Parameter(
    "expected_revision",
    "count",
    "Refuse unless the project is at this revision.",
)
REQUEST = _text(
    "request_id",
    "Name the request: said again, it changes nothing and gives the same answer.",
)
_REQUEST = (EXPECTED, REQUEST)
_TTL = Parameter(
    "ttl_ms",
    "count",
    "The claim ends after so many milliseconds, 1 at least, unless it is renewed; left away, it "
    "has no end.",
)
_NEW_TTL = Parameter(
    "ttl_ms",
    "count",
    "The claim ends after so many milliseconds, 1 at least; where none is live, one is acquired. "
    "Left away, a live claim keeps its end.",
)
_BRANCH = _text("branch", "The work branch, main too (default: the selected one).")
_FROM_BRANCH = _text("branch", "Only of this work branch (default: of all).")
_AGENT = _text(
    "agent", "The agent, as it calls itself; nobody checks it.", required=True, is_caller=True
)
_SUCCESSOR = _text("agent", "The agent that goes on; nobody checks it.", required=True)
_WHO = (
    _text("provider", "Who provides the agent's model, as it says itself."),
    _text("model", "The agent's model, as it says itself."),
)
_SESSION = _text("session", "The session.", required=True)
_PAGE = (
    _text("after", "The cursor of the page before: its next."),
    Parameter("limit", "count", "At most so many entries, 1 to 500 (default: 50)."),
)


OPERATIONS: tuple[Operation, ...] = (
    Operation(
        "",
        "init",
        "Propose a work file and a project; make them where that is accepted.",
        "init",
        (
            _text("goal", "What the project is for, in one line."),
            _text("key", "The project's key (default: the folder's name)."),
            Parameter("accept", "flag", "Write what was proposed; without it nothing changes."),
            Parameter(
                "expected_revision",
                "count",
                "Refuse unless the project is at this revision; 0: unless there is none yet.",
            ),
            REQUEST,
        ),
        changes=True,
    ),
    Operation("", "status", "Show the project at a glance.", "status", (_BRANCH,)),
    Operation(
        "",
        "ready",
        "List the work that can be begun, the most urgent first.",
        "work.ready",
        (_BRANCH, Parameter("limit", "count", "At most so many entries, 1 to 500 (default: 50).")),
        found=lambda document: bool(document["ready"]),
    ),
    # --- work -----------------------------------------------------------------------------------
    Operation(
        "work",
        "list",
        "List all work, in the order of its files, as it stands on a branch.",
        "work.list",
        (_text("status", "Only work whose file gives it this status."), _BRANCH, *_PAGE),
        rows="work",
    ),
    Operation(
        "work",
        "show",
        "Show one piece of work, whether it can be begun, and why not.",
        "work.show",
        (
            _text("work", "The work.", required=True, is_argument=True, keyword="key"),
            _BRANCH,
            _text("session", "As this session sees it: its own claim is no hindrance."),
        ),
    ),
    Operation(
        "work",
        "complete",
        "Record that work is complete; each acceptance criterion needs current evidence.",
        "work.complete",
        (
            _text("work", "The work.", required=True, is_argument=True, keyword="key"),
            _text("session", "The session that holds it.", required=True),
            *_REQUEST,
        ),
        changes=True,
    ),
    # --- sessions -------------------------------------------------------------------------------
    Operation(
        "session",
        "start",
        "Start a session at a piece of work.",
        "sessions.start",
        (
            _text("work", "The work.", required=True),
            _AGENT,
            *_WHO,
            _BRANCH,
            Parameter("claim", "flag", "Hold the work too; a lapsed claim on it is taken over."),
            _TTL,
            *_REQUEST,
        ),
        changes=True,
    ),
    Operation(
        "session",
        "next",
        "Start a session at the next ready work, and hold it.",
        "sessions.next",
        (_AGENT, *_WHO, _BRANCH, _TTL, *_REQUEST),
        changes=True,
        found=lambda document: document["session"] is not None,
    ),
    Operation(
        "session",
        "show",
        "Show a session, or the only active one that fits, with claim and checkpoint.",
        "sessions.show",
        (
            _text(
                "session", "The session (default: the only active one that fits).", is_argument=True
            ),
            _text("work", "Of this work."),
            _text("agent", "Of this agent."),
            _BRANCH,
        ),
    ),
    Operation(
        "session",
        "list",
        "List sessions, the latest first.",
        "sessions.list",
        (
            Parameter("active", "flag", "Only active ones."),
            _text("work", "Only of this work."),
            _text("agent", "Only of this agent."),
            _FROM_BRANCH,
            *_PAGE,
        ),
        rows="sessions",
    ),
    Operation(
        "session",
        "checkpoint",
        "Keep where a session stands, for itself or for whoever goes on.",
        "sessions.checkpoint",
        (
            _SESSION,
            _text("digest", "What was done and found, in short.", required=True),
            _text("next_action", "What is to be done next.", required=True),
            Parameter("open_loops", "texts", "Something left open.", spelling="open-loop"),
            _text("context_sha256", "The SHA-256 of the context that was worked with."),
            Parameter(
                "artifacts",
                "artifacts",
                "A version of something: its name and its SHA-256.",
                spelling="artifact",
            ),
            _text("agent", "Who says so, unchecked; it must be the session's.", is_caller=True),
            *_REQUEST,
        ),
        changes=True,
    ),
    Operation(
        "session",
        "handoff",
        "Give an active session's work to another agent, and its claim with it.",
        "sessions.handoff",
        (_SESSION, _SUCCESSOR, *_WHO, _NEW_TTL, *_REQUEST),
        changes=True,
    ),
    Operation(
        "session",
        "resume",
        "Go on with a session that stopped, or that nobody can ask any more.",
        "sessions.resume",
        (
            _text("session", "The earlier session.", required=True, spelling="from"),
            _AGENT,
            *_WHO,
            _NEW_TTL,
            Parameter(
                "claim",
                "off",
                "Whether to take its live claim over (default: yes); one that was interrupted has "
                "none.",
                spelling="no-claim",
            ),
            *_REQUEST,
        ),
        changes=True,
    ),
    Operation(
        "session",
        "interrupt",
        "Stop a session that may be resumed; its claim is let go.",
        "sessions.interrupt",
        (_SESSION, *_REQUEST),
        changes=True,
    ),
    Operation(
        "session",
        "end",
        "End a session for good; its claim is let go.",
        "sessions.end",
        (_SESSION, _text("outcome", "What came of it."), *_REQUEST),
        changes=True,
    ),
    # --- claims ---------------------------------------------------------------------------------
    Operation(
        "claim",
        "acquire",
        "Hold the work of a session; a lapsed claim on it is taken over.",
        "claims.acquire",
        (_SESSION, _TTL, *_REQUEST),
        changes=True,
    ),
    Operation(
        "claim",
        "renew",
        "Let a live claim end so many milliseconds from now.",
        "claims.renew",
        (
            _SESSION,
            Parameter("ttl_ms", "count", "Milliseconds from now, 1 at least.", required=True),
            Parameter("at_least", "flag", "Never let it end earlier than it would have."),
            *_REQUEST,
        ),
        changes=True,
    ),
    Operation(
        "claim",
        "release",
        "Let the work of a session go.",
        "claims.release",
        (_SESSION, *_REQUEST),
        changes=True,
    ),
    Operation(
        "claim",
        "show",
        "Show who holds a piece of work, also by a claim that has lapsed.",
        "claims.show",
        (_text("work", "The work.", required=True),),
    ),
    # --- branches -------------------------------------------------------------------------------
    Operation(
        "branch",
        "create",
        "Make a work branch; Git is not touched.",
        "branches.create",
        (_text("name", "Its name.", required=True, is_argument=True), *_REQUEST),
        changes=True,
    ),
    Operation(
        "branch",
        "select",
        "Mean this branch where none is named; nothing is moved.",
        "branches.select",
        (_text("name", "Its name.", required=True, is_argument=True), *_REQUEST),
        changes=True,
    ),
    Operation(
        "branch",
        "close",
        "Close a branch: no new sessions or observations, and it stays readable.",
        "branches.close",
        (_text("name", "Its name.", required=True, is_argument=True), *_REQUEST),
        changes=True,
    ),
    Operation("branch", "list", "List the work branches.", "branches.list"),
    # --- events ---------------------------------------------------------------------------------
    Operation(
        "event",
        "append",
        "Write an observation into the history.",
        "events.append",
        (
            _text(
                "type",
                "Its type, such as note.taken; operations keep theirs.",
                required=True,
            ),
            Parameter("body", "object", "Its body, a JSON object.", required=True),
            _text("session", "Of this session, on its work and branch."),
            _text("work", "About this work."),
            _text(
                "branch",
                "On this branch, main too (default: the session's, or else the selected one).",
            ),
            *_REQUEST,
        ),
        changes=True,
    ),
    Operation(
        "event",
        "list",
        "List what happened, the oldest first.",
        "events.list",
        (
            _text("session", "Only of this session."),
            _FROM_BRANCH,
            _text("work", "Only about this work."),
            _text("type", "Only of this type."),
            *_PAGE,
        ),
        rows="events",
    ),
    # --- evidence -------------------------------------------------------------------------------
    Operation(
        "evidence",
        "add",
        "Keep evidence that acceptance criteria are met.",
        "evidence.add",
        (
            _text("kind", "What it is, such as test-run.", required=True),
            _text("summary", "What it shows.", required=True),
            Parameter("covers", "texts", "A criterion that it shows, in the work's own words."),
            _text("session", "Of this session, on its work and branch."),
            _text("work", "About this work."),
            _text(
                "branch",
                "On this branch, main too (default: the session's, or else the selected one).",
            ),
            _text("ref", "Where it is kept."),
            _text("sha256", "The SHA-256 of what is kept there."),
            *_REQUEST,
        ),
        changes=True,
    ),
    Operation(
        "evidence",
        "list",
        "List evidence as it counts on a branch, the oldest first.",
        "evidence.list",
        (
            _text("work", "Only about this work."),
            _BRANCH,
            Parameter("current", "flag", "Without what another branch shows."),
            *_PAGE,
        ),
        rows="evidence",
    ),
    # --- receipts -------------------------------------------------------------------------------
    Operation(
        "receipt",
        "show",
        "Show what came of a request, to whoever made it.",
        "receipts.show",
        (
            _text("request_id", "The request.", required=True, is_argument=True),
            _text(
                "agent",
                "Who made the request, as it called itself then.",
                is_caller=True,
                is_actor_alone=True,
            ),
        ),
    ),
    # --- source ---------------------------------------------------------------------------------
    Operation(
        "source",
        "scan",
        "Read the work files as they are now, and tell all faults.",
        "source.scan",
        found=lambda document: not document["fault_count"],
    ),
    Operation(
        "source",
        "index",
        "Put what the work files say in the place of what was indexed before.",
        "source.index",
        _REQUEST,
        changes=True,
    ),
    Operation(
        "source",
        "patch",
        "Show a change of a work file as a difference; write it where that is accepted.",
        "source.patch",
        (
            Parameter(
                "changes",
                "changes",
                "Items to change, with work and values, or to add, with values and file; "
                "a value of null takes the field away.",
                required=True,
            ),
            _text("sha256", "The fingerprint of the file that was reviewed."),
            Parameter("accept", "flag", "Write it; without this nothing changes."),
            *_REQUEST,
        ),
        changes=True,
    ),
    # --- doctor ---------------------------------------------------------------------------------
    Operation(
        "doctor",
        "",
        "Say what is wrong with the project; nothing is changed.",
        "diagnose",
        found=lambda document: bool(document["healthy"]),
    ),
    Operation(
        "doctor",
        "repair expire-claim",
        "Mark one lapsed claim as expired.",
        "doctor.expire_claim",
        (
            _text("claim", "The claim.", required=True, is_argument=True),
            _text("reason", "Why.", required=True),
            Parameter("expected_revision", "count", EXPECTED.help, required=True),
            REQUEST,
        ),
        changes=True,
    ),
    Operation(
        "doctor",
        "repair clock",
        "Take a project's time back to the clock's, after the clock was far ahead.",
        "doctor.correct_clock",
        (
            _text("reason", "Why.", required=True),
            Parameter("expected_revision", "count", EXPECTED.help, required=True),
            REQUEST,
        ),
        changes=True,
    ),
)


def named(*words: str) -> Operation:
    """The operation with these words."""
    return next(one for one in OPERATIONS if one.words == words)
