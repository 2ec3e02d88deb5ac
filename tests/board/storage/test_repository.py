"""Repositories of every shape: found, read, and their refs and objects written safely."""

from __future__ import annotations

import os
import threading
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import ParamSpec

import pytest

from callboard.board.storage.repository import Repository
from callboard.errors import CallboardError
from tests.board.storage.shapes import SHAPES, Git, Shape

Open = Callable[[Path], Repository]
P = ParamSpec("P")


def _code(act: Callable[P, object], *args: P.args, **kwargs: P.kwargs) -> str:
    with pytest.raises(CallboardError) as refused:
        act(*args, **kwargs)
    assert refused.value.hint
    return refused.value.code


# --- finding it ----------------------------------------------------------------------------------


@pytest.mark.parametrize("shape_name", sorted(SHAPES))
def test_every_shape_is_found_as_git_finds_it(
    shape_name: str, make_shape: Callable[[str], Shape], git: Git, opened: Open
) -> None:
    shape = make_shape(shape_name)
    repository = opened(shape.path)
    said = git(
        shape.path, "rev-parse", "--path-format=absolute", "--git-dir", "--git-common-dir"
    ).splitlines()
    assert [str(repository.git_dir), str(repository.common_dir)] == said
    top = git(shape.path, "rev-parse", "--show-toplevel", check=False)
    assert repository.work_tree == (Path(top) if top else None)
    assert repository.object_format == git(shape.path, "rev-parse", "--show-object-format")
    assert repository.head_branch() == (
        git(shape.path, "symbolic-ref", "-q", "--short", "HEAD", check=False) or None
    )
    head = git(shape.path, "rev-parse", "-q", "--verify", "HEAD", check=False)
    assert repository.head_commit() == (head or None)


def test_a_linked_worktree_of_a_bare_repository(
    make_shape: Callable[[str], Shape], git: Git, opened: Open, tmp_path: Path
) -> None:
    shape = make_shape("bare")
    git(shape.path, "worktree", "add", "-q", "-b", "side", str(tmp_path / "w"))
    (tmp_path / "w" / "deep").mkdir()
    repository = opened(tmp_path / "w" / "deep")
    assert repository.work_tree == tmp_path / "w"
    assert repository.common_dir == shape.path
    assert repository.head_branch() == "side"
    assert repository.checkout_of("main") == shape.path
    assert repository.checkout_of("side") == tmp_path / "w"
    assert repository.checkout_of("other") is None


def test_a_submodule_is_a_repository_of_its_own(
    shape: Shape, git: Git, opened: Open, tmp_path: Path
) -> None:
    (tmp_path / "other").mkdir()
    outer = SHAPES["sha1"](tmp_path / "other", git)
    git(outer.path, "-c", "protocol.file.allow=always", "submodule", "add", "-q",
        str(shape.path), "sub")  # fmt: skip
    repository = opened(outer.path / "sub")
    assert repository.git_dir == outer.git_dir / "modules" / "sub"
    assert repository.work_tree == outer.path / "sub"


def test_the_git_folder_itself_is_found(shape: Shape, opened: Open) -> None:
    for place in (shape.git_dir, shape.git_dir / "hooks"):
        repository = opened(place)
        assert repository.git_dir == shape.git_dir
        assert repository.work_tree == shape.path


def test_links_to_a_repository_are_followed(shape: Shape, opened: Open, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(shape.path)
    assert opened(tmp_path / "link").work_tree == shape.path


def test_no_repository_is_told(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").touch()
    (tmp_path / "circle").symlink_to("circle")
    for name in ("empty", "gone", "file", "circle", "a\0b"):
        assert _code(Repository.discover, tmp_path / name) == "repository_missing"


def test_a_broken_repository_is_told(shape: Shape, tmp_path: Path) -> None:
    (shape.git_dir / "HEAD").rename(tmp_path / "HEAD")
    assert _code(lambda: Repository.discover(shape.path)) == "repository_invalid"
    broken = tmp_path / "pointer"
    broken.mkdir()
    for text in ("gitdir: nowhere\n", "nonsense", ""):
        (broken / ".git").write_text(text)
        assert _code(lambda: Repository.discover(broken)) == "repository_invalid"


@pytest.mark.parametrize(
    "setting",
    [
        "[core]\n\trepositoryformatversion = 2\n",
        "[core]\n\trepositoryformatversion = 1\n[extensions]\n\trefStorage = reftable\n",
        "[core]\n\trepositoryformatversion = 1\n[extensions]\n\tobjectFormat = sha512\n",
        "[core]\n\trepositoryformatversion = 1\n[extensions]\n\tunheardOf = 1\n",
        "[core]\n\trepositoryformatversion = 0\n[extensions]\n\tobjectFormat = sha256\n",
        "[core]\n\tbare = perhaps\n",
        "no section\n",
        "[core\n",
    ],
)
def test_a_format_that_cannot_be_read_is_told(setting: str, shape: Shape) -> None:
    (shape.git_dir / "config").write_text(setting)
    assert _code(lambda: Repository.discover(shape.path)) == "repository_invalid"


@pytest.mark.parametrize(
    "setting",
    [
        "[core]\n\tbigFileThreshold = 512m\n\tcompression = best\n\tlooseCompression\n",
        "[Core]\r\n\tBARE = no ; comment\r\n",
        '[core] bare = "false" # x\n[alias]\n\tx = "!f() { \\\n a; }; f"\n',
        '[include]\n\tpath = /dev/zero\n[includeIf "gitdir:/"]\n\tpath = /dev/zero\n',
        "[core]\n\tfsmonitor = touch /tmp/never\n\tsshCommand = false\n\thooksPath = /\n",
        "[core]\n\trepositoryformatversion = 1\n[extensions]\n\tpartialClone = origin\n",
        "[core]\n\trepositoryformatversion = 1\n[extensions]\n\trefStorage = files\n",
        "[core]\n\tattributesFile = ~x\n[gc]\n\tauto = -1\n[pack]\n\tthreads = many\n",
        "\ufeff[core]\n\tlogAllRefUpdates = always\n",
        "",
    ],
)
def test_odd_configurations_do_no_harm(setting: str, shape: Shape, opened: Open) -> None:
    (shape.git_dir / "config").write_text(setting)
    repository = opened(shape.path)
    head = repository.head_commit()
    assert head is not None
    assert repository.read_file(head, "README", 100) == b"hello\n"
    assert repository.set_ref("refs/heads/new", None, head)
    assert not (shape.git_dir / "logs" / "refs" / "heads" / "new").exists()


def test_a_work_tree_elsewhere(shape: Shape, git: Git, opened: Open, tmp_path: Path) -> None:
    git(shape.path, "config", "core.worktree", str(tmp_path / "elsewhere"))
    assert opened(shape.path).work_tree == tmp_path / "elsewhere"


def test_settings_of_one_worktree(
    make_shape: Callable[[str], Shape], git: Git, opened: Open
) -> None:
    shape = make_shape("worktree")
    git(shape.git_dir, "config", "core.repositoryformatversion", "1")
    git(shape.git_dir, "config", "extensions.worktreeConfig", "true")
    git(shape.git_dir, "config", "--unset", "core.bare")
    (shape.git_dir / "config.worktree").write_text("[core]\n\tbare = true\n")
    assert opened(shape.git_dir).work_tree is None
    assert opened(shape.path).work_tree == shape.path


# --- what its refs say ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "slug"),
    [
        ("https://github.com/octo/repo.git", "octo/repo"),
        ("https://github.com/octo/repo", "octo/repo"),
        ("https://github.com/octo/repo/", "octo/repo"),
        ("https://user:secret@host.example:8443/git/octo/re.po.git", "octo/re.po"),
        ("ssh://git@github.com:22/octo/repo.git", "octo/repo"),
        ("git+ssh://git@github.com/octo/repo", "octo/repo"),
        ("git@github.com:octo/repo.git", "octo/repo"),
        ("github.com:octo/repo", "octo/repo"),
        ("git@[::1]:octo/repo.git", "octo/repo"),
        ("git@host:/srv/octo/repo.git", "octo/repo"),
        ("git://host/octo/repo.git", "octo/repo"),
        ("https://gitlab.example/group/sub/repo.git", "sub/repo"),
        ("/srv/git/octo/repo.git", None),
        ("../octo/repo.git", None),
        ("./octo:x/repo", None),
        ("file:///srv/octo/repo.git", None),
        ("C:/octo/repo", None),
        ("https://github.com/repo", None),
        ("https://github.com/../repo", None),
        ("https://github.com/oc to/repo", None),
        ("https:///octo/repo", None),
        ("https://[bad/octo/repo", None),
        ("host:repo", None),
        ("", None),
    ],
)
def test_the_name_of_the_remote(
    url: str, slug: str | None, shape: Shape, git: Git, opened: Open
) -> None:
    git(shape.path, "config", "remote.origin.url", url)
    assert opened(shape.path).remote_slug() == slug


def test_no_remote_has_no_name(shape: Shape, git: Git, opened: Open) -> None:
    git(shape.path, "config", "remote.upstream.url", "https://github.com/octo/repo")
    assert opened(shape.path).remote_slug() is None


def test_packed_and_loose_refs_are_read(shape: Shape, git: Git, opened: Open) -> None:
    repository = opened(shape.path)
    head = repository.head_commit()
    git(shape.path, "tag", "-am", "note", "v1")
    git(shape.path, "branch", "refs-like")
    git(shape.path, "pack-refs", "--all")
    assert not (shape.git_dir / "refs" / "heads" / "main").exists()
    assert repository.read_ref("refs/heads/main") == repository.read_ref("HEAD") == head
    assert repository.read_ref("refs/tags/v1") == git(shape.path, "rev-parse", "v1")
    assert repository.read_ref("refs/heads/mai") is None
    assert repository.read_ref("refs/heads/refs-like/x") is None
    git(shape.path, "commit", "-q", "--allow-empty", "-m", "two")
    assert repository.read_ref("refs/heads/main") == git(shape.path, "rev-parse", "main") != head


def test_damaged_refs_are_never_absent(shape: Shape, git: Git, opened: Open) -> None:
    git(shape.path, "pack-refs", "--all")
    repository = opened(shape.path)
    ref = shape.git_dir / "refs" / "heads" / "main"
    for contents in (b"", b"\0" * 41, b"123\n", b"zz" * 20 + b"\n", b"ref: refs/heads/main\n"):
        ref.write_bytes(contents)
        assert _code(lambda: repository.read_ref("refs/heads/main")) == "ref_invalid"
    ref.unlink()
    ref.symlink_to("/etc/hostname")
    assert _code(lambda: repository.read_ref("refs/heads/main")) == "storage_failed"


@pytest.mark.parametrize(
    "name", ["main", "refs/heads/../x", "refs/heads/a b", "/etc", "refs/h\udc80"]
)
def test_bad_ref_names_are_refused(name: str, shape: Shape, opened: Open) -> None:
    repository = opened(shape.path)
    head = repository.head_commit()
    assert head is not None
    assert _code(lambda: repository.read_ref(name)) == "ref_invalid"
    assert _code(lambda: repository.set_ref(name, None, head)) == "ref_invalid"
    assert _code(lambda: repository.set_ref("HEAD", head, head)) == "ref_invalid"


# --- moving refs ---------------------------------------------------------------------------------


def test_a_ref_moves_only_from_where_it_is_said_to_be(shape: Shape, git: Git, opened: Open) -> None:
    repository = opened(shape.path)
    first = repository.head_commit()
    git(shape.path, "commit", "-q", "--allow-empty", "-m", "two")
    second = repository.head_commit()
    assert first is not None
    assert second is not None
    name = "refs/heads/deep/er/branch"
    assert repository.set_ref(name, first, second) is False
    assert repository.set_ref(name, None, first) is True
    assert repository.set_ref(name, None, second) is False
    assert repository.set_ref(name, second, first) is False
    git(shape.path, "pack-refs", "--all")
    assert repository.set_ref(name, None, second) is False
    assert repository.set_ref(name, first, second) is True
    assert git(shape.path, "rev-parse", name) == second
    git(shape.path, "fsck", "--strict")


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(
    ("existing", "wanted"), [("cb/t1/x", "cb/t1"), ("cb/t1", "cb/t1/x"), ("cb/t1", "cb/t1/x/y")]
)
def test_a_ref_beside_which_it_cannot_stand_is_named(
    packed: bool, existing: str, wanted: str, shape: Shape, git: Git, opened: Open
) -> None:
    git(shape.path, "branch", existing)
    if packed:
        git(shape.path, "pack-refs", "--all")
    repository = opened(shape.path)
    head = repository.head_commit()
    assert head is not None
    before = sorted(shape.git_dir.glob("refs/**/*"))
    assert repository.ref_in_the_way(f"refs/heads/{wanted}") == f"refs/heads/{existing}"
    with pytest.raises(CallboardError) as refused:
        repository.set_ref(f"refs/heads/{wanted}", None, head)
    assert refused.value.code == "ref_conflict"
    assert refused.value.details["existing"] == f"refs/heads/{existing}"
    assert sorted(shape.git_dir.glob("refs/**/*")) == before
    git(shape.path, "branch", "-D", existing)
    assert repository.ref_in_the_way(f"refs/heads/{wanted}") is None
    assert repository.set_ref(f"refs/heads/{wanted}", None, head)
    assert git(shape.path, "rev-parse", wanted) == head


def test_parallel_creations_all_succeed(shape: Shape, git: Git, opened: Open) -> None:
    (shape.git_dir / "config.lock").touch()
    (shape.git_dir / "index.lock").touch()
    repository = opened(shape.path)
    head = repository.head_commit()
    assert head is not None
    done: list[bool] = []

    def create(number: int) -> None:
        done.append(repository.set_ref(f"refs/heads/callboard/{number % 4}/{number}", None, head))

    threads = [threading.Thread(target=create, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert done == [True] * 8
    assert len(git(shape.path, "for-each-ref", "refs/heads/callboard/").splitlines()) == 8


def test_a_locked_ref_is_a_typed_answer(shape: Shape, opened: Open) -> None:
    repository = opened(shape.path)
    head = repository.head_commit()
    assert head is not None
    (shape.git_dir / "refs/heads/new.lock").touch()
    with pytest.raises(CallboardError) as refused:
        repository.set_ref("refs/heads/new", None, head)
    assert refused.value.code == "ref_locked"
    assert refused.value.details["stale"] is False
    assert not (shape.git_dir / "refs/heads/new").exists()
    assert not list((shape.git_dir / "callboard").glob("*.pending"))


def test_a_ref_needs_its_object(shape: Shape, opened: Open) -> None:
    repository = opened(shape.path)
    blob = repository.write_blob(b"x")
    assert _code(lambda: repository.set_ref("refs/callboard/a", None, "1" * 40)) == "object_missing"
    assert _code(lambda: repository.set_ref("refs/heads/a", None, "main")) == "object_missing"
    assert _code(lambda: repository.set_ref("refs/heads/a", None, blob)) == "object_wrong_kind"
    assert repository.set_ref("refs/callboard/artifacts/c_1", None, blob)


def test_a_failing_maker_changes_nothing(shape: Shape, opened: Open) -> None:
    repository = opened(shape.path)

    def fail() -> str:
        raise KeyError("no")

    with pytest.raises(KeyError):
        repository.move_ref("refs/heads/new", None, fail)
    assert repository.read_ref("refs/heads/new") is None
    head = repository.head_commit()
    assert repository.move_ref("refs/heads/new", "1" * 40, fail) is False
    assert repository.read_ref("refs/heads/main") == head


def test_a_file_system_without_hard_links(
    shape: Shape, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    repository = opened(shape.path)
    head = repository.head_commit()
    assert head is not None
    assert repository.set_ref("refs/heads/new", None, head)
    (shape.git_dir / "refs/heads/more.lock").touch()
    assert _code(lambda: repository.set_ref("refs/heads/more", None, head)) == "ref_locked"


# --- what its objects hold -----------------------------------------------------------------------


@pytest.mark.parametrize("shape_name", ["sha1", "sha256"])
@pytest.mark.parametrize("packed", [False, True])
def test_files_of_a_commit(
    shape_name: str, packed: bool, make_shape: Callable[[str], Shape], git: Git, opened: Open
) -> None:
    shape = make_shape(shape_name)
    workers = shape.path / ".callboard" / "workers"
    workers.mkdir(parents=True)
    for name in ("b.toml", "a.toml", "é.toml"):
        (workers / name).write_text(f"# {name}\n" * 50)
    (workers / "deeper").mkdir()
    (workers / "deeper" / "c.toml").touch()
    (workers / "link.toml").symlink_to("a.toml")
    git(shape.path, "add", "-A")
    git(shape.path, "commit", "-qm", "workers")
    if packed:
        git(shape.path, "gc", "-q", "--prune=now")
        git(shape.path, "multi-pack-index", "write")
    repository = opened(shape.path)
    head = repository.head_commit()
    assert head is not None
    folder = ".callboard/workers"
    assert repository.list_files(head, folder) == tuple(
        f"{folder}/{name}" for name in ("a.toml", "b.toml", "é.toml")
    )
    assert repository.list_files(head, "") == ("README",)
    assert repository.list_files(head, "nothing") == repository.list_files(head, "README") == ()
    assert repository.read_file(head, f"{folder}/b.toml", 1000) == b"# b.toml\n" * 50
    assert repository.read_file(head, f"{folder}/none", 1000) is None
    assert repository.read_file(head, "README/none", 1000) is None
    assert _code(lambda: repository.read_file(head, f"{folder}/b.toml", 449)) == "resource_limit"
    assert _code(lambda: repository.read_file(head, folder, 9)) == "file_not_regular"
    assert _code(lambda: repository.read_file(head, f"{folder}/link.toml", 9)) == "file_not_regular"
    for path in ("../README", "/README", "", "a//b", "./README", "README/", "a\0"):
        assert _code(repository.read_file, head, path, 9) == "path_invalid"
    info = repository.commit_info(head)
    assert info.tree == git(shape.path, "rev-parse", "HEAD^{tree}")
    assert list(info.parents) == [git(shape.path, "rev-parse", "HEAD^")]
    entry = repository.entry(head, folder)
    assert entry is not None
    assert entry.is_folder
    assert entry.oid == git(shape.path, "rev-parse", f"HEAD:{folder}")


def test_a_merge_has_its_parents_in_order(shape: Shape, git: Git, opened: Open) -> None:
    git(shape.path, "checkout", "-qb", "side")
    git(shape.path, "commit", "-q", "--allow-empty", "-m", "s")
    git(shape.path, "checkout", "-q", "main")
    git(shape.path, "commit", "-q", "--allow-empty", "-m", "m")
    git(shape.path, "merge", "-q", "-m", "both", "side")
    repository = opened(shape.path)
    head = repository.head_commit()
    assert head is not None
    assert (
        list(repository.commit_info(head).parents)
        == git(shape.path, "rev-parse", "HEAD^1", "HEAD^2").split()
    )


@pytest.mark.parametrize("shape_name", ["sha1", "sha256"])
def test_blobs_are_written_as_git_names_them(
    shape_name: str, make_shape: Callable[[str], Shape], git: Git, opened: Open
) -> None:
    shape = make_shape(shape_name)
    repository = opened(shape.path)
    for data in (b"", b"\0\xff", b"x" * 3_000_000, os.urandom(200_000)):
        oid = repository.write_blob(data)
        assert oid == git(shape.path, "hash-object", "--stdin", stdin=data)
        assert oid == repository.write_blob(data)
        assert repository.read_blob(oid, len(data)) == data
        assert git(shape.path, "cat-file", "-s", oid) == str(len(data))
        if data:
            assert _code(repository.read_blob, oid, len(data) - 1) == "resource_limit"
    assert not list(shape.git_dir.rglob("tmp_obj_*"))
    git(shape.path, "fsck", "--strict")


def test_damaged_objects_are_told_and_rewritten(shape: Shape, git: Git, opened: Open) -> None:
    repository = opened(shape.path)
    oid = repository.write_blob(b"x" * 1000)
    other = repository.write_blob(b"y" * 1000)
    path = shape.git_dir / "objects" / oid[:2] / oid[2:]
    good = path.read_bytes()
    swapped = (shape.git_dir / "objects" / other[:2] / other[2:]).read_bytes()
    path.chmod(0o644)
    for bad in (b"", bytes(len(good)), good[:-3], good + b"x", good[:9], swapped, b"x" * 50):
        path.write_bytes(bad)
        assert _code(lambda: repository.read_blob(oid, 2000)) == "object_corrupt"
        assert repository.write_blob(b"x" * 1000) == oid
        assert repository.read_blob(oid, 2000) == b"x" * 1000
        path.chmod(0o644)
    git(shape.path, "fsck", "--strict")
    assert _code(lambda: repository.read_blob("1" * 40, 9)) == "object_missing"
    assert _code(lambda: repository.read_blob("nonsense", 9)) == "object_missing"
    head = repository.head_commit()
    assert head is not None
    assert _code(lambda: repository.read_blob(head, 9999)) == "object_wrong_kind"


def test_a_small_file_that_inflates_without_end_is_cut_off(shape: Shape, opened: Open) -> None:
    repository = opened(shape.path)
    oid = repository.write_blob(b"x")
    path = shape.git_dir / "objects" / oid[:2] / oid[2:]
    path.chmod(0o644)
    path.write_bytes(zlib.compress(b"blob 300000000\0" + bytes(30_000_000)))
    assert _code(lambda: repository.read_blob(oid, 1000)) == "resource_limit"
    path.write_bytes(zlib.compress(b"blob 10\0" + bytes(30_000_000)))
    assert _code(lambda: repository.read_blob(oid, 100_000)) == "object_corrupt"


@pytest.mark.parametrize("shape_name", ["sha1", "sha256"])
def test_borrowed_objects_are_found(
    shape_name: str, make_shape: Callable[[str], Shape], git: Git, opened: Open, tmp_path: Path
) -> None:
    shape = make_shape(shape_name)
    git(tmp_path, "clone", "-q", "--shared", str(shape.path), str(tmp_path / "second"))
    git(tmp_path, "clone", "-q", "--shared", str(tmp_path / "second"), str(tmp_path / "third"))
    # A circle, which must end: the first borrows from the last.
    info = shape.git_dir / "objects" / "info"
    info.mkdir(exist_ok=True)
    (info / "alternates").write_text(f"{tmp_path / 'third/.git/objects'}\n# note\n\n/nowhere\n")
    repository = opened(tmp_path / "third")
    head = repository.head_commit()
    assert head is not None
    assert repository.read_file(head, "README", 100) == b"hello\n"
    git(shape.path, "repack", "-qad")
    assert repository.read_file(head, "README", 100) == b"hello\n"
    missing = "1" * len(head)
    assert _code(lambda: repository.read_blob(missing, 9)) == "object_missing"


def test_objects_packed_meanwhile_are_found(shape: Shape, git: Git, opened: Open) -> None:
    repository = opened(shape.path)
    head = repository.head_commit()
    assert head is not None
    for number in range(4):
        assert repository.read_file(head, "README", 100) == b"hello\n"
        git(shape.path, "commit", "-q", "--allow-empty", "-m", str(number))
        git(shape.path, "gc", "-q", "--prune=now")
    repository.close()
    assert repository.read_file(head, "README", 100) == b"hello\n"


def test_a_damaged_pack_is_told(shape: Shape, git: Git, opened: Open) -> None:
    git(shape.path, "gc", "-q", "--prune=now")
    repository = opened(shape.path)
    head = repository.head_commit()
    assert head is not None
    pack = next((shape.git_dir / "objects" / "pack").glob("*.pack"))
    pack.chmod(0o644)
    data = bytearray(pack.read_bytes())
    data[12:-20] = bytes(len(data) - 32)
    pack.write_bytes(data)
    assert _code(lambda: repository.commit_info(head)) == "object_corrupt"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_repository_that_may_not_be_written_is_told(shape: Shape, opened: Open) -> None:
    repository = opened(shape.path)
    (shape.git_dir / "objects").chmod(0o555)
    try:
        assert _code(lambda: repository.write_blob(b"new")) == "repository_unwritable"
    finally:
        (shape.git_dir / "objects").chmod(0o755)


def test_a_shared_repository_stays_shared(
    make_shape: Callable[[str], Shape], git: Git, opened: Open
) -> None:
    shape = make_shape("bare")
    git(shape.path, "config", "core.sharedRepository", "group")
    repository = opened(shape.path)
    old = os.umask(0o077)
    try:
        oid = repository.write_blob(b"shared")
        head = repository.head_commit()
        assert head is not None
        assert repository.set_ref("refs/heads/a/b", None, head)
    finally:
        os.umask(old)
    path = shape.path / "objects" / oid[:2] / oid[2:]
    assert path.stat().st_mode & 0o777 == 0o440
    assert path.parent.stat().st_mode & 0o2070 == 0o2070
    assert (shape.path / "refs/heads/a/b").stat().st_mode & 0o660 == 0o660
    assert (shape.path / "refs/heads/a").stat().st_mode & 0o2070 == 0o2070
    for path in (shape.path / "callboard").iterdir():
        assert path.stat().st_mode & 0o660 == 0o660


def test_a_git_folder_asked_for_itself_knows_its_checkout(tmp_path: Path, git: Git) -> None:
    """As a process has it that is given the Git folder alone; relative addresses of remotes are
    meant from the checkout."""
    repository = tmp_path / "r"
    git(tmp_path, "init", "-q", "-b", "main", str(repository))
    git(repository, "commit", "-q", "--allow-empty", "-m", "x")
    git(repository, "worktree", "add", "-q", "-b", "side", str(tmp_path / "w"))
    with Repository.discover(tmp_path / "w") as linked:
        assert linked.work_tree == tmp_path / "w"
        with Repository.discover(linked.git_dir) as alone:
            assert (alone.git_dir, alone.work_tree) == (linked.git_dir, tmp_path / "w")
    with Repository.discover(repository / ".git") as main:
        assert main.work_tree == repository
    (tmp_path / "w" / ".git").unlink()
    with Repository.discover(repository / ".git" / "worktrees" / "w") as orphaned:
        assert orphaned.work_tree is None
