"""A run without its processes: assignments, staged messages, a repository with a patch in it."""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from callboard import canonical
from callboard.board.outputs.authority import EffectContext, Phase, Place
from callboard.board.outputs.claims import ArtifactOutput, PatchCommit
from callboard.board.outputs.delivery import Delivery, verify_delivery
from callboard.board.outputs.messages import Terms
from callboard.board.outputs.staging import prepare_folder
from callboard.board.protocol.commit import AssignedClaim, Assignment
from callboard.board.protocol.memory_rules import MemoryRules
from callboard.board.storage.repository import Repository

REPOSITORY = "local/example"
RUN_ID = "77"
BOTH: dict[str, Any] = {
    "version": 1,
    "outputs": [
        {"type": "artifact", "min": 0, "max": 5},
        {"type": "patch", "min": 0, "max": 1},
    ],
}
RECIPE: Mapping[str, tuple[int, int]] = {"artifact": (0, 128), "patch": (0, 1)}
TERMS = Terms.of(RECIPE)
NO_WRITES: dict[str, Any] = {"kind": "none"}


def outputs(**bounds: tuple[int, int]) -> dict[str, Any]:
    """A contract with `type=(min, max)`."""
    rules = [{"type": name, "min": low, "max": high} for name, (low, high) in bounds.items()]
    return {"version": 1, "outputs": rules}


def sha(text: str | bytes) -> str:
    data = text.encode() if isinstance(text, str) else text
    return hashlib.sha256(data).hexdigest()


def member(number: int, contract: dict[str, Any] | None = None) -> AssignedClaim:
    payload: dict[str, Any] = {"task": f"task {number}"}
    if contract is not None:
        payload["effect_contract"] = contract
    return AssignedClaim(
        handle=f"h{number}",
        claim_id=f"c_{sha('request')}_{number}",
        work_id=sha(f"work {number}"),
        work=payload,
        result_refs=[],
    )


def assignment(*contracts: dict[str, Any] | None) -> Assignment:
    """One member for each contract; None states none."""
    return Assignment(
        version=3,
        dispatch_id=f"d_{sha('request')}_1",
        request_id="request",
        commit_id="q_1",
        policy_epoch="p_1",
        pool="default",
        worker_profile="coder",
        claims=[member(number, contract) for number, contract in enumerate(contracts, start=1)],
    )


def staging(tmp_path: Path, terms: Terms = TERMS) -> Path:
    folder = tmp_path / "staging"
    prepare_folder(folder, terms)
    return folder


def put(folder: Path, number: int, message: dict[str, Any] | bytes) -> None:
    """A message file as somebody wrote it who does not use our commands."""
    data = message if isinstance(message, bytes) else canonical.encode(message)
    (folder / f"message-{number:06}.json").write_bytes(data)


def finish(number: int = 1, outcome: str = "completed", **extra: Any) -> dict[str, Any]:
    return {"kind": "finish", "intent_id": f"f{number}", "outcome": outcome, **extra}


def artifact(folder: Path, name: str, data: bytes = b"data\n", **extra: Any) -> dict[str, Any]:
    """An artifact message, its bytes put beside it."""
    (folder / f"blob-{sha(data)}").write_bytes(data)
    return {
        "kind": "artifact",
        "intent_id": f"a{sha(name)[:12]}",
        "name": name,
        "sha256": sha(data),
        "size_bytes": len(data),
        **extra,
    }


def output(name: str, data: bytes = b"data\n") -> ArtifactOutput:
    return ArtifactOutput(f"i_{sha(name)[:12]}", name, sha(data), len(data), data)


_IDENTITY = {
    "GIT_AUTHOR_NAME": "Ada", "GIT_AUTHOR_EMAIL": "ada@example.org",
    "GIT_COMMITTER_NAME": "Ada", "GIT_COMMITTER_EMAIL": "ada@example.org",
}  # fmt: skip


def git(folder: Path, *arguments: str, stdin: bytes = b"") -> str:
    done = subprocess.run(
        ["git", *arguments],
        cwd=folder,
        env={**os.environ, **_IDENTITY},
        input=stdin,
        capture_output=True,
        check=True,
    )
    return done.stdout.decode().strip()


def make_repository(folder: Path, object_format: str = "sha1") -> Path:
    folder.mkdir(parents=True)
    git(folder, "init", "-q", "-b", "main", f"--object-format={object_format}")
    (folder / "README").write_text("one\n")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "first")
    return folder


def loose_commit(folder: Path, text: str = "two\n", parent: str | None = None) -> PatchCommit:
    """A commit in the object store that no ref names, as a transferred patch is."""
    base = parent or git(folder, "rev-parse", "HEAD")
    blob = git(folder, "hash-object", "-w", "--stdin", stdin=text.encode())
    tree = git(folder, "mktree", stdin=f"100644 blob {blob}\tREADME\n".encode())
    commit = git(folder, "commit-tree", tree, "-p", base, "-m", "patch")
    return PatchCommit(commit, tree, base)


def verify(opened: EffectContext, **more: Any) -> Delivery:
    """What is read back for a Claim; its desk and memory rules only where `more` gives them."""
    place = replace(opened.place, **{"desk": None, "memory": None} | more)
    return verify_delivery(place, opened.payload)


def context(
    repository: Repository,
    claim: AssignedClaim,
    phase: Phase = "open",
    *,
    base: str | None = None,
    attempt: int = 1,
    result_bytes: int = 4096,
    memory: MemoryRules | None = None,
) -> EffectContext:
    found = base or repository.head_commit()
    assert found is not None
    return EffectContext(
        place=Place(repository, claim.claim_id, claim.work_id, attempt, found, memory=memory),
        handle=claim.handle,
        payload=claim.work,
        subject=None,
        repository_name=REPOSITORY,
        effect_scope=REPOSITORY,
        run_id=RUN_ID,
        result_bytes=result_bytes,
        phase=phase,
        pool="default",
        granted_at_ms=1_000_000,
    )
