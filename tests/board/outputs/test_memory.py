"""Memories: judged alike on both sides, stored before the Completion, read back from Git."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from callboard.board.outputs.claims import BodyOutput, ClaimOutputs
from callboard.board.outputs.delivery import Delivery
from callboard.board.outputs.descriptor import MemoryEntry, prepared_ref, refs_of
from callboard.board.outputs.effects import apply_claim, prepare_claim
from callboard.board.outputs.handlers import gate
from callboard.board.outputs.handlers.memory import MemoryHandler
from callboard.board.outputs.intake import take
from callboard.board.outputs.messages import BODY_LIMITS, Terms
from callboard.board.outputs.staging import Stager
from callboard.board.protocol.memory_rules import MemoryRules
from callboard.board.storage.repository import Repository
from callboard.errors import CallboardError
from tests.board.outputs import scene
from tests.board.outputs.scene import (
    assignment,
    context,
    git,
    member,
    outputs,
    put,
    sha,
    staging,
)

SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["facts"],
    "properties": {
        "facts": {"type": "array", "items": {"type": "string", "maxLength": 8}, "maxItems": 3},
        "count": {"type": "integer", "minimum": 0},
        "mood": {"enum": ["good", "bad"]},
        "work_id": {"type": "string"},
        "more": {"type": "object", "properties": {"x": {"const": 1}}},
    },
}
RULES = MemoryRules("memory/facts.json", "facts", SCHEMA)
ONE = outputs(memory=(1, 1))
TERMS = Terms.of({"memory": (0, 1)}, memory=RULES)


def body(**fields: Any) -> bytes:
    return json.dumps({"facts": ["one"], **fields}).encode()


def output(data: bytes) -> BodyOutput:
    return BodyOutput("m1", "memory", 1, sha(data), len(data), data)


def message(folder: Path, data: bytes, **extra: Any) -> dict[str, Any]:
    (folder / f"blob-{sha(data)}").write_bytes(data)
    return {
        "kind": "memory", "intent_id": "m1", "sha256": sha(data), "size_bytes": len(data), **extra,
    }  # fmt: skip


# --- both sides judge alike ----------------------------------------------------------------------


FOREIGN = member(2).work_id
FAULTY: list[tuple[bytes, str, list[str]]] = [
    (b"[]", "body_invalid", []),
    (b'{"facts": [1.5]}', "noncanonical_number", []),
    (b'{"facts": [], "facts": []}', "duplicate_key", []),
    (b"{", "invalid_json", []),
    (b"{}", "memory_invalid", ["/facts"]),
    (body(work_id=FOREIGN), "memory_foreign", []),
    (body(work_id=None), "memory_foreign", []),
    (body(work_id=FOREIGN, facts=3), "memory_foreign", []),
    (
        json.dumps(
            {
                "facts": ["a", "123456789", 3, None],
                "count": -1,
                "mood": "fair",
                "more": {"x": True, "y": 1},
                "fcats": [],
            }
        ).encode(),
        "memory_invalid",
        ["/count", "/facts", "/facts/1", "/facts/2", "/facts/3", "/fcats", "/mood", "/more/x",
         "/more/y"],
    ),
    (body(count=True), "memory_invalid", ["/count"]),
]  # fmt: skip


@pytest.mark.parametrize(("data", "code", "pointers"), FAULTY)
def test_a_worker_is_told_at_once_what_the_trusted_side_refuses(
    tmp_path: Path, data: bytes, code: str, pointers: list[str]
) -> None:
    members = assignment(ONE)
    folder = staging(tmp_path, TERMS)
    with pytest.raises(CallboardError) as refused:
        Stager(folder, members).memory(data)
    assert refused.value.code == code
    faults = refused.value.details.get("faults", [])
    assert isinstance(faults, list)
    assert [one["pointer"] for one in faults] == pointers
    assert list(folder.glob("message-*")) == []
    put(folder, 1, message(folder, data))
    put(folder, 2, {"kind": "finish", "intent_id": "f", "outcome": "completed"})
    (claim,) = take(folder, members, TERMS).claims
    assert [one.code for one in claim.refusals] == [code]
    assert (claim.outcome, claim.reason) == ("cancelled", "output_missing")


def test_a_sound_memory_is_staged_canonically_and_once(tmp_path: Path) -> None:
    members = assignment(ONE, ONE)
    own = members.claims[0].work_id
    folder = staging(tmp_path, TERMS)
    side = Stager(folder, members)
    first = side.memory(b'{"work_id": "%s", "facts": [ ]}' % own.encode(), "h1")
    again = side.memory(b'{"facts":[],"work_id":"%s"}' % own.encode(), "h1")
    assert first == again
    with pytest.raises(CallboardError, match="output_limit"):
        side.memory(body(), "h1")
    with pytest.raises(CallboardError, match="claim_scope_required"):
        side.memory(body())
    with pytest.raises(CallboardError, match="memory_foreign"):
        side.memory(body(work_id=own), "h2")
    side.memory(body(), "h2")
    found = take(folder, members, TERMS)
    (one,), (two,) = found.claims[0].suppressed, found.claims[1].suppressed
    assert isinstance(one, BodyOutput)
    assert isinstance(two, BodyOutput)
    assert one.data == b'{"facts":[],"work_id":"%s"}' % own.encode()
    assert two.data == b'{"facts":["one"]}'


def test_a_large_memory_is_refused(tmp_path: Path) -> None:
    folder = staging(tmp_path, TERMS)
    side = Stager(folder, assignment(ONE))
    with pytest.raises(CallboardError, match="body_limit"):
        side.memory(body(facts=["x" * BODY_LIMITS["memory"]]))


def test_a_run_whose_recipe_is_unknown_is_judged_when_it_is(tmp_path: Path) -> None:
    folder = staging(tmp_path, Terms())
    Stager(folder, assignment(ONE)).memory(b"{}")
    (claim,) = take(folder, assignment(ONE), TERMS).claims
    assert [one.code for one in claim.refusals] == ["memory_invalid"]


# --- on a repository -----------------------------------------------------------------------------


def completed(claim: Any, data: bytes) -> ClaimOutputs:
    made = ClaimOutputs(claim.handle, claim.claim_id, claim.work_id, "completed", "finished")
    return replace(made, outputs=(output(data),))


def verify(opened: Any, *, memory: MemoryRules | None = RULES) -> Delivery:
    return scene.verify(opened, memory=memory)


def missing(opened: Any, **more: Any) -> list[str]:
    return [one.code for one in verify(opened, **more).missing]


def test_a_memory_is_one_file_more_on_a_branch_of_its_claim(
    folder: Path, repository: Repository
) -> None:
    claim = member(1, ONE)
    opened = context(repository, claim, memory=RULES)
    head = str(repository.head_commit())
    before = git(folder, "for-each-ref", "refs/heads")
    assert prepare_claim(opened, completed(claim, body(count=2))).outcome == "completed"
    assert git(folder, "for-each-ref", "refs/heads") == before
    # A kill between the commit and its branch, then whoever comes next.
    after = replace(opened, phase="completed")
    assert missing(after) == ["output_unverified", "output_missing"]
    apply_claim(after)
    apply_claim(after)
    with Repository.discover(folder) as fresh:
        found = verify(replace(after, place=replace(after.place, repository=fresh)))
    assert found.verified
    branch = f"callboard/memory/facts/{claim.work_id[:12]}-1"
    data = b'{"count":2,"facts":["one"]}'
    commit = git(folder, "rev-parse", branch)
    assert found.descriptor == {
        "version": 1,
        "outputs": [
            {
                "type": "memory",
                "branch": branch,
                "path": "memory/facts.json",
                "commit": commit,
                "tree": git(folder, "rev-parse", f"{commit}^{{tree}}"),
                "parent": head,
                "blob": git(folder, "hash-object", "--stdin", stdin=data),
                "sha256": sha(data),
                "size_bytes": len(data),
            }
        ],
    }
    assert git(folder, "show", f"{branch}:memory/facts.json") == data.decode()
    assert git(folder, "diff-tree", "-r", "--name-only", head, branch) == "memory/facts.json"
    assert git(folder, "status", "--porcelain") == ""
    git(folder, "fsck", "--strict")


def test_prepared_again_it_is_the_same_commit(repository: Repository) -> None:
    claim = member(1, ONE)
    opened = context(repository, claim, memory=RULES)
    assert gate.prepare(opened, output(body())) == gate.prepare(opened, output(body()))


def test_it_stands_on_the_base_that_the_recipe_names(folder: Path, repository: Repository) -> None:
    base = str(repository.head_commit())
    (folder / "later").write_text("x")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "later")
    rules = MemoryRules(RULES.path, RULES.branch, SCHEMA, base)
    opened = context(repository, member(1, ONE), memory=rules)
    entry = gate.prepare(opened, output(body()))
    assert isinstance(entry, MemoryEntry)
    assert entry.parent == base != opened.place.base
    assert git(folder, "ls-tree", "-r", "--name-only", entry.commit) == "README\nmemory/facts.json"
    after = replace(opened, phase="completed")
    gate.apply(after, entry)
    # Read by another recipe's rules it is none of that recipe's memories.
    for other in (
        RULES,
        replace(rules, branch="other"),
        replace(rules, path="other.json"),
        None,
    ):
        place = replace(opened.place, memory=other)
        with pytest.raises(CallboardError, match="output_unverified"):
            MemoryHandler().verify(place, entry)


def test_remembering_what_is_there_already_is_a_delivery(
    folder: Path, repository: Repository
) -> None:
    (folder / "memory").mkdir()
    (folder / "memory" / "facts.json").write_bytes(b'{"facts":["one"]}')
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "known")
    claim = member(1, ONE)
    opened = context(repository, claim, memory=RULES)
    prepare_claim(opened, completed(claim, body()))
    apply_claim(replace(opened, phase="completed"))
    assert verify(opened).verified


def refused(opened: Any, claim: Any, data: bytes | None = None) -> str:
    answer = prepare_claim(opened, completed(claim, data or body()))
    assert answer.outcome == "cancelled"
    assert opened.repository.read_ref(prepared_ref(claim.claim_id)) is None
    (refusal,) = answer.refusals
    return refusal.code


@pytest.mark.parametrize("kind", ["folder", "below a file", "link", "linked folder", "submodule"])
def test_a_path_that_is_taken_is_refused_before_the_completion(
    folder: Path, repository: Repository, kind: str
) -> None:
    path = folder / RULES.path
    if kind == "folder":
        path.mkdir(parents=True)
        (path / "x").write_text("x")
    elif kind == "below a file":
        path.parent.write_text("x")
    elif kind == "link":
        path.parent.mkdir()
        os.symlink("../README", path)
    elif kind == "linked folder":
        (folder / "elsewhere").mkdir()
        os.symlink("elsewhere", path.parent)
    git(folder, "add", "-A")
    if kind == "submodule":
        head = git(folder, "rev-parse", "HEAD")
        git(folder, "update-index", "--add", "--cacheinfo", f"160000,{head},{RULES.path}")
    git(folder, "commit", "-q", "-m", kind)
    claim = member(1, ONE)
    assert refused(context(repository, claim, memory=RULES), claim) == "path_taken"


def test_other_refusals_come_before_the_completion(folder: Path, repository: Repository) -> None:
    claim = member(1, ONE)
    gone = replace(RULES, base="0" * len(str(repository.head_commit())))
    assert refused(context(repository, claim, memory=gone), claim) == "memory_base_missing"
    opened = context(repository, claim, memory=RULES)
    assert refused(replace(opened, place=replace(opened.place, memory=None)), claim) == (
        "output_not_declared"
    )
    assert refused(opened, claim, b"{}") == "memory_invalid"
    assert refused(opened, claim, body(work_id=FOREIGN)) == "memory_foreign"
    scoped = {**claim.work, "resource_scope": {"version": 1, "resources": []}}
    assert refused(replace(opened, payload=scoped), claim) == "effect_scope_denied"
    branch = f"callboard/memory/facts/{claim.work_id[:12]}-1"
    git(folder, "branch", branch)
    assert refused(opened, claim) == "branch_taken"
    git(folder, "branch", "-m", branch, "callboard/memory")
    assert refused(opened, claim) == "branch_taken"


def test_a_scope_can_be_for_the_file_alone(repository: Repository) -> None:
    resources = [{"repository": "local/example", "path": RULES.path}]
    claim = member(1, ONE)
    payload = {**claim.work, "resource_scope": {"version": 1, "resources": resources}}
    opened = replace(context(repository, claim, memory=RULES), payload=payload)
    assert prepare_claim(opened, completed(claim, body())).outcome == "completed"
    elsewhere = [{"repository": "local/example", "path": "other.json"}]
    payload = {**claim.work, "resource_scope": {"version": 1, "resources": elsewhere}}
    with pytest.raises(CallboardError, match="effect_scope_denied"):
        gate.apply(
            replace(opened, payload=payload, phase="completed"),
            gate.prepare(opened, output(body())),
        )


@pytest.mark.parametrize(
    "forge",
    ["branch", "path", "parent", "tree", "blob", "size", "other commit", "more files", "mode"],
)
def test_an_entry_that_git_does_not_bear_out_is_not_verified(
    folder: Path, repository: Repository, forge: str
) -> None:
    opened = context(repository, member(1, ONE), memory=RULES)
    entry = gate.prepare(opened, output(body()))
    assert isinstance(entry, MemoryEntry)
    forged: dict[str, dict[str, Any]] = {
        "branch": {"branch": f"callboard/memory/facts/{member(2).work_id[:12]}-1"},
        "path": {"path": "README"},
        "parent": {"parent": entry.commit},
        "tree": {"tree": git(folder, "rev-parse", "HEAD^{tree}")},
        "blob": {"blob": git(folder, "rev-parse", "HEAD:README")},
        "size": {"size_bytes": entry.size_bytes - 1},
        "other commit": {"commit": opened.place.base},
        "more files": {"commit": _other_commit(folder, entry, ("100644", entry.blob, "more"))},
        "mode": {"commit": _other_commit(folder, entry, ("100755", entry.blob, entry.path))},
    }
    changed = structs.replace(entry, **forged[forge])
    if "commit" in forged[forge]:
        tree = git(folder, "rev-parse", f"{changed.commit}^{{tree}}")
        changed = structs.replace(changed, tree=tree)
    with pytest.raises(CallboardError) as found:
        MemoryHandler().apply(opened.place, changed)
    assert found.value.code in ("output_unverified", "resource_limit")
    assert repository.read_ref(f"refs/heads/{entry.branch}") is None


def _other_commit(folder: Path, entry: MemoryEntry, change: tuple[str, str, str]) -> str:
    git(folder, "read-tree", entry.commit)
    git(folder, "update-index", "--add", "--cacheinfo", ",".join(change))
    tree = git(folder, "write-tree")
    git(folder, "read-tree", "HEAD")
    return git(folder, "commit-tree", tree, "-p", entry.parent, "-m", "forged")


def test_a_branch_that_was_moved_is_not_verified(folder: Path, repository: Repository) -> None:
    claim = member(1, ONE)
    opened = context(repository, claim, memory=RULES)
    prepare_claim(opened, completed(claim, body()))
    after = replace(opened, phase="completed")
    apply_claim(after)
    branch = f"callboard/memory/facts/{claim.work_id[:12]}-1"
    assert verify(after).verified
    git(folder, "branch", "-f", branch, "HEAD")
    assert missing(after) == ["output_unverified", "output_missing"]
    with pytest.raises(CallboardError, match="effects_incomplete"):
        apply_claim(after)
    git(folder, "branch", "-D", branch)
    assert missing(after) == ["output_unverified", "output_missing"]
    apply_claim(after)
    assert verify(after).verified
    assert missing(after, memory=None) == ["output_unverified", "output_missing"]


def test_a_sibling_or_an_open_claim_remembers_nothing(repository: Repository) -> None:
    opened = context(repository, member(1, ONE), memory=RULES)
    entry = gate.prepare(opened, output(body()))
    with pytest.raises(CallboardError, match="effects_unauthorized"):
        gate.apply(opened, entry)
    other = context(repository, member(2, ONE), "completed", memory=RULES)
    with pytest.raises(CallboardError, match="output_unverified"):
        gate.apply(other, entry)
    assert isinstance(entry, MemoryEntry)
    assert refs_of(entry) == {f"refs/heads/{entry.branch}": entry.commit}
