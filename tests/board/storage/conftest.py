"""Real Git repositories of every shape, made by the `git` command in a scrubbed environment.

The command serves the tests only: it sets the scene and judges the outcome.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from callboard.board.storage.repository import Repository
from tests.board.storage.shapes import SHAPES, Git, Shape


@pytest.fixture(autouse=True)
def ambient(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No home, no system or global Git configuration, no `GIT_*` from outside."""
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / "config"))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)


@pytest.fixture
def git() -> Git:
    """Run `git -C FOLDER ARGS…` and answer its output."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    clean |= {
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_AUTHOR_NAME": "Ann",
        "GIT_AUTHOR_EMAIL": "ann@example.invalid",
        "GIT_COMMITTER_NAME": "Ann",
        "GIT_COMMITTER_EMAIL": "ann@example.invalid",
    }

    def run(folder: Path, *args: str, stdin: bytes | None = None, check: bool = True) -> str:
        done = subprocess.run(
            ["git", "-C", str(folder), *args],
            input=stdin,
            env=clean,
            capture_output=True,
            check=False,
        )
        if check and done.returncode != 0:
            raise AssertionError(
                f"git {args}: {done.stdout[-500:]!r} {done.stderr.decode('utf-8', 'replace')}"
            )
        return done.stdout.decode("utf-8", "surrogateescape").removesuffix("\n")

    return run


@pytest.fixture
def make_shape(tmp_path: Path, git: Git) -> Callable[[str], Shape]:
    """Make a repository of one of `SHAPES`, with one commit on `main` unless it says otherwise."""
    return lambda name: SHAPES[name](tmp_path, git)


@pytest.fixture
def shape(make_shape: Callable[[str], Shape]) -> Shape:
    """An ordinary repository with a work tree."""
    return make_shape("sha1")


@pytest.fixture
def opened() -> Iterator[Callable[[Path], Repository]]:
    """Open repositories that are closed when the test ends."""
    with ExitStack() as stack:
        yield lambda path: stack.enter_context(Repository.discover(path))


@pytest.fixture
def fingerprint() -> Callable[[Path], dict[str, str]]:
    """The digest and mode of every file below a folder."""

    def of(folder: Path) -> dict[str, str]:
        return {
            str(path.relative_to(folder)): f"{path.lstat().st_mode:o} "
            + hashlib.sha256(path.read_bytes()).hexdigest()
            for path in sorted(folder.rglob("*"))
            if path.is_file()
        }

    return of
