"""Calls of the user's git, kept apart from what surrounds them."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from callboard.errors import CallboardError
from callboard.git import Git
from tests import repositories
from tests.waiting import until


@pytest.fixture
def git() -> Git:
    return Git(os.environ["PATH"])


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """The folder of a user's repository."""
    return repositories.repository(tmp_path / "user")


def fake_git(folder: Path, script: str) -> Git:
    """A `git` that is a shell script, for what the real one does not do on demand."""
    folder.mkdir()
    (folder / "git").write_text("#!/bin/sh\n" + script)
    (folder / "git").chmod(0o755)
    return Git(f"{folder}{os.pathsep}{os.environ['PATH']}")


def test_the_environment_of_a_hook_does_not_reach_a_call(
    git: Git, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = repositories.repository(tmp_path / "other")
    before = repositories.fingerprint(other)
    monkeypatch.chdir(source)
    for name, path in {
        "GIT_DIR": other / ".git",
        "GIT_WORK_TREE": other,
        "GIT_INDEX_FILE": other / ".git" / "index",
        "GIT_OBJECT_DIRECTORY": other / ".git" / "objects",
        "GIT_COMMON_DIR": other / ".git",
    }.items():
        monkeypatch.setenv(name, str(path))
    (source / ".git" / "marker").touch()
    found = git.text(["rev-parse", "--git-path", "marker"], git_dir=source / ".git")
    assert Path(found).exists()
    assert Path(found).is_relative_to(source)
    blob = git.run(["hash-object", "-w", "--stdin"], git_dir=source / ".git", stdin=b"mine")
    assert (source / ".git" / "objects" / blob.output[:2].decode()).exists()
    assert repositories.fingerprint(other) == before


def test_status_and_output_are_given_and_words_only_in_the_details(git: Git, source: Path) -> None:
    git_dir = source / ".git"
    answer = git.run(["cat-file", "-e", "1" * 40], git_dir=git_dir, statuses=(0, 1))
    assert (answer.status, answer.output) == (1, b"")
    with pytest.raises(CallboardError) as refused:
        git.run(["cat-file", "-t", "1" * 40], git_dir=git_dir)
    assert refused.value.code == "git_failed"
    assert refused.value.details["status"] == 128
    assert "fatal" in str(refused.value.details["stderr"])


def test_large_input_and_output_pass_at_once(git: Git, source: Path) -> None:
    data = os.urandom(3_000_000)
    git_dir = source / ".git"
    blob = git.run(["hash-object", "-w", "--stdin"], git_dir=git_dir, stdin=data).output.decode()
    assert git.run(["cat-file", "blob", blob.strip()], git_dir=git_dir).output == data


def test_input_that_nobody_reads_is_dropped(git: Git, source: Path) -> None:
    answer = git.run(["rev-parse", "HEAD"], git_dir=source / ".git", stdin=b"x" * 1_000_000)
    assert answer.output.decode().strip() == repositories.head(source)


def test_an_answer_is_bounded(git: Git, source: Path) -> None:
    with pytest.raises(CallboardError) as refused:
        git.run(
            ["cat-file", "--batch-all-objects", "--batch"], git_dir=source / ".git", limit_bytes=100
        )
    assert refused.value.code == "git_output_limit"


def test_a_call_that_hangs_is_ended_with_all_it_started(tmp_path: Path) -> None:
    slow = fake_git(tmp_path / "bin", f"sleep 600 & echo $! > {tmp_path}/child\nsleep 600\n")
    with pytest.raises(CallboardError) as refused:
        slow.run(["anything"], git_dir=None, timeout_s=0.5)
    assert refused.value.code == "git_timeout"
    child = (tmp_path / "child").read_text().strip()
    until(lambda: not Path("/proc", child).exists())


def test_words_in_another_language_change_nothing(source: Path, tmp_path: Path) -> None:
    real = subprocess.run(["which", "git"], capture_output=True, check=True, text=True).stdout
    french = fake_git(tmp_path / "bin", f'echo "fatale : oh là là" >&2\nexec {real.strip()} "$@"\n')
    assert french.text(["rev-parse", "HEAD"], git_dir=source / ".git") == repositories.head(source)


def test_no_transport_is_allowed(git: Git, source: Path, tmp_path: Path) -> None:
    for url in (str(source), f"file://{source}", "ext::sh -c touch% ran"):
        with pytest.raises(CallboardError, match="git_failed"):
            git.run(["clone", "-q", "--bare", url, str(tmp_path / "copy")], git_dir=None)
    assert not (tmp_path / "copy").exists()


def test_a_search_path_without_git_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CallboardError, match="git_missing"):
        Git(str(tmp_path))


def test_a_folder_that_is_gone_is_refused(git: Git, tmp_path: Path) -> None:
    with pytest.raises(CallboardError, match="git_failed"):
        git.run(["status"], git_dir=tmp_path, work_tree=tmp_path / "gone")
