"""The user's repository stays as it is, whatever its shape and whatever surrounds the command."""

from __future__ import annotations

from pathlib import Path

import pytest

from callboard.board.execution.principal import make_principal, read_principal
from callboard.board.outputs.descriptor import BRANCHES, patch_branch
from tests.ambient import DEEP
from tests.repositories import git
from tests.system.world import BOTH, World, make_world, snapshot
from tests.waiting import until


def _tour(world: World, environment: dict[str, str] | None = None, cwd: Path | None = None) -> None:
    world.before = snapshot(world.path)
    summary = world.finish(world.start("tour", environment=environment, cwd=cwd or world.path))
    assert summary["reason"] == "idle"
    world.check_settled()
    fates = {key: state.barrier for key, state in world.works().items()}
    assert fates == {"task": "verified", "second": "verified", "unwanted": "none"}


def _failing_hooks(folder: Path, said: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name in (
        "applypatch-msg", "commit-msg", "post-checkout", "post-commit", "post-merge",
        "post-rewrite", "pre-auto-gc", "pre-commit", "prepare-commit-msg",
        "reference-transaction",
    ):  # fmt: skip
        hook = folder / name
        hook.write_text(f"#!/bin/sh\necho {name} >> '{said}'\nexit 1\n")
        hook.chmod(0o755)


def test_hooks_attributes_and_a_half_staged_file(world: World) -> None:
    said = world.file("hooks-said")
    _failing_hooks(world.path / ".git" / "hooks", said)
    _failing_hooks(world.root / "hooks", said)
    git("config", "core.hooksPath", str(world.root / "hooks"), cwd=world.path)
    (world.path / ".gitattributes").write_text("*.txt text eol=crlf filter=none\n")
    (world.path / "README").write_text("staged\n")
    git("add", "README", cwd=world.path)
    (world.path / "README").write_text("staged, and changed again\n")
    (world.path / "untracked").write_text("untracked\n")
    _tour(world)
    assert not said.exists()


@pytest.mark.parametrize("place", ["bare.git", "first", "second"])
def test_a_bare_repository_with_worktrees_and_failing_hooks(world: World, place: str) -> None:
    said = world.file("hooks-said")
    bare = world.root / "bare.git"
    git("clone", "-q", "--bare", str(world.path), str(bare), cwd=world.root)
    for name in ("first", "second"):
        git("worktree", "add", "-q", "-b", name, str(world.root / name), cwd=bare)
    _failing_hooks(world.root / "hooks", said)
    git("config", "core.hooksPath", str(world.root / "hooks"), cwd=bare)
    git("remote", "remove", "origin", cwd=bare)
    here = World(world.root, world.root / place, processes=world.processes)
    others = [world.root / name for name in ("first", "second") if name != place]
    before = [snapshot(other) for other in others]
    _tour(here)
    assert [snapshot(other) for other in others] == before
    assert not said.exists()


def test_the_board_is_checked_out_elsewhere(world: World) -> None:
    world.submit({"key": "earlier"})
    world.run()
    tree = world.root / "linked"
    git("worktree", "add", "-q", str(tree), "work-queue", cwd=world.path)
    (tree / "dirty").write_text("dirty\n")
    git("add", "dirty", cwd=tree)
    (tree / "dirty").write_text("dirtier\n")
    before = snapshot(tree)
    payload = {"journal": str(world.file("journal"))}
    world.submit({"key": "task", "contract": BOTH, "payload": payload})
    assert world.run()["reason"] == "idle"
    assert {state.barrier for state in world.works().values()} == {"verified"}
    after = snapshot(tree)
    # The branch has moved on, so against it the checked-out ledger is an old one.
    del before["status"], after["status"]
    assert after == before


def test_a_hook_says_where_another_repository_lies(world: World) -> None:
    other = make_world(world.root / "other")
    environment = {
        "GIT_DIR": str(other.path / ".git"),
        "GIT_WORK_TREE": str(other.path),
        "GIT_INDEX_FILE": str(other.path / ".git" / "index"),
        "GIT_OBJECT_DIRECTORY": str(other.path / ".git" / "objects"),
        "GIT_COMMON_DIR": str(other.path / ".git"),
        "GIT_NAMESPACE": "elsewhere",
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "core.hooksPath",
        "GIT_CONFIG_VALUE_0": str(other.path),
    }
    objects = sorted((other.path / ".git").rglob("*"))
    _tour(world, environment)
    assert snapshot(other.path) == other.before
    assert sorted((other.path / ".git").rglob("*")) == objects


@pytest.mark.parametrize("name", ["", "Ada"])
def test_the_users_git_identity_says_nothing(world: World, name: str) -> None:
    home = world.root / "empty-home"
    home.mkdir()
    if name:
        git("config", "user.name", name, cwd=world.path)
        git("config", "user.email", "ada@example.org", cwd=world.path)
    environment = {
        "HOME": str(home), "GIT_CONFIG_NOSYSTEM": "1", "XDG_CONFIG_HOME": str(home),
        "GIT_AUTHOR_NAME": name, "GIT_COMMITTER_NAME": name,
    }  # fmt: skip
    _tour(world, environment)
    authors = git("log", "--format=%an <%ae> %cn <%ce>", "work-queue", cwd=world.path).splitlines()
    assert len(set(authors)) == 1
    assert "Ada" not in authors[0]
    principal = read_principal(world.folders.config)
    actors = {state.actor.principal for state in world.history().projection.requests.values()}
    assert actors == {principal}
    assert list(home.iterdir()) == []


def test_sha256_from_a_subdirectory_with_a_detached_head(tmp_path: Path) -> None:
    world = make_world(tmp_path, object_format="sha256")
    try:
        git("checkout", "-q", "--detach", cwd=world.path)
        folder = world.path / ".callboard" / "workers"
        world.before = snapshot(world.path)
        inside = World(world.root, folder, processes=world.processes)
        assert world.finish(inside.start("tour", cwd=folder))["reason"] == "idle"
        world.check_settled()
    finally:
        world.end()


# --- Git's locks --------------------------------------------------------------------------------


def _locks(world: World) -> list[Path]:
    return [world.path / ".git" / name for name in ("config.lock", "index.lock", "HEAD.lock")]


@pytest.mark.parametrize("locked", [True, False] if DEEP else [True])
def test_eight_branches_at_once(world: World, locked: bool) -> None:
    if locked:
        for lock in _locks(world):
            lock.touch()
    world.before = snapshot(world.path)
    world.submit(*({"key": f"n{number}", "contract": BOTH} for number in range(8)))
    world.run(workers=8)
    world.check_settled()
    branches = git("branch", "--list", "callboard/*", "--format=%(refname)", cwd=world.path)
    assert len(branches.splitlines()) == 8


@pytest.mark.parametrize("freed", [True, False] if DEEP else [True])
def test_a_branch_that_somebody_holds_is_waited_for_within_bounds(
    world: World, freed: bool
) -> None:
    (work_id,) = world.submit({"key": "task", "contract": BOTH})
    lock = world.path / ".git" / f"{BRANCHES}{patch_branch(work_id, 1)}.lock"
    lock.parent.mkdir(parents=True)
    lock.touch()
    process = world.start()
    until(lambda: world.works()["task"].state == "completed")
    if freed:
        lock.unlink()
    world.finish(process)
    until(lambda: not world.supervisors())
    task = world.works()["task"]
    assert (task.barrier, task.attempts) == ("verified" if freed else "failed", 1)
    assert len(world.journal) == 1
    if not freed:
        assert not git("branch", "--list", "callboard/*", cwd=world.path)
        lock.unlink()
    world.check_once()
    world.check_nothing_open()
    git("fsck", "--strict", "--no-dangling", cwd=world.path)


# --- who acts -----------------------------------------------------------------------------------


def test_two_users_on_one_repository_have_runs_of_their_own(world: World) -> None:
    """Another user's host state says nothing about a run, and nothing is launched twice."""
    begun, go = world.file("begun"), world.file("go")
    first = [f"say {begun}", f"await {go}", "deliver", "completed"]
    world.submit({"key": "task", "contract": BOTH, "payload": {"first": first}})
    process = world.start()
    world.wait_for(begun)
    other = World(world.root / "second-user", world.path)
    make_principal(other.folders.config)
    summary = other.run()
    assert [one["reason"] for one in summary["left"]] == ["run_unknown_here"]
    go.touch()
    world.finish(process)
    world.check_settled()
    assert len(world.journal) == 1
