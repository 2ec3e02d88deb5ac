"""Checkpoints that anybody may have written: refused with a code, or exactly the state they say."""

from __future__ import annotations

import base64
import copy
import random
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from callboard import canonical
from callboard.board.ledger import checkpoint
from callboard.board.ledger.history import History
from callboard.board.projection.state import Projection
from callboard.board.protocol.envelope import read_line
from callboard.board.reading.columns import Columns
from callboard.board.reading.detail import detail, why
from callboard.board.reading.lines import tally
from callboard.board.reading.shares import shares
from callboard.board.reading.view import View
from callboard.errors import CallboardError
from tests.ambient import DEEP
from tests.board.ledger import checkpoints as make
from tests.board.ledger.checkpoints import Chain
from tests.board.projection import audit
from tests.model.canon import Doc
from tests.model.history import random_history

SEEDS = range(40) if DEEP else (3, 11)
PER_STATE = 4_000 if DEEP else 900

Path = tuple[str | int, ...]


def record_of(seed: int, steps: int = 60) -> Doc:
    chain = Chain(random_history(seed, steps))
    prior = History.read(chain.data).projection
    found: Doc = canonical.decode(make.made(chain.data, prior).line[:-1])
    return found


def paths(value: Any, at: Path = ()) -> Iterator[Path]:
    """Every place in a document, outermost first, without recursion."""
    stack: list[tuple[Path, Any]] = [(at, value)]
    while stack:
        here, one = stack.pop()
        yield here
        if isinstance(one, dict):
            stack.extend(((*here, key), member) for key, member in one.items())
        elif isinstance(one, list):
            stack.extend(((*here, number), member) for number, member in enumerate(one))


def at_path(value: Any, path: Path) -> Any:
    for step in path:
        value = value[step]
    return value


def other(value: Any, chance: random.Random, rest: list[Any]) -> Any:
    """Something else in the place of a value: of another type, near it, or from elsewhere."""
    near: list[Any] = [None, True, False, 0, -1, 1, 2**53 - 1, 2**53, "", "x", [], {}, "0" * 600]
    if isinstance(value, bool):
        near += [not value] * 4
    elif isinstance(value, int):
        near += [value + 1, value - 1, value * 2] * 3
    elif isinstance(value, str):
        near += [value + "x", value[:-1], value.upper(), "\x00" + value, "9" * 5000, "01"]
    elif isinstance(value, list):
        near += [value[1:], value + value, value[::-1]] * 2
    elif isinstance(value, dict):
        near += [{**value, "unknown": 1}, dict(list(value.items())[1:]), {}] * 2
    near += [copy.deepcopy(one) for one in chance.sample(rest, 6)]
    return chance.choice(near)


def mutated(record: Doc, chance: random.Random) -> Iterator[tuple[Path, Doc]]:
    state = record["operations"][0]["state"]
    places = [path for path in paths(state) if path]
    values = [at_path(state, path) for path in places]
    for _turn in range(PER_STATE):
        path = chance.choice(places)
        changed = copy.deepcopy(record)
        inside = changed["operations"][0]["state"]
        parent = at_path(inside, path[:-1])
        kind = chance.random()
        if kind < 0.15 and isinstance(parent, dict):
            del parent[path[-1]]
        elif kind < 0.25 and isinstance(parent, dict):
            name = chance.choice(["zz", *parent])
            parent[name] = parent.pop(path[-1])
        else:
            parent[path[-1]] = other(parent[path[-1]], chance, values)
        yield path, changed


def read(record: Doc) -> Projection | CallboardError:
    """The projection of a record, or why it is refused; nothing else may come of it."""
    try:
        return checkpoint.read_root(read_line(make.resealed(record)[:-1]).commit)
    except CallboardError as error:
        return error


@pytest.mark.parametrize("seed", SEEDS)
def test_any_change_of_a_state_is_refused_or_is_what_it_says(seed: int) -> None:
    record = record_of(seed)
    chance = random.Random(seed)
    accepted = codes = 0
    for path, changed in mutated(record, chance):
        found = read(changed)
        if isinstance(found, CallboardError):
            codes += 1
            assert found.message, path
            continue
        accepted += 1
        said = changed["operations"][0]["state"]
        assert audit.document(found) == canonical.encode_trusted(said), path
        at = found.last_at
        assert audit.kept(found, at) == audit.counted(found, at), path
        look_around(make.resealed(changed), at)
    assert codes > PER_STATE // 2
    assert accepted > 0


def look_around(line: bytes, at: int) -> None:
    """Whoever reads such a board comes to an answer or a refusal."""
    try:
        history = History.read(line)
    except CallboardError:
        return
    view = View(history, at)
    Columns(view).all()
    tally(view)
    make.selections(history.projection, at, 40)
    shares(view)
    for state in list(history.projection.works.values())[:10]:
        detail(view, state)
        why(view, state)


STATE: list[tuple[str, Callable[[Doc], Any]]] = [
    ("/tip", lambda one: one.update(tip="q_other")),
    ("/last_at", lambda one: one.update(last_at=one["last_at"] + 1)),
    ("/policy_epoch", lambda one: one.update(policy_epoch="p_other")),
    ("/stats/work", lambda one: one["stats"].update(work=one["stats"]["work"] + 1)),
    ("/stats/nodes", lambda one: one["stats"].update(nodes=0)),
    ("/ledger_bytes", lambda one: one.update(ledger_bytes=0)),
    ("/observation_writes", lambda one: one.update(observation_writes=4000)),
    ("/seen_generations/initial", lambda one: one["seen_generations"].pop("initial")),
    ("/unknown", lambda one: one.update(unknown=1)),
    ("/clocks", lambda one: one.pop("clocks")),
    ("/claims", lambda one: one["claims"].pop(next(iter(one["claims"])))),
    ("/requests", lambda one: one.update(requests=[])),
    ("/requests", lambda one: one["requests"].append(one["requests"][0])),
]


@pytest.mark.parametrize(("pointer", "change"), STATE)
def test_a_contradiction_is_located(pointer: str, change: Callable[[Doc], Any]) -> None:
    record = record_of(3)
    change(record["operations"][0]["state"])
    found = read(record)
    assert isinstance(found, CallboardError)
    assert found.code == "checkpoint_invalid"
    faults: Any = found.details["faults"]
    assert any(fault["pointer"].startswith(pointer) for fault in faults), faults


def clocks_of(record: Doc) -> Doc:
    found: Doc = record["operations"][0]["state"]["clocks"]
    return found


@pytest.mark.parametrize("ticks", ["01", "-1", "+1", "1.0", "1e3", "", "0x1", " 1", "9" * 513, "١"])
def test_clocks_are_canonical_decimals_of_a_bounded_length(ticks: str) -> None:
    record = next(one for one in map(record_of, range(50)) if clocks_of(one))
    clocks = clocks_of(record)
    pool = next(iter(clocks))
    clocks[pool]["classes"]["v"] = ticks
    found = read(record)
    assert isinstance(found, CallboardError)
    assert found.code == "checkpoint_invalid"
    clocks[pool]["classes"]["v"] = "9" * 512
    assert not isinstance(read(record), CallboardError)


@pytest.mark.parametrize("name", ["prior_git_sha", "prior_tip", "history_sha256", "state_sha256"])
def test_digests_and_identities_fit_their_content(name: str) -> None:
    record = record_of(3)
    record["operations"][0][name] = "q_other" if name == "prior_tip" else "0" * 64
    line = canonical.encode(record)
    with pytest.raises(CallboardError) as caught:
        checkpoint.read_root(read_line(line).commit)
    assert caught.value.code == "checkpoint_mismatch"
    assert caught.value.details == {"field": name}


def test_a_digest_of_another_state_is_a_mismatch() -> None:
    record = record_of(3)
    record["operations"][0]["state"]["grants_paused"] ^= True
    with pytest.raises(CallboardError) as caught:
        checkpoint.read_root(read_line(canonical.encode(record)).commit)
    assert caught.value.code == "checkpoint_mismatch"
    assert caught.value.details == {"field": "state_sha256"}


def test_a_request_id_that_is_not_derived_is_a_mismatch() -> None:
    record = record_of(3)
    record["request"]["id"] = "checkpoint_mine"
    with pytest.raises(CallboardError) as caught:
        checkpoint.read_root(read_line(canonical.encode(record)).commit)
    assert caught.value.code == "checkpoint_mismatch"


# --- compressed requests ------------------------------------------------------------------------


def packed(plain: bytes, *, wbits: int = -15) -> str:
    packer = zlib.compressobj(9, zlib.DEFLATED, wbits)
    return base64.b64encode(packer.compress(plain) + packer.flush()).decode()


def with_compressed(text: Any, *, keep: bool = False, fits: bool = True) -> bytes:
    record = record_of(3)
    operation = record["operations"][0]
    if fits:
        state = operation["state"]
        operation["state_sha256"] = canonical.sha256_hex(canonical.encode_trusted(state))
    if not keep:
        requests = operation["state"].pop("requests")
        if text is None:
            text = packed(canonical.encode(requests))
    operation["state"]["requests_compressed"] = text
    return make.resealed(record)[:-1]


def test_compressed_requests_are_the_same_state() -> None:
    plain = read(record_of(3))
    found = checkpoint.read_root(read_line(with_compressed(None)).commit)
    assert not isinstance(plain, CallboardError)
    assert audit.document(found) == audit.document(plain)


PLAIN = canonical.encode(record_of(3)["operations"][0]["state"]["requests"])
BOMB = b"[" + b"[]," * 3_000_000 + b"[]]"


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (packed(b"[" + b" " * (80 * 1024 * 1024)), "resource_limit"),
        (packed(BOMB), "checkpoint_invalid"),
        (packed(b"[" * 100_000), "checkpoint_invalid"),
        (packed(b"[1e400]"), "checkpoint_invalid"),
        (packed(PLAIN, wbits=15), "checkpoint_invalid"),
        (packed(PLAIN)[:-8], "checkpoint_invalid"),
        (packed(PLAIN) + "AAAA", "checkpoint_invalid"),
        (packed(PLAIN) + "\n", "checkpoint_invalid"),
        (packed(PLAIN + b" "), "checkpoint_invalid"),
        (packed(PLAIN.replace(b'"at":', b'"at": ', 1)), "checkpoint_invalid"),
        (packed(PLAIN[:-1] + b",{}]"), "checkpoint_invalid"),
        (packed(b"\xff"), "checkpoint_invalid"),
        (packed(b'[{"actor":"\x00"}]'), "checkpoint_invalid"),
        ("", "checkpoint_invalid"),
        ("é", "checkpoint_invalid"),
        (7, "checkpoint_invalid"),
        ([], "checkpoint_invalid"),
    ],
    ids=str,
)
def test_what_does_not_inflate_to_the_canonical_array_is_refused(text: Any, code: str) -> None:
    with pytest.raises(CallboardError) as caught:
        checkpoint.read_root(read_line(with_compressed(text)).commit)
    assert caught.value.code == code


def test_requests_stand_in_one_form_only() -> None:
    for line in (with_compressed(packed(PLAIN), keep=True),):
        with pytest.raises(CallboardError) as caught:
            checkpoint.read_root(read_line(line).commit)
        assert caught.value.code == "checkpoint_invalid"


def test_plain_requests_are_an_array_as_any_other() -> None:
    record = record_of(3, 3)
    state = record["operations"][0]["state"]
    state["requests"] = [[]] * (canonical.MAX_ARRAY_MEMBERS + 1)
    with pytest.raises(CallboardError) as caught:
        checkpoint.read_root(read_line(make.resealed(record)[:-1]).commit)
    assert caught.value.code == "resource_limit"


def test_a_deeply_nested_state_is_refused_as_any_line_is() -> None:
    record = record_of(3, 5)
    line = canonical.encode(record)
    deep = b'"unknown":' + b"[" * 10_000 + b"]" * 10_000 + b","
    with pytest.raises(CallboardError) as caught:
        read_line(line.replace(b'"admission_paused"', deep + b'"admission_paused"', 1))
    assert caught.value.code in ("resource_limit", "invalid_json")


@pytest.mark.parametrize("text", ["plain", "é", "line\nbreak", "\x7f"])
def test_the_bounds_hold_within_what_types_leave_open(text: str) -> None:
    """Whatever else stands in the payload: some texts are read quickly, and others are not."""
    value: Any = 2**53 - 1
    for level, code in ((56, None), (57, None), (58, None), (59, "resource_limit")):
        assert payload_code(nested(value, level), text) == code, level
    for value in (2**53, -(2**53), [0] * 16_385):
        assert payload_code(value, text) == "resource_limit"


def nested(value: Any, levels: int) -> Any:
    for _level in range(levels - 1):
        value = [value]
    return value


def payload_code(value: Any, text: str) -> str | None:
    """How a state is judged in which the payload of a Work that was never granted is replaced."""
    record = record_of(3)
    works = record["operations"][0]["state"]["works"]
    work = next(one for one in works.values() if not one["attempts"])
    work["payload"] = {"text": text, "value": value}
    found = make.resealed(record)[:-1]
    try:
        checkpoint.read_root(read_line(found).commit)
    except CallboardError as error:
        return "resource_limit" if error.code == "noncanonical_number" else error.code
    return None


@pytest.mark.parametrize("place", ["pool", "request_id", "cancellation_reason"])
@pytest.mark.parametrize("text", ["a\x00b", "a\x7fb", "a\nb", "é" * 200])
def test_text_keeps_its_bounds_in_any_state(place: str, text: str) -> None:
    record = record_of(3)
    state = record["operations"][0]["state"]
    if place == "request_id":
        state["requests"][1]["request_id"] = text
    else:
        next(one for one in state["works"].values() if place in one)[place] = text
    found = read(record)
    assert isinstance(found, CallboardError)
    assert found.code == "checkpoint_invalid"
