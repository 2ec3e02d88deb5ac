"""A checkpoint in the place of a history: nothing that is decided afterwards may differ."""

from __future__ import annotations

import random

import pytest

from callboard import canonical
from callboard.board.ledger import checkpoint, replay
from callboard.board.ledger.history import History
from callboard.board.projection.state import Projection
from callboard.board.protocol.envelope import read_line
from callboard.errors import CallboardError
from tests.ambient import DEEP
from tests.board.ledger import checkpoints as make
from tests.board.ledger.checkpoints import Chain
from tests.board.projection import audit
from tests.model.canon import Doc
from tests.model.history import random_history

SEEDS = range(1_200) if DEEP else range(0, 1_200, 60)
CHAINS = range(600) if DEEP else range(0, 600, 50)


def lines_of(seed: int, steps: int = 60) -> list[Doc]:
    return random_history(seed, steps)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_checkpoint_at_any_prefix_restores_the_state_with_every_index(seed: int) -> None:
    commits = lines_of(seed)
    prior = Projection()
    data = b""
    for number, commit in enumerate(commits):
        line = make.line_of(commit)
        data += line
        replay.apply(prior, read_line(line[:-1]))
        made = make.made(data, prior)
        restored = checkpoint.read_root(made.commit)
        where = (seed, number)
        assert audit.document(restored) == audit.document(prior), where
        assert audit.kept(restored, prior.last_at) == audit.kept(prior, prior.last_at), where
        at = prior.last_at + random.Random(seed + number).choice([0, 1, 500, 40_000])
        assert audit.kept(restored, at) == audit.counted(restored, at), where
        assert restored.runs == prior.runs, where
        assert restored.commit_ids == prior.commit_ids, where
        assert list(restored.works) == sorted(prior.works, key=lambda one: prior.works[one].place)
        assert list(restored.claims) == list(prior.claims), where
        assert list(restored.dispatches) == list(prior.dispatches), where
        make.compare_what_is_kept(restored, prior)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_rest_of_a_history_goes_on_behind_a_checkpoint_of_any_prefix(seed: int) -> None:
    commits = lines_of(seed)
    full = History.read(b"".join(make.line_of(one) for one in commits))
    wanted = make.plain(full.projection)
    at = full.projection.last_at
    selections = make.selections(full.projection, at)
    compared = 0
    for cut in range(1, len(commits)):
        chain = Chain(commits[:cut])
        if not chain.has_room(commits[cut:]):
            continue
        found = chain.read().projection
        assert make.without_checkpoints(make.plain(found), wanted) == wanted, (seed, cut)
        assert make.selections(found, at) == selections, (seed, cut)
        compared += 1
    assert compared > 0


@pytest.mark.parametrize("seed", CHAINS)
def test_repeated_checkpoints_change_nothing_either(seed: int) -> None:
    commits = lines_of(seed)
    chance = random.Random(seed)
    full = History.read(b"".join(make.line_of(one) for one in commits))
    chain = Chain(commits[:1])
    number = 1
    while number < len(commits):
        more = commits[number : number + chance.randint(1, 9)]
        if not chain.has_room(*[[]] * chance.choice([0, 1]), more):
            return
        number += len(more)
    history = chain.read()
    wanted = make.plain(full.projection)
    assert make.without_checkpoints(make.plain(history.projection), wanted) == wanted
    for ordinal, commit_id in enumerate(history.projection.commit_ids):
        assert history.commit(ordinal).id == commit_id
        assert history.prefix(ordinal + 1).projection.tip == commit_id
        previous = history.commit(ordinal).previous
        assert history.previous(commit_id) == previous


@pytest.mark.parametrize("seed", CHAINS)
def test_lines_in_any_order_and_twice_are_one_history(seed: int) -> None:
    commits = lines_of(seed)
    chance = random.Random(seed)
    cut = chance.randint(len(commits) // 2, len(commits) - 1)
    chain = Chain(commits[:cut])
    if not chain.has_room(commits[cut:]):
        return
    wanted = make.plain(chain.read().projection)
    for _turn in range(3):
        mixed = make.shuffled(chain.lines, chance)
        history = History.read(mixed, chain.ledger_at)
        assert make.plain(history.projection) == wanted
        assert [history.commit(one).id for one in range(cut, history.projection.ordinal)] == list(
            history.projection.commit_ids
        )[cut:]


def small(steps: int = 12, seed: int = 1) -> Chain:
    return Chain(lines_of(seed, steps))


def refused(data: bytes) -> CallboardError:
    with pytest.raises(CallboardError) as caught:
        History.read(data)
    assert caught.value.code == "ledger_invalid"
    return caught.value


def test_a_checkpoint_takes_the_next_ordinal_and_its_own_line_is_all_that_counts() -> None:
    chain = small()
    before = chain.read().projection
    line = chain.compact()
    after = chain.read()
    assert after.base == before.ordinal == after.projection.ordinal - 1
    assert after.projection.counters.transactions == before.counters.transactions + 1
    assert after.projection.ledger_bytes == len(line)
    request = list(after.projection.requests.values())[-1]
    assert (request.kind, request.claims, request.works) == ("checkpoint", (), ())
    assert after.commit(after.base).previous is None
    works = after.projection.works.values()
    assert all(one.place == before.works[one.work.work_id].place for one in works)


def test_a_refused_candidate_leaves_nothing_of_a_checkpoint_behind() -> None:
    chain = small()
    line = chain.compact()
    projection = Projection()
    projection.begin()
    before = vars(projection).copy()
    with pytest.raises(CallboardError):
        replay.apply(projection, read_line(make.altered(line[:-1], at=-1)))
    assert projection.tip is None
    assert not projection.works
    assert not projection.commit_ids
    replay.apply(projection, read_line(line[:-1]))
    assert projection.works
    replay.take_back(projection)
    assert projection.tip is None
    assert not projection.works
    assert projection.ordinal == 0
    assert vars(projection).keys() == before.keys()


def test_a_checkpoint_stands_only_at_the_root() -> None:
    chain = small()
    data = chain.data
    line = chain.compact()
    error = refused(data + line)
    assert error.details["cause"] == "second_root"
    follows = canonical.decode(line[:-1]) | {"previous": "q_other"}
    error = refused(make.line_of(follows))
    assert error.details["cause"] == "predecessor_missing"
    projection = History.read(data).projection
    behind = canonical.decode(line[:-1]) | {"previous": projection.tip}
    error = refused(data + make.line_of(behind))
    assert error.details["cause"] == "checkpoint_misplaced"


def test_commits_of_the_history_it_stands_for_do_not_follow_it() -> None:
    chain = small()
    old = list(chain.lines)
    line = chain.compact()
    causes = {refused(line + one).details["cause"] for one in old}
    assert causes == {"second_root", "fork"}


@pytest.mark.parametrize("role", ["producer", "dispatcher", "reconciler", "projector"])
def test_only_an_administrator_makes_one(role: str) -> None:
    chain = small()
    record = canonical.decode(chain.compact()[:-1])
    record["actor"]["role"] = role
    assert refused(make.resealed(record)).details["cause"] == "role_forbidden"


def test_large_requests_are_compressed_and_read_back(monkeypatch: pytest.MonkeyPatch) -> None:
    chain = small(40)
    prior = chain.read().projection
    plain_line = make.made(chain.data, prior).line
    monkeypatch.setattr(checkpoint, "MAX_LINE_BYTES", len(plain_line) - 2)
    made = make.made(chain.data, prior)
    assert made.is_compressed
    assert len(made.line) < len(plain_line)
    assert made.line == make.made(chain.data, prior).line
    digests = [checkpoint_parameters(one) for one in (plain_line, made.line)]
    assert digests[0] == digests[1]
    restored = checkpoint.read_root(made.commit)
    assert audit.document(restored) == audit.document(prior)
    assert History.read(made.line).projection.ordinal == prior.ordinal + 1
    monkeypatch.setattr(checkpoint, "MAX_LINE_BYTES", len(made.line) - 2)
    with pytest.raises(CallboardError) as caught:
        make.made(chain.data, prior)
    assert caught.value.code == "checkpoint_limit"
    assert caught.value.details["limit"] == "line_bytes"


def test_more_requests_than_an_array_may_have_are_compressed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    chain = small(40)
    prior = chain.read().projection
    monkeypatch.setattr(checkpoint, "MAX_ARRAY_MEMBERS", 3)
    made = make.made(chain.data, prior)
    assert made.is_compressed
    assert audit.document(checkpoint.read_root(made.commit)) == audit.document(prior)


def checkpoint_parameters(line: bytes) -> Doc:
    found: Doc = canonical.decode(line[:-1])["request"]["parameters"]
    return found


def test_a_payload_too_deep_for_a_state_is_refused_before_anything_is_written() -> None:
    chain = Chain([make.with_payload_depth(57)])
    prior = chain.read().projection
    assert not make.made(chain.data, prior).is_compressed
    chain = Chain([make.with_payload_depth(59)])
    with pytest.raises(CallboardError) as caught:
        make.made(chain.data, chain.read().projection)
    assert caught.value.code == "checkpoint_limit"
    assert caught.value.details["limit"] == "depth"


def test_an_empty_ledger_has_no_checkpoint() -> None:
    with pytest.raises(CallboardError) as caught:
        make.made(b"", Projection())
    assert caught.value.code == "queue_missing"


@pytest.mark.parametrize(
    ("sha", "actor", "code"),
    [
        ("HEAD", {}, "record_invalid"),
        ("AB" * 20, {}, "record_invalid"),
        (make.SHA, {"run_id": "7"}, "actor_invalid"),
    ],
)
def test_arguments_that_no_record_holds_are_refused(sha: str, actor: Doc, code: str) -> None:
    chain = small()
    with pytest.raises(CallboardError) as caught:
        make.made(chain.data, chain.read().projection, sha=sha, actor=actor)
    assert caught.value.code == code
