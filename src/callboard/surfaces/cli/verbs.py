"""The verbs of the command line: where each one's command is, and what it does in a line.

A table and nothing else, so that to know the verbs costs the import of none.
"""

from __future__ import annotations

VERBS = {
    "init": ("init", "init", "Prepare this user and this repository."),
    "submit": ("submit", "submit", "Post a plan of tasks."),
    "run": ("dispatch", "run", "Run the board: dispatch, watch over, settle."),
    "status": ("status", "status", "Show the board."),
    "show": ("look", "show", "Show one node in full."),
    "explain": ("look", "explain", "Say why a node waits, or why a grant went where it went."),
    "trace": ("look", "trace", "List every commit that touched a node, Claim or dispatch."),
    "logs": ("logs", "logs", "Print the ends of a run's logs."),
    "summary": ("summary", "summary", "Sum up what requests and runs came to, also in Markdown."),
    "dispatch": ("dispatch", "dispatch", "Grant and launch one batch."),
    "reconcile": ("recover", "reconcile", "Find out what became of open launches and deliveries."),
    "stop": ("recover", "stop", "Ask a run to end; its Claims end as failed attempts."),
    "cancel": ("control", "cancel", "End nodes for good."),
    "replace": ("replace", "replace", "Post a node in the place of one whose delivery failed."),
    "pause": ("control", "pause", "Pause admission or grants."),
    "resume": ("control", "resume", "Resume admission or grants."),
    "drain": ("drain", "drain", "Pause grants and wait until nothing is in flight."),
    "cutover": ("drain", "cutover", "Look whether an old revision of a campaign is at rest."),
    "priority": ("control", "priority", "Let a waiting node compete in another class."),
    "deploy": ("deploy", "deploy", "Let workers run at another commit from now on."),
    "rotate-credentials": (
        "control",
        "rotate_credentials",
        "Record that credentials of the same scope were replaced.",
    ),
    "policy": ("policy", "policy", "Show, compare, check or install the policy."),
    "ledger": (
        "ledger",
        "ledger",
        "The ledger itself: log, verify, replay, plan, checkpoint, schema.",
    ),
    "worker": ("worker", "worker", "Inside a run: assignment, finish, outputs."),
    "agent": ("agent", "agent", "Start agents that post work or ask for batches."),
    "outputs": ("outputs", "outputs", "Ask the gate of the outputs: scopes and contracts."),
    "project": (
        "project.commands",
        "project",
        "Who holds what: work, sessions, claims, branches, history.",
    ),
    "layers": (
        "layers.commands",
        "layers",
        "Goals within goals: trees of layers that agents work on.",
    ),
    "mcp": ("mcp", "mcp", "Serve tools to an agent, over stdio."),
    "whoami": ("whoami", "whoami", "Say who you are on the board, and where it is."),
}
"""Verb: module, the command in it, and its help."""
