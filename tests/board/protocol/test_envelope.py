"""One line as a commit: quick and slow reading agree, and the envelope is judged on its own."""

from __future__ import annotations

import copy
import json
from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec import UNSET, structs

from callboard import canonical
from callboard.board.protocol import commit as wire
from callboard.board.protocol import envelope
from callboard.board.protocol import operations as ops
from callboard.board.protocol import policy as records
from callboard.board.protocol.envelope import parse_commit, read_line, written
from callboard.errors import CallboardError
from tests.board import building as make
from tests.board.boards import Board
from tests.board.building import refused


def life() -> list[wire.QueueCommit]:
    """Commits of most kinds, as a board had them."""
    board = Board(
        [make.work("a", gates=[make.issue_gate()]), make.work("b", after=["a"]), make.work("c")],
        make.with_pool(retry=records.Retry(max_attempts=1, backoff_ms=1)),
    )
    board.observe(make.observation("o1", make.issue_gate(), board.at))
    board.grant(2)
    board.settle("a")
    board.bind("c")
    board.pass_ms(5)
    board.finish("c", "cancelled")
    board.release(board.projection.dispatches[list(board.projection.dispatches)[1]], "terminal_run")
    board.control("grants_paused", True)
    board.control("credential_generation", "g2")
    board.cancel_work("b")
    return board.commits


LIFE = life()
LINES = [make.line_of(one)[:-1] for one in LIFE]


def slowly(line: bytes) -> wire.QueueCommit:
    return parse_commit(canonical.decode_strict(line))


def outcome(line: bytes) -> tuple[object, ...]:
    try:
        commit, plain, _parameters = read_line(line)
    except CallboardError as error:
        return error.code, json.dumps(error.details)
    assert plain == canonical.encode(canonical.decode_strict(line))
    return "commit", commit


def slow_outcome(line: bytes) -> tuple[object, ...]:
    try:
        return "commit", slowly(line)
    except CallboardError as error:
        return error.code, json.dumps(error.details)


@pytest.mark.parametrize("index", range(len(LIFE)))
def test_a_written_line_reads_back(index: int) -> None:
    assert read_line(LINES[index])[:2] == (LIFE[index], LINES[index])
    assert slowly(LINES[index]) == LIFE[index]
    loose = json.dumps(json.loads(LINES[index]), indent=1).encode()
    assert read_line(loose)[:2] == (LIFE[index], LINES[index])


FRAGMENTS = (
    b'0 1 null true {} [] "" "x" , : \\u0061 -0 1.0 1e2 9007199254740992 \xc3\xa9 \xff "a":1, \\"'
)
fragments = st.sampled_from([*FRAGMENTS.split(b" "), b"", b" ", b"\n"])


@given(st.sampled_from(LINES), st.data())
def test_quick_and_slow_reading_agree_on_damaged_lines(line: bytes, chance: st.DataObject) -> None:
    data = bytearray(line)
    for _ in range(chance.draw(st.integers(1, 2))):
        at = chance.draw(st.integers(0, len(data)))
        data[at : at + chance.draw(st.integers(0, 4))] = chance.draw(
            fragments | st.binary(max_size=2)
        )
    damaged = bytes(data)
    assert outcome(damaged) == slow_outcome(damaged)


def positions(value: Any) -> list[tuple[Any, Any]]:
    """Every place in a JSON value, as its holder and key."""
    found: list[tuple[Any, Any]] = []
    if isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(len(value)):
            found.append((value, key))
            found.extend(positions(value[key]))
    return found


LIKELY: list[Any] = [None, True, False, 0, 1, 3, -1, 2**53 - 1, "", "x", "\u00e9" * 128, "a\n", []]
LIKELY += [{}, "h1", "0" * 40, "0" * 64, "Work", "completed", [1], {"kind": "none"}, "o/r", "e1"]
likely = st.sampled_from(LIKELY)


@given(st.sampled_from(LINES), st.data())
def test_quick_and_slow_reading_agree_on_changed_values(line: bytes, chance: st.DataObject) -> None:
    value = json.loads(line)
    for _ in range(chance.draw(st.integers(1, 2))):
        holder, key = chance.draw(st.sampled_from(positions(value)))
        if chance.draw(st.booleans()) and isinstance(holder, dict):
            del holder[key]
        else:
            holder[key] = copy.deepcopy(chance.draw(likely))
    changed = canonical.encode(value)
    assert outcome(changed) == slow_outcome(changed)


@given(
    st.dictionaries(
        st.text(max_size=3),
        st.integers(-(2**53) - 2, 2**53 + 2) | st.booleans() | st.text(max_size=3),
        max_size=4,
    )
)
@example({"n": 2**53})
@example({"n": 2**53 - 1})
@example({"n": -(2**53)})
def test_payload_numbers_are_bounded_on_the_quick_way_too(payload: dict[str, Any]) -> None:
    value = json.loads(LINES[0])
    for nodes in (value["operations"][1], value["request"]["parameters"]["nodes"][0]):
        nodes["payload"] = payload
    data = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    try:
        raw = data.encode()
    except UnicodeEncodeError:
        return
    assert outcome(raw) == slow_outcome(raw)


def with_payload(payload: object) -> bytes:
    value = json.loads(LINES[0])
    for node in (value["operations"][1], value["request"]["parameters"]["nodes"][0]):
        node["payload"] = payload
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def nested(levels: int) -> object:
    value: object = {}
    for _ in range(levels):
        value = {"k": value}
    return value


def test_depth_and_arrays_of_a_payload_are_bounded_on_the_quick_way_too() -> None:
    # In the parameters the payload stands at depth 5 of its line.
    bounds = {
        59: (nested(59), {"a": [0] * 16_384}, {"a": nested(58), "b": [[0] * 16_384]}),
        60: (nested(60), {"a": [0] * 16_385}, {"a": [nested(57), nested(58)]}),
    }
    for payload in bounds[59]:
        line = with_payload(payload)
        assert outcome(line)[0] == slow_outcome(line)[0] == "commit"
    for payload in bounds[60]:
        line = with_payload(payload)
        assert outcome(line) == slow_outcome(line)
        assert outcome(line)[0] == "resource_limit"


def test_non_ascii_identities_are_bounded_in_bytes_on_both_ways() -> None:
    fits = make.commit(
        None, "submit", "\u00e9" * 128, [make.work("\U0001f680" * 64)], make.PRODUCER
    )
    assert read_line(make.line_of(fits)[:-1])[0] == fits
    for field, text in (("id", "\u00e9" * 128 + "x"), ("policy_epoch", "\U0001f680" * 65)):
        beyond = structs.replace(fits, **{field: text})
        error = refused(read_line, make.line_of(beyond)[:-1])
        assert error.code == "record_invalid"
        assert json.dumps(error.details).count(f'"/{field}"') == 1


def test_record_keys_obey_the_rules_of_their_scalar() -> None:
    document = make.policy(pools={"\u00e9" * 129: make.pool()})
    error = refused(lambda: read_line(make.line_of(make.genesis([make.work("n")], document))[:-1]))
    assert error.code == "record_invalid"
    assert "258 UTF-8 bytes" in error.message


@pytest.mark.parametrize("version", [2, 4, "3", None, True, 3.5])
def test_another_version_is_told_apart_from_a_broken_record(version: object) -> None:
    value = json.loads(LINES[0]) | {"version": version, "unknown": 1}
    if version is None:
        del value["version"]
    line = json.dumps(value).encode()
    error = refused(lambda: read_line(line))
    assert error.code == ("noncanonical_number" if version == 3.5 else "unsupported_protocol")


def test_a_version_of_any_size_is_told_short() -> None:
    for version in ("v" * 70_000, [[0] * 9_000], {"v": "v" * 9_000}, 10**15):
        line = json.dumps({"version": version}).encode()
        error = refused(partial(read_line, line))
        assert len(json.dumps(error.document())) < 600
    assert error.details == {"found": 10**15}


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b"[]", "record_invalid"),
        (b"null", "record_invalid"),
        (b"{}", "unsupported_protocol"),
        (b'{"a":', "invalid_json"),
        (b'{"version":3,"version":3}', "duplicate_key"),
        (b'{"version":3,"\\u0076ersion":3}', "duplicate_key"),
        (b"\xff", "invalid_unicode"),
        (b'{"version":3.0}', "noncanonical_number"),
        (b"[" * 100, "resource_limit"),
        (b" " * (canonical.MAX_LINE_BYTES + 1), "resource_limit"),
    ],
)
def test_other_lines_are_refused_with_the_codec_s_code(line: bytes, code: str) -> None:
    assert refused(lambda: read_line(line)).code == code


def test_a_key_that_stands_twice_is_refused_wherever_it_is() -> None:
    """Before anything is hashed or compared, spelled plainly or by escape, at any depth."""
    text = LINES[0].decode()
    for key, spelled in (
        ("id", '"id":'),
        ("role", '"\\u0072ole":'),
        ("effect_contract", '"effect_contract":'),
        ("kind", '"k\\u0069nd":'),
    ):
        first = text.index(f'"{key}":')
        doubled = text[:first] + spelled + '"x",' + text[first:]
        assert refused(read_line, doubled.encode()).code == "duplicate_key"


# --- the envelope on its own --------------------------------------------------------------------

DIGEST = "0" * 64
OPERATIONS: dict[str, ops.Operation] = {
    "Policy": ops.Policy(epoch="e1", policy=make.policy()),
    "Work": make.work("n"),
    "Claim": ops.Claim(work_id=DIGEST, claim_id="c", dispatch_id="d", handle="h1", observations=[]),
    "Completion": ops.Completion(
        work_id=DIGEST,
        claim_id="c",
        dispatch_id="d",
        claim_handle="h1",
        run_id="1",
        run_attempt=1,
    ),
    "Dispatch": ops.Dispatch(dispatch_id="d", state="uncertain", reason="lost"),
    "Observation": make.observation("o", make.issue_gate(), 1),
    "ClaimCancellation": ops.ClaimCancellation(
        work_id=DIGEST, claim_id="c", reason="r", retry_not_before=1
    ),
    "WorkCancellation": ops.WorkCancellation(work_id=DIGEST, reason="r"),
    "Control": ops.Control(control="grants_paused", value=True, reason="r"),
    "Deployment": ops.Deployment(
        pool="default",
        worker_profile="default",
        expected_ref=make.REF,
        expected_contract="",
        profile=make.profile(),
        available=True,
        reason="r",
    ),
    "Checkpoint": ops.Checkpoint(
        prior_git_sha=make.REF,
        prior_tip="q",
        history_sha256=DIGEST,
        state_sha256=DIGEST,
        state={},
    ),
    "WorkPriority": ops.WorkPriority(work_id=DIGEST, priority=1, expected_priority=3, reason="r"),
    "IssueLink": ops.IssueLink(work_id=DIGEST, resource=make.resource(), projector_ref=make.REF),
    "IssueComment": ops.IssueComment(work_id=DIGEST, comment_id="1", projector_ref=make.REF),
    "Release": ops.Release(
        dispatch_id="d",
        evidence=ops.Evidence(
            kind="prelaunch",
            source="trusted_publisher",
            repository=make.REPOSITORY,
            workflow="w",
            ref=make.REF,
            principal="7",
            checked_at=1,
        ),
    ),
}

ALLOWED = {
    "policy": {"Policy"},
    "submit": {"Work"},
    "dispatch_next": {"Observation", "Claim"},
    "finish": {"Completion", "ClaimCancellation", "WorkCancellation"},
    "observe": {"Observation"},
    "dispatch": {"Dispatch"},
    "control": {"Control"},
    "release": {"ClaimCancellation", "WorkCancellation", "Release"},
    "cancel_work": {"WorkCancellation"},
    "cancel_claim": {"ClaimCancellation", "WorkCancellation"},
    "deployment": {"Deployment"},
    "priority": {"WorkPriority"},
    "issue_link": {"IssueLink"},
    "issue_comment": {"IssueComment"},
    "checkpoint": {"Checkpoint"},
}

ROLES = {
    "administrator": "policy control submit dispatch_next observe cancel_work deployment priority "
    "checkpoint",
    "producer": "submit cancel_work deployment",
    "dispatcher": "submit dispatch_next observe dispatch deployment",
    "worker": "submit dispatch_next observe finish dispatch",
    "reconciler": "observe dispatch release result delivery_failure cancel_claim cancel_work",
    "projector": "issue_link issue_comment",
}

PARAMETERS: dict[str, records.Record] = {
    "dispatch_next": wire.DispatchNextParameters(
        pool="default", max_claims=1, max_dispatches=1, max_bytes=1
    ),
    "finish": wire.FinishParameters(dispatch_id="d", claim_handle="h1", outcome="completed"),
    "checkpoint": wire.CheckpointParameters(
        prior_git_sha=make.REF, prior_tip="q", history_sha256=DIGEST, state_sha256=DIGEST
    ),
}


def actor_of(role: str) -> ops.Actor:
    actor = structs.replace(make.PRODUCER, role=role)
    if role == "worker":
        actor = structs.replace(
            actor, workflow="w", run_id="1", run_attempt=1, dispatch_id="d", claim_handle="h1"
        )
    return actor


def asked(
    kind: str, operations: Sequence[ops.Operation], actor: ops.Actor, **given: Any
) -> wire.QueueCommit:
    parameters = given.pop("parameters", PARAMETERS.get(kind))
    return make.commit("q", kind, "r", operations, actor, parameters=parameters, **given)


def code_of(commit: wire.QueueCommit) -> str | None:
    try:
        envelope.check(commit, written(commit).parameters)
    except CallboardError as error:
        return error.code
    return None


@pytest.mark.parametrize("role", list(ROLES))
def test_each_role_asks_for_its_own_kinds_only(role: str) -> None:
    for kind in wire.REQUEST_TYPES:
        first = sorted(ALLOWED.get(kind, {"Work"}))[-1]
        operation = OPERATIONS["Release" if kind == "release" else first]
        code = code_of(asked(kind, [operation], actor_of(role)))
        if kind not in ROLES[role].split():
            assert code == "role_forbidden", kind
        else:
            assert code in (None, "operation_forbidden"), kind
            assert (code is None) or kind in ("result", "delivery_failure")


@pytest.mark.parametrize("kind", list(ALLOWED))
def test_each_kind_publishes_its_own_operations_only(kind: str) -> None:
    role = next(role for role, kinds in ROLES.items() if kind in kinds.split())
    for name, operation in OPERATIONS.items():
        operations = [operation]
        if kind == "release" and name != "Release":
            operations.append(OPERATIONS["Release"])
        commit = asked(kind, operations, actor_of(role))
        if name in ALLOWED[kind]:
            assert code_of(commit) is None, name
        else:
            assert code_of(commit) in ("operation_forbidden", "parameters_mismatch"), name


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        ("dispatch_next", "Claim Observation"),
        ("release", "WorkCancellation ClaimCancellation Release"),
        ("release", "Release ClaimCancellation Release"),
        ("release", "Release Release"),
        ("release", "ClaimCancellation"),
        ("release", "Release WorkCancellation"),
        ("cancel_claim", "WorkCancellation ClaimCancellation"),
        ("policy", "Policy Policy"),
        ("checkpoint", "Checkpoint Checkpoint"),
    ],
)
def test_operations_stand_in_the_protocol_s_order(kind: str, names: str) -> None:
    role = next(role for role, kinds in ROLES.items() if kind in kinds.split())
    commit = asked(kind, [OPERATIONS[name] for name in names.split()], actor_of(role))
    assert code_of(commit) == "operation_forbidden"


@pytest.mark.parametrize(
    "changes",
    [
        {"run_id": "1"},
        {"run_attempt": 1},
        {"run_attempt": 4096},
    ],
)
def test_run_and_attempt_come_as_a_pair(changes: dict[str, Any]) -> None:
    actor = structs.replace(make.PRODUCER, **changes)
    assert code_of(asked("submit", [make.work("n")], actor)) == "actor_invalid"
    both = structs.replace(make.PRODUCER, run_id="1", run_attempt=4096)
    assert code_of(asked("submit", [make.work("n")], both)) is None


@pytest.mark.parametrize(
    "changes",
    [
        {"workflow": UNSET},
        {"dispatch_id": UNSET},
        {"run_id": UNSET, "run_attempt": UNSET},
        {"run_attempt": 2},
    ],
)
def test_a_worker_names_its_first_run(changes: dict[str, Any]) -> None:
    actor = structs.replace(actor_of("worker"), **changes)
    commit = asked("finish", [OPERATIONS["Completion"]], actor)
    assert code_of(commit) == "actor_invalid"


def test_parameters_say_what_the_operations_do() -> None:
    node, other = make.work("n"), make.work("m")
    for nodes, operations in (
        ([node], [other]),
        ([node, other], [other, node]),
        ([node, other], [node]),
        ([node], [node, other]),
    ):
        commit = asked(
            "submit", operations, make.PRODUCER, parameters=wire.SubmitParameters(nodes=nodes)
        )
        assert code_of(commit) == "parameters_mismatch"
    pause, resume = (
        ops.Control(control="grants_paused", value=value, reason="r") for value in (True, False)
    )
    commit = asked(
        "control",
        [pause],
        make.ADMINISTRATOR,
        parameters=wire.OperationsParameters(operations=[resume]),
    )
    assert code_of(commit) == "parameters_mismatch"


@pytest.mark.parametrize(("one", "other"), [(1, True), (0, False), ([1], [True])])
def test_parameters_that_differ_only_in_the_kind_of_a_value_differ(
    one: object, other: object
) -> None:
    """1 and true are different JSON, though Python takes them for equal."""
    said = make.work("n", payload={"v": one})
    done = make.work("n", payload={"v": other})
    commit = asked("submit", [done], make.PRODUCER, parameters=wire.SubmitParameters(nodes=[said]))
    assert code_of(commit) == "parameters_mismatch"


def test_a_policy_belongs_to_a_first_submission_only() -> None:
    operations = [OPERATIONS["Policy"], make.work("n")]
    parameters = wire.SubmitParameters(nodes=[make.work("n")])
    first = make.commit(None, "submit", "r", operations, make.PRODUCER, parameters=parameters)
    assert code_of(first) is None
    later = make.commit("q", "submit", "r", operations, make.PRODUCER, parameters=parameters)
    assert code_of(later) == "parameters_mismatch"


@pytest.mark.parametrize("changes", [{"principal": "8"}, {"repository": "o/other"}])
def test_a_fingerprint_binds_the_actor_and_the_parameters(changes: dict[str, str]) -> None:
    commit = asked("submit", [make.work("n")], make.PRODUCER)
    assert code_of(commit) is None
    forged = structs.replace(commit, actor=structs.replace(commit.actor, **changes))
    assert code_of(forged) == "fingerprint_mismatch"
    assert code_of(make.resealed(forged)) is None
    same = structs.replace(commit, previous="another", at=5, trace=wire.Trace(trace_id="t"))
    assert code_of(same) is None
