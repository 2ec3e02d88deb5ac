"""Private clones of repositories of every shape."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from callboard.board.execution.workspace import Workspace, create, discard
from callboard.errors import CallboardError
from callboard.git import Git
from tests.repositories import fingerprint, head, repository
from tests.repositories import git as user_git


def tree_of(folder: Path) -> dict[str, str]:
    """The files of a work tree without its `.git`."""
    return {
        name: content
        for name, content in fingerprint(folder).items()
        if name.split("/")[0] != ".git"
    }


def refs_of(workspace: Workspace) -> list[str]:
    return user_git("for-each-ref", "--format=%(refname)", cwd=workspace.folder).split()


@pytest.mark.parametrize("object_format", ["sha1", "sha256"])
def test_a_clone_is_the_commit_and_leaves_the_source_as_it_is(
    git: Git, tmp_path: Path, object_format: str
) -> None:
    source = repository(tmp_path / "user", object_format=object_format)
    commit = head(source)
    before = fingerprint(source)
    workspace = create(git, source / ".git", commit, tmp_path / "runs" / "1")
    assert tree_of(workspace.folder) == tree_of(source)
    assert stat.S_IMODE(workspace.folder.stat().st_mode) == 0o700
    assert fingerprint(source) == before

    assert head(workspace.folder) == commit
    assert user_git("symbolic-ref", "-q", "HEAD", cwd=workspace.folder, check=False) == ""
    assert refs_of(workspace) == ["refs/callboard/base"]
    assert user_git("status", "--porcelain", cwd=workspace.folder) == ""
    assert user_git("remote", cwd=workspace.folder) == ""
    assert user_git("log", "--format=%s", cwd=workspace.folder).split() == ["second", "first"]
    # What the worker writes stays in its own store.
    user_git("commit", "-q", "--allow-empty", "-m", "own", cwd=workspace.folder)
    user_git("gc", "-q", cwd=workspace.folder)
    assert fingerprint(source) == before
    assert user_git("fsck", "--no-dangling", cwd=source) == ""


def test_an_earlier_commit_can_be_taken(git: Git, source: Path, tmp_path: Path) -> None:
    first = user_git("rev-parse", "HEAD~1", cwd=source)
    workspace = create(git, source / ".git", first, tmp_path / "run")
    assert set(tree_of(workspace.folder)) == {"README"}
    assert (workspace.folder / "README").read_text() == "one\n"


def test_branches_hooks_settings_and_credentials_stay_outside(
    git: Git, source: Path, tmp_path: Path
) -> None:
    user_git("branch", "work-queue", cwd=source)
    user_git("tag", "v1", cwd=source)
    user_git("config", "credential.helper", "store", cwd=source)
    user_git("config", "user.email", "ada@example.org", cwd=source)
    user_git("config", "filter.x.smudge", f"touch {tmp_path}/smudged", cwd=source)
    hook = source / ".git" / "hooks" / "post-checkout"
    hook.write_text(f"#!/bin/sh\ntouch {tmp_path}/hooked\n")
    hook.chmod(0o755)
    (source / ".gitattributes").write_text("* filter=x\n")
    user_git("add", "-A", cwd=source)
    user_git("commit", "-q", "-m", "attributes", cwd=source)
    for trace in ("smudged", "hooked"):
        (tmp_path / trace).unlink(missing_ok=True)
    workspace = create(git, source / ".git", head(source), tmp_path / "run")
    assert not (tmp_path / "hooked").exists()
    assert not (tmp_path / "smudged").exists()
    assert refs_of(workspace) == ["refs/callboard/base"]
    hooks = user_git(
        "rev-parse", "--path-format=absolute", "--git-path", "hooks", cwd=workspace.folder
    )
    assert list(Path(hooks).iterdir()) == []
    settings = user_git("config", "--local", "--list", cwd=workspace.folder).splitlines()
    assert "credential.helper=" in settings
    assert not [line for line in settings if "ada" in line or line.startswith("filter.")]
    author = user_git("config", "user.email", cwd=workspace.folder)
    assert author == "worker@callboard.invalid"


def test_bare_linked_and_odd_sources(git: Git, source: Path, tmp_path: Path) -> None:
    commit = head(source)
    user_git("clone", "-q", "--bare", str(source), str(tmp_path / "bare.git"), cwd=tmp_path)
    user_git("worktree", "add", "-q", "--detach", str(tmp_path / "linked"), cwd=source)
    common = user_git(
        "rev-parse", "--path-format=absolute", "--git-common-dir", cwd=tmp_path / "linked"
    )
    odd = tmp_path / 'an "odd"\nname # here'
    user_git("clone", "-q", "--bare", str(source), str(odd), cwd=tmp_path)
    before = fingerprint(tmp_path / "user")
    for number, path in enumerate((tmp_path / "bare.git", Path(common), odd)):
        workspace = create(git, path, commit, tmp_path / f"run{number}")
        assert tree_of(workspace.folder) == tree_of(source)
        assert user_git("status", "--porcelain", cwd=workspace.folder) == ""
    assert fingerprint(tmp_path / "user") == before


def test_a_shallow_source_gives_a_clone_with_the_same_cut(
    git: Git, source: Path, tmp_path: Path
) -> None:
    user_git(
        "clone", "-q", "--depth=1", f"file://{source}", str(tmp_path / "shallow"), cwd=tmp_path
    )
    workspace = create(git, tmp_path / "shallow" / ".git", head(source), tmp_path / "run")
    assert tree_of(workspace.folder) == tree_of(source)
    assert user_git("log", "--format=%s", cwd=workspace.folder) == "second"
    assert user_git("fsck", cwd=workspace.folder) == ""


def test_a_source_that_borrows_itself_by_relative_names(
    git: Git, source: Path, tmp_path: Path
) -> None:
    user_git(
        "clone", "-q", "--bare", "--shared", str(source), str(tmp_path / "middle"), cwd=tmp_path
    )
    relative = os.path.relpath(source / ".git" / "objects", tmp_path / "middle" / "objects")
    (tmp_path / "middle" / "objects" / "info" / "alternates").write_text(f"# own\n{relative}\n")
    user_git(
        "clone",
        "-q",
        "--bare",
        "--shared",
        str(tmp_path / "middle"),
        str(tmp_path / "outer"),
        cwd=tmp_path,
    )
    workspace = create(git, tmp_path / "outer", head(source), tmp_path / "run")
    assert tree_of(workspace.folder) == tree_of(source)


def test_what_cannot_be_cloned_is_refused_and_leaves_nothing(
    git: Git, source: Path, tmp_path: Path
) -> None:
    blob = user_git("rev-parse", "HEAD:README", cwd=source)
    for commit in ("1" * 40, "1" * 64, blob, "main", "HEAD", "--all", ""):
        with pytest.raises(CallboardError) as refused:
            create(git, source / ".git", commit, tmp_path / "run")
        assert refused.value.code == "commit_missing"
        assert not (tmp_path / "run").exists()
    (tmp_path / "there").mkdir()
    with pytest.raises(CallboardError, match="workspace_exists"):
        create(git, source / ".git", head(source), tmp_path / "there")


def test_a_commit_whose_files_are_missing_is_refused(
    git: Git, source: Path, tmp_path: Path
) -> None:
    blob = user_git("rev-parse", "HEAD:src/code.py", cwd=source)
    (source / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
    with pytest.raises(CallboardError, match="workspace_failed"):
        create(git, source / ".git", head(source), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_discarding_removes_all_and_follows_no_link(git: Git, source: Path, tmp_path: Path) -> None:
    workspace = create(git, source / ".git", head(source), tmp_path / "runs" / "[1]")
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "file").write_text("kept")
    (workspace.folder / "out").symlink_to(tmp_path / "kept")
    (workspace.folder / "closed").mkdir()
    (workspace.folder / "closed" / "file").touch()
    (workspace.folder / "closed").chmod(0)
    before = fingerprint(source)
    # What an earlier removal that was cut short left behind goes, too.
    (tmp_path / "runs" / ".[1].ab12.removed").mkdir()
    discard(workspace)
    discard(workspace)
    assert list((tmp_path / "runs").iterdir()) == []
    assert (tmp_path / "kept" / "file").read_text() == "kept"
    assert fingerprint(source) == before


def test_the_users_repository_is_never_discarded(source: Path, tmp_path: Path) -> None:
    for folder in (source, tmp_path):
        with pytest.raises(CallboardError, match="workspace_failed"):
            discard(Workspace(folder, source / ".git", "1" * 40))
    (tmp_path / "link").symlink_to(source)
    with pytest.raises(CallboardError, match="workspace_failed"):
        discard(Workspace(tmp_path / "link", source / ".git", "1" * 40))
    assert (source / "README").exists()
