"""A board's own pack: sound for Git after every history, bounded, and nobody trusts its note."""

from __future__ import annotations

import itertools
import json
import os
import random
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from callboard.board.storage import rolling, rolling_store
from callboard.board.storage.git import GitStore
from callboard.board.storage.repository import Repository
from callboard.board.storage.rolling_store import RollingPacks
from callboard.board.storage.store import Appended, LedgerTip
from callboard.clock import FixedClock
from tests.board.storage.contract import ONE, TWO, appended
from tests.board.storage.shapes import Git, Shape

REF = "refs/heads/work-queue"
MOST_REPLACED = rolling_store._LINGERING
Open = Callable[[Path], Repository]


def packs(shape: Shape) -> list[Path]:
    return sorted((shape.git_dir / "objects" / "pack").glob("*.pack"))


def note(shape: Shape) -> Path:
    (found,) = (shape.git_dir / "callboard").glob("packs-*.json")
    return found


def sound(shape: Shape, git: Git, tip: LedgerTip) -> None:
    """Git finds nothing wrong, and every commit's ledger is a beginning of the tip's."""
    git(shape.git_dir, "fsck", "--strict", "--full", "--no-dangling")
    commits = git(shape.git_dir, "rev-list", "--reverse", REF).split()
    asked = "".join(f"{commit}:work-queue.jsonl\n" for commit in commits).encode()
    said = git(shape.git_dir, "cat-file", "--batch", stdin=asked).encode()
    at = 0
    for _commit in commits:
        size = int(said[at : said.index(b"\n", at)].split()[2])
        at = said.index(b"\n", at) + 1
        assert said[at : at + size] == tip.data[:size]
        at += size + 1
    assert size == len(tip.data)
    left = {path.suffix for path in (shape.git_dir / "objects" / "pack").iterdir()}
    assert left <= {".pack", ".idx"}


def lines(count: int, start: int = 0, pad: int = 0) -> Iterator[bytes]:
    return (b'{"n":%d,"pad":"%s"}\n' % (n, b"x" * pad) for n in range(start, start + count))


@pytest.fixture
def frozen_early(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pack counts as full after some dozens of appends."""
    monkeypatch.setattr(rolling, "_SMALLEST_FREEZE_BYTES", 10_000)


@pytest.mark.parametrize("shape_name", ["sha1", "sha256", "bare", "worktree"])
def test_git_finds_a_long_history_sound(
    shape_name: str, make_shape: Callable[[str], Shape], git: Git, opened: Open
) -> None:
    shape = make_shape(shape_name)
    store = GitStore(opened(shape.path))
    for line in lines(150):
        tip = appended(store, line)
    sound(shape, git, tip)
    assert len(packs(shape)) == 1 + MOST_REPLACED
    said = git(shape.git_dir, "verify-pack", "-v", str(packs(shape)[0]))
    deltas = [line.split() for line in said.splitlines() if " blob " in line]
    assert max(int(words[5]) for words in deltas if len(words) == 7) == 2
    assert "error" not in git(shape.git_dir, "log", "-p", "-3", REF)
    assert len(git(shape.git_dir, "log", "--format=%H", "--", "work-queue.jsonl") or "x") > 0
    clone = shape.path.parent / "clone"
    git(shape.path.parent, "clone", "-q", "--no-local", "-b", "work-queue", str(shape.git_dir),
        str(clone))  # fmt: skip
    assert (clone / "work-queue.jsonl").read_bytes() == tip.data


def test_what_was_left_for_readers_goes_when_the_repository_is_closed(
    shape: Shape, git: Git, opened: Open
) -> None:
    repository = opened(shape.path)
    store = GitStore(repository)
    for line in lines(5):
        appended(store, line)
    assert len(packs(shape)) == 5
    repository.close()
    assert len(packs(shape)) == 1
    repository.close()
    sound(shape, git, appended(store, TWO))
    assert len(packs(shape)) == 2


def test_an_append_stores_what_is_new_and_little_else(shape: Shape, git: Git, opened: Open) -> None:
    store = GitStore(opened(shape.path))
    noise = b"".join(os.urandom(300).hex().encode() + b"\n" for _ in range(2000))
    appended(store, noise)
    sizes = []
    for line in lines(200):
        appended(store, line)
        sizes.append(max(packs(shape), key=lambda path: path.stat().st_mtime_ns).stat().st_size)
    assert sizes[-1] - sizes[0] < 199 * 400
    assert git(shape.path, "count-objects").startswith("3 objects")


@pytest.mark.usefixtures("frozen_early")
@pytest.mark.parametrize("shape_name", ["sha1", "sha256"])
def test_full_packs_are_left_and_merged(
    shape_name: str, make_shape: Callable[[str], Shape], git: Git, opened: Open
) -> None:
    shape = make_shape(shape_name)
    store = GitStore(opened(shape.path))
    most = 0
    for line in lines(700):
        tip = appended(store, line)
        most = max(most, len(packs(shape)))
    # More than twenty were full; of those that stand, each is twice its junior.
    assert 2 <= len(json.loads(note(shape).read_text())["standing"]) <= 7
    assert most <= 1 + MOST_REPLACED + 8
    sound(shape, git, tip)
    said = git(shape.git_dir, "rev-list", "--objects", "--all").splitlines()
    counted = git(shape.git_dir, "count-objects", "-v").splitlines()
    assert "garbage: 0" in counted
    assert len(said) >= 700 * 3
    reopened = GitStore(opened(shape.path))
    assert reopened.read() == tip
    sound(shape, git, appended(reopened, ONE))


@pytest.mark.usefixtures("frozen_early")
def test_growth_is_bounded_full_packs_included(shape: Shape, git: Git, opened: Open) -> None:
    noise = random.Random(7)

    def record() -> bytes:
        return b'{"n":"%s"}\n' % noise.randbytes(500).hex().encode()

    def stored() -> int:
        return sum(path.stat().st_size for path in (shape.git_dir / "objects").rglob("*.*"))

    repository = opened(shape.path)
    store = GitStore(repository)
    # Large enough that the ledger decides when a pack is full.
    appended(store, b"".join(record() for _ in range(200)))
    repository.close()
    before, count, seen = stored(), 600, set()
    for _ in range(count):
        tip = appended(store, record())
        seen.update(json.loads(note(shape).read_text())["standing"])
    repository.close()
    assert len(seen) >= 2
    assert len(packs(shape)) <= 6
    # About 560 of it are what was added.
    assert (stored() - before) / count <= 2500
    sound(shape, git, tip)


def test_two_boards_do_not_disturb_each_other(shape: Shape, git: Git, opened: Open) -> None:
    clock = FixedClock(1_700_000_000_000)
    repository = opened(shape.path)
    stores = [GitStore(repository, branch, clock=clock) for branch in ("work-queue", "other")]
    # The very same objects in both, as the time is the same too.
    for line in lines(40):
        one, other = (appended(store, line) for store in stores)
        assert one == other
    for number in range(40):
        other = appended(stores[1], b'{"other":%d}\n' % number)
    one = appended(stores[0], TWO)
    sound(shape, git, one)
    assert git(shape.path, "cat-file", "blob", "other:work-queue.jsonl").encode() + b"\n" == (
        other.data
    )
    assert len(packs(shape)) <= 2 * (1 + MOST_REPLACED)


def test_other_files_on_the_branch_cost_little(shape: Shape, git: Git, opened: Open) -> None:
    git(shape.path, "checkout", "-q", "--orphan", "work-queue")
    for number in range(300):
        (shape.path / f"file-{number:04}").write_text("x")
    (shape.path / "work-queue.jsonl").write_bytes(ONE)
    git(shape.path, "add", "-A")
    git(shape.path, "commit", "-qm", "many files")
    git(shape.path, "checkout", "-qf", "main")
    before = git(shape.path, "ls-tree", REF).splitlines()
    store = GitStore(opened(shape.path))
    sizes = []
    for line in lines(30):
        tip = appended(store, line)
        sizes.append(max(packs(shape), key=lambda path: path.stat().st_mtime_ns).stat().st_size)
    assert sizes[-1] - sizes[1] < 28 * 700
    assert len(git(shape.path, "ls-tree", REF).splitlines()) == len(before) == 302
    sound(shape, git, tip)
    sound(shape, git, appended(GitStore(opened(shape.path)), TWO))


def test_a_shorter_file_begins_a_new_pack(shape: Shape, git: Git, opened: Open) -> None:
    repository = opened(shape.path)
    store = GitStore(repository)
    for line in lines(30):
        tip = appended(store, line)
    # As a checkpoint does: the whole file is replaced.
    assert repository.move_ref(
        REF,
        tip.revision,
        lambda: repository.commit_file(
            tip.revision, "work-queue.jsonl", [ONE], message="x", at_ms=0, ref=REF
        ),
    )
    again = GitStore(opened(shape.path))
    assert again.read().data == ONE
    for line in lines(30, start=100):
        tip = appended(again, line)
    git(shape.path, "fsck", "--strict", "--full", "--no-dangling")
    assert git(shape.path, "cat-file", "blob", f"{REF}~31:work-queue.jsonl").count("\n") == 29
    assert tip.data.startswith(ONE)


def test_a_branch_set_back_goes_on(shape: Shape, git: Git, opened: Open) -> None:
    clock = FixedClock(1_700_000_000_000)
    for turn in range(4):
        store = GitStore(opened(shape.path), clock=clock)
        # The same objects again each time.
        for line in lines(10):
            tip = appended(store, line)
        sound(shape, git, tip)
        git(shape.path, "update-ref", REF, f"{REF}~{5 + turn}")
        # As somebody says who wants it so.
        store._last_tip.path.unlink()
        reopened = GitStore(opened(shape.path), clock=clock)
        assert len(reopened.read().data.splitlines()) == 10 * (turn + 1) - sum(range(5, 6 + turn))
        tip = appended(reopened, b'{"turn":%d}\n' % turn)
        sound(shape, git, tip)
        git(shape.path, "update-ref", REF, f"{REF}~1")
        store._last_tip.path.unlink()
    assert len(packs(shape)) <= MOST_REPLACED + 12


# --- the note, and what else may be wrong --------------------------------------------------------


def _spoilt(path: Path, shape: Shape) -> Iterator[Callable[[], object]]:
    """Every way in which somebody may have dealt with the note."""
    document = json.loads(path.read_text())
    (tip, before) = document["tips"]
    stranger = "pack-" + "0" * len(tip["pack"].removeprefix("pack-"))

    def put(changed: object) -> Callable[[], object]:
        return lambda: path.write_text(json.dumps(changed))

    yield path.unlink
    yield lambda: path.write_bytes(b"")
    yield lambda: path.write_bytes(b"\xff" * 100)
    yield lambda: path.write_bytes(b"[" * 100_000)
    yield lambda: path.write_bytes(b'{"tips":[' + b" " * 70_000 + b"]}")
    yield lambda: [path.unlink(), path.mkdir()]  # type: ignore[func-returns-value]
    yield put([])
    yield put({"tips": [{}]})
    yield put({"unknown": 1})
    yield put(document | {"tips": []})
    yield put(document | {"tips": [before]})
    yield put(document | {"tips": [before, tip]})
    yield put(document | {"tips": [tip | {"pack": stranger}]})
    yield put(document | {"tips": [tip | {"pack": "../../x"}]})
    yield put(document | {"tips": [tip | {"pack": before["pack"]}]})
    yield put(document | {"tips": [tip | {"blob": before["blob"]}]})
    yield put(document | {"tips": [tip | {"closed": tip["closed"] + 1}]})
    yield put(document | {"tips": [tip | {"closed_bytes": tip["closed_bytes"] + 1}]})
    yield put(document | {"tips": [tip | {"closed": -1}]})
    yield put(document | {"tips": [tip | {"closed": 10**30}]})
    everything = [path.stem for path in packs(shape)]
    yield put(document | {"spent": everything, "standing": everything, "gone": everything})
    yield put({"spent": everything})
    yield put({"standing": everything})
    yield put(document | {"spent": [stranger] * 300})


def test_whatever_the_note_says_only_costs(shape: Shape, git: Git, opened: Open) -> None:
    # A pack that is nobody's business here, and whose name will be in the note.
    git(shape.path, "repack", "-adq")
    store = GitStore(opened(shape.path))
    for line in lines(3):
        tip = appended(store, line)
    for number in itertools.count():
        ways = list(_spoilt(note(shape), shape))
        if number == len(ways):
            break
        ways[number]()
        for reopen in (True, False):
            store = GitStore(opened(shape.path)) if reopen else store
            assert store.read() == tip
            tip = appended(store, b'{"way":%d,"reopened":%d}\n' % (number, reopen))
        place = next((shape.git_dir / "callboard").glob("packs-*.json"))
        if place.is_dir():
            place.rmdir()
            tip = appended(store, ONE)
        git(shape.path, "fsck", "--strict", "--no-dangling")
        tip = appended(store, TWO)
    sound(shape, git, tip)


@pytest.mark.parametrize("what", ["head", "middle", "end", "cut", "index", "gone", "no index"])
def test_a_damaged_pack_is_not_gone_on_with(
    what: str, shape: Shape, git: Git, opened: Open
) -> None:
    store = GitStore(opened(shape.path))
    for line in lines(20, pad=2000):
        tip = appended(store, line)
    stem = json.loads(note(shape).read_text())["tips"][0]["pack"]
    pack = shape.git_dir / "objects" / "pack" / f"{stem}.pack"
    # All that is reachable lies in another pack too.
    git(shape.path, "repack", "-aq", "--no-write-bitmap-index")
    for path in (pack, pack.with_suffix(".idx")):
        path.chmod(0o644)
    data = bytearray(pack.read_bytes())
    if what in ("head", "middle", "end"):
        at = {"head": 20, "middle": len(data) // 2, "end": len(data) - 5}[what]
        data[at] ^= 0xFF
        pack.write_bytes(data)
    elif what == "cut":
        pack.write_bytes(data[:-30])
    elif what == "index":
        index = bytearray(pack.with_suffix(".idx").read_bytes())
        index[1100] ^= 0xFF
        pack.with_suffix(".idx").write_bytes(index)
    else:
        (pack if what == "gone" else pack.with_suffix(".idx")).unlink()
    reopened = opened(shape.path)
    answer = GitStore(reopened)
    assert reopened.move_ref(
        REF,
        tip.revision,
        lambda: reopened.commit_file(
            tip.revision, "work-queue.jsonl", [tip.data + ONE], message="x", at_ms=0, ref=REF
        ),
    )
    stem = json.loads(note(shape).read_text())["tips"][0]["pack"]
    git(shape.path, "verify-pack", str(pack.with_name(f"{stem}.pack")))
    for path in (pack, pack.with_suffix(".idx")):
        path.unlink(missing_ok=True)
    assert answer.read().data == tip.data + ONE
    sound(shape, git, answer.read())


def test_a_pack_that_its_owner_keeps_is_kept(shape: Shape, git: Git, opened: Open) -> None:
    store = GitStore(opened(shape.path))
    kept = []
    for number, line in enumerate(lines(40)):
        appended(store, line)
        if number % 20 == 5:
            kept.append(max(packs(shape), key=lambda path: path.stat().st_mtime_ns))
            kept[-1].with_suffix(".keep").write_text("mine\n")
    for path in kept:
        assert path.exists()
        assert path.with_suffix(".keep").read_text() == "mine\n"
    git(shape.path, "fsck", "--strict", "--full")
    kept[0].with_suffix(".keep").unlink()
    for line in lines(MOST_REPLACED + 2):
        appended(store, line)
    assert not kept[0].exists()
    assert kept[1].exists()


def test_a_multi_pack_index_never_misses_a_pack(shape: Shape, git: Git, opened: Open) -> None:
    store = GitStore(opened(shape.path))
    for round_number in range(3):
        for line in lines(12, start=100 * round_number):
            tip = appended(store, line)
        git(shape.path, "multi-pack-index", "write")
        named = set(packs(shape))
        for line in lines(12, start=100 * round_number + 50):
            tip = appended(store, line)
            git(shape.path, "multi-pack-index", "verify")
        assert named <= set(packs(shape))
        sound_but_for_the_index = git(shape.path, "fsck", "--strict", "--full", "--no-dangling")
        assert "error" not in sound_but_for_the_index
    (shape.git_dir / "objects" / "pack" / "multi-pack-index").unlink()
    for line in lines(3, start=1000):
        tip = appended(store, line)
    assert len(packs(shape)) == 1 + MOST_REPLACED
    sound(shape, git, tip)


def test_a_multi_pack_index_that_came_too_late_is_removed(
    shape: Shape, git: Git, opened: Open, tmp_path: Path
) -> None:
    store = GitStore(opened(shape.path))
    for line in lines(5):
        appended(store, line)
    git(shape.path, "multi-pack-index", "write")
    late = shape.git_dir / "objects" / "pack" / "multi-pack-index"
    shutil.move(late, tmp_path / "late")
    for line in lines(MOST_REPLACED + 5):
        appended(store, line)
    # One that was begun before packs went, and is finished now.
    shutil.move(tmp_path / "late", late)
    tip = appended(GitStore(opened(shape.path)), ONE)
    assert not late.exists()
    sound(shape, git, tip)


def test_maintenance_of_every_kind_in_between(shape: Shape, git: Git, opened: Open) -> None:
    store = GitStore(opened(shape.path))
    number = itertools.count()
    for command in (
        ["gc", "-q", "--prune=now"],
        ["repack", "-adq"],
        ["repack", "-Adq", "--write-midx"],
        ["repack", "-dq", "--geometric=2"],
        ["prune", "--expire=now"],
        ["prune-packed"],
        ["maintenance", "run", "--task=incremental-repack"],
        ["maintenance", "run", "--task=loose-objects"],
        ["repack", "-adbq"],
        ["multi-pack-index", "write", "--bitmap"],
        ["multi-pack-index", "expire"],
        ["multi-pack-index", "repack"],
        ["gc", "-q", "--aggressive"],
        ["gc", "-q", "--cruft"],
    ):
        for reopen in (False, True):
            git(shape.path, *command)
            store = GitStore(opened(shape.path)) if reopen else store
            for _ in range(3):
                tip = appended(store, b'{"n":%d}\n' % next(number))
        git(shape.path, "fsck", "--strict", "--full", "--no-dangling")
    assert len(tip.data.splitlines()) == next(number)
    git(shape.path, "repack", "-adq")
    sound(shape, git, tip)


def test_a_borrowed_repository_lends_its_pack(
    shape: Shape, git: Git, opened: Open, tmp_path: Path
) -> None:
    lender = GitStore(opened(shape.path))
    for line in lines(5):
        tip = appended(lender, line)
    git(tmp_path, "clone", "-q", "--shared", str(shape.path), str(tmp_path / "second"))
    git(tmp_path / "second", "branch", "work-queue", "origin/work-queue")
    borrower = GitStore(opened(tmp_path / "second"))
    assert borrower.read() == tip
    for line in lines(15, start=100):
        tip = appended(borrower, line)
    second = Shape(tmp_path / "second", tmp_path / "second" / ".git")
    sound(second, git, tip)
    for line in lines(15, start=200):
        appended(lender, line)
    sound(second, git, tip)


def test_the_pack_of_a_shared_repository_is_shared(
    make_shape: Callable[[str], Shape], git: Git, opened: Open
) -> None:
    shape = make_shape("bare")
    git(shape.path, "config", "core.sharedRepository", "group")
    store = GitStore(opened(shape.path))
    old = os.umask(0o077)
    try:
        for line in lines(3):
            tip = appended(store, line)
    finally:
        os.umask(old)
    for path in (shape.path / "objects" / "pack").iterdir():
        assert path.stat().st_mode & 0o777 == 0o440
    assert note(shape).stat().st_mode & 0o777 == 0o660
    sound(shape, git, tip)


def test_what_was_lost_in_a_race_is_taken_in(shape: Shape, git: Git, opened: Open) -> None:
    repository = opened(shape.path)
    store = GitStore(repository)
    for line in lines(3):
        tip = appended(store, line)
    lost = []
    for number in range(3):
        # Somebody else moves the ref at the very last moment.
        def make(number: int = number, tip: LedgerTip = tip) -> str:
            data = tip.data + b'{"lost":%d}\n' % number
            lost.append(
                repository.commit_file(
                    tip.revision, "work-queue.jsonl", [data], message="x", at_ms=0, ref=REF
                )
            )
            tree = git(shape.path, "rev-parse", f"{REF}^{{tree}}")
            other = git(shape.path, "commit-tree", tree, "-p", REF, "-m", "by hand")
            git(shape.path, "update-ref", REF, other)
            return lost[-1]

        assert repository.move_ref(REF, tip.revision, make) is False
        tip = appended(store, b'{"n":%d}\n' % (100 + number))
    for line in lines(MOST_REPLACED + 1, start=200):
        tip = appended(store, line)
    # Nothing was taken away that Git itself would not, and one pack holds it all.
    for number, commit in enumerate(lost):
        said = git(shape.path, "cat-file", "blob", f"{commit}:work-queue.jsonl")
        assert said.endswith(f'{{"lost":{number}}}')
    assert len(packs(shape)) == 1 + MOST_REPLACED
    sound(shape, git, tip)
    answer = GitStore(opened(shape.path)).append(tip, ONE, message="x")
    assert isinstance(answer, Appended)
    sound(shape, git, answer.tip)


def test_who_still_clears_up_leaves_the_next_append_alone(
    shape: Shape, git: Git, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository = opened(shape.path)
    store = GitStore(repository)
    for line in lines(3):
        appended(store, line)
    real, turns = RollingPacks.moved, itertools.count()
    clearing, written = threading.Event(), threading.Event()

    def held_up(self: RollingPacks, ref: str) -> None:
        if next(turns) == 0:
            clearing.set()
            assert written.wait(60)
        real(self, ref)

    monkeypatch.setattr(RollingPacks, "moved", held_up)
    thread = threading.Thread(target=lambda: appended(store, ONE))
    thread.start()
    assert clearing.wait(60)
    other = GitStore(repository)
    base = other.read()

    def make() -> str:
        assert base.revision is not None
        commit = repository.commit_file(
            base.revision, "work-queue.jsonl", [base.data + TWO], message="x", at_ms=0, ref=REF
        )
        # The first goes on while this one's ref has not moved.
        written.set()
        thread.join()
        (kept,) = (shape.git_dir / "objects" / "pack").glob("*.keep")
        assert kept.stem == json.loads(note(shape).read_text())["tips"][0]["pack"]
        assert GitStore(opened(shape.path)).read() == base
        return commit

    assert repository.move_ref(REF, base.revision, make)
    for line in lines(3, start=100):
        tip = appended(other, line)
    assert tip.data.startswith(base.data + TWO)
    sound(shape, git, tip)
