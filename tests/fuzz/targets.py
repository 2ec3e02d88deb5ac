"""What is fuzzed: bytes go in, and everything that must hold of the answer is checked.

A target raises `Finding` and nothing else. It judges four things of any bytes at all: the answer is
a value or a listed code, two readings give one answer, the ways to read agree with each other, and
time and memory stay within a bound that grows with the input.
"""

from __future__ import annotations

import re
import resource
import time
from collections.abc import Callable
from functools import cache, partial
from typing import Any, NamedTuple

from callboard import canonical
from callboard.board.ledger.history import History
from callboard.board.projection.document import state_document
from callboard.board.protocol import envelope
from callboard.board.reading import lines
from callboard.errors import CallboardError
from tests.ambient import ROOT
from tests.board.projection import audit

SECONDS, SECONDS_A_BYTE = 2.0, 20e-6
"""The processor time that one reading may take: a floor, and so much for each byte."""
MEMORY_BYTES, MEMORY_A_BYTE = 64 * 1024 * 1024, 400
"""How far one input may raise the peak of memory: a floor, and so many bytes for each byte."""
MAX_CUTS = 4
CONTROL = re.compile("[\x00-\x1f\x7f]")
LONGEST_MESSAGE = 2_000
LARGEST_REFUSAL_BYTES = 64 * 1024

Reader = Callable[[bytes], Any]


class Finding(Exception):
    """What must never happen, did; `kind` is one word, the message says the rest."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(f"{kind}: {message}")
        self.kind = kind


class Outcome(NamedTuple):
    """A value, or a code with its cause and place."""

    word: str
    value: Any


@cache
def listed_codes() -> frozenset[str]:
    """The codes of the reference page."""
    page = (ROOT / "docs" / "reference" / "errors.md").read_text()
    return frozenset(re.findall(r"^\| `([a-z_]+)` \|", page, re.MULTILINE))


def codec(data: bytes) -> None:
    """The codec: fast and strict reading agree, and what was read is written to the same value."""
    found = twice("decode", canonical.decode, data)
    strict = outcome("decode_strict", canonical.decode_strict, data)
    if spelled(found) != spelled(strict):
        raise Finding("disagreement", f"decode says {found}, decode_strict {strict}")
    if found.word != "value":
        return
    written = guarded("encode", lambda: canonical.encode(found.value))
    again = outcome("decode", canonical.decode, written)
    if again.word != "value" or not canonical.same_value(again.value, found.value):
        raise Finding("disagreement", f"what encode wrote reads as {again}")
    if canonical.encode(again.value) != written:
        raise Finding("disagreement", "encode is not stable")


def line(data: bytes) -> None:
    """The line reader: the quick reading of a canonical line is that of the strict one."""
    found = twice("read_line", envelope.read_line, data)
    strict = outcome("the strict reading", read_line_strictly, data)
    if found.word != strict.word or found.value != strict.value:
        raise Finding("disagreement", f"read_line says {found}, the strict reading {strict}")
    if found.word == "value":
        read: envelope.ReadLine = found.value
        if envelope.written(read.commit) != read:
            raise Finding("disagreement", "what is written is not what was read")
        outcome("check", lambda _data: envelope.check(read.commit, read.parameters), data)


def read_line_strictly(data: bytes) -> envelope.ReadLine:
    """A ledger line by way of plain values alone."""
    value = canonical.decode_strict(data)
    commit = envelope.parse_commit(value)
    parameters = canonical.encode(commit.request.parameters)
    return envelope.ReadLine(commit, canonical.encode(value), parameters)


def ledger(data: bytes) -> None:
    """The replayer: cold and continued readings agree at every cut, and indexes recount."""
    found = twice("History.read", states, data)
    guarded("diagnose", lambda: canonical.encode(lines.diagnose(data)))
    history = History()
    for cut in [*cuts(data), len(data)]:
        part = data[:cut]
        cold = found if cut == len(data) else outcome("History.read", states, part)
        continued = outcome("continued", partial(state_after, history), part)
        if continued != cold:
            raise Finding("disagreement", f"at byte {cut}: cold {cold}, continued {continued}")
        if continued.word == "value":
            history = history.continued(part)
    if found.word == "value":
        recount(History.read(data))


def cuts(data: bytes) -> list[int]:
    """Some places to cut a ledger, most of them after a line."""
    ends = [match.end() for match in re.finditer(b"\n", data)]
    step = max(1, len(ends) // MAX_CUTS)
    odd = [] if not data else [len(data) * 2 // 3]
    return sorted({*ends[step - 1 :: step], *odd})


def states(data: bytes) -> bytes:
    """The state of a ledger as canonical bytes, read cold."""
    return state_of(History.read(data))


def state_after(history: History, data: bytes) -> bytes:
    """The state of a ledger, the history of its beginning being known."""
    return state_of(history.continued(data))


def state_of(history: History) -> bytes:
    """The state a history has come to, with where its commits stand."""
    if history.projection.tip is None:
        return b""
    places = [(span.number, span.start, span.end) for span in history.spans]
    state = canonical.encode_trusted(state_document(history.projection))
    return state + repr(places).encode()


def recount(history: History) -> None:
    """The indexes of an accepted ledger are those that its Work and Claims give."""
    projection = history.projection
    if projection.tip is None:
        return
    # Commits may carry any time, and what once came back from a pause stays.
    at = max(request.at for request in projection.requests.values())
    kept = guarded("the indexes", lambda: audit.kept(projection, at))
    counted = guarded("the count", lambda: audit.counted(projection, at))
    for name, index in counted.items():
        if kept[name] != index:
            raise Finding("disagreement", f"the index {name} is {kept[name]}, counted {index}")
    for ordinal in range(len(history.spans)):
        # What a checkpoint stands for is not at hand, and refused with a code of its own.
        outcome("History.commit", partial(commit_at, history, ordinal), b"")


def commit_at(history: History, ordinal: int, _data: bytes) -> object:
    """The commit at a place in the chain."""
    return history.commit(ordinal)


TARGETS: dict[str, Callable[[bytes], None]] = {"codec": codec, "line": line, "ledger": ledger}


# --- what holds of every reading ----------------------------------------------------------------


def outcome(name: str, reader: Reader, data: bytes) -> Outcome:
    """What a reader makes of bytes; anything but a value or a listed code is a finding."""
    try:
        return Outcome("value", reader(data))
    except CallboardError as refused:
        error = refused
    # What else may come out of a reader is exactly the question.
    except Exception as unexpected:
        raise Finding("exception", f"{name} raised {unexpected!r}") from unexpected
    cause = error.details.get("cause", error.code)
    for code in (error.code, cause):
        if code not in listed_codes():
            raise Finding("code", f"{name} refused with {code}, which errors.md does not list")
    if not error.message or CONTROL.search(error.message) or len(error.message) > LONGEST_MESSAGE:
        raise Finding("message", f"{name}: {error.code} has the message {error.message[:500]!r}")
    document = guarded("the refusal's document", lambda: canonical.encode(error.document()))
    if len(document) > LARGEST_REFUSAL_BYTES:
        raise Finding("message", f"{name}: {error.code} is a document of {len(document)} bytes")
    details = error.details
    return Outcome("refused", (error.code, cause, details.get("line"), details.get("byte")))


def spelled(found: Outcome) -> object:
    """An outcome to compare: Python takes 1 and true for equal, and -1.0 for -1."""
    return repr(found.value) if found.word == "value" else found.value[0]


def guarded(name: str, action: Callable[[], Any]) -> Any:
    """The action's answer; any exception is a finding."""
    try:
        return action()
    except Exception as unexpected:
        raise Finding("exception", f"{name} raised {unexpected!r}") from unexpected


def twice(name: str, reader: Reader, data: bytes) -> Outcome:
    """The outcome of two readings, the first of them within its time and memory."""
    allowed = SECONDS + SECONDS_A_BYTE * len(data)
    peak = peak_bytes()
    taken, first = timed(name, reader, data)
    grown = peak_bytes() - peak
    second_taken, second = timed(name, reader, data)
    if first != second:
        raise Finding("chance", f"{name} says {first}, then {second}")
    # Another process may have been in the way once.
    if min(taken, second_taken) > allowed:
        raise Finding("time", f"{name} took {taken:.2f} s for {len(data)} bytes")
    if grown > MEMORY_BYTES + MEMORY_A_BYTE * len(data):
        raise Finding("memory", f"{name} took {grown} bytes more for {len(data)} bytes")
    return first


def peak_bytes() -> int:
    """The most memory that this process ever had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def timed(name: str, reader: Reader, data: bytes) -> tuple[float, Outcome]:
    """The processor seconds of one reading, and what came of it."""
    before = time.process_time()
    found = outcome(name, reader, data)
    return time.process_time() - before, found
