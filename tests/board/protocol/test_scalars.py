"""Scalars: their bounds in bytes, digits and numbers, as typed reading and the checker see them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from callboard import canonical
from callboard.board.protocol import scalars
from callboard.errors import CallboardError
from callboard.validate import faults_of, parse


def accepts(kind: Any, value: object) -> bool:
    """Whether the checker takes the value; `parse` must then take it as well, and only then."""
    faults = faults_of(kind, value)
    if not faults:
        assert parse(kind, value, what="a scalar") == value
        return True
    with pytest.raises(CallboardError) as caught:
        parse(kind, value, what="a scalar")
    assert caught.value.code == "record_invalid"
    return False


@pytest.mark.parametrize(
    ("text", "valid"),
    [
        ("x", True),
        ("x" * 256, True),
        ("x" * 257, False),
        ("\u00fc" * 128, True),
        ("\u00fc" * 128 + "x", False),
        ("\u4e16" * 85 + "x", True),
        ("\u4e16" * 85 + "xx", False),
        ("\U0001f680" * 64, True),
        ("\U0001f680" * 63 + "abcde", False),
        ("", False),
        (" ", True),
        ("a\tb", False),
        ("a\n", False),
        ("\x00", False),
        ("\x1f", False),
        ("\x7f", False),
        ("\x80\x9f", True),
        ("\u2028", True),
        ("..", True),
    ],
)
def test_identity_is_bounded_in_bytes_and_free_of_controls(text: str, valid: bool) -> None:
    assert accepts(scalars.Identity, text) is valid


@pytest.mark.parametrize(
    ("text", "valid"),
    [
        ("", True),
        ("team", True),
        ("k" * 128, True),
        ("k" * 129, False),
        ("\u00e9" * 64, True),
        ("\u00e9" * 65, False),
        ("a\rb", False),
        ("\x7f", False),
        ("\x85", True),
    ],
)
def test_fairness_key_may_be_empty_and_is_shorter(text: str, valid: bool) -> None:
    assert accepts(scalars.FairnessKey, text) is valid


@pytest.mark.parametrize(
    ("text", "valid"),
    [
        ("1", True),
        ("90071992547409930000", True),
        ("9" * 256, True),
        ("9" * 257, False),
        ("0", False),
        ("01", False),
        ("-1", False),
        ("+1", False),
        ("1.0", False),
        ("1e3", False),
        (" 1", False),
        ("1\n", False),
        ("\u0661", False),
        ("", False),
        (1, False),
    ],
)
def test_decimal_is_a_positive_integer_in_words(text: object, valid: bool) -> None:
    assert accepts(scalars.Decimal, text) is valid


REASONS = [
    ("a", True),
    ("9", True),
    ("Retry.Exhausted:worker_2-b", True),
    ("r" * 128, True),
    ("r" * 129, False),
    ("", False),
    (".hidden", False),
    ("-dash", False),
    (":colon", False),
    ("two words", False),
    ("line\nbreak", False),
    ("ending\n", False),
    ("ending\r", False),
    ("a/b", False),
    ("na\u00efve", False),
    (None, False),
]


@pytest.mark.parametrize(("text", "valid"), REASONS)
def test_reason_code_is_whole(text: object, valid: bool) -> None:
    assert accepts(scalars.ReasonCode, text) is valid


@pytest.mark.parametrize(
    ("text", "valid"),
    [
        ("0" * 40, True),
        ("f" * 64, True),
        ("0" * 41, False),
        ("0" * 39, False),
        ("F" * 40, False),
        ("g" * 40, False),
        ("a" * 40 + "\n", False),
    ],
)
def test_revision_is_forty_or_sixty_four_hex(text: str, valid: bool) -> None:
    assert accepts(scalars.Revision, text) is valid
    assert accepts(scalars.Digest, text) is (valid and len(text) == 64)


@pytest.mark.parametrize(
    ("text", "valid"),
    [
        ("o/r", True),
        ("local/my-folder.x", True),
        ("or", False),
        ("/r", False),
        ("o/", False),
        ("a/b/c", False),
        ("o /r", False),
        ("o/r\n", False),
        ("o/" + "r" * 254, True),
        ("o/" + "r" * 255, False),
    ],
)
def test_repository_name_is_owner_and_name(text: str, valid: bool) -> None:
    assert accepts(scalars.RepositoryName, text) is valid


@pytest.mark.parametrize(
    ("text", "valid"),
    [
        (".callboard/workers/build.toml", True),
        (".github/workflows/build.lock.yml", True),
        (".callboard/workers/.toml", False),
        (".callboard/workers/a/b.toml", False),
        (".callboard/workers/..toml", False),
        (".callboard/workers/a..b.toml", False),
        (".callboard/workers/a.toml\n", False),
        (".callboard/workers/a\n..toml", False),
        ("x.callboard/workers/a.toml", False),
        (".callboard/workers/a.toml.sh", False),
        (".github/workflows/build.yml", False),
        (".github/workflows/../build.lock.yml", False),
        ("/etc/passwd", False),
        (".callboard/workers/" + "a" * 232 + ".toml", True),
        (".callboard/workers/" + "a" * 233 + ".toml", False),
    ],
)
def test_workflow_path_stays_in_its_folder(text: str, valid: bool) -> None:
    assert accepts(scalars.WorkflowPath, text) is valid


@pytest.mark.parametrize(
    ("kind", "low", "high"),
    [
        (scalars.Timestamp, 0, canonical.MAX_SAFE_INTEGER),
        (scalars.Duration, 1, 3_600_000),
        (scalars.Weight, 1, 1000),
        (scalars.Priority, 1, 5),
        (scalars.ClaimBound, 1, 16),
        (scalars.CountBound, 1, 4096),
        (scalars.Attempt, 1, 4096),
    ],
)
def test_integers_are_bounded_and_nothing_else_is_one(kind: Any, low: int, high: int) -> None:
    assert accepts(kind, low)
    assert accepts(kind, high)
    for wrong in (low - 1, high + 1, True, "1", None, 1.0, [1]):
        assert not accepts(kind, wrong), wrong


def test_first_attempt_is_one_and_not_true() -> None:
    assert accepts(scalars.FirstAttempt, 1)
    for wrong in (True, 2, 0, "1", 1.0):
        assert not accepts(scalars.FirstAttempt, wrong), wrong


def test_hosts_are_told_apart_by_the_workflow() -> None:
    assert scalars.is_github(".github/workflows/a.lock.yml")
    assert not scalars.is_github(".callboard/workers/a.toml")


class Named(msgspec.Struct):
    """One scalar of each text kind, to read them the quick way."""

    identity: scalars.Identity = "x"
    key: scalars.FairnessKey = ""
    reason: scalars.ReasonCode = "x"
    decimal: scalars.Decimal = "1"
    revision: scalars.Revision = "a" * 40
    repository: scalars.RepositoryName = "o/r"
    workflow: scalars.WorkflowPath = ".callboard/workers/a.toml"


likely = st.text(st.sampled_from("aZ09./_-:\n\x00\x7f \u00e9\U0001f600"), max_size=40) | st.text(
    st.characters(exclude_categories=["Cs"]), max_size=10
)


@given(st.sampled_from(msgspec.structs.fields(Named)), likely)
def test_the_checker_and_typed_reading_agree_on_short_text(
    field: msgspec.structs.FieldInfo, text: str
) -> None:
    data = canonical.encode({field.encode_name: text})
    try:
        msgspec.json.decode(data, type=Named)
        quick = True
    except msgspec.ValidationError:
        quick = False
    # Control characters are judged for a whole line at once; see the envelope's own tests.
    controlled = re.search("[\x00-\x1f\x7f]", text) is not None
    assert accepts(field.type, text) is (quick and not controlled)


@given(likely)
def test_reasons_are_those_of_the_published_pattern(text: str) -> None:
    pattern = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,127}")
    assert accepts(scalars.ReasonCode, text) is (pattern.fullmatch(text) is not None)


def load(vectors: Path | None, name: str) -> dict[str, list[dict[str, Any]]]:
    if vectors is None:
        return {}
    found: dict[str, list[dict[str, Any]]] = json.loads((vectors / name).read_text("utf-8"))
    return found


def test_identity_vectors(vectors: Path | None) -> None:
    found = load(vectors, "identity-validation.json")
    for case in found.get("identity", []):
        text = case["text"] * case["repeat"]
        assert len(text.encode()) == case["utf8_bytes"], case
        assert accepts(scalars.Identity, text) is case["valid"], case
    for case in found.get("decimal", []):
        assert accepts(scalars.Decimal, "9" * case["digits"]) is case["valid"], case
    assert vectors is None or found["identity"]


def test_reason_vectors(vectors: Path | None) -> None:
    found = load(vectors, "reason-validation.json").get("cases", [])
    for case in found:
        assert accepts(scalars.ReasonCode, case["reason"]) is case["valid"], case
    assert vectors is None or found
