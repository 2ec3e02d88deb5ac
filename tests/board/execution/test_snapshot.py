"""A work tree as a commit, with a worker who may have prepared anything."""

from __future__ import annotations

import os
import shutil
import zlib
from pathlib import Path

import pytest

from callboard.board.execution.snapshot import Snapshot, SnapshotLimits, diff_to_commit
from callboard.board.execution.workspace import Workspace, create
from callboard.errors import CallboardError
from callboard.git import Git
from tests.repositories import fingerprint, head, repository
from tests.repositories import git as user_git

AT_MS = 1_750_000_000_999


def take(
    git: Git,
    workspace: Workspace,
    *,
    base: str | None = None,
    limits: SnapshotLimits | None = None,
    paths: tuple[str, ...] = (),
) -> Snapshot | None:
    return diff_to_commit(
        git,
        workspace,
        trusted=workspace.folder.parent / "trusted",
        message="what the worker did\n",
        at_ms=AT_MS,
        base=base,
        limits=limits,
        paths=paths,
    )


def taken(git: Git, workspace: Workspace) -> Snapshot:
    snapshot = take(git, workspace)
    assert snapshot is not None
    return snapshot


def content(git: Git, snapshot: Snapshot, path: str) -> bytes:
    asked = ["cat-file", "blob", f"{snapshot.commit}:{path}"]
    return git.run(asked, git_dir=snapshot.git_dir).output


def refused(git: Git, workspace: Workspace) -> CallboardError:
    with pytest.raises(CallboardError) as caught:
        take(git, workspace)
    assert not (workspace.folder.parent / "trusted").exists()
    return caught.value


def test_nothing_changed_is_nothing(git: Git, workspace: Workspace) -> None:
    (workspace.folder / "made.log").write_text("ignored")
    (workspace.folder / "build").mkdir()
    (workspace.folder / "build" / "out").write_text("ignored")
    (workspace.folder / "empty").mkdir()
    os.utime(workspace.folder / "README", (1, 1))
    assert take(git, workspace) is None
    assert not (workspace.folder.parent / "trusted").exists()


@pytest.mark.parametrize("object_format", ["sha1", "sha256"])
def test_every_kind_of_change_is_in_the_commit(
    git: Git, tmp_path: Path, object_format: str
) -> None:
    source = repository(tmp_path / "user", object_format=object_format)
    before = fingerprint(source)
    workspace = create(git, source / ".git", head(source), tmp_path / "run")
    tree = workspace.folder
    (tree / "README").unlink()
    (tree / "run.sh").chmod(0o644)
    (tree / "src" / "code.py").write_text("x = 2\n")
    (tree / "link").unlink()
    (tree / "link").symlink_to("run.sh")
    (tree / "docs" / "deep").mkdir(parents=True)
    (tree / "docs" / "deep" / "new.md").write_text("new\n")
    snapshot = taken(git, workspace)
    assert [(change.path, change.old_mode, change.new_mode) for change in snapshot.changes] == [
        ("README", "100644", "000000"),
        ("docs/deep/new.md", "000000", "100644"),
        ("link", "120000", "120000"),
        ("run.sh", "100755", "100644"),
        ("src/code.py", "100644", "100644"),
    ]
    assert content(git, snapshot, "src/code.py") == b"x = 2\n"
    assert content(git, snapshot, "link") == b"run.sh"
    assert snapshot.parent == workspace.commit
    assert snapshot.paths == ("README", "docs/deep/new.md", "link", "run.sh", "src/code.py")
    written = git.run(["cat-file", "commit", snapshot.commit], git_dir=snapshot.git_dir).output
    assert written.decode() == (
        f"tree {snapshot.tree}\nparent {workspace.commit}\n"
        "author Callboard <board@callboard.invalid> 1750000000 +0000\n"
        "committer Callboard <board@callboard.invalid> 1750000000 +0000\n"
        "\nwhat the worker did\n"
    )
    assert fingerprint(source) == before


def test_the_same_work_gives_the_same_commit(git: Git, workspace: Workspace) -> None:
    (workspace.folder / "new").write_text("new")
    first = taken(git, workspace)
    shutil.rmtree(first.git_dir)
    assert taken(git, workspace).commit == first.commit


def test_files_and_folders_may_change_places(git: Git, workspace: Workspace) -> None:
    tree = workspace.folder
    shutil.rmtree(tree / "src")
    (tree / "src").write_text("a file now\n")
    (tree / "README").unlink()
    (tree / "README").mkdir()
    (tree / "README" / "part").write_text("a folder now\n")
    snapshot = taken(git, workspace)
    assert snapshot.paths == ("README", "README/part", "src", "src/code.py")
    assert content(git, snapshot, "README/part") == b"a folder now\n"


def test_a_folder_that_became_a_link_is_a_link(git: Git, workspace: Workspace) -> None:
    tree = workspace.folder
    (tree / "src").rename(tree / "lib")
    (tree / "src").symlink_to("lib")
    snapshot = taken(git, workspace)
    assert snapshot.paths == ("lib/code.py", "src", "src/code.py")
    assert content(git, snapshot, "src") == b"lib"


@pytest.mark.parametrize(
    "name", [b"-rf", b":(top)x", b"a\nb", b"*", b"\xff\xfe", "ü".encode(), b'"q"', b"tab\tx", b" "]
)
def test_names_are_names(git: Git, workspace: Workspace, name: bytes) -> None:
    path = os.path.join(os.fsencode(workspace.folder), name)
    with open(path, "wb") as stream:
        stream.write(b"odd")
    assert taken(git, workspace).paths == (os.fsdecode(name),)


def test_what_the_worker_committed_counts_from_the_base(git: Git, workspace: Workspace) -> None:
    tree = workspace.folder
    (tree / "one").write_text("1")
    user_git("add", "-A", cwd=tree)
    user_git("commit", "-q", "-m", "own", cwd=tree)
    (tree / "two").write_text("2")
    snapshot = taken(git, workspace)
    assert snapshot.paths == ("one", "two")
    assert snapshot.parent == workspace.commit


def test_another_base_can_be_chosen(git: Git, workspace: Workspace, source: Path) -> None:
    first = user_git("rev-parse", "HEAD~1", cwd=source)
    snapshot = take(git, workspace, base=first)
    assert snapshot is not None
    assert snapshot.parent == first
    assert snapshot.tree == user_git("rev-parse", "HEAD^{tree}", cwd=source)


def test_line_endings_follow_the_tree_s_own_attributes(git: Git, workspace: Workspace) -> None:
    (workspace.folder / ".gitattributes").write_text("*.txt text eol=crlf\n")
    (workspace.folder / "a.txt").write_bytes(b"one\r\ntwo\r\n")
    (workspace.folder / "a.bin").write_bytes(b"one\r\ntwo\r\n")
    snapshot = taken(git, workspace)
    assert content(git, snapshot, "a.txt") == b"one\ntwo\n"
    assert content(git, snapshot, "a.bin") == b"one\r\ntwo\r\n"


# --- a hostile worker -----------------------------------------------------------------------------


def trap(folder: Path) -> Path:
    """A program that leaves a trace when it is run."""
    program = folder / "trap.sh"
    program.write_text(f"#!/bin/sh\ntouch {folder}/sprung\ncat\n")
    program.chmod(0o755)
    return program


def test_nothing_the_worker_configured_runs(git: Git, workspace: Workspace, tmp_path: Path) -> None:
    program = str(trap(tmp_path))
    tree = workspace.folder
    for key in (
        "core.fsmonitor",
        "filter.x.clean",
        "filter.x.smudge",
        "filter.x.process",
        "diff.x.textconv",
        "diff.external",
        "core.sshCommand",
        "core.pager",
        "gpg.program",
        "core.alternateRefsCommand",
    ):
        user_git("config", key, program, cwd=tree)
    user_git("config", "filter.x.required", "true", cwd=tree)
    user_git("config", "commit.gpgSign", "true", cwd=tree)
    user_git("config", "core.hooksPath", str(tmp_path / "hooks"), cwd=tree)
    (tmp_path / "hooks").mkdir()
    for hook in ("pre-commit", "post-index-change", "reference-transaction", "commit-msg"):
        shutil.copy(program, tmp_path / "hooks" / hook)
    (tree / ".gitattributes").write_text("* filter=x diff=x\n")
    (tree / "src" / "code.py").write_text("x = 2\n")
    snapshot = taken(git, workspace)
    assert content(git, snapshot, "src/code.py") == b"x = 2\n"
    assert not (tmp_path / "sprung").exists()


def test_a_submodule_stays_as_it_was_and_nothing_in_it_runs(
    git: Git, source: Path, tmp_path: Path
) -> None:
    commit = head(source)
    user_git("update-index", "--add", "--cacheinfo", f"160000,{commit},sub", cwd=source)
    user_git("commit", "-q", "-m", "a submodule", cwd=source)
    workspace = create(git, source / ".git", head(source), tmp_path / "run")
    sub = workspace.folder / "sub"
    assert list(sub.iterdir()) == []
    user_git("init", "-q", cwd=sub)
    (sub / "file").write_text("inside")
    user_git("add", "-A", cwd=sub)
    user_git("commit", "-q", "-m", "inside", cwd=sub)
    user_git("config", "core.fsmonitor", str(trap(tmp_path)), cwd=sub)
    assert take(git, workspace) is None
    (workspace.folder / "new").write_text("new")
    assert taken(git, workspace).paths == ("new",)
    assert not (tmp_path / "sprung").exists()


def test_the_worker_s_git_folder_does_not_count(git: Git, workspace: Workspace) -> None:
    tree = workspace.folder
    (tree / "src" / "code.py").write_text("x = 2\n")
    user_git("update-index", "--assume-unchanged", "src/code.py", cwd=tree)
    (tree / ".git" / "info").mkdir(exist_ok=True)
    (tree / ".git" / "info" / "exclude").write_text("*\n")
    (tree / "new").write_text("new")
    assert taken(git, workspace).paths == ("new", "src/code.py")
    shutil.rmtree(workspace.folder.parent / "trusted")
    shutil.rmtree(tree / ".git")
    assert taken(git, workspace).paths == ("new", "src/code.py")


def test_a_forged_object_in_the_worker_s_store_is_not_taken(git: Git, workspace: Workspace) -> None:
    honest = b"x = 2\n"
    asked = ["hash-object", "--stdin"]
    name = git.run(asked, git_dir=workspace.git_dir, stdin=honest).output.decode().strip()
    forged = workspace.git_dir / "objects" / name[:2] / name[2:]
    forged.parent.mkdir(exist_ok=True)
    forged.write_bytes(zlib.compress(b"blob 7\0" + b"forged\n"))
    (workspace.folder / "src" / "code.py").write_bytes(honest)
    snapshot = taken(git, workspace)
    assert content(git, snapshot, "src/code.py") == honest


def test_a_repository_inside_the_tree_is_refused(git: Git, workspace: Workspace) -> None:
    inner = repository(workspace.folder / "vendor" / "tool")
    assert refused(git, workspace).code == "patch_refused"
    shutil.rmtree(inner)
    assert take(git, workspace) is None


def test_a_git_folder_beside_changed_files_is_refused(git: Git, workspace: Workspace) -> None:
    hooks = workspace.folder / "src" / ".git" / "hooks"
    hooks.mkdir(parents=True)
    (hooks / "post-checkout").write_text("#!/bin/sh\n")
    (workspace.folder / "src" / "new.py").write_text("new")
    error = refused(git, workspace)
    assert (error.code, error.details) == ("patch_refused", {"path": "src"})


@pytest.mark.parametrize("name", [".GIT", ".Git", "git~1", ".g\u200cit"])
def test_names_that_mean_git_elsewhere_are_refused(
    git: Git, workspace: Workspace, name: str
) -> None:
    (workspace.folder / name).mkdir()
    (workspace.folder / name / "config").write_text("[core]\n")
    assert refused(git, workspace).code == "patch_refused"


@pytest.mark.parametrize("target", ["/etc/passwd", "../outside", "src/../../outside", "../run/x"])
def test_a_new_link_out_of_the_tree_is_refused(git: Git, workspace: Workspace, target: str) -> None:
    (workspace.folder / "way-out").symlink_to(target)
    error = refused(git, workspace)
    assert (error.code, error.details) == ("patch_refused", {"path": "way-out"})


def test_links_inside_the_tree_are_taken_also_dangling(git: Git, workspace: Workspace) -> None:
    (workspace.folder / "src" / "up").symlink_to("../README")
    (workspace.folder / "src" / "later").symlink_to("not/yet")
    assert taken(git, workspace).paths == ("src/later", "src/up")


def test_a_link_in_place_of_the_work_tree_is_refused(
    git: Git, workspace: Workspace, source: Path
) -> None:
    shutil.rmtree(workspace.folder)
    workspace.folder.symlink_to(source)
    assert refused(git, workspace).code == "patch_refused"


def test_a_special_file_in_place_of_a_file_is_refused(git: Git, workspace: Workspace) -> None:
    (workspace.folder / "README").unlink()
    os.mkfifo(workspace.folder / "README")
    assert refused(git, workspace).code == "patch_refused"


def test_an_untracked_special_file_is_passed_over(git: Git, workspace: Workspace) -> None:
    os.mkfifo(workspace.folder / "pipe")
    assert take(git, workspace) is None


@pytest.mark.parametrize(
    "limits", [SnapshotLimits(paths=2), SnapshotLimits(file_bytes=2)], ids=["paths", "bytes"]
)
def test_a_patch_is_bounded(git: Git, workspace: Workspace, limits: SnapshotLimits) -> None:
    for name in ("a", "b", "c"):
        (workspace.folder / name).write_text("1")
    with pytest.raises(CallboardError) as caught:
        take(git, workspace, limits=limits)
    assert caught.value.code == "patch_limit"
    assert not (workspace.folder.parent / "trusted").exists()


def test_a_patch_that_leaves_nothing_is_refused(git: Git, workspace: Workspace) -> None:
    for entry in workspace.folder.iterdir():
        if entry.name == ".git":
            continue
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            entry.unlink()
    assert refused(git, workspace).code == "patch_refused"
    (workspace.folder / "left").write_text("one file\n")
    assert "README" in taken(git, workspace).paths


def test_only_what_lies_at_the_paths_is_taken(git: Git, workspace: Workspace) -> None:
    tree = workspace.folder
    (tree / "README").write_text("a sibling's\n")
    (tree / "src" / "code.py").unlink()
    (tree / "src" / "new.py").write_text("new\n")
    (tree / "srcs").mkdir()
    (tree / "srcs" / "other.py").write_text("not below src\n")
    (tree / "top.txt").write_text("by name\n")
    # What belongs to nobody here cannot hinder: it is not looked at.
    (tree / "foreign").mkdir()
    user_git("init", "-q", cwd=tree / "foreign")
    snapshot = take(git, workspace, paths=("src", "top.txt", "absent"))
    assert snapshot is not None
    assert snapshot.paths == ("src/code.py", "src/new.py", "top.txt")
    assert content(git, snapshot, "README") != b"a sibling's\n"


def test_nothing_at_the_paths_is_nothing(git: Git, workspace: Workspace) -> None:
    (workspace.folder / "README").write_text("a sibling's\n")
    assert take(git, workspace, paths=("src", "READM")) is None


@pytest.mark.parametrize("path", [":(top)*", "*", "src/../README", "?EADME", "[R]EADME"])
def test_paths_are_no_patterns(git: Git, workspace: Workspace, path: str) -> None:
    (workspace.folder / "README").write_text("changed\n")
    assert take(git, workspace, paths=(path,)) is None


def test_the_trusted_folder_is_new_and_outside(git: Git, workspace: Workspace) -> None:
    inside = workspace.folder / "trusted"
    existing = workspace.folder.parent / "existing"
    existing.mkdir()
    for folder in (inside, existing, workspace.folder):
        with pytest.raises(CallboardError, match="workspace_failed"):
            diff_to_commit(git, workspace, trusted=folder, message="m", at_ms=AT_MS)
    assert existing.exists()
    assert (workspace.folder / "README").exists()


def test_a_folder_that_cannot_be_looked_into_is_no_part_of_a_patch(
    git: Git, workspace: Workspace
) -> None:
    (workspace.folder / "deep").mkdir()
    step = os.open(workspace.folder / "deep", os.O_RDONLY)
    for _ in range(24):
        os.mkdir("d" * 200, dir_fd=step)
        below = os.open("d" * 200, os.O_RDONLY, dir_fd=step)
        os.close(step)
        step = below
    os.close(step)
    (workspace.folder / "seen").write_text("x")
    found = refused(git, workspace)
    assert found.code == "patch_refused"
    assert "cannot be looked into: File name too long" in found.message
    assert "chmod u+rwx" in found.hint
    assert str(found.details["path"]).startswith("deep/ddd")
