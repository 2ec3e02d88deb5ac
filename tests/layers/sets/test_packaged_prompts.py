"""The packaged prompts say what each role must know, and the dispatcher's every rule of its own."""

from __future__ import annotations

import textwrap
from importlib.resources import files

import pytest

from callboard.layers import prompting, work_items

ROLES = [
    ("inner_outer_eval", "outer"),
    ("inner_outer_eval", "inner"),
    ("inner_outer_eval", "eval_reviewer"),
    ("inner_outer_eval", "eval_runner"),
    ("planner_dispatcher", "planner"),
    ("planner_dispatcher", "dispatcher"),
    ("planner_dispatcher", "eval_reviewer"),
    ("planner_dispatcher", "eval_runner"),
]


def template(name: str, role: str) -> str:
    folder = files("callboard.layers") / "packaged" / name / "workflows" / role
    return (folder / "prompt.md").read_text(encoding="utf-8")


def prompt(name: str, role: str) -> str:
    """The template as one line, so that a phrase is found wherever its lines break."""
    return " ".join(template(name, role).split())


@pytest.mark.parametrize(("name", "role"), ROLES)
def test_every_prompt_tells_where_to_begin_how_to_write_and_how_to_end(
    name: str, role: str
) -> None:
    text = prompt(name, role)
    for phrase in (
        "Read the assignment, a JSON file: `{assignment}`",
        "If anything differs, change nothing and exit with status 1",
        "Do not build a path from the current folder, and do not guess one",
        "Write a file of the layer under a temporary name in the same folder, close it, and rename",
        "The temporary name begins with a dot and never ends in `.json`",
        "go below `trace_root`",
        "Exit with status 0",
        "with 75 if a later attempt may fare better",
    ):
        assert phrase in text
    assert list(prompting.unknown(text)) == []


COMMANDS = {
    "callboard layers dispatch --assignment {assignment} ITEM": ["dispatcher"],
    "callboard layers evaluate --assignment {assignment}": ["eval_runner"],
    "callboard layers control --assignment {assignment}": [
        "outer",
        "planner",
        "dispatcher",
        "eval_runner",
    ],
    "callboard layers accept --assignment {assignment}": ["planner"],
}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_is_shown_to_the_roles_that_may_use_it(command: str) -> None:
    shown = {role for name, role in ROLES if command in prompt(name, role)}
    assert shown == set(COMMANDS[command])


RULES = {
    # What the role is, and what it is not.
    "one request for the selected item": "turn the item that the planner selected into one request",
    "facts about children only": "keep track of what became of children, as facts",
    "never carries out the item": "You do not carry out the item",
    "never judges for the parent": "You do not judge what a child came to",
    "never checks the parent's goal": "You do not check the goal of this layer",
    "never ends the layer as met": "You never report that the goal is met",
    # The assignment.
    "reads the assignment at its path": "Read the assignment, a JSON file: `{assignment}`",
    "confirms who and what it is": "Compare `identity` with the attempt, session, depth and role",
    "confirms the goal": "and `goal` with the goal above",
    "takes the paths from there": "Take every place from `paths` of the assignment",
    "requests": "the requests (`child_requests`)",
    "children": "`children_index` and `children_root`",
    "outcomes and acceptances": "`child_outcomes` and `parent_acceptance`",
    "control and traces": "`control`, and `trace_root`",
    "pending is not appended": "is the `pending` folder itself: append no further folder",
    "never guesses a path": "do not guess one",
    # Looking first.
    "compares with all there is": "Compare it with the children in `children_index`, the"
    " files in `child_outcomes`, and the requests in `pending`, `accepted` and `rejected`",
    "the request id is the key": "decides what is the same request; the name of a file says",
    "no duplicate": "is alive, or the same request is pending or accepted**: ask for nothing",
    "links an ended child": "put the reference of its outcome and one line of facts into the item",
    "hands it to the planner": "set it to `ready_for_review`",
    "never calls it accepted": "Never write that it is accepted",
    # The snapshot.
    "snapshot before all else": "Before anything else, publish `dispatch_inputs/REQUEST_ID.json`",
    "stable unique id": "Choose a request id that is stable and unique",
    "makes the folder": "make the folder if it is not there",
    "what the snapshot holds": "It holds the exact id of the item, the scope of the child, the"
    " references to the planner's decisions and evidence, and the inventory of inputs",
    "snapshot by rename": "Write the file under a temporary name beside it and rename it",
    "snapshot is immutable": "A published snapshot is never edited and never replaced",
    "superseding has its own": "that supersedes another one has an id and a snapshot of its own",
    "reuse after a crash": "a snapshot that is there only if its exact content still says what",
    "else a new id": "leave it as it is and begin with a new id",
    "digest of exact bytes": "the SHA-256 of the exact bytes of the snapshot, written `sha256:`",
    # The request.
    "exactly one": "Publish exactly one JSON file in `child_requests`",
    "version": '"schema_version": 2',
    "origin": '"origin": {"parent_attempt_id": "{attempt}"',
    "input is the snapshot": '"ref": "parent:/project_state/dispatch_inputs/REQUEST_ID.json"',
    "temporary is not json": "which must end in something other than `.json`",
    "closed before the rename": "close the file; then rename it to a unique name that ends in",
    "criteria of the item": "Every criterion comes from the item",
    "not the parent's criteria": "of this layer that reach further than the item stay here",
    "context and evidence": "give it the context it needs, and say which evidence it has to bring",
    "no backlog for the child": "The child has nothing to do with the list of items",
    "set on purpose": "Choose the workflow set on purpose",
    "default is no must": "is the usual one; an item may name another",
    "ledger is no input": "`work_items.md` is never an input",
    "why it is none": "Digests of inputs are compared after your attempt has ended",
    "snapshot for the child": "The child gets the snapshot; the ledger stays with the parent",
    # The ledger, the archives, the scratch.
    "ledger last": "Only when the rename of the request has succeeded, set the item to"
    " `waiting_for_child`",
    "ledger names the request": "write the request's id and path into it",
    "strict order": "The order snapshot, digest, request, ledger is never changed",
    "archives stay": "What lies in `accepted` and `rejected` stays there, byte for byte",
    "scratch": "Drafts, long notes and logs go below `trace_root`",
    # Helpers.
    "helpers are optional": "You may let helpers review a request or gather context",
    "helpers stay inside": "They work within this attempt and report to you",
    "identity stays": "id, its scope, its form and its publication stay in your hands",
    # The last resort.
    "last resort": "repair, a superseding request, a smaller scope and other routes have all",
    "kinds of blockers": "a person, a credential that is not to be had, a destructive step or a"
    " payment, and no other",
    "atomic, exact producer": "writes it in one step, with the identity of this assignment as its"
    " producer",
    "routes and evidence": "Name each route that was tried, what came of it, and its evidence",
    "a rejected request is repaired": "malformed or rejected is yours to repair",
    "and asked for anew": "read the reason, repair it, and ask again under a new request id",
}


@pytest.mark.parametrize("rule", RULES)
def test_the_dispatcher_is_told_every_rule(rule: str) -> None:
    assert RULES[rule] in prompt("planner_dispatcher", "dispatcher")


def test_the_steps_of_dispatching_stand_in_their_order() -> None:
    text = prompt("planner_dispatcher", "dispatcher")
    places = [
        text.index(step)
        for step in ("1. **Snapshot.**", "2. **Digest.**", "3. **Request.**", "4. **Ledger.**")
    ]
    assert places == sorted(places)


def test_the_planner_is_shown_an_item_that_can_be_read() -> None:
    """Somebody who copies the example has an item that can be dispatched."""
    text = template("planner_dispatcher", "planner")
    first = text.index("    ## login-form")
    example = textwrap.dedent(text[first : text.index("    ```\n", first) + 8])
    (item,) = work_items.read(example.encode())
    assert (item.item_id, item.fields.status) == ("login-form", "open")
    assert item.fields.scope is not None
    assert item.fields.scope.deliverables == ("src/login.py", "tests/test_login.py")
