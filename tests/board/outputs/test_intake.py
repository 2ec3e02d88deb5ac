"""The trusted side before a folder that its worker ruled: always an answer, never a fallback."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from callboard.board.outputs.claims import ClaimOutputs, Intake, PatchCommit, PatchOutput
from callboard.board.outputs.closed import ClosedClaim, ClosedClaims
from callboard.board.outputs.intake import take
from callboard.board.outputs.messages import Terms
from callboard.errors import CallboardError
from tests.board.outputs.scene import (
    BOTH,
    NO_WRITES,
    TERMS,
    artifact,
    assignment,
    finish,
    outputs,
    put,
    sha,
    staging,
)

COMMIT = PatchCommit("a" * 40, "b" * 40, "c" * 40)


def codes(claim: ClaimOutputs) -> list[str]:
    return [refusal.code for refusal in claim.refusals]


def sole(intake: Intake) -> ClaimOutputs:
    (claim,) = intake.claims
    return claim


def names(claim: ClaimOutputs) -> list[str]:
    return [getattr(output, "name", output.type) for output in claim.outputs]


def test_mixed_outcomes_are_a_normal_end(tmp_path: Path) -> None:
    folder = staging(tmp_path)
    put(folder, 1, artifact(folder, "a", claim_handle="h1"))
    put(folder, 2, artifact(folder, "b", b"b", claim_handle="h2"))
    put(folder, 3, finish(1, claim_handle="h1"))
    put(folder, 4, finish(2, "cancelled", claim_handle="h2"))
    put(folder, 5, artifact(folder, "c", b"c", claim_handle="h3"))
    found = take(folder, assignment(BOTH, BOTH, BOTH), TERMS)
    assert [(claim.outcome, claim.reason) for claim in found.claims] == [
        ("completed", "finished"),
        ("cancelled", "worker_cancelled"),
        ("cancelled", "no_finish"),
    ]
    assert names(found.claims[0]) == ["a"]
    assert [len(claim.outputs) for claim in found.claims] == [1, 0, 0]
    assert [len(claim.suppressed) for claim in found.claims] == [0, 1, 1]
    assert found.claim("h2").claim_id == found.claims[1].claim_id
    with pytest.raises(CallboardError, match="claim_scope_invalid"):
        found.claim("h4")


def test_finishing_all_but_one_makes_nothing_unambiguous(tmp_path: Path) -> None:
    folder = staging(tmp_path)
    put(folder, 1, finish(1, claim_handle="h1"))
    put(folder, 2, finish(2))
    found = take(folder, assignment(NO_WRITES, NO_WRITES), TERMS)
    assert [claim.outcome for claim in found.claims] == ["completed", "cancelled"]
    assert [refusal.code for refusal in found.unattributed] == ["claim_scope_required"]


@pytest.mark.parametrize("selector", [None, "", "h2", 1])
def test_a_given_wrong_selector_never_falls_back(tmp_path: Path, selector: Any) -> None:
    folder = staging(tmp_path)
    put(folder, 1, finish(1, claim_handle=selector))
    found = take(folder, assignment(NO_WRITES), TERMS)
    assert sole(found).reason == "no_finish"
    assert [refusal.code for refusal in found.unattributed] == ["claim_scope_invalid"]


def test_the_first_of_two_finishes_stands(tmp_path: Path) -> None:
    folder = staging(tmp_path)
    put(folder, 1, finish(1))
    put(folder, 2, finish(2))
    put(folder, 3, finish(3, "cancelled"))
    put(folder, 4, finish(4))
    claim = sole(take(folder, assignment(NO_WRITES), TERMS))
    assert claim.outcome == "completed"
    assert codes(claim) == ["finish_conflict"]
    assert claim.refusals[0].source == "message-000003.json"


def test_one_intent_id_means_one_thing(tmp_path: Path) -> None:
    folder = staging(tmp_path)
    put(folder, 1, finish(1))
    put(folder, 2, finish(1))
    put(folder, 3, finish(1, "cancelled"))
    assert codes(sole(take(folder, assignment(NO_WRITES), TERMS))) == ["intent_conflict"]


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"", "invalid_json"),
        (b"{", "invalid_json"),
        (b"[]", "message_invalid"),
        (b"null", "message_invalid"),
        (b'{"kind":"finish","kind":"finish"}', "duplicate_key"),
        (b'{"kind":"finish","k\\u0069nd":"finish"}', "duplicate_key"),
        (b'{"kind":"patch","intent_id":"x","a":{"b":1,"b":2}}', "duplicate_key"),
        (b'{"kind":"finish","outcome":NaN}', "invalid_json"),
        (b'{"kind":"finish","outcome":1.5}', "noncanonical_number"),
        (b'{"kind":"\xff"}', "invalid_unicode"),
        (b'{"kind":"\\ud800"}', "invalid_unicode"),
        (b"[" * 100 + b"]" * 100, "resource_limit"),
        (b'"' + b"x" * 17000 + b'"', "staging_limit"),
    ],
)
def test_what_is_no_message_belongs_to_nobody(tmp_path: Path, data: bytes, code: str) -> None:
    folder = staging(tmp_path)
    put(folder, 1, data)
    put(folder, 2, finish(1))
    found = take(folder, assignment(NO_WRITES), TERMS)
    assert [refusal.code for refusal in found.unattributed] == [code]
    assert sole(found).outcome == "completed"


@pytest.mark.parametrize(
    "message",
    [
        {"kind": "finish", "intent_id": "x", "outcome": "finished"},
        {"kind": "finish", "intent_id": "x", "outcome": "completed", "extra": 1},
        {"kind": "finish", "intent_id": "../x", "outcome": "completed"},
        {"kind": "finish", "outcome": "completed"},
        {"kind": "noop", "intent_id": "x"},
        {"kind": None, "intent_id": "x"},
        {"intent_id": "x"},
        {"kind": "artifact", "intent_id": "x", "name": "n", "sha256": "../x", "size_bytes": 1},
        {"kind": "artifact", "intent_id": "x", "name": "n", "sha256": "a" * 64, "size_bytes": -1},
        {"kind": "patch", "intent_id": "x", "commit": "a" * 40},
    ],
)
def test_messages_are_closed_records(tmp_path: Path, message: dict[str, Any]) -> None:
    folder = staging(tmp_path)
    put(folder, 1, message)
    claim = sole(take(folder, assignment(BOTH), TERMS))
    assert claim.outcome == "cancelled"
    assert codes(claim) == ["message_invalid"]


def test_an_artifacts_bytes_are_proven(tmp_path: Path) -> None:
    folder = staging(tmp_path)
    secret = tmp_path / "secret"
    secret.write_bytes(b"secret")
    put(folder, 1, artifact(folder, "good", b"good"))
    put(folder, 2, artifact(folder, "changed", b"before"))
    (folder / f"blob-{sha('before')}").write_bytes(b"after!")
    put(folder, 3, artifact(folder, "longer", b"long"))
    (folder / f"blob-{sha('long')}").write_bytes(b"long, and more")
    put(folder, 4, artifact(folder, "linked", b"secret"))
    (folder / f"blob-{sha('secret')}").unlink()
    (folder / f"blob-{sha('secret')}").symlink_to(secret)
    put(folder, 5, artifact(folder, "gone", b"gone"))
    (folder / f"blob-{sha('gone')}").unlink()
    put(folder, 6, artifact(folder, "pipe", b"pipe"))
    (folder / f"blob-{sha('pipe')}").unlink()
    os.mkfifo(folder / f"blob-{sha('pipe')}")
    put(folder, 7, {**artifact(folder, "short", b"short"), "size_bytes": 9})
    put(folder, 8, finish(1))
    claim = sole(take(folder, assignment(outputs(artifact=(0, 8))), TERMS))
    assert names(claim) == ["good"]
    assert codes(claim) == [
        "artifact_changed", "artifact_changed", "artifact_missing", "artifact_missing",
        "artifact_missing", "artifact_changed",
    ]  # fmt: skip
    assert claim.outcome == "completed"
    assert "secret" not in str(claim.document())


def test_refused_messages_count_for_nothing(tmp_path: Path) -> None:
    folder = staging(tmp_path)
    put(folder, 1, {**artifact(folder, "a"), "name": "../a"})
    put(folder, 2, artifact(folder, "b", b"b"))
    put(folder, 3, artifact(folder, "c", b"c"))
    put(folder, 4, artifact(folder, "d", b"d"))
    put(folder, 5, finish(1))
    claim = sole(take(folder, assignment(outputs(artifact=(2, 2))), TERMS))
    assert names(claim) == ["b", "c"]
    assert codes(claim) == ["artifact_name_invalid", "output_limit"]
    assert claim.outcome == "completed"


def test_a_contract_that_is_not_met_is_never_completed(tmp_path: Path) -> None:
    folder = staging(tmp_path)
    put(folder, 1, artifact(folder, "a", claim_handle="h1"))
    put(folder, 2, finish(1, claim_handle="h1"))
    put(folder, 3, finish(2, claim_handle="h2"))
    put(folder, 4, finish(3, claim_handle="h3"))
    put(folder, 5, finish(4, claim_handle="h4"))
    bad = {"version": 1, "outputs": []}
    found = take(folder, assignment(outputs(artifact=(2, 2)), NO_WRITES, None, bad), TERMS)
    assert [claim.reason for claim in found.claims] == [
        "output_missing", "finished", "delivery_contract_required", "contract_invalid",
    ]  # fmt: skip
    first = found.claims[0]
    assert first.outcome == "cancelled"
    assert first.detail == "1 of 2 artifact outputs are there"
    assert len(first.suppressed) == 1


def test_a_siblings_output_meets_no_minimum(tmp_path: Path) -> None:
    folder = staging(tmp_path)
    for number, handle in ((1, "h1"), (3, "h1")):
        put(folder, number, artifact(folder, f"a{number}", claim_handle=handle))
    put(folder, 4, finish(1, claim_handle="h1"))
    put(folder, 5, finish(2, claim_handle="h2"))
    both = outputs(artifact=(1, 2))
    found = take(folder, assignment(both, both), TERMS)
    assert [claim.reason for claim in found.claims] == ["finished", "output_missing"]


def test_each_patch_is_made_of_its_own_paths_and_only_if_needed(tmp_path: Path) -> None:
    folder = staging(tmp_path)
    made: list[tuple[str, ...]] = []

    def make(paths: tuple[str, ...]) -> PatchCommit:
        made.append(paths)
        return COMMIT

    patch = {"kind": "patch", "intent_id": "p1", "claim_handle": "h1", "paths": ["one/", "a.txt"]}
    put(folder, 1, patch)
    put(folder, 2, {**patch, "intent_id": "p2", "claim_handle": "h2", "paths": ["two"]})
    put(folder, 3, {**patch, "intent_id": "p3", "claim_handle": "h3", "paths": ["three"]})
    members = assignment(BOTH, BOTH, BOTH)
    assert [c.outcome for c in take(folder, members, TERMS, make_patch=make).claims] == [
        "cancelled"
    ] * 3
    assert made == []
    put(folder, 4, finish(1, claim_handle="h1"))
    put(folder, 5, finish(2, claim_handle="h2"))
    found = take(folder, members, TERMS, make_patch=make)
    assert made == [("a.txt", "one"), ("two",)]
    for claim in found.claims[:2]:
        (output,) = claim.outputs
        assert isinstance(output, PatchOutput)
        assert output.commit == COMMIT
    assert found.claims[2].outputs == ()


def test_a_member_that_had_ended_is_suppressed_whatever_it_staged(tmp_path: Path) -> None:
    folder = staging(tmp_path)
    members = assignment(BOTH, BOTH)
    made: list[tuple[str, ...]] = []

    def make(paths: tuple[str, ...]) -> PatchCommit:
        made.append(paths)
        return COMMIT

    for number, handle in ((1, "h1"), (2, "h2")):
        wish = {"kind": "patch", "intent_id": f"p{number}", "claim_handle": handle}
        put(folder, 2 * number, {**wish, "paths": [handle]})
        put(folder, 2 * number + 1, finish(number, claim_handle=handle))
    ended = ClosedClaim(
        handle="h1",
        claim_id=members.claims[0].claim_id,
        work_id=members.claims[0].work_id,
        state="cancelled",
        reason="not_needed",
    )
    closed = ClosedClaims(closed=[ended])
    first, second = take(folder, members, TERMS, make_patch=make, closed=closed).claims
    assert (first.outcome, first.reason, first.outputs) == ("cancelled", "claim_closed", ())
    assert [output.intent_id for output in first.suppressed] == ["p1"]
    assert (second.outcome, len(second.outputs), made) == ("completed", 1, [("h2",)])


def replace_terms(**limits: int) -> Terms:
    recipe = {"artifact": (0, 128), "patch": (0, 1), "dispatch_next": (0, 16)}
    return structs.replace(Terms.of(recipe), **limits)


def test_a_claim_that_is_given_up_takes_up_no_room(tmp_path: Path) -> None:
    """Paths, launches and bytes that it had reserved are its siblings' again."""
    folder = staging(tmp_path)
    kinds = ("artifact", "patch", "dispatch_next")
    contract = outputs(**dict.fromkeys(kinds, (0, 1)))
    terms = replace_terms(artifact_bytes=8, run_artifacts=1, run_bytes=8, max_dispatches=2)

    def wishes(handle: str) -> list[dict[str, Any]]:
        return [
            artifact(folder, "file", b"12345678", claim_handle=handle, intent_id=f"a{handle}"),
            {"kind": "patch", "intent_id": f"p{handle}", "claim_handle": handle, "paths": ["x"]},
            {"kind": "dispatch_next", "intent_id": f"d{handle}", "claim_handle": handle,
             "max_dispatches": 2},
        ]  # fmt: skip

    messages = [*wishes("h1"), finish(1, "cancelled", claim_handle="h1"), *wishes("h2")]
    messages += [finish(2, claim_handle="h2"), *wishes("h3"), finish(3, claim_handle="h3")]
    for number, message in enumerate(messages, start=1):
        put(folder, number, message)
    members = assignment(contract, contract, contract)
    first, second, third = take(folder, members, terms, make_patch=lambda _paths: COMMIT).claims
    assert sorted(one.type for one in first.suppressed) == sorted(kinds)
    assert sorted(one.type for one in second.outputs) == sorted(kinds)
    assert codes(third) == ["artifact_limit", "patch_overlap", "dispatch_budget_exceeded"]


def test_what_a_silent_claim_would_have_lacked_is_told_with_it(tmp_path: Path) -> None:
    folder = staging(tmp_path)
    terms = Terms.of({"artifact": (2, 128), "patch": (0, 1)})
    put(folder, 1, artifact(folder, "one", claim_handle="h2"))
    found = take(folder, assignment(NO_WRITES, outputs(artifact=(3, 4))), terms)
    silent = "the run ended without a finish for this claim; "
    recipe = "that the worker's recipe asks for are there"
    assert [(one.reason, one.detail) for one in found.claims] == [
        ("no_finish", f"{silent}0 of 2 artifact outputs {recipe}"),
        (
            "no_finish",
            f"{silent}1 of 3 artifact outputs are there; 1 of 2 artifact outputs {recipe}",
        ),
    ]


def test_the_same_words_in_another_order_are_the_same_message(tmp_path: Path) -> None:
    folder = staging(tmp_path)
    put(folder, 1, b'{"kind":"finish","intent_id":"f1","outcome":"completed"}')
    put(folder, 2, b' {"outcome": "completed", "intent_id": "f1",\n"kind": "finish"}')
    claim = sole(take(folder, assignment(NO_WRITES), TERMS))
    assert (claim.outcome, codes(claim)) == ("completed", [])


def test_patches_that_share_a_work_tree_are_told_apart(tmp_path: Path) -> None:
    folder = staging(tmp_path)
    wish = {"kind": "patch", "claim_handle": "h1"}
    put(folder, 1, {**wish, "intent_id": "p1"})
    put(folder, 2, {**wish, "intent_id": "p2", "paths": ["src/one"]})
    for number, paths in enumerate((["src/one/deep"], ["src"], ["src/one"]), start=3):
        other = {"kind": "patch", "intent_id": f"p{number}", "claim_handle": "h2", "paths": paths}
        put(folder, number, other)
    put(folder, 6, {"kind": "patch", "intent_id": "p6", "claim_handle": "h2", "paths": ["src/on"]})
    put(folder, 7, finish(1, claim_handle="h1"))
    put(folder, 8, finish(2, claim_handle="h2"))
    first, second = take(
        folder, assignment(BOTH, BOTH), TERMS, make_patch=lambda _paths: COMMIT
    ).claims
    assert codes(first) == ["patch_paths_required"]
    assert codes(second) == ["patch_overlap"] * 3
    assert [claim.outputs[0].intent_id for claim in (first, second)] == ["p2", "p6"]


@pytest.mark.parametrize(
    "path", ["", "/etc", "..", "a/../b", "a//b", "./a", ".git/config", "a/.GIT", "a\nb", "x" * 1025]
)
def test_a_patch_leads_nowhere_but_down(tmp_path: Path, path: str) -> None:
    folder = staging(tmp_path)
    put(folder, 1, {"kind": "patch", "intent_id": "p1", "paths": ["fine", path]})
    put(folder, 2, finish(1))
    claim = sole(take(folder, assignment(BOTH), TERMS, make_patch=lambda _paths: COMMIT))
    assert (codes(claim), claim.outputs) == (["patch_path_invalid"], ())


def test_a_patch_of_nothing(tmp_path: Path) -> None:
    folder = staging(tmp_path)
    patch = {"kind": "patch", "intent_id": "p1"}
    put(folder, 1, patch)
    put(folder, 2, finish(1))
    optional = sole(take(folder, assignment(BOTH), TERMS, make_patch=lambda _paths: None))
    assert (optional.outcome, codes(optional)) == ("completed", ["patch_empty"])
    wanted = assignment(outputs(patch=(1, 1)))
    needed = sole(take(folder, wanted, TERMS, make_patch=lambda _paths: None))
    assert (needed.outcome, needed.reason) == ("cancelled", "output_missing")


def test_a_patch_that_fails_is_not_lost_silently(tmp_path: Path) -> None:
    folder = staging(tmp_path)
    put(folder, 1, {"kind": "patch", "intent_id": "p1"})
    put(folder, 2, finish(1))

    def make(_paths: tuple[str, ...]) -> PatchCommit:
        raise CallboardError("patch_refused", "'x' is a repository of its own", "remove it")

    claim = sole(take(folder, assignment(BOTH), TERMS, make_patch=make))
    assert (claim.outcome, claim.reason) == ("cancelled", "output_failed")
    assert codes(claim) == ["patch_refused"]


def test_limits_of_a_run(tmp_path: Path) -> None:
    folder = staging(tmp_path)
    terms = Terms(outputs=TERMS.outputs, artifact_bytes=4, run_artifacts=2, run_bytes=6)
    for number, data in enumerate([b"12345", b"1234", b"321", b"21", b""], start=1):
        put(folder, number, artifact(folder, f"n{number}", data))
    put(folder, 6, finish(1))
    claim = sole(take(folder, assignment(BOTH), terms))
    assert names(claim) == ["n2", "n4"]
    assert codes(claim) == ["artifact_limit"] * 3


def test_strangers_are_reported_and_left_alone(tmp_path: Path) -> None:
    folder = staging(tmp_path)
    put(folder, 1, finish(1))
    (folder / "notes.txt").write_text("x")
    (folder / "message-1.json").write_text("{}")
    (folder / "message-000257.json").write_text("{}")
    (folder / "bad\nname\x1b[31m").write_text("x")
    (folder / os.fsdecode(b"\xff")).write_text("x")
    (folder / ".message-000002.json.0011.tmp").write_text("{")
    (folder / "deep").mkdir()
    found = take(folder, assignment(NO_WRITES), TERMS)
    assert sole(found).outcome == "completed"
    assert sorted(found.ignored) == sorted(
        "notes.txt message-1.json message-000257.json bad\\x0aname\\x1b[31m deep \\udcff".split()
    )
    assert found.unattributed == ()


def test_a_crowd_of_files_is_met_within_bounds(tmp_path: Path) -> None:
    folder = staging(tmp_path)
    for number in range(5000):
        (folder / f"x{number}").touch()
    put(folder, 200, finish(1))
    found = take(folder, assignment(NO_WRITES), TERMS)
    assert sole(found).outcome == "completed"
    assert len(found.ignored) == 64


@pytest.mark.parametrize("shape", ["absent", "file", "link", "pipe"])
def test_a_folder_that_is_none_counts_as_empty(tmp_path: Path, shape: str) -> None:
    folder = tmp_path / "staging"
    (tmp_path / "other").mkdir()
    elsewhere = staging(tmp_path / "other")
    put(elsewhere, 1, finish(1))
    if shape == "file":
        folder.write_text("x")
    elif shape == "link":
        folder.symlink_to(elsewhere)
    elif shape == "pipe":
        os.mkfifo(folder)
    found = take(folder, assignment(NO_WRITES, NO_WRITES), TERMS)
    assert [claim.reason for claim in found.claims] == ["no_finish"] * 2
    assert [refusal.code for refusal in found.unattributed] == ["staging_invalid"]


def test_hostile_files_in_a_messages_place(tmp_path: Path) -> None:
    folder = staging(tmp_path)
    target = tmp_path / "target.json"
    target.write_text('{"intent_id":"x","kind":"finish","outcome":"completed"}')
    (folder / "message-000001.json").symlink_to(target)
    os.mkfifo(folder / "message-000002.json")
    (folder / "message-000003.json").mkdir()
    (folder / "message-000004.json").symlink_to("/dev/zero")
    with (folder / "message-000005.json").open("wb") as stream:
        stream.truncate(1 << 40)
    put(folder, 6, finish(1, "cancelled"))
    found = take(folder, assignment(NO_WRITES), TERMS)
    assert [refusal.code for refusal in found.unattributed] == [
        "file_not_regular", "file_not_regular", "file_not_regular", "file_not_regular",
        "staging_limit",
    ]  # fmt: skip
    assert sole(found).reason == "worker_cancelled"


def test_a_patch_the_host_could_not_make_keeps_what_git_said(tmp_path: Path) -> None:
    def fail(_paths: tuple[str, ...]) -> None:
        facts = {"command": "write-tree", "status": 128, "stderr": "fatal: disk full"}
        raise CallboardError("git_failed", "git write-tree ended with 128", "look", facts)

    folder = staging(tmp_path)
    put(folder, 1, {"kind": "patch", "intent_id": "p1"})
    put(folder, 2, finish(1))
    claim = sole(take(folder, assignment(BOTH), TERMS, make_patch=fail))
    assert (claim.outcome, claim.reason) == ("cancelled", "output_failed")
    document: Any = json.loads(json.dumps(claim.document()))
    assert document["refusals"] == [
        {
            "code": "git_failed", "message": "git write-tree ended with 128", "hint": "look",
            "source": "p1", "claim_handle": "h1",
            "details": {"command": "write-tree", "status": 128, "stderr": "fatal: disk full"},
        }
    ]  # fmt: skip


def test_a_report_is_plain_json(tmp_path: Path) -> None:
    folder = staging(tmp_path)
    put(folder, 1, artifact(folder, "a"))
    put(folder, 2, {"kind": "patch", "intent_id": "p1"})
    put(folder, 3, finish(1))
    found = take(folder, assignment(BOTH), TERMS, make_patch=lambda _paths: COMMIT)
    document = json.loads(json.dumps(found.document()))
    assert document["claims"][0]["outputs"] == [
        {
            "type": "artifact", "intent_id": found.claims[0].outputs[0].intent_id, "name": "a",
            "sha256": sha("data\n"), "size_bytes": 5,
        },
        {"type": "patch", "intent_id": "p1", "commit": COMMIT.commit},
    ]  # fmt: skip
