"""A board on a real repository that is compacted while others look at it and write to it."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from callboard import canonical
from callboard.board.board import Accepted, Board, Folders
from callboard.board.execution.principal import make_principal
from callboard.board.publishing import compaction
from callboard.board.publishing.plan import Plan, parse_plan
from callboard.board.reading import lines, receipts, tracing
from callboard.board.reading.decisions import before_claim
from callboard.board.reading.pauses import pauses
from callboard.board.storage.git import GitStore
from callboard.board.storage.repository import Repository
from callboard.board.storage.store import Appended
from callboard.clock import FixedClock
from callboard.errors import CallboardError
from tests.board.ledger.checkpoints import resealed
from tests.board.projection import audit
from tests.repositories import git, worker_repository

RECIPE = 'command = ["true"]\n'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return worker_repository(tmp_path / "repository", RECIPE)


@pytest.fixture
def folders(tmp_path: Path) -> Folders:
    make_principal(tmp_path / "config")
    return Folders(tmp_path / "config", tmp_path / "state")


@pytest.fixture
def board(folder: Path, folders: Folders) -> Iterator[Board]:
    with opened(folder, folders) as board:
        yield board


def opened(folder: Path, folders: Folders) -> Board:
    return Board.open(folder, folders, clock=FixedClock(1_700_000_000_000))


def plan(*keys: str, graph: str = "g") -> Plan:
    return parse_plan({"graph": graph, "nodes": [{"key": key, "payload": {}} for key in keys]})


def busy(board: Board) -> None:
    """Something of everything that needs old commits later."""
    board.submit(plan("a", "b", "c"), request_id="s1")
    board.grant(max_claims=1, request_id="g1")
    board.submit(plan("b", "c", "d"), request_id="s2")
    view = board.view()
    (c,) = [key for key, one in view.projection.works.items() if one.work.node_key == "c"]
    board.cancel([c], reason="not_needed", request_id="c1")
    board.set_paused("admission", True, reason="maintenance", request_id="p1")


def test_reading_is_the_same_before_and_after(board: Board, folder: Path, folders: Folders) -> None:
    busy(board)

    def read(board: Board) -> dict[str, object]:
        view = board.view()
        projection = view.projection
        (claim,) = projection.claims.values()
        requests = [one for one in projection.requests.values() if one.kind != "checkpoint"]
        work = projection.works[claim.claim.work_id]
        moved = {"tip": None, "observed_tip": None}
        return {
            "receipts": [{**receipts.receipt(view, one), **moved} for one in requests],
            "log": [one["commit_id"] for one in lines.log(view, limit=100)["commits"]][:5],
            "traces": tracing.trace_work(view, work)["commits"],
            "claim": tracing.trace_claim(view, claim)["commits"],
            "why": {**before_claim(view, claim, limit=5, offset=0), "tip": None},
            "pauses": pauses(view),
        }

    before = read(board)
    board.checkpoint()
    assert read(board) == before
    board.checkpoint()
    with opened(folder, folders) as another:
        assert read(another) == before


def test_a_process_that_has_read_before_goes_on_after_anothers_checkpoint(
    board: Board, folder: Path, folders: Folders
) -> None:
    board.submit(plan("a"))
    with opened(folder, folders) as other:
        other.submit(plan("b", graph="h"))
        other.checkpoint()
        other.submit(plan("c", graph="i"))
        other.checkpoint()
    assert board.view().projection.counters.work == 3
    assert isinstance(board.grant(max_claims=2), Accepted)
    with opened(folder, folders) as other:
        assert audit.document(other.view().projection) == audit.document(board.view().projection)


def test_requests_are_recognised_without_the_old_ledger(
    board: Board, folder: Path, folders: Folders, tmp_path: Path
) -> None:
    busy(board)
    c = next(key for key, one in board.view().projection.works.items() if one.cancellation_reason)
    board.checkpoint()
    clone = tmp_path / "clone"
    git("clone", "-q", "--depth", "1", f"file://{folder}", str(clone), cwd=tmp_path)
    git("fetch", "-q", "--depth", "1", "origin", "work-queue:work-queue", cwd=clone)
    with opened(clone, folders) as there:
        for outcome in (
            there.submit(plan("a", "b", "c"), request_id="s1")[0].outcome,
            there.grant(max_claims=1, request_id="g1"),
            there.submit(plan("b", "c", "d"), request_id="s2")[0].outcome,
            there.cancel([c], reason="not_needed", request_id="c1"),
            there.set_paused("admission", True, reason="maintenance", request_id="p1"),
        ):
            assert isinstance(outcome, Accepted)
            assert outcome.replayed
            request = outcome.request
            assert outcome.source == board.history().previous(request.id)
            receipt = there.receipt(outcome, request_id=request.request_id)
            assert receipt["commit_id"] == request.id
        others: list[Callable[[], object]] = [
            lambda: there.submit(plan("a", "b"), request_id="s1"),
            lambda: there.grant(max_claims=2, request_id="g1"),
            lambda: there.cancel([c], reason="other", request_id="c1"),
            lambda: there.set_paused("admission", True, reason="other", request_id="p1"),
        ]
        for other in others:
            with pytest.raises(CallboardError) as caught:
                other()
            assert caught.value.code == "request_conflict"


def test_a_clone_without_the_old_ledger_says_so(
    board: Board, folder: Path, folders: Folders, tmp_path: Path
) -> None:
    busy(board)
    held = git("rev-parse", "work-queue", cwd=folder)
    board.checkpoint()
    clone = tmp_path / "clone"
    git("clone", "-q", "--depth", "1", f"file://{folder}", str(clone), cwd=tmp_path)
    git("fetch", "-q", "--depth", "1", "origin", "work-queue:work-queue", cwd=clone)
    with opened(clone, folders) as there:
        view = there.view()
        (claim,) = view.projection.claims.values()
        work = view.projection.works[claim.claim.work_id]
        acts: list[Callable[[], object]] = [
            lambda: tracing.trace_work(view, work),
            lambda: before_claim(view, claim, limit=5, offset=0),
            lambda: view.history.commit(0),
            lambda: view.history.prefix(2),
        ]
        for act in acts:
            with pytest.raises(CallboardError) as caught:
                act()
            assert caught.value.code == "history_unavailable"
            assert caught.value.details == {"revision": held}
        assert pauses(view) == {"admission": {"before_checkpoint": True}}
        log = lines.log(view, limit=100)
        assert (log["count"], len(log["commits"]), log["unavailable"]) == (6, 1, 5)
        report = lines.behind_checkpoints(view.history)
        assert report == {
            "commits": 5, "checked": [], "unchecked_commits": 5, "unchecked_in": held,
        }  # fmt: skip
    git("fetch", "-q", "--unshallow", "origin", "work-queue", cwd=clone)
    with opened(clone, folders) as there:
        report = lines.behind_checkpoints(there.history())
        assert (report["unchecked_commits"], len(report["checked"])) == (0, 1)


def lie(line: bytes) -> bytes:
    """Put another state under the branch's checkpoint, sealed as a careful liar would."""
    record = canonical.decode(line[:-1])
    record["operations"][0]["state"]["admission_paused"] ^= True
    return resealed(record)


def write(folder: Path, data: bytes) -> None:
    with Repository.discover(folder) as repository:
        store = GitStore(repository)
        assert isinstance(store.replace(store.read(), data, message="lie"), Appended)


def test_a_checkpoint_that_tells_another_story_is_refused_by_who_knows_better(
    board: Board, folder: Path, folders: Folders
) -> None:
    board.submit(plan("a"))
    with opened(folder, folders) as other:
        tip = other.history()
        made = other.plan_checkpoint()
        honest = compaction.plan(
            tip, made["prior_git_sha"], made["at"], other.site.actor("administrator")
        )
    write(folder, lie(honest.made.line))
    with pytest.raises(CallboardError) as caught:
        board.view()
    assert caught.value.code == "ledger_invalid"
    assert caught.value.details["cause"] == "checkpoint_mismatch"
    with opened(folder, folders) as cold:
        with pytest.raises(CallboardError) as caught:
            lines.behind_checkpoints(cold.history())
        assert caught.value.code == "checkpoint_mismatch"


def test_a_shorter_ledger_and_a_foreign_checkpoint_are_refused(
    board: Board, folder: Path, folders: Folders
) -> None:
    board.submit(plan("a"))
    before = board.site.store.read()
    board.submit(plan("b", graph="h"))
    write(folder, before.data)
    with pytest.raises(CallboardError) as caught:
        board.view()
    assert caught.value.details["cause"] == "history_replaced"
    with opened(folder, folders) as other:
        other.checkpoint()
    with pytest.raises(CallboardError) as caught:
        board.view()
    assert caught.value.details["cause"] == "history_replaced"


@pytest.mark.parametrize("object_format", ["sha1", "sha256"])
def test_both_object_formats(tmp_path: Path, folders: Folders, object_format: str) -> None:
    source = worker_repository(tmp_path / "source", RECIPE)
    folder = tmp_path / "made"
    git("init", "-q", f"--object-format={object_format}", str(folder), cwd=tmp_path)
    subprocess.run(["cp", "-r", str(source / ".callboard"), str(folder)], check=True)
    git("add", "-A", cwd=folder)
    git("commit", "-q", "-m", "files", cwd=folder)
    with opened(folder, folders) as board:
        board.submit(plan("a"))
        board.checkpoint()
        board.submit(plan("b", graph="h"))
        document = board.checkpoint()
        assert len(document["prior_git_sha"]) == (40 if object_format == "sha1" else 64)
    with opened(folder, folders) as board:
        assert len(lines.behind_checkpoints(board.history())["checked"]) == 2
    git("fsck", "--strict", "--no-dangling", cwd=folder)


def test_a_lie_among_several_checkpoints_is_found_by_who_knows_better(
    board: Board, folder: Path, folders: Folders
) -> None:
    board.submit(plan("a"))
    with opened(folder, folders) as other:
        other.checkpoint()
        honest = other.plan_checkpoint()
        history = other.history()
        made = compaction.plan(
            history, honest["prior_git_sha"], honest["at"], other.site.actor("administrator")
        )
    write(folder, lie(made.made.line))
    with opened(folder, folders) as other:
        # Whoever comes later has only the checkpoint's word.
        other.set_paused("admission", False, reason="as_it_was")
        other.checkpoint()
    with pytest.raises(CallboardError) as caught:
        board.view()
    assert caught.value.code == "ledger_invalid"
    assert caught.value.details["cause"] == "checkpoint_mismatch"
