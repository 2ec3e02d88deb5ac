"""Writes the reference pages that follow from the source: commands, codes, tools, a project.

`--check` writes nothing and fails where a page is out of date. What a code means is written here,
by hand; a code without a meaning, or a meaning without its code, is an error.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import click

from callboard.surfaces.cli.main import root
from callboard.surfaces.mcp import answers, arguments, handing_over, tools, wire

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "callboard"
PAGES = ROOT / "docs" / "reference"
MADE = "<!-- Made by scripts/reference.py: change the source, then run `make docs`. -->\n"

# Codes that no literal call in the package spells which refuses with them.
COMPUTED = {
    "output_missing": "board.outputs",
    "resource_unverified": "board.publishing",
    "result_limit": "board.projection",
    "verifier_unknown": "board.outputs",
}
MEANINGS = {
    "activation_damaged": "what became of an agent's requests was kept, and cannot be read",
    "acceptance_uncovered": "a criterion of the work has no evidence on the branch",
    "activation_failed": "the folder of an agent cannot be written",
    "activation_running": "an agent still runs, or somebody settles what it asked",
    "activation_unknown": "no activation of that id is on this board",
    "actor_invalid": "an actor's run fields do not come together, or a worker names no run",
    "admission_paused": "new Work is not admitted now",
    "agent_undeclared": "an operation of a project does not know which agent asks",
    "append_base_invalid": "an append is based on bytes that the store did not give",
    "arguments_invalid": "a tool was called with other arguments than it takes",
    "artifact_changed": "a file changed while it was delivered",
    "artifact_conflict": "another artifact already stands under that name or Claim",
    "artifact_limit": "an artifact is larger than its limit",
    "artifact_missing": "the stored artifact cannot be found",
    "artifact_name_invalid": "an artifact's name is not a plain file name",
    "artifact_name_taken": "the Claim already delivers an artifact of that name",
    "assignment_invalid": "the assignment file is not what the host wrote",
    "assignment_limit": "a Work could need a larger assignment than is allowed",
    "barrier_closed": "the Work's delivery is decided already, or not yet open",
    "blank_line": "a ledger line is blank",
    "board_offline": "a write was asked for with `--offline`",
    "body_invalid": "the body of an output has another form than its type asks for",
    "body_limit": "the body of an output is larger than its type may be",
    "branch_closed": "the work branch takes nothing new: it is closed",
    "branch_not_current": "a session is resumed while another work branch is selected",
    "branch_protected": "the main work branch cannot be closed",
    "branch_taken": "the branch for a patch already leads elsewhere",
    "busy": "other processes kept the project's database to themselves; nothing was written",
    "chain_broken": "a commit does not follow the tip",
    "chain_cycle": "commits lead back to themselves",
    "checkpoint_invalid": "a checkpoint's state contradicts itself; each fault is located",
    "checkpoint_limit": "the board's state fits no checkpoint; nothing was written",
    "checkpoint_mismatch": "a checkpoint's digests are not those of its state or history",
    "checkpoint_misplaced": "a checkpoint follows another commit",
    "checkpoint_unprofitable": "a checkpoint would free too little; `run` tries again later",
    "claim_closed": "the Claim has ended",
    "claim_held": "another session holds the work; holder and end are named",
    "claim_lost": "a command was stopped as the claim that it ran under was no longer held",
    "claim_mismatch": "the Claim belongs to another Work, or another Claim completed it",
    "claim_not_expired": "the claim's end has not come, or it has none, or it ended already",
    "claim_not_holder": "the session holds no live claim on its work",
    "claim_scope_invalid": "the Claim named is none of this assignment",
    "claim_scope_required": "the run has several Claims, so one has to be named",
    "claim_unknown": "there is no such Claim",
    "claims_invalid": "the list of a run's ended Claims is not what the host wrote",
    "command_not_executable": "the command exists and cannot be executed",
    "command_not_found": "the command does not exist",
    "commit_conflict": "two different commits have one id",
    "commit_duplicate": "a commit id is used twice",
    "commit_missing": "the repository does not have a commit that is needed",
    "commit_unknown": "the ledger has no such commit",
    "commit_unpushed": "the workers would be pinned at a commit that the remote does not have",
    "config_invalid": "a setting in `.callboard/config.toml` is wrong",
    "contention": "other writers won every race until the deadline; nothing was written",
    "context_invalid": "the trusted context of an agent cannot be used",
    "context_required": "a role needs a trusted context, and none is named",
    "contract_invalid": "an effect contract is malformed",
    "control_unavailable": "nobody here can ask the board in a Claim's name",
    "credential_generation_reused": "a credential generation was used before",
    "credential_generation_stale": "an observation was read with retired credentials",
    "credential_mismatch": "a launch does not name the credential its profile needs",
    "criterion_unknown": "the work has no such acceptance criterion",
    "cursor_invalid": "a cursor is not one of this snapshot and these filters",
    "cutover_graph_unknown": "a cutover is checked of a graph that the board does not have",
    "cutover_nothing_old": "no node's key begins like the old ones are said to",
    "database_unsupported": "a project is named by an address that this version does not open",
    "decision_invalid": "a question to `callboard outputs decide` is malformed",
    "delivery_contract_required": "the Work states no effect contract, so nothing can be verified",
    "delivery_unprepared": "outputs are delivered that were not prepared before",
    "dependency_cycle": "nodes wait for each other; the path is named",
    "dependency_missing": "a predecessor is neither in the graph nor in the submission",
    "dependency_result_unavailable": "a predecessor has no verified Result",
    "dependency_self": "a node waits for itself",
    "deployment_boundary": "a deployment would change more than code and contract",
    "deployment_conflict": "the worker is at another revision than the deployment expects",
    "deployment_unregistered": "a revision that was never deployed has no availability",
    "descriptor_invalid": "a Result's descriptor is malformed",
    "disk_full": "the disk with the project's database is full; nothing was written",
    "dispatch_budget_exceeded": "a run asks for more launches than it may in all",
    "dispatch_released": "the dispatch was released; nothing more can be recorded for it",
    "dispatch_state_invalid": "a launch step does not follow from the one before",
    "dispatch_unknown": "there is no such dispatch",
    "duplicate_key": "a key stands twice in one JSON object",
    "effect_scope_denied": "an output reaches beyond what the Work may touch",
    "effects_incomplete": "not all outputs of a Claim could be delivered",
    "effects_unauthorized": "an output is not authorised by a Completion",
    "event_type_reserved": "events of that type come from their operation only; it is named",
    "evidence_invalid": "evidence does not prove what is claimed with it",
    "evidence_limit": "evidence is larger than the policy allows",
    "fairness_key_unknown": "the policy lists no such fairness key",
    "fetch_failed": "commits, or a remote's branch, could not be fetched",
    "field_unknown": "a work item has no such field",
    "file_missing": "a file that was named does not exist",
    "file_not_regular": "a file is a folder, link, pipe or device",
    "file_unreadable": "a file cannot be read",
    "filesystem_unsupported": "the project lies on a file system that other machines may have open",
    "fingerprint_mismatch": "a request's fingerprint is not that of its content",
    "finish_conflict": "the Claim was finished the other way before",
    "finish_mismatch": "a finish publishes other operations than its outcome demands",
    "fork": "two commits follow the same one",
    "generation_invalid": "no plain name for a generation of credentials",
    "git_failed": "git ended with an error",
    "git_missing": "git cannot be found",
    "git_output_limit": "git printed more than is read",
    "git_timeout": "git took too long",
    "grants_paused": "nothing is granted or launched now",
    "graph_limit": "a graph would have too many nodes",
    "graph_pool_mismatch": "a graph's nodes name different pools",
    "head_unborn": "the repository has no commit yet",
    "history_unavailable": "what came before a checkpoint is not in this clone; fetch it",
    "host_unsupported": "a worker runs on a host that this version cannot ask",
    "identity_invalid": "the identity file, or a recorded process, is damaged",
    "identity_missing": "this user has no identity: `callboard init`",
    "inheritance_violated": "a worker's child asks for more than its parent has",
    "input_unavailable": "what a predecessor delivered is neither here nor on the remote",
    "intent_conflict": "a staged message contradicts an earlier one",
    "internal_fault": "a tool failed in a way of its own",
    "invalid_json": "the text is not one JSON value",
    "invalid_unicode": "the text is not valid Unicode",
    "issue_comment_conflict": "the node, the Claim or the comment id has another comment already",
    "issue_link_conflict": "the node or the issue has another link already",
    "issue_link_invalid": "a node is mirrored in something that is no issue",
    "issue_link_missing": "a comment on a node that has no issue",
    "launch_failed": "a run could not be started",
    "ledger_invalid": "the ledger is damaged; line and byte are named, nothing is changed",
    "ledger_limit": "the ledger, with what closing the open Work may need, would be too large",
    "lifecycle_limit": "a dispatch has as many launch records as it may have",
    "logs_missing": "this machine has no logs of that run, or knows of no run",
    "handler_failed": "the code of a project's own output type or verifier failed",
    "handler_missing": "no handler, or more than one, is installed for an output type",
    "memory_base_missing": "the repository lacks the commit upon which a memory is to stand",
    "memory_foreign": "a memory says that it is of another node's Work",
    "memory_invalid": "a memory is not of the shape that the recipe's schema has",
    "message_invalid": "a staged message is malformed",
    "name_invalid": "a name is empty, too long, or has invisible characters",
    "name_taken": "another name is the same, or would be confused with it; it is named",
    "node_duplicate": "a node stands twice in a submission",
    "noncanonical_number": "a number is no plain integer within ±9007199254740991",
    "not_authorized": "the policy does not let this principal do that",
    "not_found": "nothing in the project has that name",
    "not_in_a_run": "`callboard worker` was called outside a run",
    "not_in_an_agent": "a command works inside an agent's start only",
    "note_invalid": "a note is no plain text",
    "nothing_running": "no run of that node is under way",
    "object_corrupt": "an object of the repository is damaged",
    "object_missing": "the repository lacks an object",
    "object_wrong_kind": "an object is of another kind than was asked for",
    "observation_duplicate": "an observation id is used twice",
    "observation_invalid": "an observation claims more than its proof",
    "operation_forbidden": "a request publishes an operation it may not",
    "operation_limit": "a commit has more operations than the policy allows",
    "outcome_unknown": "nobody knows whether a write arrived; the same request id finds out",
    "output_limit": "a Claim delivers more outputs than it may",
    "output_missing": "a Claim delivers fewer outputs than it has to",
    "output_not_declared": "the contract does not list this output",
    "output_refused": "the handler of a project's own output type does not take this output",
    "output_type_invalid": "a name is not that of a project's own output type",
    "output_unverified": "an output cannot be verified here",
    "parameters_mismatch": "a request's operations are not those of its parameters",
    "patch_empty": "a patch changes nothing",
    "patch_limit": "a patch is larger than its limit",
    "patch_overlap": "two Claims of a run want the same path in their patches",
    "patch_path_invalid": "a path that a patch names is not a plain one below the work tree",
    "patch_paths_required": "a patch in a run with several Claims does not say what is its own",
    "patch_refused": "a patch holds what may not be delivered",
    "patch_unavailable": "a patch cannot be made in this run",
    "path_invalid": "a path leads elsewhere than it may",
    "path_taken": "a commit has something else where a file is to be put",
    "payload_limit": "a node's payload is larger than the policy allows",
    "pending_limit": "a pool would have too many unsettled nodes",
    "plan_invalid": "a plan has faults; each is listed with its place",
    "plan_too_large": "a plan has more nodes than one request takes: `--split`",
    "policy_epoch_mismatch": "a commit was decided under another policy epoch",
    "policy_epoch_reused": "a policy epoch was used before",
    "policy_invalid": "a policy contradicts itself",
    "policy_missing": "a ledger begins without a policy",
    "policy_not_quiescent": "the policy can change only when nothing is open",
    "pool_forbidden": "a worker asks for a batch of another pool than its own",
    "pool_required": "the board has several pools, so one has to be named",
    "pool_unknown": "there is no such pool",
    "predecessor_limit": "a node has more predecessors than the policy allows",
    "predecessor_missing": "a commit follows one that is not there",
    "priority_conflict": "the node has another priority than the caller saw",
    "process_start_failed": "a process could not be started",
    "process_unknown": "a process cannot be identified",
    "process_view_foreign": "processes are seen from another namespace than recorded",
    "profile_mismatch": "a run is not of the profile that was granted",
    "profile_unknown": "the pool has no such worker profile",
    "project_closed": "the program closed the project before",
    "project_corrupt": "the project's file is damaged, or no database",
    "project_exists": "another project is there already",
    "project_foreign": "the project's file is a database of another program",
    "project_missing": "there is no project here: `callboard project init`",
    "project_readonly": "the project can only be read",
    "project_unreadable": "the project's file or folder cannot be opened",
    "push_refused": "the remote does not let this user write; nothing was written",
    "queue_branch_refused": "the branch cannot hold a board",
    "queue_missing": "the board has no history yet",
    "queue_not_fetched": "the board is on a remote that is not named, or was never read here",
    "reason_invalid": "a reason is not a short code",
    "recipe_invalid": "a worker recipe is wrong",
    "reconciliation_pending": "a delivery cannot be given up before its checks are used up",
    "record_invalid": "a record is malformed; each fault is listed with its place",
    "ref_conflict": "a ref stands where another one needs a folder",
    "ref_invalid": "a ref's name or content is not valid",
    "ref_locked": "another program holds a ref's lock, or left it behind",
    "registry_busy": "the run registry is in use; nothing was written",
    "registry_invalid": "the run registry is damaged",
    "registry_newer": "the run registry was written by a newer version",
    "registry_unusable": "the run registry cannot be opened",
    "release_open_claims": "a dispatch is released while Claims of it are open",
    "remote_invalid": "what was named is not the plain name of a remote",
    "remote_ref_conflict": "a ref on the remote holds something else than it should",
    "remote_timeout": "the remote took too long",
    "remote_unknown": "the repository has no remote of that name",
    "remote_unreachable": "the remote, where the board is, does not answer",
    "remediation_unproven": "a verifier did not prove that a replacement repeats no unsafe write",
    "remediation_verifier_required": "only a registered verifier can tell what a failed node did",
    "remediation_verifier_unknown": "HEAD's commit registers no verifier of that name",
    "replacement_exists": "the node is replaced already",
    "replacement_invalid": "a node replaces one that did not fail, or with another scope",
    "repository_invalid": "the repository is damaged or of an unknown form",
    "repository_mismatch": "a commit names another repository than the ledger",
    "repository_missing": "there is no repository here",
    "repository_not_allowed": "a gate reads a repository that the pool does not allow",
    "repository_unwritable": "the repository cannot be written",
    "request_conflict": "the request id already stands for another request",
    "request_duplicate": "a request is committed twice",
    "request_id_invalid": "a request id is not a plain name",
    "request_unknown": "there is no such request",
    "rerun_without_authority": "a run that was begun anew may act for nobody",
    "resource_limit": "something is larger, longer or deeper than is read",
    "resource_unverified": "nobody here can verify an issue or pull request",
    "result_limit": "a Result is larger than the policy allows",
    "retry_exhausted": "a Work without attempts left is kept available",
    "retry_too_early": "a retry is set before the policy's pause",
    "revision_conflict": "the project is at another revision than the caller expects",
    "revision_unknown": "the repository has no such commit",
    "role_forbidden": "this role may not ask for that",
    "run_binding_conflict": "another run is bound to the launch, or the run to another one",
    "run_exists": "the dispatch has a run already",
    "run_missing": "this host knows no such run",
    "run_not_running": "the run is not running",
    "run_unbound": "no run is bound to the dispatch yet",
    "run_unknown": "the board has no run of that id",
    "run_unknown_here": "this machine has no record of that run, or cannot reach it",
    "schema_newer": "a newer program wrote the project; nothing of it was read",
    "schema_older": "the project has to be opened once for writing, to bring it up to date",
    "scope_invalid": "a resource scope is malformed",
    "second_root": "a ledger has two beginnings",
    "selection_mismatch": "Claims are not what the planner chooses",
    "selector_ambiguous": "a name can mean several things; they are listed",
    "sender_mismatch": "a start marker names another sender than its actor",
    "sender_unknown": "the sender is no dispatcher of this host",
    "session_ambiguous": "several sessions fit; they are listed",
    "session_mismatch": "what was named beside a session is not that session's",
    "session_not_active": "the session is over; its successor is named, if it has one",
    "snapshot_invalid": "the snapshot of an agent cannot be used",
    "source_busy": "another process is changing the same work file",
    "source_change_invalid": "a change of a work file is none that can be made",
    "source_conflict": "a work file changed since it was read or indexed, and was left so",
    "source_edit_refused": "a work file is written in a way that has to be changed by hand",
    "source_invalid": "a work file has faults; each is listed with its place",
    "source_missing": "there is no such work file",
    "source_unsafe": "a work file is no regular file, or is reached through a link",
    "source_unwritable": "a work file cannot be written; it was left as it is",
    "staging_closed": "a run or an agent is over, and nothing more can be staged for it",
    "staging_failed": "a message could not be staged",
    "staging_invalid": "the staging folder is not what the host made",
    "staging_limit": "a run stages more than it may",
    "storage_failed": "the disk refused a read or write",
    "successor_exists": "another session follows this one already",
    "summary_subject_unknown": "a summary is asked of what is no request, dispatch or bound run",
    "summary_unwritable": "the file for a summary cannot be written",
    "system_refused": "the machine refused a read or write that nothing expected to fail",
    "target_invalid": "an output's target is malformed, or on another host than the board's",
    "terms_invalid": "the host's terms for a run are malformed",
    "text_invalid": "a text is empty, too long, or has control characters",
    "tool_unknown": "there is no such tool for this role",
    "truncated_line": "a ledger's last line has no newline",
    "trust_domain_mismatch": "a node names another trust domain than its profile",
    "ttl_invalid": "a time to live is no whole number of milliseconds from 1 on, or ends too late",
    "unsupported_protocol": "a record has another version than 3",
    "value_invalid": "a value is not of the form that its field has; the field is named",
    "work_closed": "the Work has ended or is held",
    "work_conflict": "the node already stands with another definition",
    "work_invalid": "a Work contradicts itself",
    "work_not_ready": "work waits for something, or is closed; each reason is named",
    "work_unknown": "there is no such node",
    "verifier_invalid": "a remediation verifier's file is wrong",
    "verifier_unknown": "no verifier of that id is installed here to judge an output",
    "worker_missing": "a pool has no worker: no recipe is committed",
    "worker_unavailable": "a worker cannot be had: its recipe is missing, faulty or withdrawn",
    "workspace_exists": "a run's folder is there already",
    "workspace_failed": "a run's folder could not be made",
    "workspace_unsaved": "a run's work could not be saved",
}


# --- error codes ---------------------------------------------------------------------------------


def codes(folder: Path = SOURCE) -> dict[str, set[str]]:
    """Every code the program refuses with, and the packages that do."""
    trees = {path: ast.parse(path.read_text("utf-8")) for path in sorted(folder.rglob("*.py"))}
    makers = {"CallboardError": 0}
    for tree in trees.values():
        makers |= dict(_makers(tree))
    found: dict[str, set[str]] = {}
    for path, tree in trees.items():
        place = ".".join(path.relative_to(folder).with_suffix("").parts[:2])
        for code in _given(tree, makers):
            found.setdefault(code, set()).add(place)
    for code, place in COMPUTED.items():
        found.setdefault(code, set()).add(place)
    return found


def _makers(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Functions that hand one of their own parameters on as a code, and which."""
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef):
            continue
        names = [argument.arg for argument in function.args.args]
        for call in ast.walk(function):
            if not isinstance(call, ast.Call) or _name(call.func) != "CallboardError":
                continue
            code = call.args[0] if call.args else None
            if isinstance(code, ast.Name) and code.id in names:
                yield function.name, names.index(code.id)


def _name(function: ast.expr) -> str:
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def _given(tree: ast.AST, makers: dict[str, int]) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            place = makers.get(_name(node.func))
            if place is not None and len(node.args) > place:
                yield from _constants(node.args[place])
            for keyword in node.keywords:
                if keyword.arg == "code":
                    yield from _constants(keyword.value)
        elif isinstance(node, ast.FunctionDef):
            arguments = node.args
            named = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
            for argument, default in named:
                if argument.arg == "code" and default is not None:
                    yield from _constants(default)


def _constants(value: ast.expr) -> Iterator[str]:
    for node in (value.body, value.orelse) if isinstance(value, ast.IfExp) else (value,):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def errors_page() -> str:
    """docs/reference/errors.md."""
    found = codes()
    unexplained = sorted(found.keys() - MEANINGS.keys())
    unused = sorted(MEANINGS.keys() - found.keys())
    if unexplained or unused:
        raise SystemExit(
            f"MEANINGS in scripts/reference.py: add {', '.join(unexplained) or 'nothing'}; "
            f"remove {', '.join(unused) or 'nothing'}"
        )
    rows = "".join(
        f"| `{code}` | {MEANINGS[code]} | {', '.join(sorted(found[code]))} |\n"
        for code in sorted(found)
    )
    return f"""{MADE}
# Error codes

A refusal has a stable code, a message that names what was found, and a hint that says what to do
next. With `--json` it is the one document on standard output:

```json
{{"error": {{"code": "work_unknown", "message": "…", "hint": "…", "details": {{}}}}}}
```

Decide on the code, never on the words. A refused write has changed nothing. The exit status is 1,
or 4 for `contention`, `busy`, `source_busy` and `registry_busy`, after which the same command may
simply be run again.
Three more codes come from the command line alone: `usage` (exit 2), `internal_fault` (exit 70), a
defect of Callboard's own, and `interrupted` (exit 130) after Ctrl-C, where what was asked for may
stand or not.

| code | meaning | where from |
|---|---|---|
{rows}"""


# --- the command line ----------------------------------------------------------------------------


def cli_page() -> str:
    """docs/reference/cli.md."""
    context = click.Context(root, info_name="callboard")
    parts = [
        f"""{MADE}
# The command line

`callboard VERB [OPTIONS]`. `--json`, `--repo`, `--branch`, `--remote` and `--offline` may stand
before the verb or after it. With `--json` standard output holds exactly one JSON document; progress
goes to standard error.

| exit | meaning |
|---|---|
| 0 | done; `run` ends so also where nodes are stuck |
| 1 | refused; the code is in the [table of codes](errors.md) |
| 2 | the command was misused |
| 3 | a normal answer that is no: nothing granted, ready or drained, faults found; it says why |
| 4 | other writers were faster until the deadline; nothing was written, try again |
| 70 | a defect of Callboard's own |
| 130, 143 | ended by Ctrl-C or SIGTERM |
| 141 | the reader of the output went away |

`CALLBOARD_REPO`, `CALLBOARD_BRANCH` and `CALLBOARD_REMOTE` stand in for the options of that name,
`CALLBOARD_CONFIG_DIR` and `CALLBOARD_STATE_DIR` for the user's own folders; `NO_COLOR` turns
colours off.
"""
    ]
    for name in root.list_commands(context):
        command = root.get_command(context, name)
        assert command is not None
        parts += _sections(command, f"callboard {name}")
    return "\n".join(parts)


def _sections(command: click.Command, path: str) -> Iterator[str]:
    context = click.Context(command, info_name=path, max_content_width=100, terminal_width=100)
    yield f"## {path}\n\n```text\n{command.get_help(context).rstrip()}\n```\n"
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            one = command.get_command(context, name)
            assert one is not None
            yield from _sections(one, f"{path} {name}")


# --- the tools of agents -------------------------------------------------------------------------


def tools_page() -> str:
    """docs/reference/agent-tools.md."""
    roles = "".join(
        f"| `{tool.name}` | {tool.title.lower()} | "
        + " | ".join("yes" if role in tool.roles else "" for role in tools.EVERYBODY)
        + " |\n"
        for tool in tools.TOOLS
    )
    parts = [
        f"""{MADE}
# The tools of agents

`callboard mcp board` serves them over the Model Context Protocol, on standard input and output, to
one agent. [How to connect one](../how-to/agents-with-tools.md) is told elsewhere.

| tool | | {" | ".join(tools.EVERYBODY)} |
|---|---|{"---|" * len(tools.EVERYBODY)}
{roles}
Each answer is one JSON document, as text and as structured content. Its `provenance` says where it
is from: `activation_snapshot` is the board as it was when the agent was started, `staged_preview`
what the agent has asked for so far. A refusal is a tool error with a [code](errors.md),
`{{"error": {{code, message, hint, details}}}}`.

| bound | bytes |
|---|---|
| a request, one line | {wire.MAX_REQUEST_BYTES:,} |
| the document of an answer | {answers.MAX_ANSWER_BYTES:,} |
| an answer on the wire, both forms | {answers.MAX_LINE_BYTES:,} |

Lists have at most {arguments.MAX_LIMIT} entries and a `next_cursor`, an opaque text that walks the
one snapshot: whatever happens on the board meanwhile, no node comes twice and none is missed.
"""
    ]
    parts += [_tool_section(tool) for tool in tools.TOOLS]
    rows = "".join(
        f"| `{name}` | {kind.summary} | {', '.join(f'`{field}`' for field in kind.fields)} |\n"
        for name, kind in handing_over.OUTPUTS.items()
    )
    parts.append(
        f"""## Types of outputs

`{handing_over.OWN}` stands for any type of a project's own. Fields of another type are refused.

| type | what it is | fields |
|---|---|---|
{rows}"""
    )
    return "\n".join(parts)


def _tool_section(tool: tools.Tool) -> str:
    schema = arguments.schema_of(tool.arguments, has_claims=True)
    summary = tool.description.split("\n", 1)[0].removesuffix(
        " Types, and the fields that go with each:"
    )
    rows = "".join(
        f"| `{name}` | {_kind(field)} | {'yes' if name in schema['required'] else ''} "
        f"| {field.get('description', '')} |\n"
        for name, field in schema["properties"].items()
    )
    return f"""## {tool.name}

{summary}

| field | type | needed | |
|---|---|---|---|
{rows}"""


def _kind(field: dict[str, object]) -> str:
    words = field.get("enum")
    if isinstance(words, list):
        return ", ".join(f"`{word}`" for word in words)
    bounds = [field.get("minimum"), field.get("maximum")]
    return f"{field['type']}" + (f" {bounds[0]}..{bounds[1]}" if bounds[1] is not None else "")


# --- writing -------------------------------------------------------------------------------------


def main(arguments: list[str]) -> int:
    """Write the pages, or with `--check` compare them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail on a difference")
    check = parser.parse_args(arguments).check
    stale = False
    # Run as a file, it finds what lies beside it, and not the folder it is in.
    sys.path.append(str(ROOT))
    from scripts.project_reference import project_page

    pages: dict[str, Callable[[], str]] = {
        "cli.md": cli_page,
        "errors.md": errors_page,
        "agent-tools.md": tools_page,
        "project.md": partial(project_page, MADE),
    }
    for name, made in pages.items():
        text = made()
        page = PAGES / name
        before = page.read_text("utf-8") if page.is_file() else ""
        if before == text:
            continue
        if check:
            stale = True
            changes = difflib.unified_diff(
                before.splitlines(), text.splitlines(), str(page), "as the source has it", n=0
            )
            print("\n".join(list(changes)[:40]))
            print(f"{page.relative_to(ROOT)} is out of date: run `make docs`")
        else:
            PAGES.mkdir(parents=True, exist_ok=True)
            page.write_text(text, "utf-8")
            print(f"wrote {page.relative_to(ROOT)}")
    return int(stale)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
