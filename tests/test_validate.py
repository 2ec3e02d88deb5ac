"""The checker: every fault at once, each at its pointer, and never anything but faults."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator
from typing import Any, Literal, cast

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from callboard import canonical
from callboard.board.protocol import commit as wire
from callboard.board.protocol import operations as ops
from callboard.board.protocol import policy as records
from callboard.board.protocol.rules import observation_faults, policy_faults, work_faults
from callboard.board.protocol.scalars import Identity
from callboard.errors import CallboardError
from callboard.validate import MAX_FAULTS, faults_of, parse, pointer_step, show
from tests.board import building as make

Edit = Callable[[Any], Any]


def plain(record: msgspec.Struct) -> Any:
    return msgspec.to_builtins(record)


def faults(kind: Any, value: object) -> dict[str, str]:
    found = faults_of(kind, value)
    assert len({fault.pointer for fault in found}) == len(found)
    return {fault.pointer: fault.message for fault in found}


def policy_value() -> Any:
    return plain(make.policy(accounting_weights={"": 1, "a/b~c": 2}))


def test_a_sound_record_has_no_faults() -> None:
    assert faults(records.PolicyDocument, policy_value()) == {}
    assert faults(ops.Work, plain(make.work("n", gates=[make.issue_gate()]))) == {}
    assert faults(wire.QueueCommit, plain(make.genesis([make.work("n")]))) == {}


def test_every_fault_is_told_at_its_place() -> None:
    value = policy_value()
    value["mode"] = "weighted-prority"
    value["class_weights"] = [8, 0, "2", 1]
    value["accounting_weights"]["a/b~c"] = 1001
    value["accounting_weights"]["bad\x01"] = 1
    value["limits"]["ledger_bytes"] = 67_108_865
    del value["limits"]["operations"]
    value["limits"]["payload_byte"] = 1
    value["pools"]["default"]["profiles"]["x/y"] = {"workflow": 7}
    value["pools"]["default"]["retry"] = None
    found = faults(records.PolicyDocument, value)
    assert set(found) == {
        "/mode",
        "/class_weights",
        "/class_weights/1",
        "/class_weights/2",
        "/accounting_weights/a~1b~0c",
        "/accounting_weights/bad\x01",
        "/limits/ledger_bytes",
        "/limits/operations",
        "/limits/payload_byte",
        "/pools/default/profiles/x~1y/workflow",
        "/pools/default/profiles/x~1y/ref",
        "/pools/default/profiles/x~1y/trust_domain",
        "/pools/default/profiles/x~1y/credential_scope",
        "/pools/default/profiles/x~1y/effect_scope",
        "/pools/default/profiles/x~1y/max_claims",
        "/pools/default/profiles/x~1y/share_keys",
        "/pools/default/retry",
    }
    assert "'weighted-priority'" in found["/mode"]
    assert "did you mean 'payload_bytes'" in found["/limits/payload_byte"]
    assert "67108865" in found["/limits/ledger_bytes"]
    assert found["/limits/operations"] == "is missing"


def test_the_refusal_carries_them_all_and_shows_the_first() -> None:
    with pytest.raises(CallboardError) as caught:
        parse(ops.WorkDependency, {"kind": "work"}, what="edge")
    assert caught.value.message == "edge: /work_id: is missing"
    with pytest.raises(CallboardError) as caught:
        parse(ops.WorkDependency, {"work_id": 1, "x": 2}, what="edge", code="plan_invalid")
    error = caught.value
    assert error.code == "plan_invalid"
    assert error.message.endswith("(and 2 more)")
    listed = canonical.decode(canonical.encode(error.details["faults"]))
    assert sorted(fault["pointer"] for fault in listed) == ["/kind", "/work_id", "/x"]


@pytest.mark.parametrize(
    ("key", "step"),
    [("a", "/a"), ("a/b", "/a~1b"), ("a~b", "/a~0b"), ("~1", "/~01"), ("", "/"), (3, "/3")],
)
def test_pointer_steps_are_escaped(key: object, step: str) -> None:
    assert pointer_step(key) == step


@pytest.mark.parametrize(
    ("kind", "record"),
    [
        (ops.Actor, make.SENDER),
        (ops.Dispatch, ops.Dispatch(dispatch_id="d", state="uncertain", reason="lost")),
        (ops.Work, make.work("n", subject=make.resource())),
        (wire.QueueCommit, make.genesis([make.work("n")])),
        (records.Pool, make.pool(per_account_limit=2)),
    ],
)
def test_an_optional_field_is_absent_and_never_null(kind: Any, record: msgspec.Struct) -> None:
    optional = [
        field.encode_name for field in msgspec.structs.fields(type(record)) if not field.required
    ]
    assert optional
    for name in optional:
        value = plain(record) | {name: None}
        assert f"/{name}" in faults(kind, value), name
        value.pop(name)
        assert faults(kind, value) == {}


@pytest.mark.parametrize("value", [None, 1, "x", [], True])
def test_a_record_is_an_object(value: object) -> None:
    assert list(faults(ops.Work, value)) == [""]
    assert list(faults(wire.QueueCommit, value)) == [""]


def test_unknown_fields_are_refused_at_every_depth() -> None:
    value = plain(
        make.genesis([make.work("n", gates=[make.issue_gate()], subject=make.resource())])
    )
    edits: dict[str, Edit] = {
        "/zzz": lambda v: v,
        "/actor/zzz": lambda v: v["actor"],
        "/request/zzz": lambda v: v["request"],
        "/request/parameters/zzz": lambda v: v["request"]["parameters"],
        "/request/parameters/nodes/0/zzz": lambda v: v["request"]["parameters"]["nodes"][0],
        "/operations/0/zzz": lambda v: v["operations"][0],
        "/operations/0/policy/zzz": lambda v: v["operations"][0]["policy"],
        "/operations/1/depends_on/0/zzz": lambda v: v["operations"][1]["depends_on"][0],
        "/operations/1/subject/zzz": lambda v: v["operations"][1]["subject"],
    }
    for pointer, place in edits.items():
        copy = canonical.decode(canonical.encode(value))
        place(copy)["zzz"] = 1
        assert faults(wire.QueueCommit, copy) == {pointer: "unknown field"}, pointer


def test_unions_are_closed_and_name_the_near_miss() -> None:
    value = plain(make.genesis([make.work("n")]))
    value["operations"][1]["kind"] = "Wrok"
    value["request"]["kind"] = "submitt"
    found = faults(wire.QueueCommit, value)
    assert set(found) == {"/operations/1/kind", "/request/kind"}
    assert "did you mean 'Work'" in found["/operations/1/kind"]
    assert "did you mean 'submit'" in found["/request/kind"]
    tags: list[Any] = [None, 1, [], {}, "", "work"]
    for tag in tags:
        value["operations"][1]["kind"] = tag
        assert "/operations/1/kind" in faults(wire.QueueCommit, value), tag
    del value["operations"][1]["kind"]
    assert "/operations/1/kind" in faults(wire.QueueCommit, value)


def test_payloads_are_open_and_kept_whole() -> None:
    payload = {"plan": [None, {"deep": [True, 1, "\u00e9"]}], "kind": "anything", "": {}}
    value = plain(make.work("n", payload=payload))
    assert parse(ops.Work, value, what="work").payload == payload
    value["payload"] = [1]
    assert set(faults(ops.Work, value)) == {"/payload"}


def test_either_arm_of_a_plain_union_is_checked() -> None:
    value = {"kind": "Control", "control": "grants_paused", "value": True, "reason": "r"}
    assert faults(ops.Control, value) == {}
    assert faults(ops.Control, value | {"value": "g2"}) == {}
    for wrong in ("", "x" * 257, 1, None, [True]):
        assert set(faults(ops.Control, value | {"value": wrong})) == {"/value"}
    assert faults(Literal["a", 1], 1) == {}
    assert set(faults(Literal["a", 1], True)) == {""}


def test_a_deployment_may_expect_a_profile_without_a_contract() -> None:
    record = ops.Deployment(
        pool="default",
        worker_profile="default",
        expected_ref=make.REF,
        expected_contract="",
        profile=make.profile(),
        available=True,
        reason="moved",
    )
    assert faults(ops.Deployment, plain(record)) == {}
    assert msgspec.json.decode(canonical.encode(record), type=ops.Deployment) == record


def test_faults_are_capped_and_the_cap_bounds_the_work() -> None:
    seen: list[str] = []

    class Watched(dict[str, object]):
        """An object that notes how far it was read."""

        def __iter__(self) -> Iterator[str]:
            for name in super().__iter__():
                seen.append(name)
                yield name

    many = Watched({"version": 3, **{f"field-{n}": n for n in range(200_000)}})
    found = faults_of(wire.QueueCommit, many)
    assert len(found) <= MAX_FAULTS
    assert 0 < len(seen) <= MAX_FAULTS + 2
    wrong = plain(make.work("n")) | {"depends_on": [1] * 16_384}
    assert len(faults_of(ops.Work, wrong)) <= MAX_FAULTS + 1
    with pytest.raises(CallboardError) as caught:
        parse(ops.Work, wrong, what="work")
    assert len(canonical.encode(caught.value.document())) < 64_000


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (True, "true"),
        (False, "false"),
        (None, "null"),
        (7, "7"),
        ("x", "'x'"),
        (datetime.date(2020, 1, 1), "2020-01-01"),
        (datetime.datetime(2020, 1, 1, 10, tzinfo=datetime.UTC), "2020-01-01T10:00:00+00:00"),
        (datetime.time(10, 30), "10:30:00"),
        ([True, None, [datetime.date(2020, 1, 1)]], "[true, null, [2020-01-01]]"),
        ({"a": False, "b": {"c": []}}, "{'a': false, 'b': {'c': []}}"),
        ([1] * 10_000, "[" + "1, " * 25 + "1..."),
    ],
)
def test_a_found_value_is_shown_as_a_document_spells_it(value: object, text: str) -> None:
    assert show(value) == text


def test_a_huge_found_value_is_shown_short() -> None:
    found = faults(ops.Work, plain(make.work("n")) | {"pool": ["x" * 1_000_000]})
    assert len(found["/pool"]) < 200
    assert len(faults(Identity, "x" * 1_000_000)[""]) < 200


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 5_000) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=8,
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path]
    if isinstance(value, dict | list):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            found.extend(places(inner, (*path, key)))
    return found


@given(st.data())
def test_no_value_makes_the_checker_stumble_and_convert_agrees(chance: st.DataObject) -> None:
    value = plain(make.genesis([make.work("n", after=["m"], gates=[make.merge_gate()])]))
    for _ in range(chance.draw(st.integers(1, 3))):
        path = chance.draw(st.sampled_from(places(value)[1:]))
        holder = value
        for step in path[:-1]:
            holder = holder[step]
        if chance.draw(st.booleans()):
            holder[path[-1]] = chance.draw(json_values)
        elif isinstance(holder, dict):
            del holder[path[-1]]
    found = faults_of(wire.QueueCommit, value)
    try:
        converted = msgspec.to_builtins(msgspec.convert(value, wire.QueueCommit))
    except msgspec.ValidationError:
        assert found
    else:
        # msgspec forgives a missing tag where only one type may stand; the checker does not.
        assert (converted == value) is (not found), found


# --- relations between fields -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("document", "pointer"),
    [
        (make.policy(accounting_weights={"a": 1}), "/accounting_weights/"),
        (make.policy(accounting_weights={"": 2}), "/accounting_weights/"),
        (
            make.policy(
                producers={"7": records.Producer(pools=[], priorities=[], fairness_keys=[])}
            ),
            "/producers",
        ),
        (make.with_pool(default_profile="none"), "/pools/default/default_profile"),
        (
            make.with_pool(
                profiles={"default": make.profile(), "a/b": make.profile(principal="9")}
            ),
            "/pools/default/profiles/a~1b/principal",
        ),
        (
            make.policy(authorization=msgspec.UNSET),
            "/pools/default/profiles/default/principal",
        ),
        (make.policy(limits=make.limits(operations=2)), "/limits/operations"),
        (
            make.batching(limits=make.limits(operations=32)),
            "/limits/operations",
        ),
    ],
)
def test_a_policy_is_judged_as_a_whole(document: records.PolicyDocument, pointer: str) -> None:
    assert [fault.pointer for fault in policy_faults(document)] == [pointer]


def test_a_listed_producer_names_pools_that_exist() -> None:
    document = make.policy(
        authorization=msgspec.UNSET,
        pools={"default": make.pool()},
        producers={
            "7": records.Producer(pools=["default", "gone"], priorities=[3], fairness_keys=[""])
        },
    )
    assert "/producers/7/pools/1" in {fault.pointer for fault in policy_faults(document)}


def test_the_narrowest_operations_limit_closes_the_widest_group() -> None:
    assert policy_faults(make.policy(limits=make.limits(operations=3))) == []
    assert policy_faults(make.batching(limits=make.limits(operations=33))) == []


@pytest.mark.parametrize(
    ("node", "pointers"),
    [
        (make.work("n", work_id="0" * 64), ["/work_id"]),
        (make.work("n", after=["a", "b", "a"]), ["/depends_on/2"]),
        (
            make.work("n", gates=[make.issue_gate(), make.issue_gate(7, "closed")]),
            [],
        ),
        (
            make.work(
                "n",
                gates=[
                    make.issue_gate(),
                    ops.IssueDependency(
                        resource=make.resource(repository="example/moved"), condition="completed"
                    ),
                ],
            ),
            ["/depends_on/1"],
        ),
        (
            make.work(
                "n",
                gates=[
                    ops.IssueDependency(
                        resource=make.resource(kind="pull_request"), condition="closed"
                    ),
                    ops.PullRequestDependency(
                        resource=make.resource(kind="issue"), condition="merged"
                    ),
                ],
            ),
            ["/depends_on/0/resource/kind", "/depends_on/1/resource/kind"],
        ),
    ],
)
def test_a_node_is_judged_as_a_whole(node: ops.Work, pointers: list[str]) -> None:
    assert [fault.pointer for fault in work_faults(node)] == pointers


ISSUE, MERGE = make.issue_gate(), make.merge_gate()


@pytest.mark.parametrize(
    ("gate", "changes", "pointers"),
    [
        (ISSUE, {}, []),
        (MERGE, {}, []),
        (make.issue_gate(condition="closed"), {"state_reason": "not_planned"}, []),
        (ISSUE, {"read_status": "stale"}, ["/read_status"]),
        (ISSUE, {"resource_state": "open"}, ["/resource_state"]),
        (ISSUE, {"resource_state": msgspec.UNSET}, ["/resource_state"]),
        (ISSUE, {"state_reason": "not_planned"}, ["/state_reason"]),
        (ISSUE, {"state_reason": msgspec.UNSET}, ["/state_reason"]),
        (MERGE, {"merged": False}, ["/merged"]),
        (MERGE, {"merged": msgspec.UNSET}, ["/merged"]),
        (MERGE, {"merge_commit": msgspec.UNSET}, ["/merged"]),
        (MERGE, {"resource": make.resource()}, ["/condition"]),
        (ISSUE, {"condition": "merged"}, ["/condition", "/merged"]),
        (ISSUE, {"state": "unknown", "read_status": "http_500"}, []),
        (ISSUE, {"state": "waiting", "resource_state": "open"}, []),
    ],
)
def test_an_observation_claims_no_more_than_its_proof(
    gate: ops.Gate, changes: dict[str, Any], pointers: list[str]
) -> None:
    seen = make.observation("o", gate, make.START_MS, **changes)
    assert [fault.pointer for fault in observation_faults(seen)] == pointers


def refused(key: str) -> CallboardError:
    with pytest.raises(CallboardError) as caught:
        parse(records.Retry, {"max_attempts": 1, "backoff_ms": 1, key: 1}, what="retry")
    return caught.value


@pytest.mark.parametrize("key", ["k" * 9_000, "\n\x1b[31m\u202e", "é" * 300])
def test_what_a_refusal_repeats_is_short_and_plainly_seen(key: str) -> None:
    error = refused(key)
    assert len(error.message) < 400
    assert error.message.isprintable()
    (fault,) = cast("list[dict[str, str]]", error.details["faults"])
    assert len(fault["pointer"]) <= 257


def test_a_key_of_ordinary_length_stands_in_its_pointer_as_it_is() -> None:
    for key in ("k" * 256, "a~b/c", "\n", "é"):
        (fault,) = faults_of(dict[str, int], {key: "x"})
        assert fault.pointer == "/" + key.replace("~", "~0").replace("/", "~1")
