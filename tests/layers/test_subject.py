"""The subject tells every difference from HEAD, the same for the same state, and runs nothing."""

from __future__ import annotations

import hashlib
import os
import shutil
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from callboard.git import Git
from callboard.layers.records.evaluation import GitSubject
from callboard.layers.subject import Bounds, subject_of
from tests import repositories
from tests.board.building import refused
from tests.repositories import git


@pytest.fixture
def program() -> Git:
    return Git(os.environ["PATH"])


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return repositories.repository(tmp_path / "user")


def dirty(program: Git, source: Path) -> str | None:
    found = subject_of(program, source)
    assert found.head == repositories.head(source)
    return found.dirty


def test_a_clean_repository_is_its_head_alone(program: Git, source: Path) -> None:
    assert subject_of(program, source) == GitSubject(head=repositories.head(source), dirty=None)


@pytest.mark.parametrize("object_format", ["sha1", "sha256"])
def test_a_touched_file_is_no_change(program: Git, tmp_path: Path, object_format: str) -> None:
    source = repositories.repository(tmp_path / "user", object_format=object_format)
    os.utime(source / "README", (1_600_000_000, 1_600_000_000))
    (source / "link").unlink()
    (source / "link").symlink_to("src/code.py")
    assert dirty(program, source) is None


def test_no_repository_has_no_subject(program: Git, tmp_path: Path) -> None:
    outer = repositories.repository(tmp_path / "outer")
    (outer / "below").mkdir()
    assert subject_of(program, outer / "below") == GitSubject(head=None, dirty=None)


def test_the_rule_of_the_digest_is_the_one_of_its_version(program: Git, source: Path) -> None:
    """Worked out by hand; where it comes to something else, `dirty-1` is no name for it."""
    (source / "README").write_text("changed\n")
    (source / "new.txt").write_text("hello\n")
    (source / "staged.txt").write_text("first\n")
    git("add", "staged.txt", cwd=source)
    blob = git("hash-object", "staged.txt", cwd=source)
    of = {text: hashlib.sha256(text.encode()).hexdigest() for text in ("changed\n", "hello\n")}
    told = b"".join(
        b"%d:%s," % (len(field), field)
        for record in (
            (b"4", b"changed", b"README", b"100644", of["changed\n"].encode()),
            (b"4", b"staged", b"staged.txt", b"100644", blob.encode()),
            (b"4", b"untracked", b"new.txt", b"100644", of["hello\n"].encode()),
        )
        for field in record
    )
    assert dirty(program, source) == f"dirty-1:sha256:{hashlib.sha256(told).hexdigest()}"


def test_before_the_first_commit_everything_differs(program: Git, tmp_path: Path) -> None:
    git("init", "-q", "-b", "main", str(tmp_path), cwd=tmp_path)
    assert subject_of(program, tmp_path) == GitSubject(head=None, dirty=None)
    (tmp_path / "a").write_text("a")
    untracked = subject_of(program, tmp_path)
    git("add", "a", cwd=tmp_path)
    staged = subject_of(program, tmp_path)
    assert untracked.head is staged.head is None
    assert None is not untracked.dirty != staged.dirty is not None


def edit(source: Path) -> None:
    (source / "README").write_text("three\n")


def stage(source: Path) -> None:
    edit(source)
    git("add", "README", cwd=source)


def stage_and_undo(source: Path) -> None:
    stage(source)
    (source / "README").write_text("two\n")


def rename(source: Path) -> None:
    git("mv", "README", "READ.ME", cwd=source)


def to_folder(source: Path) -> None:
    (source / "README").unlink()
    (source / "README").mkdir()


def to_pipe(source: Path) -> None:
    (source / "README").unlink()
    os.mkfifo(source / "README")


def folder_to_link(source: Path) -> None:
    (source / "src").rename(source.parent / "src")
    (source / "src").symlink_to(source.parent / "src")


def hide(source: Path) -> None:
    git("update-index", "--assume-unchanged", "README", cwd=source)
    edit(source)


def skip(source: Path) -> None:
    git("update-index", "--skip-worktree", "src/code.py", cwd=source)
    (source / "src/code.py").write_text("x = 2\n")


def mode_unseen(source: Path) -> None:
    git("config", "core.fileMode", "false", cwd=source)
    (source / "README").chmod(0o755)


def conflict(source: Path) -> None:
    git("checkout", "-q", "-b", "other", "HEAD~1", cwd=source)
    (source / "README").write_text("other\n")
    git("commit", "-q", "-a", "-m", "other", cwd=source)
    git("merge", "main", cwd=source, check=False)


def nested(source: Path) -> None:
    repositories.repository(source / "nested")


def relink(source: Path) -> None:
    (source / "link").unlink()
    (source / "link").symlink_to("README")


def new_program(source: Path) -> None:
    (source / "new").write_text("1")
    (source / "new").chmod(0o755)


CHANGES: list[Callable[[Path], object]] = [
    edit,
    stage,
    stage_and_undo,
    rename,
    to_folder,
    to_pipe,
    folder_to_link,
    skip,
    mode_unseen,
    conflict,
    nested,
    lambda source: (source / "README").unlink(),
    lambda source: git("rm", "-q", "--cached", "README", cwd=source),
    lambda source: git("rm", "-q", "README", cwd=source),
    lambda source: (source / "run.sh").chmod(0o644),
    relink,
    lambda source: (source / "new").write_text("1"),
    lambda source: (source / "new").write_text("2"),
    new_program,
    lambda source: [(source / "new").write_text("1"), git("add", "-N", "new", cwd=source)],
    lambda source: (source / "new").symlink_to("1"),
    lambda source: (source / "new\nline").write_text("1"),
    lambda source: Path(os.fsdecode(bytes(source) + b"/\xff")).write_text("1"),
]


def test_every_kind_of_change_has_a_subject_of_its_own(program: Git, tmp_path: Path) -> None:
    seen: dict[str, object] = {}
    for number, change in enumerate(CHANGES):
        source = repositories.repository(tmp_path / str(number))
        change(source)
        found = subject_of(program, source).dirty
        assert found is not None, change
        assert found.startswith("dirty-1:sha256:")
        assert subject_of(program, source).dirty == found
        assert found not in seen, (change, seen[found])
        seen[found] = change


def test_a_change_that_git_was_told_to_overlook_counts_as_any(program: Git, tmp_path: Path) -> None:
    sources = [repositories.repository(tmp_path / name) for name in ("plain", "hidden")]
    edit(sources[0])
    hide(sources[1])
    assert dirty(program, sources[0]) == dirty(program, sources[1]) is not None


def test_files_left_out_of_a_sparse_checkout_are_no_change(program: Git, source: Path) -> None:
    git("update-index", "--skip-worktree", "src/code.py", cwd=source)
    (source / "src" / "code.py").unlink()
    assert dirty(program, source) is None


def test_the_order_and_place_of_things_do_not_count(program: Git, tmp_path: Path) -> None:
    found = set()
    for name, order in (("one", "abc"), ("two", "cab")):
        source = repositories.repository(tmp_path / name)
        for letter in order:
            (source / letter).write_text(letter)
        git("add", "b", cwd=source)
        found.add(dirty(program, source))
    assert len(found) == 1


def test_what_is_ignored_and_the_machines_own_files_do_not_count(
    program: Git, source: Path
) -> None:
    (source / "build").mkdir()
    (source / "build" / "out").write_text("1")
    (source / "a.log").write_text("1")
    layers = source / ".callboard" / "layers"
    layers.mkdir(parents=True)
    (layers / "state.json").write_text("1")
    assert dirty(program, source) is None
    git("add", "-f", ".callboard/layers/state.json", cwd=source)
    assert dirty(program, source) is None
    (source / ".gitignore").write_text("*.log\nbuild/\n!.callboard/layers/state.json\n")
    git("reset", "-q", cwd=source)
    before = dirty(program, source)
    (layers / "other").write_text("2")
    assert dirty(program, source) == before is not None
    (source / ".callboard" / "layers.txt").write_text("1")
    assert dirty(program, source) != before


def test_a_submodule_counts_by_its_commit(program: Git, source: Path, tmp_path: Path) -> None:
    library = repositories.repository(tmp_path / "library")
    git("-c", "protocol.file.allow=always", "submodule", "add", "-q", str(library), "lib",
        cwd=source)  # fmt: skip
    git("commit", "-q", "-m", "with a library", cwd=source)
    git("config", "-f", ".gitmodules", "submodule.lib.ignore", "all", cwd=source)
    git("commit", "-q", "-a", "-m", "that is ignored", cwd=source)
    assert dirty(program, source) is None
    (source / "lib" / "README").write_text("work in it\n")
    assert dirty(program, source) is None
    git("checkout", "-q", "HEAD~1", "-f", cwd=source / "lib")
    moved = dirty(program, source)
    git("add", "lib", cwd=source)
    assert None is not moved != dirty(program, source) is not None


def test_a_linked_work_tree_has_its_own_subject(program: Git, source: Path, tmp_path: Path) -> None:
    git("worktree", "add", "-q", str(tmp_path / "linked"), "HEAD~1", cwd=source)
    edit(source)
    linked = subject_of(program, tmp_path / "linked")
    assert linked == GitSubject(head=git("rev-parse", "HEAD~1", cwd=source), dirty=None)


def test_nothing_of_the_users_is_executed(program: Git, source: Path, tmp_path: Path) -> None:
    witness = tmp_path / "executed"
    script = tmp_path / "script"
    script.write_text(f"#!/bin/sh\necho \"$0 $@\" >>'{witness}'\ncat\n")
    script.chmod(0o755)
    for name in (
        "filter.evil.clean", "filter.evil.smudge", "filter.evil.process", "filter.a=b.c.clean",
        "diff.evil.command", "diff.evil.textconv", "diff.external", "core.fsmonitor",
        "core.pager", "core.editor", "core.sshCommand", "core.alternateRefsCommand",
    ):  # fmt: skip
        subprocess.run(["git", "config", name, str(script)], cwd=source, check=True)
    git("config", "filter.evil.required", "true", cwd=source)
    (source / ".git" / "info" / "attributes").write_text(
        "* filter=evil diff=evil\nsrc/* filter=a=b.c\n"
    )
    hooks = source / ".git" / "hooks"
    hooks.mkdir(exist_ok=True)
    for hook in ("post-index-change", "fsmonitor-watchman", "pre-commit"):
        (hooks / hook).write_bytes(script.read_bytes())
        (hooks / hook).chmod(0o755)
    # As young as the index: git has to look at the content to know.
    index = (source / ".git" / "index").stat()
    (source / "README").write_text("one\n")
    (source / "src" / "code.py").write_text("y = 1\n")
    for name in ("README", "src/code.py"):
        os.utime(source / name, ns=(index.st_mtime_ns, index.st_mtime_ns))
    before = repositories.fingerprint(source)
    assert dirty(program, source) is not None
    assert not witness.exists()
    assert repositories.fingerprint(source) == before
    # The trap works: git itself springs it.
    subprocess.run(
        ["git", "-c", "core.fsmonitor=false", "status"],
        cwd=source,
        check=False,
        capture_output=True,
    )
    assert witness.exists()


def test_hostile_files_are_not_opened(program: Git, source: Path) -> None:
    outside = socket.socket(socket.AF_UNIX)
    outside.bind(str(source / "s"))
    outside.close()
    os.mkfifo(source / "pipe")
    (source / "out").symlink_to("/dev/zero")
    assert dirty(program, source) is not None


def test_a_bound_is_kept(program: Git, source: Path) -> None:
    for name in "abc":
        (source / name).write_bytes(bytes(1000))
    assert subject_of(program, source, Bounds(paths=3, size_bytes=3000)).dirty is not None
    for bounds in (Bounds(paths=2), Bounds(size_bytes=2999)):
        assert refused(subject_of, program, source, bounds).code == "subject_too_large"


def test_a_state_that_does_not_stand_still_is_refused(source: Path, tmp_path: Path) -> None:
    """A `git` that leaves another file behind whenever it lists those that are not tracked."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "git").write_text(
        f"#!/bin/sh\ncase \"$*\" in *--others*) date +%s%N >>'{source}/busy';; esac\n"
        f'exec {shutil.which("git")} "$@"\n'
    )
    (folder / "git").chmod(0o755)
    busy = Git(f"{folder}{os.pathsep}{os.environ['PATH']}")
    assert refused(subject_of, busy, source).code == "subject_unsettled"


def test_a_change_while_it_is_read_is_noticed(source: Path, tmp_path: Path) -> None:
    """Between the two listings a file of the same size takes another's place, once."""
    (source / "new").write_text("1")
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "git").write_text(
        f"#!/bin/sh\ncase \"$*\" in *--others*) echo >>'{folder}/count'\n"
        f"  [ $(wc -l <'{folder}/count') = 2 ] && printf 2 >'{source}/new';; esac\n"
        f'exec {shutil.which("git")} "$@"\n'
    )
    (folder / "git").chmod(0o755)
    found = subject_of(Git(f"{folder}{os.pathsep}{os.environ['PATH']}"), source)
    assert (source / "new").read_text() == "2"
    assert found == subject_of(Git(os.environ["PATH"]), source)


def test_what_git_says_of_a_broken_repository_is_told(program: Git, source: Path) -> None:
    (source / ".git" / "index").write_bytes(b"junk")
    error = refused(subject_of, program, source)
    assert error.code == "git_failed"
    assert "index file" in error.message
    assert "git status" in error.hint
