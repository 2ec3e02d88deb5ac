"""Which faults of a record are told, all at once, and each at its place."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from callboard.layers.records.base import Count, Name, Record, Text
from callboard.layers.records.evaluation import Check, CommandCheck
from callboard.layers.yaml_records.faults import Faults
from callboard.layers.yaml_records.typed import read_yaml

NAME = "a name: a lower-case letter, then letters, digits and _, 64 at most"


class Part(Record, frozen=True, kw_only=True):
    """A record within another one."""

    name: Name
    size: Count = 0


class Whole(Record, frozen=True, kw_only=True):
    """A record with a field of each kind."""

    title: Text
    mode: Literal["slow", "fast"] = "slow"
    on: bool = False
    parts: Annotated[tuple[Part, ...], msgspec.Meta(max_length=2)] = ()
    only: Part | None = None
    words: Annotated[tuple[Text, ...], msgspec.Meta(min_length=1)] = ("a",)
    short: Annotated[str, msgspec.Meta(max_length=3)] = ""


def faults_of(text: str, kind: Any = Whole) -> list[str]:
    faults = Faults()
    found = read_yaml(text.encode(), kind, "f", faults)
    assert (found is None) == bool(faults.count)
    return [fault.line_of_text() for fault in faults.in_order()]


def test_a_sound_file_is_the_record() -> None:
    faults = Faults()
    found = read_yaml(
        b"title: T\nmode: fast\non: true\nparts: [{name: a, size: 2}]\nonly: ~\n",
        Whole,
        "f",
        faults,
    )
    assert found is not None
    assert found[0] == Whole(title="T", mode="fast", on=True, parts=(Part(name="a", size=2),))
    assert found[1].at("parts", 0, "size").column == 25


def test_every_fault_is_told_at_once() -> None:
    text = """\
titel: T
mode: quick
on: yes
parts:
- name: Big
  size: -1
- {size: big, name: 5}
- text
only: []
words: []
short: long
"""
    assert faults_of(text) == [
        "f:1:1: the field title is missing",
        "f:1:1 /titel: there is no field 'titel'; did you mean title?",
        "f:2:7 /mode: needs fast or slow, and this is text, 'quick'",
        "f:3:5 /on: needs true or false, and this is text, 'yes'",
        "f:5:1 /parts: may have 2 entries at most, and has 3",
        f"f:5:9 /parts/0/name: 'Big' is not {NAME}",
        "f:6:9 /parts/0/size: needs 0 or more, and this is -1",
        "f:7:10 /parts/1/size: needs a whole number, and this is text, 'big'",
        "f:7:21 /parts/1/name: needs text, and this is a whole number, '5'; put it into quotes",
        "f:8:3 /parts/2: needs a mapping, and this is text, 'text'",
        "f:9:7 /only: needs a mapping, and this is a list",
        "f:10:8 /words: needs 1 entries at least, and has 0",
        "f:11:8 /short: may have 3 characters at most, and has 4",
    ]


@pytest.mark.parametrize(
    ("text", "faults"),
    [
        ("title: ''", ["f:1:8 /title: is empty"]),
        ("title:", ["f:1:7 /title: needs text, and this is empty"]),
        ("- title", ["f:1:1: needs a mapping, and this is a list"]),
        ("title: T\nparts: {}", ["f:2:8 /parts: needs a list, and this is a mapping"]),
        ('title: "\\x01"', ["f:1:8 /title: '\\x01' is not plain text, without control characters"]),
        # What was told as a fault of YAML is not told again as one of its type.
        ("title: &a T", ["f:1:8 /title: anchors are not allowed; write the value out"]),
        ("title: !t {}", ["f:1:8 /title: the tag '!t' is not allowed; use plain values"]),
    ],
)
def test_a_fault_is_told_once(text: str, faults: list[str]) -> None:
    assert faults_of(text) == faults


def test_a_tagged_union_is_read_by_its_tag() -> None:
    text = "kind: command\ncheck_id: a\ntitle: T\ncommand: [x]\n"
    found = read_yaml(text.encode(), Check, "f", Faults())
    assert found is not None
    assert found[0] == CommandCheck(check_id="a", title="T", command=("x",))
    assert faults_of("kind: judge\ncheck_id: a\ntitle: T\ncommand: []\nquestoin: q", Check) == [
        "f:1:1: the field question is missing",
        "f:4:10 /command: needs 1 entries at least, and has 0",
        "f:5:1 /questoin: there is no field 'questoin'; did you mean question?",
    ]
    assert faults_of("kind: other", Check) == [
        "f:1:1: a mapping is none of the kinds that may stand here"
    ]


@given(
    st.dictionaries(
        st.sampled_from(["title", "mode", "on", "parts", "only", "words", "short", "x"]),
        st.recursive(
            st.none()
            | st.booleans()
            | st.integers(-2, 3)
            | st.sampled_from(["a", "slow", "", "Long one", "\x01"]),
            lambda below: (
                st.lists(below, max_size=3)
                | st.dictionaries(st.sampled_from(["name", "size"]), below, max_size=2)
            ),
            max_leaves=6,
        ),
    )
)
def test_exactly_what_msgspec_refuses_has_faults(value: dict[str, object]) -> None:
    faults = Faults()
    found = read_yaml(msgspec.json.encode(value), Whole, "f", faults)
    try:
        expected = msgspec.convert(value, Whole, strict=True)
    except msgspec.ValidationError:
        assert found is None
        assert faults.count
        assert not any("Expected `" in fault.message for fault in faults.in_order())
    else:
        assert found is not None
        assert found[0] == expected
