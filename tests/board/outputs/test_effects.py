"""Preparing, publishing and reading back, on real repositories of both hashes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from callboard.board.outputs.authority import EffectContext
from callboard.board.outputs.claims import ClaimOutputs, Output, PatchCommit, PatchOutput
from callboard.board.outputs.delivery import Delivery
from callboard.board.outputs.descriptor import artifact_ref, prepared_ref
from callboard.board.outputs.effects import apply_claim, prepare_claim
from callboard.board.outputs.handlers.registry import HANDLERS, handler_of
from callboard.board.protocol.commit import AssignedClaim
from callboard.board.protocol.contract import contract_of
from callboard.board.protocol.operations import Resource
from callboard.board.protocol.output_types import BUILT_IN
from callboard.board.storage.repository import Repository
from callboard.errors import CallboardError
from tests.board.outputs import scene
from tests.board.outputs.scene import (
    BOTH,
    NO_WRITES,
    context,
    member,
    output,
    outputs,
    sha,
    verify,
)


def completed(claim: AssignedClaim, *found: Output) -> ClaimOutputs:
    return ClaimOutputs(
        claim.handle, claim.claim_id, claim.work_id, "completed", "finished", outputs=found
    )


def patch(commit: PatchCommit) -> PatchOutput:
    return PatchOutput("p1", commit)


def missing(opened: EffectContext) -> list[str]:
    return [item.code for item in verify(opened).missing]


def refs(folder: Path) -> dict[str, str]:
    listed = scene.git(folder, "for-each-ref", "--format=%(refname) %(objectname)")
    return dict(line.split() for line in listed.splitlines())


def deliver(opened: EffectContext, claim: AssignedClaim, *found: Output) -> EffectContext:
    """Prepare, as if completed then, and publish."""
    answer = prepare_claim(opened, completed(claim, *found))
    assert answer.outcome == "completed", answer
    after = replace(opened, phase="completed")
    apply_claim(after)
    return after


def test_a_delivery_is_read_back_from_git_alone(folder: Path, repository: Repository) -> None:
    claim = member(1, BOTH)
    opened = context(repository, claim)
    before = refs(folder)
    commit = scene.loose_commit(folder)
    made: list[Output] = [output("notes.md", b"notes"), output("a b.txt", b""), patch(commit)]
    assert prepare_claim(opened, completed(claim, *made)) == completed(claim, *made)
    assert set(refs(folder)) == {*before, prepared_ref(claim.claim_id)}
    after = replace(opened, phase="completed")
    apply_claim(after)
    with Repository.discover(folder) as fresh:
        found = verify(replace(after, place=replace(after.place, repository=fresh)))
    assert found.verified
    assert found.missing == ()
    branch = f"callboard/{claim.work_id[:12]}-1"
    assert [entry["type"] for entry in found.descriptor["outputs"]] == ["artifact"] * 2 + ["patch"]
    assert found.descriptor["version"] == 1
    first, second, third = found.descriptor["outputs"]
    assert first["name"] == "a b.txt"
    assert second == {
        "type": "artifact",
        "name": "notes.md",
        "ref": f"refs/callboard/artifacts/{claim.claim_id}/notes.md",
        "blob": scene.git(folder, "hash-object", "--stdin", stdin=b"notes"),
        "sha256": sha("notes"),
        "size_bytes": 5,
    }
    assert third == {
        "type": "patch",
        "branch": branch,
        "commit": commit.commit,
        "tree": commit.tree,
        "parent": commit.parent,
    }
    assert scene.git(folder, "cat-file", "blob", second["ref"]) == "notes"
    assert scene.git(folder, "rev-parse", branch) == commit.commit
    scene.git(folder, "fsck", "--strict")
    assert scene.git(folder, "status", "--porcelain") == ""


def test_publishing_again_changes_nothing(folder: Path, repository: Repository) -> None:
    claim = member(1, BOTH)
    after = deliver(
        context(repository, claim), claim, output("a"), patch(scene.loose_commit(folder))
    )
    before = refs(folder)
    apply_claim(after)
    assert refs(folder) == before
    assert verify(after).verified


def test_a_crash_in_the_midst_is_gone_on_from(folder: Path, repository: Repository) -> None:
    claim = member(1, BOTH)
    opened = context(repository, claim)
    made = (output("a"), output("b", b"b"), patch(scene.loose_commit(folder)))
    prepare_claim(opened, completed(claim, *made))
    after = replace(opened, phase="completed")
    assert missing(after) == ["output_unverified"] * 3
    assert verify(after).disposition == "unknown"
    # The process dies after its first ref; another one knows nothing of the run.
    entry = HANDLERS["artifact"].prepare(opened, output("a"))
    HANDLERS["artifact"].apply(after.place, entry)
    assert missing(after) == ["output_unverified"] * 2
    assert verify(after).disposition == "partial"
    apply_claim(after)
    assert verify(after).verified


def test_optional_outputs_that_were_prepared_must_be_there(
    folder: Path, repository: Repository
) -> None:
    claim = member(1, outputs(artifact=(0, 5)))
    after = deliver(context(repository, claim), claim, output("a"), output("b", b"b"))
    assert verify(after).verified
    scene.git(folder, "update-ref", "-d", artifact_ref(claim.claim_id, "b"))
    found = verify(after)
    assert not found.verified
    assert [entry["name"] for entry in found.descriptor["outputs"]] == ["a"]


def test_no_outputs_are_a_delivery_too(folder: Path, repository: Repository) -> None:
    nothing = member(1, NO_WRITES)
    before = refs(folder)
    after = deliver(context(repository, nothing), nothing)
    assert verify(after) == Delivery(True, {"version": 1, "outputs": []})
    assert refs(folder) == before
    optional = member(2, outputs(artifact=(0, 1)))
    opened = context(repository, optional, "completed")
    assert missing(opened) == ["delivery_unprepared"]
    with pytest.raises(CallboardError, match="delivery_unprepared"):
        apply_claim(opened)
    assert verify(deliver(context(repository, optional), optional)).verified


def test_without_a_contract_nothing_is_verified(repository: Repository) -> None:
    assert missing(context(repository, member(1, None))) == [
        "delivery_unprepared",
        "delivery_contract_required",
    ]
    assert missing(context(repository, member(1, {"version": 1, "outputs": []}))) == [
        "contract_invalid"
    ]


def test_effects_need_their_own_completion(repository: Repository) -> None:
    claim, other = member(1, BOTH), member(2, BOTH)
    opened = context(repository, claim)
    prepare_claim(opened, completed(claim, output("a")))
    for phase in ("open", "closed"):
        with pytest.raises(CallboardError, match="effects_unauthorized"):
            apply_claim(replace(opened, phase=phase))
    with pytest.raises(CallboardError, match="claim_scope_invalid"):
        prepare_claim(context(repository, other), completed(claim, output("a")))
    late = prepare_claim(replace(opened, phase="closed"), completed(claim, output("a")))
    assert (late.outcome, late.reason) == ("cancelled", "output_failed")
    assert late.refusals[0].code == "effects_unauthorized"


def test_a_cancelled_claim_prepares_nothing(folder: Path, repository: Repository) -> None:
    claim = member(1, BOTH)
    cancelled = completed(claim, output("a")).cancelled("no_finish", "")
    before = refs(folder)
    assert prepare_claim(context(repository, claim), cancelled) is cancelled
    assert refs(folder) == before


def refused(opened: EffectContext, claim: AssignedClaim, *found: Output) -> list[str]:
    answer = prepare_claim(opened, completed(claim, *found))
    assert answer.outcome == "cancelled"
    assert answer.outputs == ()
    assert answer.suppressed == found
    assert opened.repository.read_ref(prepared_ref(claim.claim_id)) is None
    return [refusal.code for refusal in answer.refusals]


def test_what_cannot_be_delivered_is_found_before_the_completion(
    folder: Path, repository: Repository
) -> None:
    claim = member(1, BOTH)
    opened = context(repository, claim)
    commit = scene.loose_commit(folder)
    changed = replace(output("a"), data=b"other")
    assert refused(opened, claim, output("b"), changed) == ["artifact_changed"]
    assert refused(opened, claim, PatchOutput("p1")) == ["patch_unavailable"]
    assert refused(opened, claim, patch(replace(commit, tree="0" * len(commit.tree)))) == [
        "output_unverified"
    ]
    assert refused(opened, claim, patch(replace(commit, commit="0" * len(commit.tree)))) == [
        "object_missing"
    ]
    small = context(repository, claim, result_bytes=100)
    assert refused(small, claim, output("a")) == ["result_limit"]
    undeclared = member(1, outputs(artifact=(0, 1)))
    assert refused(context(repository, undeclared), undeclared, patch(commit)) == [
        "output_not_declared"
    ]


def test_a_patch_stands_on_the_runs_own_base(folder: Path, repository: Repository) -> None:
    claim = member(1, BOTH)
    opened = context(repository, claim)
    foreign = scene.loose_commit(folder, "three\n", parent=scene.loose_commit(folder).commit)
    assert refused(opened, claim, patch(foreign)) == ["output_unverified"]
    lying = replace(foreign, parent=opened.place.base)
    assert refused(opened, claim, patch(lying)) == ["output_unverified"]
    same = scene.loose_commit(folder, "one\n")
    assert refused(opened, claim, patch(same)) == ["patch_empty"]


def test_a_standing_branch_is_never_moved(folder: Path, repository: Repository) -> None:
    claim = member(1, BOTH)
    opened = context(repository, claim)
    branch = f"callboard/{claim.work_id[:12]}-1"
    scene.git(folder, "branch", branch, "main")
    commit = scene.loose_commit(folder)
    assert refused(opened, claim, patch(commit)) == ["branch_taken"]
    assert scene.git(folder, "rev-parse", branch) == opened.place.base
    # The next attempt has a branch of its own.
    second = context(repository, claim, attempt=2)
    assert verify(deliver(second, claim, patch(commit))).verified
    assert scene.git(folder, "rev-parse", branch) == opened.place.base


def test_a_branch_that_appears_later_stays(folder: Path, repository: Repository) -> None:
    claim = member(1, BOTH)
    opened = context(repository, claim)
    prepare_claim(opened, completed(claim, output("a"), patch(scene.loose_commit(folder))))
    branch = f"callboard/{claim.work_id[:12]}-1"
    scene.git(folder, "branch", branch, "main")
    after = replace(opened, phase="completed")
    with pytest.raises(CallboardError) as error:
        apply_claim(after)
    assert error.value.code == "effects_incomplete"
    failed: Any = error.value.details["failed"]
    assert [inner["code"] for inner in failed] == ["branch_taken"]
    assert scene.git(folder, "rev-parse", branch) == opened.place.base
    assert verify(after).disposition == "partial"


def test_a_branch_in_the_way_is_named(folder: Path, repository: Repository) -> None:
    claim = member(1, BOTH)
    scene.git(folder, "branch", "callboard", "main")
    answer = prepare_claim(
        context(repository, claim), completed(claim, patch(scene.loose_commit(folder)))
    )
    assert answer.refusals[0].code == "branch_taken"
    assert "'refs/heads/callboard'" in answer.refusals[0].message


def test_an_artifacts_ref_is_never_moved(folder: Path, repository: Repository) -> None:
    claim = member(1, BOTH)
    other = scene.git(folder, "hash-object", "-w", "README")
    scene.git(folder, "update-ref", artifact_ref(claim.claim_id, "a"), other)
    assert refused(context(repository, claim), claim, output("a")) == ["artifact_conflict"]


@pytest.mark.parametrize("rival", ["refs/callboard/artifacts", "refs/callboard"])
def test_a_ref_in_the_way_of_artifacts_is_named(
    folder: Path, repository: Repository, rival: str
) -> None:
    claim = member(1, BOTH)
    scene.git(folder, "update-ref", rival, "HEAD")
    answer = prepare_claim(context(repository, claim), completed(claim, output("a")))
    assert (answer.outcome, answer.reason) == ("cancelled", "output_failed")
    (refusal,) = answer.refusals
    assert refusal.code == "artifact_conflict"
    assert f"cannot stand beside {rival!r}" in refusal.message
    assert refusal.hint.endswith(f"git update-ref -d {rival}")
    assert refusal.details["found"] == rival


def test_the_first_preparation_stands(folder: Path, repository: Repository) -> None:
    claim = member(1, BOTH)
    opened = context(repository, claim)
    prepare_claim(opened, completed(claim, output("a")))
    standing = repository.read_ref(prepared_ref(claim.claim_id))
    prepare_claim(opened, completed(claim, output("b", b"b")))
    assert repository.read_ref(prepared_ref(claim.claim_id)) == standing
    after = replace(opened, phase="completed")
    apply_claim(after)
    assert [entry["name"] for entry in verify(after).descriptor["outputs"]] == ["a"]


def test_a_resource_scope_is_asked_for_every_type(folder: Path, repository: Repository) -> None:
    claim = member(1, BOTH)
    claim.work["resource_scope"] = {"version": 1, "resources": []}
    opened = context(repository, claim)
    before = scene.git(folder, "count-objects")
    assert refused(opened, claim, output("a")) == ["effect_scope_denied"]
    # Before anything is stored for it.
    assert scene.git(folder, "count-objects") == before
    assert refused(opened, claim, patch(scene.loose_commit(folder))) == ["effect_scope_denied"]
    claim.work["resource_scope"]["resources"].append({"repository": scene.REPOSITORY})
    assert verify(deliver(opened, claim, output("a"))).verified


def test_the_gate_judges_the_full_target(folder: Path, repository: Repository) -> None:
    """Subject, profile and every field of the scope count at the gate as they do when asked."""
    claim = member(1, BOTH)
    branch = f"refs/heads/callboard/{claim.work_id[:12]}-1"
    issue = Resource(
        kind="issue", host="github.com", repository=scene.REPOSITORY, repository_id="1",
        resource_id="2", number="3",
    )  # fmt: skip
    opened = replace(context(repository, claim), subject=issue)
    commit = scene.loose_commit(folder)
    for selector in (
        {"number": "3"}, {"ref": branch + "0"}, {"ref": branch, "run_id": scene.RUN_ID},
        {"ref": branch, "host": "git.example"}, {"ref": branch, "host": "github.com"},
    ):  # fmt: skip
        scope = {"version": 1, "resources": [{"repository": scene.REPOSITORY, **selector}]}
        claim.work["resource_scope"] = scope
        assert refused(opened, claim, patch(commit)) == ["effect_scope_denied"]
    claim.work["resource_scope"] = {
        "version": 1,
        "resources": [{"repository": scene.REPOSITORY, "ref": branch}],
    }
    foreign = replace(opened, subject=structs.replace(issue, repository="o/other"))
    assert refused(foreign, claim, patch(commit)) == ["effect_scope_denied"]
    narrow = replace(opened, effect_scope="o/other")
    assert refused(narrow, claim, patch(commit)) == ["effect_scope_denied"]
    assert refused(opened, claim, output("a")) == ["effect_scope_denied"]
    assert verify(deliver(opened, claim, patch(commit))).verified


def point_prepared(folder: Path, claim: AssignedClaim, text: str) -> None:
    blob = scene.git(folder, "hash-object", "-w", "--stdin", stdin=text.encode())
    scene.git(folder, "update-ref", prepared_ref(claim.claim_id), blob)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", "invalid_json"),
        ("{}", "descriptor_invalid"),
        ('{"outputs":[],"outputs":[],"version":1}', "duplicate_key"),
        ('{"outputs":[{"type":"gift"}],"version":1}', "descriptor_invalid"),
        (" " * 5000, "resource_limit"),
    ],
)
def test_an_altered_note_proves_nothing(
    folder: Path, repository: Repository, text: str, code: str
) -> None:
    claim = member(1, outputs(artifact=(1, 1)))
    after = deliver(context(repository, claim), claim, output("a"))
    point_prepared(folder, claim, text)
    assert missing(after) == [code, "output_missing"]


def test_evidence_of_another_claim_or_attempt_counts_for_nothing(
    folder: Path, repository: Repository
) -> None:
    mine, other = member(1, BOTH), member(2, BOTH)
    after = deliver(context(repository, mine), mine, output("a"), patch(scene.loose_commit(folder)))
    note = scene.git(folder, "cat-file", "blob", prepared_ref(mine.claim_id))
    point_prepared(folder, other, note)
    assert missing(context(repository, other)) == ["output_unverified"] * 2
    assert missing(replace(after, place=replace(after.place, attempt=2))) == ["output_unverified"]
    # An empty commit is no other base of the same tree.
    base = scene.git(folder, "commit-tree", "HEAD^{tree}", "-p", "HEAD", "-m", "later")
    assert missing(replace(after, place=replace(after.place, base=base))) == ["output_unverified"]


def test_changed_bytes_under_a_ref_are_seen(folder: Path, repository: Repository) -> None:
    claim = member(1, outputs(artifact=(1, 1)))
    after = deliver(context(repository, claim), claim, output("a"))
    other = scene.git(folder, "hash-object", "-w", "README")
    scene.git(folder, "update-ref", artifact_ref(claim.claim_id, "a"), other)
    assert missing(after) == ["output_unverified", "output_missing"]
    note = scene.git(folder, "cat-file", "blob", prepared_ref(claim.claim_id))
    blob = json.loads(note)["outputs"][0]["blob"]
    point_prepared(folder, claim, note.replace(blob, other))
    assert missing(after)[0] in ("output_unverified", "resource_limit")


def test_an_unreadable_repository_is_no_verdict(folder: Path, repository: Repository) -> None:
    claim = member(1, outputs(artifact=(1, 1)))
    after = deliver(context(repository, claim), claim, output("a"))
    path = folder / ".git" / prepared_ref(claim.claim_id)
    path.unlink()
    # A link in a ref's place cannot be read: neither is it absent, nor does it say anything.
    path.symlink_to("elsewhere")
    with pytest.raises(CallboardError) as error:
        verify(after)
    assert error.value.code == "storage_failed"


def test_a_no_write_contract_has_no_outputs(folder: Path, repository: Repository) -> None:
    claim = member(1, BOTH)
    after = deliver(context(repository, claim), claim, output("a"))
    nothing: dict[str, Any] = {"effect_contract": NO_WRITES}
    assert contract_of(nothing) is not None
    assert missing(replace(after, payload=nothing)) == ["output_not_declared"]


def test_long_and_odd_names_lie_in_real_refs(folder: Path, repository: Repository) -> None:
    claim = member(1, outputs(artifact=(1, 9)))
    named = ["é" * 64, "x" * 128, "a.lock", ".a.", "a..b", "Ω ~^:?*[", "@{", "%41", "="]
    after = deliver(
        context(repository, claim), claim, *(output(name, name.encode()) for name in named)
    )
    found = verify(after)
    assert found.verified
    assert {entry["name"] for entry in found.descriptor["outputs"]} == set(named)
    scene.git(folder, "pack-refs", "--all")
    scene.git(folder, "gc", "-q", "--prune=now")
    with Repository.discover(folder) as fresh:
        assert verify(replace(after, place=replace(after.place, repository=fresh))).verified


def test_only_registered_types_exist() -> None:
    assert sorted(HANDLERS) == sorted(BUILT_IN)
    with pytest.raises(CallboardError, match="output_not_declared"):
        handler_of("create_issue")


def test_a_bare_repository_takes_outputs(tmp_path: Path) -> None:
    folder = scene.make_repository(tmp_path / "user")
    scene.git(tmp_path, "clone", "-q", "--bare", str(folder), "bare.git")
    bare = tmp_path / "bare.git"
    claim = member(1, BOTH)
    with Repository.discover(bare) as repository:
        base = repository.head_commit()
        commit = scene.loose_commit(bare)
        after = deliver(context(repository, claim, base=base), claim, patch(commit))
        assert verify(after).verified
