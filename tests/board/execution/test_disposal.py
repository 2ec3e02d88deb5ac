"""A workspace goes, its work does not."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from callboard.board.execution.disposal import dispose, unsaved
from callboard.board.execution.git import Git
from callboard.board.execution.snapshot import diff_to_commit
from callboard.board.execution.transfer import fetch_into
from callboard.board.execution.workspace import Workspace
from callboard.errors import CallboardError
from tests.board.execution.repositories import fingerprint, head
from tests.board.execution.repositories import git as user_git


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    folder = tmp_path / "scratch"
    folder.mkdir()
    return folder


def refusal(git: Git, workspace: Workspace, scratch: Path) -> dict[str, object]:
    before = fingerprint(workspace.folder)
    with pytest.raises(CallboardError) as refused:
        dispose(git, workspace, scratch=scratch)
    assert refused.value.code == "workspace_unsaved"
    assert fingerprint(workspace.folder) == before
    assert list(scratch.iterdir()) == []
    return refused.value.details


def deliver(git: Git, workspace: Workspace, source: Path, branch: str) -> str:
    """Save the work tree as a branch of the user's repository."""
    trusted = workspace.folder.parent / "trusted"
    snapshot = diff_to_commit(git, workspace, trusted=trusted, message="m", at_ms=1_000)
    assert snapshot is not None
    fetch_into(git, source / ".git", snapshot)
    shutil.rmtree(trusted)
    user_git("branch", branch, snapshot.commit, cwd=source)
    return snapshot.commit


def own_commit(workspace: Workspace, name: str) -> str:
    (workspace.folder / name).write_text(name)
    user_git("add", "-A", cwd=workspace.folder)
    user_git("commit", "-q", "-m", name, cwd=workspace.folder)
    return head(workspace.folder)


def test_an_untouched_workspace_goes(
    git: Git, workspace: Workspace, source: Path, scratch: Path
) -> None:
    (workspace.folder / "build").mkdir()
    (workspace.folder / "build" / "out").write_text("ignored")
    before = fingerprint(source)
    dispose(git, workspace, scratch=scratch)
    dispose(git, workspace, scratch=scratch)
    assert not workspace.folder.exists()
    assert list(scratch.iterdir()) == []
    assert fingerprint(source) == before


def test_an_untracked_file_stops_it_until_it_is_discarded(
    git: Git, workspace: Workspace, scratch: Path
) -> None:
    (workspace.folder / "note").write_text("work")
    details = refusal(git, workspace, scratch)
    assert (details["paths"], details["path_count"]) == (["note"], 1)
    dispose(git, workspace, scratch=scratch, discard_work=True)
    assert not workspace.folder.exists()


def test_delivered_work_does_not_stop_it(
    git: Git, workspace: Workspace, source: Path, scratch: Path
) -> None:
    (workspace.folder / "note").write_text("work")
    (workspace.folder / "README").unlink()
    deliver(git, workspace, source, "callboard/abc-1")
    (workspace.folder / "more").write_text("later")
    assert "more" in str(refusal(git, workspace, scratch)["paths"])
    (workspace.folder / "more").unlink()
    dispose(git, workspace, scratch=scratch)
    assert not workspace.folder.exists()


def test_a_commit_that_is_nowhere_else_stops_it(
    git: Git, workspace: Workspace, scratch: Path
) -> None:
    commit = own_commit(workspace, "work")
    user_git("branch", "side", cwd=workspace.folder)
    user_git("checkout", "-q", "--detach", workspace.commit, cwd=workspace.folder)
    assert unsaved(git, workspace, scratch=scratch) is not None
    assert refusal(git, workspace, scratch)["commits"] == [commit]
    user_git("pack-refs", "--all", cwd=workspace.folder)
    assert refusal(git, workspace, scratch)["commits"] == [commit]


def test_a_stash_that_is_nowhere_else_stops_it(
    git: Git, workspace: Workspace, scratch: Path
) -> None:
    (workspace.folder / "README").write_text("stashed")
    user_git("stash", cwd=workspace.folder)
    assert refusal(git, workspace, scratch)["commit_count"] == 1


def test_after_a_squash_merge_it_goes(
    git: Git, workspace: Workspace, source: Path, scratch: Path
) -> None:
    own_commit(workspace, "one")
    own_commit(workspace, "two")
    deliver(git, workspace, source, "callboard/abc-1")
    # The user's own branch has moved on, and takes the work as one commit of its own.
    (source / "elsewhere").write_text("other work")
    user_git("add", "-A", cwd=source)
    user_git("commit", "-q", "-m", "other", cwd=source)
    user_git("merge", "-q", "--squash", "callboard/abc-1", cwd=source)
    user_git("commit", "-q", "-m", "squashed", cwd=source)
    user_git("branch", "-q", "-D", "callboard/abc-1", cwd=source)
    dispose(git, workspace, scratch=scratch)
    assert not workspace.folder.exists()


def test_a_mode_alone_is_work(git: Git, workspace: Workspace, scratch: Path) -> None:
    (workspace.folder / "README").chmod(0o755)
    assert refusal(git, workspace, scratch)["paths"] == ["README"]


@pytest.mark.parametrize(
    "damage",
    [
        lambda clone: shutil.rmtree(clone),
        lambda clone: (clone / "HEAD").write_text("nonsense"),
        lambda clone: (clone / "HEAD").write_text("1" * 40),
        lambda clone: (clone / "HEAD").write_bytes(b"1" * 100_000),
    ],
    ids=["gone", "nonsense", "missing", "huge"],
)
def test_what_cannot_be_judged_stops_it(
    git: Git, workspace: Workspace, scratch: Path, damage: object
) -> None:
    assert callable(damage)
    damage(workspace.git_dir)
    assert refusal(git, workspace, scratch)["unreadable"]
    dispose(git, workspace, scratch=scratch, discard_work=True)
    assert not workspace.folder.exists()


def test_nothing_the_worker_configured_runs_while_judging(
    git: Git, workspace: Workspace, scratch: Path, tmp_path: Path
) -> None:
    program = tmp_path / "trap.sh"
    program.write_text(f"#!/bin/sh\ntouch {tmp_path}/sprung\n")
    program.chmod(0o755)
    own_commit(workspace, "work")
    for key in ("core.fsmonitor", "core.alternateRefsCommand", "core.sshCommand"):
        user_git("config", key, str(program), cwd=workspace.folder)
    (tmp_path / "sprung").unlink(missing_ok=True)
    refusal(git, workspace, scratch)
    assert not (tmp_path / "sprung").exists()
