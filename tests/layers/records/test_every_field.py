"""Every field of every record, by a table written by hand, against wrong values of all kinds.

The table says of each field what may stand there; which fields there are is asked of the code, so
that none can be added without a line here. `?`: may be null. `=`: may be missing.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from msgspec import inspect

from callboard.layers.records import (
    assignment,
    attempt,
    control,
    evaluation,
    events,
    outcomes,
    requests,
    session,
    state,
    workflow,
)
from callboard.layers.records.base import MAX_RECORD_BYTES, Event, Record, read
from tests.board.building import refused

MODULES = (
    assignment, attempt, control, evaluation, events, outcomes, requests, session, state, workflow,
)  # fmt: skip
BASES = (Event, Record)
STATUS = "running|goal_met|unresolvable_error|stopped"
STOP = (
    "goal_met|unresolvable_error|max_turns|role_failures|invalid_control|failed_goal_checks"
    "|cost_cap|user_stop|no_role"
)
CLASS = "success|transient|deterministic|crash|unknown"

TABLE = {
    "RepositoryIdentity": "schema_version:1 repository_id:id created_at_ms:count",
    "Limits": "max_depth=:count max_children=:positive max_descendants=:count",
    "GoalContract": "schema_version:1 goal_id:id goal:text completion_criteria:texts"
    " stop_criteria=:texts constraints=:texts deliverables=:texts required_evidence=:texts",
    "Session": "schema_version:1 session_id:id root_session_id:id parent_session_id?:id"
    " depth:count workflow_set:name repository_id:id request_id?:key parent_work_item_id?:key"
    " limits?:Limits goal_sha256:sha goal_contract_sha256:sha workflow_contract_sha256:sha"
    " created_at_ms:count",
    "Task": "attempt_id:id role:name iteration:positive assignment_sha256:sha"
    " updates_to=:count updates_sha256?=:sha work_item_id?=:key",
    "Child": "session_id:id request_id:key",
    "Usage": "attempts=:count duration_ms=:count input_tokens=:count output_tokens=:count"
    " cost_microusd=:count",
    "RoleHistory": "runs=:count successes=:count failures_in_row=:count last_iteration=:count"
    " seen_successes=:{count}",
    "State": f"schema_version:1 session_id:id revision:positive status:{STATUS}"
    f" stop_reason?=:{STOP} stop_detail?=:text iteration=:count last_role?=:name"
    " last_succeeded=:bool task?=:Task child?=:Child roles=:{RoleHistory}"
    " invalid_controls=:count failed_goal_checks=:count controls_seen=:[sha]"
    " children_made=:count own_usage=:Usage"
    " rolled_usage=:Usage rolled_sessions=:[id] updates_delivered=:count updates_sha256?=:sha"
    " changed_at_ms:count",
    "Input": "ref:ref sha256:sha",
    "ChildScope": "goal:text completion_criteria:texts1 stop_criteria:texts constraints:texts"
    " deliverables:texts required_evidence:texts",
    "Origin": "parent_attempt_id:id parent_work_item_id:key supersedes_request_id?:key",
    "ChildRequest": "schema_version:2 request_id:key workflow_set:name origin:Origin"
    " assignment:ChildScope inputs:[Input]",
    "DispatchSnapshot": "schema_version:1 request_id:key session_id:id work_item_id:key title:text"
    " workflow_set:name supersedes_request_id?:key child_scope:ChildScope decision_refs:[ref]"
    " evidence_refs:[ref] input_inventory:[Input]",
    "Acceptance": "schema_version:1 request_id:key body_sha256:sha file_name:text"
    " child_session_id:id work_item_id:key attempt_id:id decided_at_ms:count",
    "Rejection": "schema_version:1 file_name:text request_id?:key body_sha256?:sha kept_as?:text"
    " code:text reason:text attempt_id?:id decided_at_ms:count",
    "ChildEntry": "request_id:key session_id:id work_item_id:key body_sha256:sha"
    f" status:{STATUS} stop_reason?:{STOP} outcome_ref?:ref usage:Usage accepted_at_ms:count",
    "ChildrenIndex": "schema_version:1 revision:positive children:[ChildEntry]",
    "EvidenceRef": "ref:ref sha256:sha",
    "Completeness": "eval_receipt:bool git_receipt:bool delivery_receipt:bool usage:bool"
    " traces_sealed:bool",
    "ChildOutcome": "schema_version:1 request_id:key session_id:id work_item_id:key goal_id:id"
    f" goal_contract_sha256:sha status:{STATUS} stop_reason?:{STOP} stop_detail?:text usage:Usage"
    " evidence:[EvidenceRef] completeness:Completeness ended_at_ms:count",
    "ParentAcceptance": "schema_version:1 request_id:key work_item_id:key"
    " decision:accepted|rework|reroute|blocked rationale:text evidence_reviewed:[EvidenceRef]"
    " outcome_sha256:sha superseding_request_id?=:key open_points=:texts decided_by:text"
    " decided_at_ms:count",
    "Producer": "session_id:id role:name attempt_id:id",
    "AttemptedRoute": "route:text outcome:text evidence_ref?=:ref",
    "Control": "schema_version:2 control_id:id state:running|stopped"
    " stop_reason?=:goal_met|unresolvable_error producer:Producer created_at_ms:count"
    " eval_receipt_ref?=:ref summary?=:text"
    " blocker?=:human_only|credential|destructive|billable attempted_routes=:[AttemptedRoute]",
    "ControlRejection": "schema_version:1 body_sha256:sha code:text reason:text attempt_id?:id"
    " decided_at_ms:count",
    "GitSubject": "head?:str dirty?:str",
    "CommandCheck": "kind=:command check_id:id title:text command:arguments cwd=:str"
    " timeout_s=:positive expected_exit=:0..255 criteria=:[text]",
    "JudgeCheck": "kind=:judge check_id:id title:text question:text evidence=:[ref]"
    " command:arguments timeout_s=:positive criteria=:[text]",
    "JudgeAnswer": "verdict:pass|fail rationale:text",
    "CheckResult": "check_id:id file:text sha256:sha kind:command|judge verdict:pass|fail|error"
    " detail:text duration_ms:count output_sha256?:sha",
    "EvalReceipt": "schema_version:1 receipt_id:id session_id:id goal_id:id"
    " goal_contract_sha256:sha subject:GitSubject attempt_id:id role:name checks:[CheckResult]"
    " verdict:pass|fail report_sha256?:sha created_at_ms:count",
    "AttemptIdentity": "root_session_id:id session_id:id parent_session_id?:id depth:count"
    " workflow_set:name role:name iteration:positive attempt_id:id request_id?=:key"
    " work_item_id?=:key",
    "AcceptedInput": "ref:ref sha256:sha size_bytes:count",
    "Provenance": "state_revision:positive config_sha256:sha prompt_sha256:sha"
    " rendered_prompt_sha256:sha contract_sha256:sha goal_sha256:sha goal_contract_sha256:sha"
    " git_head?:str",
    "Paths": "repository:path session_root:path project_state:path children_index:path"
    " children_root:path child_requests:path child_outcomes:path parent_acceptance:path"
    " control:path eval_checks:path eval_readiness:path eval_receipts:path git_receipts:path"
    " delivery_receipts:path inputs:path attempt_root:path trace_root:path",
    "Assignment": "schema_version:1 identity:AttemptIdentity goal:GoalContract"
    " inputs:[AcceptedInput] updates:texts responsibility:text expected_outputs:texts"
    " provenance:Provenance paths:Paths",
    "RecordedProcess": "pid:int started:int boot_id:str host:str pid_namespace:str",
    "AttemptProcess": "schema_version:1 attempt_id:id run_mark:id runner:RecordedProcess"
    " leader:RecordedProcess started_at_ms:count",
    "Stream": "kept_bytes:count dropped_bytes:count",
    "Leftover": "pid:count name:str",
    "AttemptResult": f"schema_version:1 attempt_id:id classification:{CLASS} exit_code?:0..255"
    " signal?:1..128 detail?:text duration_ms:count stdout?:Stream stderr?:Stream"
    " survivors:[Leftover] usage:Usage git_before?:GitSubject git_after?:GitSubject"
    " ended_at_ms:count notes=:[text]",
    "AttemptFinished": f"schema_version:1 attempt_id:id role:name classification:{CLASS}"
    " result_sha256:sha control:none|running|goal_met|unresolvable_error|rejected"
    " finished_at_ms:count",
    "InputRestored": "kind=:input_restored at_ms:count session_id:id file:text",
    "AttemptBegan": "kind=:attempt_began at_ms:count session_id:id attempt_id:id role:name",
    "AttemptEnded": "kind=:attempt_ended at_ms:count session_id:id attempt_id:id role:name"
    f" classification:{CLASS} control:none|running|goal_met|unresolvable_error|rejected",
    "RequestRefused": "kind=:request_refused at_ms:count session_id:id file_name:text"
    " request_id?:key code:text",
    "ChildMade": "kind=:child_made at_ms:count session_id:id request_id:key child_session_id:id",
    "ChildEnded": "kind=:child_ended at_ms:count session_id:id request_id:key child_session_id:id"
    f" status:{STATUS}",
    "ChildJudged": "kind=:child_judged at_ms:count session_id:id request_id:key"
    " decision:accepted|rework|reroute|blocked decided_by:text",
    "LayerEnded": f"kind=:layer_ended at_ms:count session_id:id status:{STATUS} stop_reason:{STOP}",
    "UsageReport": "schema_version:1 input_tokens=:count output_tokens=:count"
    " cost_microusd=:count",
    "TracedFile": "path:text sha256:sha size_bytes:count",
    "SkippedFile": "path:text reason:link|special|name|size|unreadable",
    "TraceManifest": "schema_version:1 session_id:id attempt_id:id git_before?:GitSubject"
    " git_after?:GitSubject files:[TracedFile] skipped=:[SkippedFile] complete=:bool"
    " created_at_ms:count",
    "TraceSeal": "schema_version:1 attempt_id:id manifest_sha256:sha files:count size_bytes:count"
    " sealed_at_ms:count",
    "Harness": "command:arguments timeout_s=:positive grace_s=:count environment=:[variable]"
    " transient_exit_codes=:[1..255] log_limit_bytes=:positive",
    "AfterSuccesses": "role:name count:positive",
    "RoleConfig": "enabled=:bool priority=:-1000..1000 run_on_start=:bool run_every?=:positive"
    " must_follow?=:name run_after_successes?=:AfterSuccesses not_before_iteration=:count"
    " harness:Harness responsibility:text expected_outputs=:texts",
    "FrozenRole": "name:name config:RoleConfig config_sha256:sha prompt_sha256:sha",
    "Caps": "max_turns?=:positive max_role_failures=:positive max_invalid_controls=:positive"
    " max_failed_goal_checks=:positive max_cost_microusd?=:positive",
    "WorkflowContract": "schema_version:1 workflow_set:name description:text roles:[FrozenRole]"
    " goal_control_roles:[name] blocker_roles:[name] request_roles:[name] acceptance_roles:[name]"
    " evaluation_roles:[name] caps:Caps recovery:drain|reap",
}  # fmt: skip

BIG = 2**53 - 1
SHA = "sha256:" + "0123456789abcdef" * 4
NUMBERS: list[Any] = [1.5, "1", True, None, [], {}]
TEXTS: list[Any] = [1, True, None, [], {}]

KINDS: dict[str, tuple[list[Any], list[Any]]] = {
    "id": (["a", "A1._-", "0" * 128], [*TEXTS, "", ".a", "a/b", "é", "a b", "a\n", "a" * 129, "-"]),
    "key": (
        ["a", "Größe", "設", "a.b~-", "a" * 100],
        [*TEXTS, "", ".a", "-a", "~a", "a/b", "a\\b", "a:b", "a b", "a\n", "a*", "a" * 101],
    ),
    "name": (["a", "a_1", "a" * 64], [*TEXTS, "", "A", "1", "_a", "a-b", "a\n", "a" * 65]),
    "sha": ([SHA], [*TEXTS, "", SHA[:-1], SHA + "0", SHA.upper(), SHA[7:], SHA + "\n"]),
    "ref": (["a:/", "repo:/x", "x" * 1024], [*TEXTS, "", "ab", "x" * 1025]),
    "text": (["a", "a\n\tb", "é", "a" * 10_000], [*TEXTS, "", "a\0", "\x1b[0m", "a\x7f"]),
    "str": (["", "a"], TEXTS),
    "path": (["/", "/a b"], [*TEXTS, "", "a", "./a", "/a\0", "/" + "a" * 4096]),
    "count": ([0, 1, BIG], [*NUMBERS, -1, BIG + 1]),
    "positive": ([1, BIG], [*NUMBERS, 0, -1, BIG + 1]),
    "int": ([-1, 0, 1], NUMBERS),
    "bool": ([True, False], [0, 1, "true", None, []]),
    "1": ([1], [0, 2, *NUMBERS]),
    "2": ([2], [0, 1, 3, *NUMBERS]),
    "texts": ([[], ["a"], ["a"] * 500], [None, "a", {}, [""], [1], ["a"] * 501]),
    "texts1": ([["a"], ["a"] * 500], [None, "a", {}, [], [""], [1], ["a"] * 501]),
    "arguments": (
        [["a"], ["", "é", "-x"], ["a"] * 200, ["a" * 4096]],
        [None, "a", {}, [], [1], ["a\0"], ["a"] * 201, ["a" * 4097]],
    ),
    "variable": (["A", "_a1", "a" * 128], [*TEXTS, "", "1", "A=B", "a" * 129, "é"]),
}
# The bounds of lists that are not told by the kind of their members.
LONGEST = {
    ("ChildRequest", "inputs"): (0, 200), ("Control", "attempted_routes"): (0, 100),
    ("EvalReceipt", "checks"): (0, 500), ("AttemptResult", "notes"): (0, 20),
    ("WorkflowContract", "roles"): (1, 50),
}  # fmt: skip


def samples(kind: str) -> tuple[list[Any], list[Any]]:
    """What may stand in a field of this kind, and what may not."""
    if kind in KINDS:
        return KINDS[kind]
    if kind in TABLE:
        whole = example(kind)
        return [whole], [None, 1, "a", [], {**whole, "surprise": 1}]
    if kind.startswith("["):
        good, bad = samples(kind[1:-1])
        return [[], good[:1], good], [None, "a", {}, *([one] for one in bad)]
    if kind.startswith("{"):
        good, bad = samples(kind[1:-1])
        return (
            [{}, {"a": good[0]}],
            [None, "a", [], {"A": good[0]}, {"": good[0]}, *({"a": one} for one in bad)],
        )
    if ".." in kind:
        low, high = map(int, kind.split(".."))
        return [low, high], [*NUMBERS, low - 1, high + 1]
    words = kind.split("|")
    return list(words), [1, None, True, "", "other", words[0].upper(), f"{words[0]} "]


def fields(record: str) -> Iterator[tuple[str, str, bool, bool]]:
    """Name, kind, whether it may be null, whether it may be missing."""
    for entry in TABLE[record].split():
        name, _, kind = entry.partition(":")
        yield name.rstrip("?="), kind, "?" in name, "=" in name


def example(record: str) -> dict[str, Any]:
    """A whole record."""
    found: dict[str, Any] = {}
    for name, kind, _, _ in fields(record):
        fewest = LONGEST.get((record, name), (0, 0))[0]
        found[name] = samples(kind)[0][1] if fewest else samples(kind)[0][0]
    return found


def classes() -> dict[str, type[Record]]:
    found: dict[str, type[Record]] = {}
    for module in MODULES:
        for value in vars(module).values():
            if isinstance(value, type) and issubclass(value, Record) and value not in BASES:
                found[value.__name__] = value
    return found


CLASSES = classes()


def take(kind: type[Record], value: object) -> Record:
    return read(json.dumps(value).encode(), kind, "it")


def test_the_table_has_every_field_of_every_record() -> None:
    assert CLASSES.keys() == TABLE.keys()
    for name, kind in CLASSES.items():
        info = inspect.type_info(kind)
        assert isinstance(info, inspect.StructType)
        there = {one.name: one.required for one in info.fields}
        if info.tag_field is not None:
            # Only among others does a check have to say which kind it is.
            there[info.tag_field] = False
        assert there == {field: not lacks for field, _, _, lacks in fields(name)}, name


@pytest.mark.parametrize("name", sorted(TABLE))
def test_a_whole_record_is_taken_and_written_again(name: str) -> None:
    whole = example(name)
    record = take(CLASSES[name], whole)
    assert json.loads(msgspec.json.encode(record)) == whole


@pytest.mark.parametrize("name", sorted(TABLE))
def test_what_may_stand_in_a_field_is_taken(name: str) -> None:
    for field, kind, nullable, lacks in fields(name):
        for value in samples(kind)[0] + ([None] if nullable else []):
            if LONGEST.get((name, field), (0, 0))[0] and value == []:
                continue
            take(CLASSES[name], {**example(name), field: value})
        if lacks:
            less = example(name)
            del less[field]
            take(CLASSES[name], less)


@pytest.mark.parametrize("name", sorted(TABLE))
def test_what_may_not_stand_in_a_field_is_refused_with_its_place(name: str) -> None:
    for field, kind, nullable, _ in fields(name):
        for value in samples(kind)[1]:
            if value is None and nullable:
                continue
            error = refused(take, CLASSES[name], {**example(name), field: value})
            assert error.code == "record_invalid", (field, value)
            if not isinstance(value, float) and value not in (BIG + 1, [BIG + 1]):
                # Numbers that no record may hold are refused before a record is made of them.
                pointer = str(error.details.get("pointer", f"/{field}"))
                assert pointer.split("/")[1:2] == [field], (field, value, error.message)
            plain(error.message)


@pytest.mark.parametrize("name", sorted(TABLE))
def test_a_record_is_closed_and_complete(name: str) -> None:
    error = refused(take, CLASSES[name], {**example(name), "surprise": 1})
    assert error.code == "record_invalid"
    assert "`surprise`" in error.message
    for field, _, _, lacks in fields(name):
        if lacks:
            continue
        less = copy.deepcopy(example(name))
        del less[field]
        error = refused(take, CLASSES[name], less)
        assert error.code == "record_invalid"
        assert f"`{field}`" in error.message
        plain(error.message)
    for value in (None, 1, "a", [], [example(name)], True):
        error = refused(take, CLASSES[name], value)
        assert (error.code, error.details["pointer"]) == ("record_invalid", "")


@pytest.mark.parametrize(("name", "field"), sorted(LONGEST))
def test_lists_are_bounded(name: str, field: str) -> None:
    fewest, most = LONGEST[name, field]
    kind = next(kind for found, kind, _, _ in fields(name) if found == field)
    member = samples(kind)[0][1][0]
    for count in (fewest, most):
        take(CLASSES[name], {**example(name), field: [member] * count})
    for count in (fewest - 1, most + 1):
        if count >= 0:
            error = refused(take, CLASSES[name], {**example(name), field: [member] * count})
            assert error.details["pointer"] == f"/{field}"
            assert "entries" in error.message


def test_a_record_is_bounded_before_it_is_read() -> None:
    data = b" " * (MAX_RECORD_BYTES + 1)
    error = refused(read, data, CLASSES["State"], "it")
    assert error.code == "resource_limit"


def plain(message: str) -> None:
    """No pattern, no name of a Python type, nothing that acts on a terminal."""
    assert message.isprintable()
    for raw in ("regex", "(?!", "Expected", "`str`", "`int`", "Object", "enum"):
        assert raw not in message, message
