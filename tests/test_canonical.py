"""The codec: one spelling a value, one refusal a fault, and a fast path nobody can tell apart."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from callboard import canonical
from callboard.canonical import (
    MAX_ARRAY_MEMBERS,
    MAX_DEPTH,
    MAX_LINE_BYTES,
    MAX_SAFE_INTEGER,
    decode,
    decode_strict,
    encode,
)
from callboard.errors import CallboardError

CODES = {
    "invalid_unicode",
    "duplicate_key",
    "noncanonical_number",
    "invalid_json",
    "resource_limit",
}

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
integers = st.integers(-MAX_SAFE_INTEGER, MAX_SAFE_INTEGER)
values = st.recursive(
    st.none() | st.booleans() | integers | texts,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(texts, inner, max_size=5),
    max_leaves=25,
)


def outcome(reader: Callable[..., Any], data: bytes) -> tuple[str, object]:
    """What a reader makes of bytes: a value, spelled so that true is not 1, or a code."""
    try:
        value = reader(data)
    except CallboardError as error:
        refused = error
    else:
        return "value", json.dumps(value, sort_keys=False)
    assert refused.code in CODES
    assert refused.message
    assert refused.hint
    return "code", refused.code


def refusal(reader: Callable[..., Any], data: Any) -> CallboardError:
    with pytest.raises(CallboardError) as caught:
        reader(data)
    return caught.value


# --- writing ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "null"),
        (True, "true"),
        (0, "0"),
        (-7, "-7"),
        (MAX_SAFE_INTEGER, "9007199254740991"),
        (-MAX_SAFE_INTEGER, "-9007199254740991"),
        (0.0, "0"),
        (2.0, "2"),
        (4e3, "4000"),
        (float(MAX_SAFE_INTEGER), "9007199254740991"),
        ([1.0, {"n": -3.0}], '[1,{"n":-3}]'),
        ({"100": 1, "20": 2}, '{"100":1,"20":2}'),
        ({"\U00010330": 1, "\uff21": 2}, '{"\uff21":2,"\U00010330":1}'),
        ({"b": 1, "": 2, "B": 3, "a": 4}, '{"":2,"B":3,"a":4,"b":1}'),
        ("</script>&amp;/", '"</script>&amp;/"'),
        ("\u2028\u2029\x7f\ufeff", '"\u2028\u2029\x7f\ufeff"'),
        ('"\\', '"\\"\\\\"'),
        ("\b\f\n\r\t", '"\\b\\f\\n\\r\\t"'),
        ("\x00\x01\x1f\x0b", '"\\u0000\\u0001\\u001f\\u000b"'),
        ("\\u0041", '"\\\\u0041"'),
        (("a", "b"), '["a","b"]'),
        ({}, "{}"),
        ([], "[]"),
    ],
)
def test_a_typed_value_has_one_spelling(value: object, text: str) -> None:
    assert encode(value).decode() == text
    assert encode(decode(encode(value))) == encode(value)


def test_every_control_character_is_escaped_and_nothing_else() -> None:
    short = {8: "b", 9: "t", 10: "n", 12: "f", 13: "r", 34: '"', 92: "\\"}
    for code in range(0x80):
        spelled = encode(chr(code)).decode()[1:-1]
        if code in short:
            assert spelled == "\\" + short[code]
        elif code < 32:
            assert spelled == f"\\u{code:04x}"
        else:
            assert spelled == chr(code)


@pytest.mark.parametrize(
    "number",
    [
        -0.0,
        0.5,
        -1.25,
        float("nan"),
        float("inf"),
        float("-inf"),
        1e21,
        MAX_SAFE_INTEGER + 1,
        -MAX_SAFE_INTEGER - 1,
        float(MAX_SAFE_INTEGER + 1),
        10**400,
    ],
)
@pytest.mark.parametrize("place", [lambda n: n, lambda n: [n], lambda n: {"k": {"l": [n]}}])
def test_numbers_without_a_canonical_form_are_refused(
    number: float, place: Callable[[float], object]
) -> None:
    error = refusal(encode, place(number))
    assert error.code == "noncanonical_number"
    shown = repr(number) if number != 10**400 else "of 1329 bits"
    assert shown in error.message


def test_an_integer_too_long_to_spell_is_refused_too() -> None:
    assert refusal(encode, [-(10**5_000)]).code == "noncanonical_number"


@pytest.mark.parametrize("value", [b"x", {1, 2}, 1j, object(), {1: 2}, {None: 1}, [b""]])
def test_types_that_json_lacks_are_refused(value: object) -> None:
    assert refusal(encode, value).code == "invalid_json"


@pytest.mark.parametrize("value", ["\ud800", "x\udfffy", {"\udc00": 1}, ["\ud83d"]])
def test_a_lone_surrogate_is_never_written(value: object) -> None:
    assert refusal(encode, value).code == "invalid_unicode"


def test_a_value_that_holds_itself_is_refused_at_once() -> None:
    knot: list[object] = []
    knot.extend([knot, knot])
    assert refusal(encode, knot).code == "resource_limit"


# --- bounds -------------------------------------------------------------------------------------


def nested(levels: int, kind: str) -> object:
    value: object = 1
    for _ in range(levels):
        value = [value] if kind == "array" else {"k": value}
    return value


@pytest.mark.parametrize("kind", ["array", "object"])
def test_depth_is_bounded_alike_for_writing_and_reading(kind: str) -> None:
    deepest = nested(MAX_DEPTH, kind)
    text = json.dumps(deepest, separators=(",", ":")).encode()
    assert encode(deepest) == text
    assert decode(text) == decode_strict(text) == deepest
    beyond = nested(MAX_DEPTH + 1, kind)
    text = json.dumps(beyond, separators=(",", ":")).encode()
    assert refusal(encode, beyond).code == "resource_limit"
    assert refusal(decode, text).code == "resource_limit"
    assert refusal(decode_strict, text).code == "resource_limit"


@pytest.mark.parametrize("opener", [b"[", b'{"a":', b'[{"":'])
def test_hostile_depth_costs_a_refusal_and_no_stack(opener: bytes) -> None:
    assert refusal(decode, opener * 100_000).code == "resource_limit"


def test_an_empty_container_counts_as_a_level() -> None:
    fits = b"[" * (MAX_DEPTH + 1) + b"]" * (MAX_DEPTH + 1)
    assert encode(decode(fits)) == fits
    assert refusal(decode, b"[" + fits + b"]").code == "resource_limit"


def test_arrays_are_bounded_alike_for_writing_and_reading() -> None:
    full = [0] * MAX_ARRAY_MEMBERS
    assert decode(encode(full)) == full
    over = [*full, 0]
    text = json.dumps(over, separators=(",", ":")).encode()
    for reader, given_value in ((encode, over), (decode, text), (decode_strict, text)):
        assert refusal(reader, given_value).code == "resource_limit"
    inner = b'{"a":' + text + b"}"
    assert refusal(decode, inner).code == refusal(decode_strict, inner).code == "resource_limit"
    apart = b"[" + encode(full) + b"," + encode(full) + b"]"
    assert decode(apart) == [full, full]


def test_an_object_may_have_more_members_than_an_array() -> None:
    wide = {f"{n:06}": n for n in range(MAX_ARRAY_MEMBERS + 5)}
    assert decode(encode(wide)) == wide


def test_size_is_judged_before_parsing() -> None:
    assert decode(b'"' + b"x" * (MAX_LINE_BYTES - 2) + b'"') == "x" * (MAX_LINE_BYTES - 2)
    error = refusal(decode, b"[" * (MAX_LINE_BYTES + 1))
    assert error.code == "resource_limit"
    assert error.details == {"bytes": MAX_LINE_BYTES + 1, "limit_bytes": MAX_LINE_BYTES}
    with pytest.raises(CallboardError) as caught:
        decode(b"12345", limit_bytes=4)
    assert caught.value.details["limit_bytes"] == 4


# --- reading ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "code", "byte"),
    [
        (b"", "invalid_json", 0),
        (b" \n", "invalid_json", 2),
        (b"\xef\xbb\xbf{}", "invalid_json", 0),
        (b"\x00", "invalid_json", 0),
        (b"{}\x00", "invalid_json", 2),
        (b'"\x00"', "invalid_json", 1),
        (b'"a\nb"', "invalid_json", 2),
        (b'"\\u00g0"', "invalid_json", 1),
        (b'"\\x41"', "invalid_json", 1),
        (b'"\\', "invalid_json", 1),
        (b'"abc', "invalid_json", 4),
        (b"{} {}", "invalid_json", 3),
        (b"[1,]", "invalid_json", 3),
        (b'{"a":1,}', "invalid_json", 7),
        (b"{a:1}", "invalid_json", 1),
        (b'{"a" 1}', "invalid_json", 5),
        (b"[1 2]", "invalid_json", 3),
        (b"'x'", "invalid_json", 0),
        (b"tru", "invalid_json", 0),
        (b"True", "invalid_json", 0),
        (b"NaN", "invalid_json", 0),
        (b"Infinity", "invalid_json", 0),
        (b"+1", "invalid_json", 0),
        (b".5", "invalid_json", 0),
        (b"-", "invalid_json", 0),
        (b"01", "invalid_json", 1),
        (b"1.", "invalid_json", 1),
        (b"/* */1", "invalid_json", 0),
        (b"\xc2\xa01", "invalid_json", 0),
        (b'"\xff"', "invalid_unicode", 1),
        (b'"\xc0\xaf"', "invalid_unicode", 1),
        (b'"\xed\xa0\x80"', "invalid_unicode", 1),
        (b'"\xf4\x90\x80\x80"', "invalid_unicode", 1),
        (b'{"ok":1}\xe2\x82', "invalid_unicode", 8),
        (b'"\\ud800"', "invalid_unicode", 1),
        (b'"\\uDC01x"', "invalid_unicode", 1),
        (b'"\\ud83d\\u0041"', "invalid_unicode", 1),
        (b'{"\\ud83d":0}', "invalid_unicode", 2),
        (b"-0", "noncanonical_number", 0),
        (b"[1,-0]", "noncanonical_number", 3),
        (b"1.0", "noncanonical_number", 0),
        (b"1e2", "noncanonical_number", 0),
        (b"1E-2", "noncanonical_number", 0),
        (b"9007199254740992", "noncanonical_number", 0),
        (b"-9007199254740992", "noncanonical_number", 0),
        (b'{"n":18446744073709551616}', "noncanonical_number", 5),
        (b'{"a":1,"a":1}', "duplicate_key", 7),
        (b'{"a":1,"\\u0061":1}', "duplicate_key", 7),
        (b'[{"k":{"\xc3\xa9":1,"\\u00e9":2}}]', "duplicate_key", 14),
        (b'{"":0,"":0}', "duplicate_key", 6),
    ],
)
def test_each_fault_has_its_code_and_byte(data: bytes, code: str, byte: int) -> None:
    for reader in (decode, decode_strict):
        error = refusal(reader, data)
        assert (error.code, error.details.get("byte")) == (code, byte)
        assert error.hint


@pytest.mark.parametrize(
    ("data", "value"),
    [
        (b' { "b" : [ 1 , 2 ] ,\r\n"a":\tnull } ', {"b": [1, 2], "a": None}),
        (b'"\\u0041\\/\\u00e9"', "A/\u00e9"),
        (b'"\\ud83d\\ude00"', "\U0001f600"),
        (b'"\\uD83D\\uDE00\\u2028"', "\U0001f600\u2028"),
        (b"0", 0),
        (b"-9007199254740991", -MAX_SAFE_INTEGER),
        (b"1000000000000000", 10**15),
        (b'"1234567890123456,7"', "1234567890123456,7"),
        (b'{"n":"[9999999999999999"}', {"n": "[9999999999999999"}),
        (b'{"__proto__":{"x":1}}', {"__proto__": {"x": 1}}),
    ],
)
def test_other_layouts_are_read_for_what_they_mean(data: bytes, value: object) -> None:
    assert decode(data) == decode_strict(data) == value


@pytest.mark.parametrize(
    "data",
    [
        b"9" * 1_000_000,
        b"-" + b"1" * 1_000_000,
        b"1e" + b"9" * 1_000_000,
        b"0." + b"0" * 1_000_000 + b"1",
        b"[" + b"1e999999999," * 5_000 + b"1]",
        b'"' + b"\\ud83d" * 100_000,
        b'"' + b"\\" * 1_000_001,
        b" " * 1_000_000,
        b'{"a":' * 300_000,
        b"[" + b'"x",' * 200_000,
        b"{" + b",".join(b'"%d":0' % n for n in range(100_000)) + b',"7":0}',
    ],
    ids=lambda data: bytes(data[:12]).decode(),
)
def test_hostile_input_is_refused_in_bounded_time(data: bytes) -> None:
    began = time.perf_counter()
    kind, code = outcome(decode, data)
    assert kind == "code"
    assert code == outcome(decode_strict, data)[1]
    assert time.perf_counter() - began < 5


# --- properties ---------------------------------------------------------------------------------


@given(values)
def test_reading_undoes_writing(value: object) -> None:
    data = encode(value)
    assert outcome(decode, data) == ("value", json.dumps(decode_strict(data)))
    assert json.dumps(decode(data), sort_keys=True) == json.dumps(value, sort_keys=True)
    assert encode(decode(data)) == data


@given(values)
def test_layout_never_changes_the_canonical_form(value: object) -> None:
    loose = json.dumps(value, indent=2, ensure_ascii=True).encode()
    assert encode(decode(loose)) == encode(value)


@given(st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), st.integers(0, 9)))
def test_keys_stand_in_utf8_order(members: dict[str, int]) -> None:
    found = list(decode(encode(members)))
    assert found == sorted(members, key=lambda key: key.encode())


FRAGMENTS = (
    b'{ } [ ] , : " "a" "a": "\\u0061" \\ \\u \\ud83d \\ude00 0 -0 1 12345678901234567 '
    b"9007199254740991 9007199254740992 1.0 e5 . true null \x00 \x7f \xff \xc3\xa9 "
    b"\xed\xa0\x80 \xef\xbb\xbf \xf0\x9f\x98\x80"
)
fragments = st.sampled_from([*FRAGMENTS.split(b" "), b" ", b"\n"])


@given(st.lists(fragments, max_size=14).map(b"".join) | st.binary(max_size=24))
@example(b'{"a":1,"a":1}')
@example(b'{"b":1,"a":2}')
@example(b"-0")
@example(b'"\\ud800"')
@example(b'"\xed\xa0\x80"')
def test_the_fast_path_answers_as_the_strict_parser_does(data: bytes) -> None:
    assert outcome(decode, data) == outcome(decode_strict, data)


@given(values, st.data())
def test_a_damaged_text_is_judged_alike_by_both(value: object, chance: st.DataObject) -> None:
    data = bytearray(encode(value))
    for _ in range(chance.draw(st.integers(1, 3))):
        at = chance.draw(st.integers(0, len(data)))
        cut = chance.draw(st.integers(0, 2))
        data[at : at + cut] = chance.draw(fragments | st.binary(max_size=2))
    assert outcome(decode, bytes(data)) == outcome(decode_strict, bytes(data))


@given(values, st.integers(min_value=0))
def test_a_truncated_text_is_never_taken_for_a_whole(value: object, cut: int) -> None:
    data = encode({"whole": value})
    kind, _found = outcome(decode, data[: cut % len(data)])
    assert kind == "code"


# --- the conformance vectors --------------------------------------------------------------------


def load(vectors: Path | None, name: str) -> Any:
    """A vector file, or nothing to check where there is none; the literals above say the same."""
    return None if vectors is None else json.loads((vectors / name).read_text("utf-8"))


def test_text_vectors(vectors: Path | None) -> None:
    found = load(vectors, "canonical.json") or {"valid": [], "errors": [], "invalid": []}
    for case in found["valid"]:
        assert encode(decode(case["input"].encode())).decode() == case["expected"], case["name"]
    for case in found["errors"]:
        data = case["input"].encode("utf-8", "surrogatepass")
        assert refusal(decode, data).code == case["code"], case["name"]
    for text in found["invalid"]:
        assert refusal(decode, text.encode()).code in CODES, text
    assert vectors is None or len(found["valid"]) >= 8


def number_of(literal: str) -> float:
    plain = literal.lstrip("-").isdigit() and literal != "-0"
    return int(literal) if plain else float(literal)


def filled(template: object, number: float) -> object:
    if template in ("value", "VALUE"):
        return number
    if isinstance(template, dict):
        return {key: filled(inner, number) for key, inner in template.items()}
    if isinstance(template, list):
        return [filled(inner, number) for inner in template]
    return template


def test_typed_vectors(vectors: Path | None) -> None:
    found = load(vectors, "canonical-typed.json") or {"cases": [], "containers": {}}
    for case in found["cases"]:
        value = filled(found["containers"][case["container"]], number_of(case["literal"]))
        if "code" in case:
            assert refusal(encode, value).code == case["code"], case["name"]
        else:
            assert encode(value).decode() == case["expected"], case["name"]
    assert vectors is None or len(found["cases"]) >= 20


def test_digests_are_over_the_canonical_bytes() -> None:
    assert canonical.digest({"b": 1.0, "a": "\u00e9"}) == canonical.sha256_hex(
        '{"a":"\u00e9","b":1}'.encode()
    )
    # The digest of the empty object, as any SHA-256 tool gives it.
    assert canonical.digest({}) == (
        "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"
    )
