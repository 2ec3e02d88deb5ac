"""Links of a patch, each followed through the links of the tree that it would become."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest

from callboard.board.execution.snapshot import Snapshot, SnapshotLimits, diff_to_commit
from callboard.board.execution.workspace import Workspace, create
from callboard.errors import CallboardError
from callboard.git import Git
from tests.repositories import git as user_git
from tests.repositories import head


def link(tree: Path, links: Mapping[str, str]) -> None:
    """Make links, and the folders that they lie in; what is there already gives way."""
    for path, target in links.items():
        place = tree / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.unlink(missing_ok=True)
        place.symlink_to(target)


def based_on(git: Git, source: Path, links: Mapping[str, str]) -> Workspace:
    """A clone of a commit that has those links already."""
    link(source, links)
    user_git("add", "-A", cwd=source)
    user_git("commit", "-q", "-m", "links", cwd=source)
    return create(git, source / ".git", head(source), source.parent / "run")


def take(git: Git, workspace: Workspace, limits: SnapshotLimits | None = None) -> Snapshot:
    snapshot = diff_to_commit(
        git,
        workspace,
        trusted=workspace.folder.parent / "trusted",
        message="m",
        at_ms=1_000,
        limits=limits,
    )
    assert snapshot is not None
    return snapshot


def refused_path(git: Git, workspace: Workspace) -> str:
    with pytest.raises(CallboardError) as caught:
        take(git, workspace)
    assert caught.value.code == "patch_refused"
    assert not (workspace.folder.parent / "trusted").exists()
    return str(caught.value.details["path"])


@pytest.mark.parametrize(
    ("links", "path"),
    [
        ({"sub/deep": ".", "x": "sub/deep/../.."}, "x"),
        ({"a/b/up": "../..", "esc": "a/b/up/.."}, "esc"),
        ({"a/b/up": "../..", "esc": "a/b/up/../etc/passwd"}, "esc"),
        ({"one": "src", "src/two": "../one/..", "three": "one/two/.."}, "three"),
        ({"chain1": "src/..", "chain2": "chain1/.", "chain3": "chain2/../x"}, "chain3"),
        # The kernel follows the last part, too, wherever the link is used as a folder.
        ({"deep/er/top": "../..", "deep/out": "er/top/../y"}, "deep/out"),
        ({"loop": "loop/../../y"}, "loop"),
        ({"ping": "pong/../../y", "pong": "ping"}, "ping"),
        # Where upper and lower case are one, as on other systems.
        ({"Sub/Deep": ".", "x": "sub/deep/../.."}, "x"),
        ({"caf\u00e9": "src/..", "x": "cafe\u0301/.."}, "x"),
    ],
)
def test_a_way_out_by_way_of_other_links_is_refused(
    git: Git, workspace: Workspace, links: dict[str, str], path: str
) -> None:
    link(workspace.folder, links)
    assert refused_path(git, workspace) == path


@pytest.mark.parametrize(
    "target",
    [
        ".git", ".git/config", "src/../.git/config", "src/.git/hooks", ".GIT/x", "git~1", "GIT~1/x",
        ".git. ./config", ".git::$INDEX_ALLOCATION/config", ".g\u200cit/config", "vendor/x/.git",
        ".git/../README", "src\\.git\\config",
    ],
)  # fmt: skip
def test_a_link_into_a_git_folder_is_refused(git: Git, workspace: Workspace, target: str) -> None:
    (workspace.folder / "cfg").symlink_to(target)
    assert refused_path(git, workspace) == "cfg"


def test_a_link_in_place_of_a_list_of_submodules_is_refused(git: Git, workspace: Workspace) -> None:
    (workspace.folder / "src" / ".gitmodules").symlink_to("code.py")
    assert refused_path(git, workspace) == "src/.gitmodules"


def test_a_git_folder_is_told_by_where_a_link_leads(git: Git, workspace: Workspace) -> None:
    link(workspace.folder, {"src/top": "..", "cfg": "src/top/.git/config"})
    assert refused_path(git, workspace) == "cfg"


@pytest.mark.parametrize(
    "links",
    [
        {"way": "src", "src/back": "../way/code.py", "over": "way/back"},
        {"a/b/up": "../..", "in": "a/b/up/a/b/up/README"},
        # Out by its text alone, and inside by its links.
        {"far": "a/b/c", "a/b/c/file": "../x", "near": "far/../../y"},
        {"loop": "loop", "ping": "pong", "pong": "ping"},
        {".gitignored": "README", "git": ".gitattributes", "gits": "git~2", ".githooks/x": "../y"},
        {"dangling": "not/../yet", "file": "README/../src"},
    ],
)
def test_links_that_stay_inside_are_taken(
    git: Git, workspace: Workspace, links: dict[str, str]
) -> None:
    link(workspace.folder, links)
    assert take(git, workspace).paths == tuple(sorted(links))


def test_a_long_chain_costs_no_more_than_its_links(git: Git, workspace: Workspace) -> None:
    """Each doubles the way of the one before: followed one by one it would never end."""
    links = {"l0": "src"}
    links |= {f"l{n}": f"l{n - 1}/../l{n - 1}" for n in range(1, 300)}
    link(workspace.folder, links)
    assert len(take(git, workspace).paths) == 300
    shutil.rmtree(workspace.folder.parent / "trusted")
    (workspace.folder / "out").symlink_to("l299/../../y")
    assert refused_path(git, workspace) == "out"


@pytest.mark.parametrize("last", ["l6000/../../y", "l6000/z"])
def test_the_deepest_chain_is_followed(git: Git, workspace: Workspace, last: str) -> None:
    tree = workspace.folder
    os.symlink("/".join(["."] * 1000), tree / "l0")
    for n in range(1, 6001):
        os.symlink(f"l{n - 1}", tree / f"l{n}")
    os.symlink(last, tree / "x")
    if last.endswith("z"):
        assert len(take(git, workspace).paths) == 6002
    else:
        assert refused_path(git, workspace) == "x"


def test_a_changed_link_is_not_to_lead_an_unchanged_one_out(git: Git, source: Path) -> None:
    workspace = based_on(git, source, {"hop": "src/in", "src/in/x": "y", "old": "hop/../../y"})
    link(workspace.folder, {"hop": "src"})
    # `old` led to y before.
    assert refused_path(git, workspace) == "old"


def test_a_link_that_is_gone_is_not_to_lead_another_one_out(git: Git, source: Path) -> None:
    workspace = based_on(git, source, {"hop": "src/in/deep", "old": "hop/../../y"})
    (workspace.folder / "hop").unlink()
    (workspace.folder / "hop").mkdir()
    (workspace.folder / "hop" / "file").write_text("a folder now\n")
    assert refused_path(git, workspace) == "old"


def test_what_led_out_before_is_tolerated_as_it_was(git: Git, source: Path) -> None:
    before = {"bad": "../elsewhere", "worse": "bad/x", "cfg": ".git/config", "etc": "/etc"}
    workspace = based_on(git, source, before)
    link(workspace.folder, {"new": "README"})
    assert take(git, workspace).paths == ("new",)


@pytest.mark.parametrize(
    ("links", "path"),
    [
        ({"bad": "../elsewhere/too"}, "bad"),
        ({"more": "bad"}, "more"),
        ({"cfg": ".git/hooks"}, "cfg"),
        ({"etc": "/etc/passwd"}, "etc"),
        # What it passes through leads elsewhere now, though itself it is as it was.
        ({"hop": "/root"}, "hop"),
        ({"src/up": "."}, "past"),
    ],
)
def test_what_led_out_before_is_not_to_lead_elsewhere(
    git: Git, source: Path, links: dict[str, str], path: str
) -> None:
    workspace = based_on(
        git,
        source,
        {
            "bad": "../elsewhere", "cfg": ".git/config", "etc": "/etc", "hop": "/tmp",
            "far": "hop/x", "src/up": "..", "past": "src/up/../../y",
        },
    )  # fmt: skip
    link(workspace.folder, links)
    assert refused_path(git, workspace) == path


def test_a_change_that_leads_several_out_names_the_changed_one(git: Git, source: Path) -> None:
    workspace = based_on(git, source, {"a": "z/x", "z": "src"})
    link(workspace.folder, {"z": ".."})
    assert refused_path(git, workspace) == "z"


@pytest.mark.parametrize("limits", [SnapshotLimits(links=3), SnapshotLimits(link_bytes=20)])
def test_what_is_read_of_links_is_bounded(git: Git, source: Path, limits: SnapshotLimits) -> None:
    workspace = based_on(git, source, {f"l{n}": f"src/code{n}" for n in range(4)})
    (workspace.folder / "README").write_text("no link is changed, so none is read\n")
    assert take(git, workspace, limits).paths == ("README",)
    shutil.rmtree(workspace.folder.parent / "trusted")
    link(workspace.folder, {"new": "README"})
    with pytest.raises(CallboardError) as caught:
        take(git, workspace, limits)
    assert caught.value.code == "patch_limit"
    assert caught.value.details == {
        "limit_links": limits.links, "limit_link_bytes": limits.link_bytes,
    }  # fmt: skip
    # A link that goes is no less a change of links.
    (workspace.folder / "new").unlink()
    (workspace.folder / "l0").unlink()
    with pytest.raises(CallboardError, match="patch_limit"):
        take(git, workspace, SnapshotLimits(links=2))
