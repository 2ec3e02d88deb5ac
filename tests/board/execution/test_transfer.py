"""A snapshot's objects in the user's repository."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from callboard.board.execution.snapshot import Snapshot, diff_to_commit
from callboard.board.execution.transfer import fetch_into
from callboard.board.execution.workspace import Workspace, create
from callboard.errors import CallboardError
from callboard.git import Git
from tests.repositories import fingerprint, head, repository
from tests.repositories import git as user_git


def taken(git: Git, workspace: Workspace) -> Snapshot:
    snapshot = diff_to_commit(
        git, workspace, trusted=workspace.folder.parent / "trusted", message="m", at_ms=1_000
    )
    assert snapshot is not None
    return snapshot


def without_objects(source: Path) -> dict[str, str]:
    return {
        name: content
        for name, content in fingerprint(source).items()
        if not name.startswith(".git/objects/")
    }


@pytest.mark.parametrize("object_format", ["sha1", "sha256"])
@pytest.mark.parametrize("files", [1, 150], ids=["loose", "pack"])
def test_only_objects_arrive_and_the_caller_may_set_a_ref(
    git: Git, tmp_path: Path, object_format: str, files: int
) -> None:
    source = repository(tmp_path / "user", object_format=object_format)
    workspace = create(git, source / ".git", head(source), tmp_path / "run")
    for number in range(files):
        (workspace.folder / f"new{number}").write_text(f"{number}\n")
    snapshot = taken(git, workspace)
    before = fingerprint(source)
    fetch_into(git, source / ".git", snapshot)
    fetch_into(git, source / ".git", snapshot)
    after = fingerprint(source)
    assert {name for name in after if after[name] != before.get(name)} == {
        name for name in after if name.startswith(".git/objects/") and name not in before
    }
    packs = list((source / ".git" / "objects" / "pack").glob("*.pack"))
    assert len(packs) == (files > 100)
    user_git("branch", "callboard/abc-1", snapshot.commit, cwd=source)
    shown = user_git("show", "--name-only", "--format=%P %T %an", "callboard/abc-1", cwd=source)
    first, *names = shown.split("\n")
    assert first == f"{head(source)} {snapshot.tree} Callboard"
    assert len([name for name in names if name]) == files
    assert user_git("fsck", "--strict", "--no-dangling", cwd=source) == ""


def test_hooks_and_settings_of_the_target_do_not_act(
    git: Git, source: Path, workspace: Workspace, tmp_path: Path
) -> None:
    for hook in ("post-receive", "pre-auto-gc", "reference-transaction", "post-index-change"):
        path = source / ".git" / "hooks" / hook
        path.write_text(f"#!/bin/sh\ntouch {tmp_path}/hooked\n")
        path.chmod(0o755)
    user_git("config", "gc.auto", "1", cwd=source)
    (workspace.folder / "new").write_text("new")
    before = without_objects(source)
    fetch_into(git, source / ".git", taken(git, workspace))
    assert without_objects(source) == before
    assert not (tmp_path / "hooked").exists()


def test_bare_and_shallow_targets(git: Git, source: Path, tmp_path: Path) -> None:
    for number, flags in enumerate((["--bare"], ["--bare", "--depth=1"])):
        target = tmp_path / f"target{number}"
        user_git("clone", "-q", *flags, f"file://{source}", str(target), cwd=tmp_path)
        workspace = create(git, target, head(source), tmp_path / f"case{number}" / "run")
        (workspace.folder / "new").write_text("new")
        snapshot = taken(git, workspace)
        fetch_into(git, target, snapshot)
        user_git("update-ref", "refs/heads/patch", snapshot.commit, cwd=target)
        assert user_git("fsck", "--no-dangling", cwd=target) == ""


def state_of(source: Path) -> tuple[str, str, dict[str, str]]:
    """What Git finds wrong, how many objects it counts, and every file, of a repository."""
    return (
        user_git("fsck", "--strict", "--no-dangling", cwd=source),
        user_git("count-objects", "-v", cwd=source),
        fingerprint(source),
    )


@pytest.mark.parametrize("files", [0, 150], ids=["loose", "pack"])
@pytest.mark.parametrize("object_format", ["sha1", "sha256"])
@pytest.mark.parametrize(
    ("path", "reason"),
    [(".gitmodules", "gitmodulesUrl"), ("src/.GITMODULES", "gitmodulesUrl")],
)
def test_what_git_refuses_leaves_nothing_behind(
    git: Git, tmp_path: Path, object_format: str, files: int, path: str, reason: str
) -> None:
    source = repository(tmp_path / "user", object_format=object_format)
    workspace = create(git, source / ".git", head(source), tmp_path / "run")
    bad = '[submodule "x"]\n\tpath = x\n\turl = --upload-pack=touch /tmp/never\n'
    (workspace.folder / path).write_text(bad)
    for number in range(files):
        (workspace.folder / f"new{number}").write_text(f"{number}\n")
    before = state_of(source)
    with pytest.raises(CallboardError) as refused:
        fetch_into(git, source / ".git", taken(git, workspace))
    error = refused.value
    assert error.code == "patch_refused"
    assert error.details["path"] == path
    assert error.details["reason"] == reason
    assert reason in error.message
    assert path in error.message
    assert "--upload-pack" in str(error.details["stderr"])
    assert state_of(source) == before


def test_what_git_refuses_of_the_base_is_not_laid_at_the_run_s_door(
    git: Git, source: Path, tmp_path: Path
) -> None:
    (source / ".gitmodules").write_text('[submodule "x"]\n\tpath = x\n\turl = -bad\n')
    user_git("add", "-A", cwd=source)
    user_git("commit", "-q", "-m", "bad", cwd=source)
    workspace = create(git, source / ".git", head(source), tmp_path / "run")
    (workspace.folder / "new").write_text("new")
    before = fingerprint(source)
    with pytest.raises(CallboardError) as refused:
        fetch_into(git, source / ".git", taken(git, workspace))
    assert refused.value.code == "patch_refused"
    assert refused.value.details["path"] == ".gitmodules"
    assert "in the commit that the run began at" in refused.value.message
    assert fingerprint(source) == before


def test_a_target_that_lacks_the_parent_refuses(
    git: Git, workspace: Workspace, tmp_path: Path
) -> None:
    stranger = tmp_path / "stranger"
    stranger.mkdir()
    user_git("init", "-q", cwd=stranger)
    (workspace.folder / "new").write_text("new")
    with pytest.raises(CallboardError) as refused:
        fetch_into(git, stranger / ".git", taken(git, workspace))
    assert refused.value.code == "fetch_failed"


def test_what_does_not_read_back_is_refused(git: Git, source: Path, workspace: Workspace) -> None:
    (workspace.folder / "new").write_text("new")
    snapshot = taken(git, workspace)
    with pytest.raises(CallboardError, match="fetch_failed"):
        fetch_into(git, source / ".git", replace(snapshot, tree="1" * 40))
