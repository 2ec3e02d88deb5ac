"""One file put into the tree of a commit, at any depth, and what Git makes of it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from callboard.board.storage.repository import Repository
from callboard.errors import CallboardError
from tests.board.outputs.scene import git, make_repository


@pytest.fixture(params=["sha1", "sha256"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    made = make_repository(tmp_path / "user", request.param)
    (made / "docs" / "deep").mkdir(parents=True)
    (made / "docs" / "deep" / "x.json").write_text("{}")
    (made / "docs" / "run.json").write_text("{}")
    (made / "docs" / "run.json").chmod(0o755)
    os.symlink("README", made / "link.json")
    git(made, "add", "-A")
    (made / "docs-a").write_text("sorts between docs and docs/")
    git(made, "add", "-A")
    head = git(made, "rev-parse", "HEAD")
    git(made, "update-index", "--add", "--cacheinfo", f"160000,{head},module.json")
    git(made, "commit", "-q", "-m", "second")
    return made


@pytest.fixture
def repository(folder: Path) -> Iterator[Repository]:
    with Repository.discover(folder) as opened:
        yield opened


def graft(repository: Repository, path: str, data: bytes = b'{"a":1}') -> tuple[str, str]:
    base = repository.head_commit()
    assert base is not None
    made, commit, blob = repository.graft_file(base, path, data, message="note", at_ms=5_999)
    assert made == repository.commit_info(commit)
    assert made.parents == (base,)
    return commit, blob


@pytest.mark.parametrize(
    "path",
    ["a.json", "docs/a.json", "docs/deep/x.json", "new/er/folder.json", "docs-b.json",
     "docs/run.json", "README"],
)  # fmt: skip
def test_git_sees_that_one_file_and_nothing_else(
    folder: Path, repository: Repository, path: str
) -> None:
    commit, blob = graft(repository, path)
    changed = git(folder, "diff-tree", "-r", "--name-only", "HEAD", commit)
    assert changed == path
    listed = git(folder, "ls-tree", commit, path)
    assert listed == f"100644 blob {blob}\t{path}"
    assert git(folder, "show", f"{commit}:{path}") == '{"a":1}'
    assert git(folder, "show", "-s", "--format=%an %at %ct", commit) == "Callboard 5 5"
    git(folder, "fsck", "--strict", "--no-dangling", commit)
    assert graft(repository, path)[0] == commit


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("docs", "a folder"),
        ("docs/deep", "a folder"),
        ("README/a.json", "a file"),
        ("link.json", "a symbolic link"),
        ("link.json/a.json", "a symbolic link"),
        ("module.json", "a submodule"),
        ("module.json/a.json", "a submodule"),
    ],
)
def test_a_path_that_holds_something_else_is_refused(
    repository: Repository, path: str, found: str
) -> None:
    for attempt in (
        lambda: graft(repository, path),
        lambda: repository.check_graft(str(repository.head_commit()), path),
    ):
        with pytest.raises(CallboardError) as refused:
            attempt()
        assert refused.value.code == "path_taken"
        assert refused.value.details["found"] == found


def commit_of(folder: Path, *changes: tuple[str, str, str]) -> str:
    """A commit on HEAD with entries (mode, object, path) put into its index."""
    environment = {**os.environ, "GIT_INDEX_FILE": str(folder / ".git" / "other-index")}
    for words in (
        ["read-tree", "HEAD"],
        *(["update-index", "--add", "--cacheinfo", ",".join(one)] for one in changes),
    ):
        subprocess.run(["git", *words], cwd=folder, env=environment, check=True)
    tree = subprocess.run(
        ["git", "write-tree"], cwd=folder, env=environment, check=True, capture_output=True
    ).stdout.decode()
    return git(folder, "commit-tree", tree.strip(), "-p", "HEAD", "-m", "x")


def test_the_sole_difference_is_told_from_the_trees(folder: Path, repository: Repository) -> None:
    base = str(repository.head_commit())
    blob = git(folder, "hash-object", "-w", "--stdin", stdin=b"new")
    path = "docs/deep/y.json"
    alone = commit_of(folder, ("100644", blob, path))
    entry = repository.sole_difference(base, alone, path)
    assert entry is not None
    assert (entry.mode, entry.oid) == (0o100644, blob)
    for others in (
        [("100644", blob, path), ("100644", blob, "docs/deep/x.json")],
        [("100644", blob, path), ("100644", blob, "top")],
        [("100644", blob, path), ("100644", blob, "docs/other")],
        [("100644", blob, path), ("100755", git(folder, "rev-parse", "HEAD:README"), "README")],
        [("100644", blob, "docs/z.json")],
        [],
    ):
        assert repository.sole_difference(base, commit_of(folder, *others), path) is None
    executable = repository.sole_difference(base, commit_of(folder, ("100755", blob, path)), path)
    assert executable is not None
    assert executable.mode == 0o100755
    # The file as it was is the file.
    same = repository.sole_difference(base, commit_of(folder), "docs/deep/x.json")
    assert same is not None
    # A folder that takes a file's place is another tree, not a file more.
    assert repository.sole_difference(base, commit_of(folder), "README/a.json") is None
