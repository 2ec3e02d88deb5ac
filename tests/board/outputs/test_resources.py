"""Which targets the profile, the Work's resource scope and its subject permit, rule by rule."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from callboard.board.outputs.descriptor import artifact_ref
from callboard.board.outputs.resources import (
    MAX_SELECTORS,
    Reach,
    Target,
    check_target,
    parse_scope,
    parse_target,
)
from callboard.board.protocol.operations import Resource
from callboard.errors import CallboardError

REF = "refs/heads/callboard/abc-1"
TARGET: dict[str, Any] = {"repository": "o/n", "ref": REF}
ISSUE: dict[str, Any] = {
    "kind": "issue",
    "host": "github.com",
    "repository": "o/n",
    "repository_id": "1",
    "resource_id": "2",
    "number": "3",
}
FIELDS = tuple(ISSUE.keys() - {"repository"})
INVALID, DENIED, ALLOWED = "target_invalid", "effect_scope_denied", None


def refusal(target: object = TARGET, scope: Any = None, **reach: Any) -> CallboardError | None:
    """How the engine refuses a target, if it does; `subject` is a plain object."""
    subject = reach.pop("subject", None)
    given = {"effect_scope": "o/n", "run_id": "77"} | reach
    try:
        check_target(
            target,
            Reach(
                payload={} if scope is None else {"resource_scope": scope},
                subject=None if subject is None else msgspec.convert(subject, Resource),
                **given,
            ),
        )
    except CallboardError as error:
        return error
    return None


def check(target: object = TARGET, scope: Any = None, **reach: Any) -> str | None:
    found = refusal(target, scope, **reach)
    return None if found is None else found.code


def resources(*found: dict[str, Any]) -> dict[str, Any]:
    return {"version": 1, "resources": list(found)}


def on(**fields: Any) -> dict[str, Any]:
    return {"repository": "o/n", **fields}


def without(document: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in document.items() if name not in names}


# --- the profile and the scope ------------------------------------------------------------------


def test_absent_inherits_the_profile() -> None:
    assert check() is ALLOWED
    assert check(effect_scope="o/other") == DENIED
    for near in ("O/n", "o/N", "o/n2", "x/o/n", "o"):
        assert check(effect_scope=near) == DENIED


def test_an_empty_list_denies_everything() -> None:
    assert check(scope=resources()) == DENIED
    assert check(on(), scope=resources()) == DENIED


def test_every_given_field_must_match() -> None:
    assert check(scope=resources(on())) is ALLOWED
    assert check(scope=resources(on(ref=REF))) is ALLOWED
    assert check(scope=resources(on(ref="refs/heads/x"))) == DENIED
    assert check(scope=resources(on(ref=REF, path="a"))) == DENIED
    assert check(scope=resources({"repository": "o/m"}, on())) is ALLOWED


def test_one_selector_must_match_as_a_whole() -> None:
    assert check(on(number="3", path="a"), resources(on(number="3"), on(path="b"))) is ALLOWED
    assert check(on(number="3", path="a"), resources(on(number="3", path="b"))) == DENIED
    halves = resources(on(number="3", path="b"), on(number="4", path="a"))
    assert check(on(number="3", path="a"), halves) == DENIED


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("kind", "issue"), ("repository_id", "1"), ("resource_id", "2"), ("number", "3"),
        ("comment_id", "4"), ("run_id", "77"), ("ref", REF), ("path", "docs/a.md"),
    ],
)  # fmt: skip
def test_a_field_that_the_target_lacks_never_matches(field: str, value: str) -> None:
    scope = resources(on(**{field: value}))
    assert check(on(**{field: value}), scope) is ALLOWED
    assert check(on(), scope) == DENIED
    assert check(on(path="docs/a.md") | {field: value}, scope) is ALLOWED


def test_a_scope_is_never_wider_than_the_profile() -> None:
    assert check(scope=resources(on()), effect_scope="o/m") == DENIED
    wide = resources({"repository": "o/m"}, on())
    assert check({"repository": "o/m", "ref": REF}, wide) == DENIED


def test_matching_is_exact() -> None:
    for ref in (REF.upper(), f"{REF}/", f" {REF}", REF[:-1], "refs/heads/*", "refs/heads/"):
        assert check(scope=resources(on(ref=ref))) == DENIED
    composed, decomposed = "r\u00e9sum\u00e9.md", "re\u0301sume\u0301.md"
    assert check(on(path=composed), resources(on(path=composed))) is ALLOWED
    assert check(on(path=composed), resources(on(path=decomposed))) == DENIED
    assert check(on(path="stra\u00dfe"), resources(on(path="strasse"))) == DENIED
    assert check(on(path="\U0001f4be"), resources(on(path="\U0001f4be"))) is ALLOWED


# --- the host -----------------------------------------------------------------------------------


def test_a_target_that_names_no_host_is_no_match_for_one_that_does() -> None:
    named, unnamed = on(ref=REF, host="github.com"), on(ref=REF)
    for scope in (resources(on(ref=REF)), None):
        assert check(named, scope) is ALLOWED
        assert check(unnamed, scope) is ALLOWED
    assert check(named, resources(on(host="github.com"))) is ALLOWED
    assert check(unnamed, resources(on(host="github.com"))) == DENIED
    assert check(named, resources(on(host="git.example"))) == DENIED


def test_another_host_is_refused_whatever_the_scope_says() -> None:
    foreign = on(host="git.example")
    assert check(foreign) == INVALID
    assert check(foreign, resources(foreign)) == INVALID
    assert check(foreign, host="git.example") is ALLOWED
    assert check(on(host="github.com"), host="git.example") == INVALID
    assert check(on(host="GitHub.com")) == INVALID
    assert check(on(host="github.com.")) == INVALID


# --- the subject --------------------------------------------------------------------------------


def test_a_subject_is_matched_in_full() -> None:
    assert check(ISSUE, subject=ISSUE) is ALLOWED
    assert check(ISSUE | {"comment_id": "9"}, subject=ISSUE) is ALLOWED
    assert check(on(), subject=ISSUE) == DENIED
    for name in without(ISSUE, "repository"):
        assert check(without(ISSUE, name), subject=ISSUE) == DENIED, name
        other = "pull_request" if name == "kind" else "99"
        wrong = INVALID if name == "host" else DENIED
        assert check(ISSUE | {name: other}, subject=ISSUE) == wrong, name


@pytest.mark.parametrize("place", [{"ref": REF}, {"path": "a/b"}, {"run_id": "77"}])
def test_of_a_place_only_the_subjects_repository_counts(place: dict[str, str]) -> None:
    assert check(on(**place), subject=ISSUE) is ALLOWED
    assert check(on(**place), subject=ISSUE | {"host": "git.example"}) is ALLOWED
    assert check(on(**place), subject=ISSUE | {"repository": "o/x"}) == DENIED
    assert check(on(**place, repository_id="99"), subject=ISSUE) is ALLOWED


@pytest.mark.parametrize("place", [{"ref": REF}, {"path": "a/b"}, {"run_id": "77"}])
@pytest.mark.parametrize(
    "item", [{"kind": "issue"}, {"number": "3"}, {"resource_id": "2"}, {"comment_id": "9"}]
)
def test_a_place_of_an_item_is_the_items(place: dict[str, str], item: dict[str, str]) -> None:
    assert check(on(**place, **item), subject=ISSUE) == DENIED
    assert check(ISSUE | place | item, subject=ISSUE) is ALLOWED
    assert check(ISSUE | place | item | {"number": "4"}, subject=ISSUE) == DENIED


def test_a_scope_does_not_open_what_the_subject_closes() -> None:
    other = ISSUE | {"number": "4", "resource_id": "5"}
    assert check(other, resources(other), subject=ISSUE) == DENIED
    assert check(ISSUE, resources(other), subject=ISSUE) == DENIED
    assert check(ISSUE, resources(other, ISSUE), subject=ISSUE) is ALLOWED


# --- runs ---------------------------------------------------------------------------------------


def test_a_run_target_is_the_workers_own_run() -> None:
    assert check(on(run_id="77")) is ALLOWED
    for run_id in ("7", "770", "78"):
        assert check(on(run_id=run_id)) == DENIED
        assert check(on(run_id=run_id), resources(on(run_id=run_id))) == DENIED
        assert check(ISSUE | {"run_id": run_id}, subject=ISSUE) == DENIED


# --- malformed targets --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "target",
    [
        None, True, 0, 7, "", "o/n", [], [TARGET], {}, {"ref": REF},
        on(branch="x"), on(Ref="x"), on(**{"": "x"}), on(repository_name="o/n"),
    ],
)  # fmt: skip
def test_only_a_closed_object_is_a_target(target: object) -> None:
    assert check(target) == INVALID


@pytest.mark.parametrize(
    "repository",
    [
        "", "o", "/", "o/", "/n", "o/n/x", "o n/x", "o/n\n", "\no/n", "o/n ", "o/..", "../n",
        "o/n..m", "o/n\x7f", "https://github.com/o/n", None, 1, ["o/n"], "o/" + "n" * 255,
    ],
)  # fmt: skip
def test_a_repository_is_owner_and_name(repository: object) -> None:
    assert check({"repository": repository}, effect_scope=str(repository)) == INVALID


@pytest.mark.parametrize("field", ["number", "comment_id", "run_id"])
@pytest.mark.parametrize(
    "value",
    [
        "", "0", "03", "-3", "+3", "3.0", "3e1", "0x3", " 3", "3 ", "3\n", "three", "1_000",
        "\u0663", "\uff13", "\u00b3", 3, 3.0, True, None, ["3"], {"3": "3"}, "1" * 257,
    ],
)  # fmt: skip
def test_ids_are_canonical_decimals(field: str, value: object) -> None:
    assert check(on(**{field: value})) == INVALID


def test_ids_are_as_long_as_a_decimal() -> None:
    assert check(on(number="9" * 256)) is ALLOWED
    assert check(on(run_id="9" * 256), run_id="9" * 256) is ALLOWED


@pytest.mark.parametrize("field", [*sorted(FIELDS), "comment_id", "run_id", "ref", "path"])
@pytest.mark.parametrize(
    "value",
    [
        "", None, True, 5, [], {}, "a\x00", "a\x1fb", "\x7f", "1\n", "1\r", "\t", "..",
        "a/../b", "../a", "a/..", "a..b", "a\\..\\b",
    ],
)  # fmt: skip
def test_hostile_values_are_refused_in_every_field(field: str, value: object) -> None:
    assert check(on(**{field: value})) == INVALID
    assert check(on(**{field: value}), host=str(value)) == INVALID


def test_every_control_character_is_refused() -> None:
    for code in (*range(0x20), 0x7F):
        for field in ("ref", "path", "resource_id", "repository_id"):
            assert check(on(**{field: f"a{chr(code)}b"})) == INVALID, (field, code)
    # C1, separators and marks that reorder text are characters like others: they match exactly.
    for char in "\x80\x85\x9f\u2028\u202e\ufeff":
        assert check(on(path=f"a{char}b"), resources(on(path=f"a{char}b"))) is ALLOWED
        assert check(on(path=f"a{char}b"), resources(on(path="ab"))) == DENIED


@pytest.mark.parametrize("kind", ["", "Issue", "pull", "discussion", "work", "issue ", 1, None])
def test_an_unknown_kind_is_refused(kind: object) -> None:
    assert check(on(kind=kind)) == INVALID


def test_values_are_bounded_in_bytes() -> None:
    for field in ("ref", "path"):
        assert check(on(**{field: "x" * 4096})) is ALLOWED
        assert check(on(**{field: "\u00e9" * 2048})) is ALLOWED
        assert check(on(**{field: "x" * 4097})) == INVALID
        assert check(on(**{field: "\u00e9" * 2049})) == INVALID
    for field in ("resource_id", "repository_id"):
        assert check(on(**{field: "x" * 256})) is ALLOWED
        assert check(on(**{field: "\u00e9" * 129})) == INVALID
    assert check({"repository": "o/n", **{f"f{n}": "x" for n in range(5000)}}) == INVALID


def test_the_ref_of_every_artifact_is_a_target() -> None:
    for name in ("a", "..a.", "a..b", "\u00e9" * 64, "x" * 128, "%" * 128, "\u202e"):
        for claim in ("c_" + "0" * 64 + "_1", "c_" + "f" * 128 + "_9999999999", "../x"):
            assert check(on(ref=artifact_ref(claim, name))) is ALLOWED


# --- malformed scopes ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "scope",
    [
        {}, [], "all", 0, True, {"version": 2, "resources": []}, {"version": 1},
        {"version": True, "resources": []}, {"version": "1", "resources": []},
        {"version": 1, "resources": {}}, {"version": 1, "resources": [], "also": []},
        resources({"repository": "o"}), resources(on(branch="x")),
        resources({"ref": "refs/heads/x"}), resources(on(ref=None)), resources(on(), on()),
        resources(on(number=3)), resources(on(number="03")), resources(on(path="")),
        resources(on(path="a\n")), resources(on(kind="all")), resources(on(), {}),
        {"version": 1, "resources": [None]}, {"version": 1, "resources": ["o/n"]},
        resources({"number": "3", "repository": "o/n"}, on(number="3")),
        resources(*[on(number=str(n)) for n in range(1, MAX_SELECTORS + 2)]),
    ],
)  # fmt: skip
def test_a_malformed_scope_permits_nothing(scope: Any) -> None:
    assert check(scope=scope) == "scope_invalid"
    assert check(scope=scope, effect_scope="o/m") == "scope_invalid"


def test_a_scope_that_is_null_is_no_absent_one() -> None:
    with pytest.raises(CallboardError) as caught:
        check_target(TARGET, Reach("o/n", "77", {"resource_scope": None}, None))
    assert caught.value.code == "scope_invalid"


def test_the_largest_scope() -> None:
    many = resources(*[on(number=str(n)) for n in range(1, MAX_SELECTORS + 1)])
    assert len(parse_scope(many).resources) == MAX_SELECTORS
    assert check(on(number=str(MAX_SELECTORS)), many) is ALLOWED
    assert check(on(number=str(MAX_SELECTORS + 1)), many) == DENIED


def test_the_malformed_is_said_first() -> None:
    assert check(on(ref=""), {"version": 2}, effect_scope="o/m") == INVALID
    assert check(on(ref=REF), {"version": 2}, effect_scope="o/m") == "scope_invalid"
    assert check(on(run_id="1"), {"version": 2}) == "scope_invalid"


# --- what is said -------------------------------------------------------------------------------


def test_a_refusal_says_what_was_found_and_what_to_do() -> None:
    said = refusal(scope=resources())
    assert said is not None
    assert said.message.startswith(f"repository 'o/n', ref '{REF}' may not be touched")
    assert "empty" in said.message
    assert said.details == {"target": TARGET}
    for found, words in (
        (refusal(effect_scope="o/m"), "'o/m'"),
        (refusal(on(run_id="5")), "'77'"),
        (refusal(on(), subject=ISSUE), "kind 'issue'"),
        (refusal(on(), resources(on(number="3"))), "none of the 1 resources"),
        (refusal(on(host="evil")), "'evil' is not the board's, 'github.com'"),
        (refusal(on(path="../a")), "/path"),
    ):
        assert found is not None
        assert words in found.message
        assert found.hint


def test_hostile_text_is_shown_short_and_harmless() -> None:
    for target in (
        on(path="\x1b[2J" + "x" * 5000),
        on(path="../" + "x" * 4000),
        on(**{"\x1b]0;" + "y" * 5000: "z"}),
        on(path="\u202e" + "x" * 4000),
    ):
        found = refusal(target, resources())
        assert found is not None
        assert len(found.message) < 1000
        assert found.message.isprintable()


def test_a_typed_target_is_judged_like_a_plain_one() -> None:
    for fields in (TARGET, ISSUE, on(path="../a"), on(number=3), on(host="git.example")):
        # A handler's own words are not checked before they get here.
        assert Target(**fields).document() == fields
    assert check(Target(**TARGET).document()) is ALLOWED
    assert check(Target(**on(path="../a")).document()) == INVALID
    assert parse_target(TARGET, "h") == Target(**TARGET)
