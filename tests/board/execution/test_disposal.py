"""A workspace goes, its work does not."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from callboard.board.execution.disposal import dispose, unsaved
from callboard.board.execution.snapshot import diff_to_commit
from callboard.board.execution.transfer import fetch_into
from callboard.board.execution.workspace import Workspace, create
from callboard.errors import CallboardError
from callboard.git import Git
from tests.repositories import fingerprint, head
from tests.repositories import git as user_git


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


def shut(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Take away all rights to `folder`; for root, whom they do not bind, its listing fails."""
    folder.chmod(0)
    if not os.access(folder, os.R_OK):
        return
    plain = os.scandir

    def scandir(path: Any) -> Any:
        if path == os.fsencode(folder):
            raise PermissionError(13, "Permission denied", path)
        return plain(path)

    monkeypatch.setattr(os, "scandir", scandir)


def bury(folder: Path, name: str = "f") -> None:
    """Write a file below `folder` whose path is longer than any call takes."""
    folder.mkdir()
    step = os.open(folder, os.O_RDONLY)
    for _ in range(24):
        os.mkdir("d" * 200, dir_fd=step)
        below = os.open("d" * 200, os.O_RDONLY, dir_fd=step)
        os.close(step)
        step = below
    os.close(os.open(name, os.O_WRONLY | os.O_CREAT, dir_fd=step))
    os.close(step)


def kept_for(git: Git, workspace: Workspace, scratch: Path) -> str:
    with pytest.raises(CallboardError) as refused:
        dispose(git, workspace, scratch=scratch)
    assert refused.value.code == "workspace_unsaved"
    assert workspace.folder.is_dir()
    assert list(scratch.iterdir()) == []
    found = str(refused.value.details["unreadable"])
    assert refused.value.message.endswith(f"may hold work, as it cannot be judged: {found}")
    return found


@pytest.mark.parametrize("place", ["new", "src"], ids=["untracked", "tracked"])
def test_a_folder_without_rights_stops_it(
    git: Git, workspace: Workspace, scratch: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    folder = workspace.folder / place
    folder.mkdir(exist_ok=True)
    (folder / "f").write_text("precious")
    shut(folder, monkeypatch)
    found = kept_for(git, workspace, scratch)
    assert found.startswith(f"patch_refused: the folder {place!r} cannot be looked into: Perm")
    folder.chmod(0o700)
    assert (folder / "f").read_text() == "precious"


def test_a_path_that_is_too_long_stops_it(git: Git, workspace: Workspace, scratch: Path) -> None:
    bury(workspace.folder / "deep")
    found = kept_for(git, workspace, scratch)
    assert found.startswith("patch_refused: the folder 'deep/ddd")
    assert found.endswith("cannot be looked into: File name too long")
    shutil.rmtree(workspace.folder / "deep")
    dispose(git, workspace, scratch=scratch)
    assert not workspace.folder.exists()


def test_what_is_ignored_may_be_out_of_sight(
    git: Git, workspace: Workspace, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build = workspace.folder / "build"
    build.mkdir()
    bury(build / "deep")
    closed = build / ":(top)[a]*"
    closed.mkdir()
    shut(closed, monkeypatch)
    dispose(git, workspace, scratch=scratch)
    assert not workspace.folder.exists()


def test_a_tracked_file_below_an_ignored_folder_is_work(
    git: Git, source: Path, scratch: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (source / "build").mkdir()
    (source / "build" / "kept").write_text("one")
    user_git("add", "-f", "build/kept", cwd=source)
    user_git("commit", "-q", "-m", "kept", cwd=source)
    made = create(git, source / ".git", head(source), tmp_path / "second")
    shut(made.folder / "build", monkeypatch)
    assert "'build' cannot be looked into" in kept_for(git, made, scratch)
    (made.folder / "build").chmod(0o700)


def test_refs_without_rights_stop_it(
    git: Git, workspace: Workspace, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own_commit(workspace, "work")
    user_git("branch", "side", cwd=workspace.folder)
    user_git("checkout", "-q", "--detach", workspace.commit, cwd=workspace.folder)
    heads = workspace.git_dir / "refs" / "heads"
    shut(heads, monkeypatch)
    assert "'heads' in its refs is closed: Permission denied" in kept_for(git, workspace, scratch)
    heads.chmod(0o700)


def test_a_folder_that_cannot_be_reached_is_not_taken_for_gone(
    git: Git, workspace: Workspace, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = Path.exists

    def exists(path: Path) -> bool:
        if path == workspace.folder:
            raise PermissionError(13, "Permission denied", str(path))
        return plain(path)

    monkeypatch.setattr(Path, "exists", exists)
    with pytest.raises(CallboardError) as refused:
        dispose(git, workspace, scratch=scratch)
    assert refused.value.code == "workspace_failed"
    assert "Permission denied" in refused.value.message
    assert (workspace.folder / "README").is_file()
