"""What a YAML file may be, and where each fault of it is."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callboard.layers.yaml_records.faults import MAX_KEPT, Faults
from callboard.layers.yaml_records.tree import MAX_YAML_BYTES, parse, places, text_of

PYTHON = "tag:yaml.org,2002:python/object:os.system"
REFUSED: list[tuple[str, bytes, list[tuple[int, int, str, str]]]] = [
    ("empty", b"", [(1, 1, "", "the file is empty")]),
    ("comment", b"# nothing\n", [(1, 1, "", "the file is empty")]),
    (
        "duplicate",
        b"a: 1\nb:\n  c: 1\n  c: 2\na: 3\n",
        [
            (4, 3, "/b/c", "the key 'c' stands twice, first in line 3"),
            (5, 1, "/a", "the key 'a' stands twice, first in line 1"),
        ],
    ),
    ("anchor", b"a: &x 1\n", [(1, 4, "/a", "anchors are not allowed; write the value out")]),
    (
        "alias",
        b"a: &x [1]\nb: *x\n",
        [
            (1, 4, "/a", "anchors are not allowed; write the value out"),
            (2, 4, "/b", "aliases are not allowed; write the value out"),
        ],
    ),
    (
        "tag",
        b"a:\n- !!python/object:os.system 1\n- !x {}\n",
        [
            (
                2,
                3,
                "/a/0",
                f"the tag '{PYTHON}' is not allowed; use plain values",
            ),
            (3, 3, "/a/1", "the tag '!x' is not allowed; use plain values"),
        ],
    ),
    (
        "second document",
        b"a: 1\n---\nb: 1\n",
        [(2, 1, "", "a second document begins here; the file may have one")],
    ),
    ("directive", b"%YAML 1.2\n---\na: 1\n", [(2, 1, "", "directives are not allowed")]),
    ("key", b"1: a\n", [(1, 1, "", "a key is a whole number, '1', not text")]),
    ("list as a key", b"? [a]\n: b\n", [(1, 3, "", "a key is a list, not text")]),
    ("bytes", b"a: \xff\n", [(1, 4, "", "the byte 0xff is not UTF-8; save the file as UTF-8")]),
    (
        "hidden",
        "a: é\u2028\nb: \x1b\n".encode(),
        [
            (1, 5, "", "the character U+2028 is not allowed"),
            (2, 4, "", "the character U+001B is not allowed"),
        ],
    ),
    (
        "number",
        b"a: " + b"9" * 5000,
        [(1, 4, "/a", f"'{'9' * 77}…' is no number that could be meant")],
    ),
    (
        "large",
        b"#" * (MAX_YAML_BYTES + 1),
        [(1, 1, "", "has 262145 bytes, more than 262144")],
    ),
]


def found_in(data: bytes) -> list[tuple[int, int, str, str]]:
    faults = Faults()
    parse(data, "f.yaml", faults)
    return [(one.line, one.column, one.pointer, one.message) for one in faults.in_order()]


@pytest.mark.parametrize(
    ("data", "expected"), [one[1:] for one in REFUSED], ids=[one[0] for one in REFUSED]
)
def test_what_a_file_may_not_have(data: bytes, expected: list[tuple[int, int, str, str]]) -> None:
    assert found_in(data) == expected


@pytest.mark.parametrize("data", [b"a: [", b"a: b: c", b"\t- a", b"a: 'b", b"- a\nb: c", b"}"])
def test_what_is_no_yaml_is_told_with_a_place(data: bytes) -> None:
    ((line, column, pointer, message),) = found_in(data)
    assert line >= 1
    assert column >= 1
    assert pointer == ""
    assert message.startswith("not YAML: ")


def test_deep_nesting_ends_the_reading() -> None:
    ((line, column, _, message),) = found_in(b"[" * 10_000)
    assert (line, column, message) == (1, 13, "nested deeper than 12 levels")


def test_many_values_end_the_reading() -> None:
    data = b"[" + b"a," * 20_000
    ((line, column, _, message),) = found_in(data)
    # The list is a value itself, so its last entry is one too many.
    assert (line, column) == (1, 2 * 20_000)
    assert message == "more than 20000 values; nothing beyond is read"


def test_values_are_those_of_the_core_schema() -> None:
    data = b"\xef\xbb\xbfa: yes\nb: true\nc: 012\nd: '5'\ne: 2026-01-31\nf:\ng: [1, -2, ~]\nh: {}\n"
    tree = parse(data, "f.yaml", Faults())
    assert tree is not None
    assert tree.plain() == {
        "a": "yes",
        "b": True,
        "c": 12,
        "d": "5",
        "e": "2026-01-31",
        "f": None,
        "g": [1, -2, None],
        "h": {},
    }


def test_all_faults_are_counted_and_the_first_are_kept() -> None:
    faults = Faults()
    parse(b"a: 1\n" * (MAX_KEPT + 51), "f.yaml", faults)
    assert faults.count == MAX_KEPT + 50
    assert len(faults.in_order()) == MAX_KEPT
    assert faults.summary("it").startswith("it has 150 faults: f.yaml:2:1 /a: the key 'a' stands")
    assert faults.summary("it").endswith("; and 147 more")


@given(st.binary(max_size=200) | st.text("ab:-[]{}!&*#|>'\" \n\t%?,", max_size=60).map(str.encode))
def test_no_bytes_are_read_without_a_tree_or_a_fault(data: bytes) -> None:
    faults = Faults()
    tree = parse(data, "f.yaml", faults)
    assert tree is not None or faults.count
    for fault in faults.in_order():
        assert fault.line >= 1
        assert fault.column >= 1
        assert fault.line_of_text().isprintable()


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(1 - 10**17, 10**17)
    | st.text(st.characters(min_codepoint=32, max_codepoint=126)),
    lambda below: (
        st.lists(below, max_size=3) | st.dictionaries(st.text("abc", min_size=1), below, max_size=3)
    ),
    max_leaves=10,
)


@given(JSON)
def test_json_is_read_as_what_it_is(value: object) -> None:
    faults = Faults()
    tree = parse(json.dumps({"v": value}).encode(), "f.yaml", faults)
    if faults.count == 0:
        assert tree is not None
        assert tree.plain() == {"v": value}
    else:
        assert "nested deeper" in faults.summary("it")


@given(st.text("a\n\u00e9\U0001f600\r\u2028", max_size=40), st.data())
def test_places_are_those_that_an_editor_counts(text: str, data: st.DataObject) -> None:
    indexes = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=8)))
    lines = [text[:index].split("\n") for index in indexes]
    assert list(places(text, indexes)) == [(len(one), len(one[-1]) + 1) for one in lines]


@pytest.mark.parametrize(
    "data",
    [b"\x01" * MAX_YAML_BYTES, b"\n\x01" * (MAX_YAML_BYTES // 2), b"a" * 100_000 + b"\n\xff"],
)
def test_a_file_full_of_what_is_refused_is_told_whole(data: bytes) -> None:
    faults = Faults()
    # Going through the text anew for each of them would take minutes.
    assert text_of(data, "f.yaml", faults) is None
    last = data.rfind(b"\x01")
    assert faults.count == (data.count(b"\x01") or 1)
    assert (last >= 0) or [(one.line, one.column) for one in faults.in_order()] == [(2, 1)]
