"""Changes to bytes that know what a ledger is: tokens, JSON trees, lines and ids.

Everything follows from the random generator that is handed in. A change may be as wrong as it
likes; most are small, so that what comes out is still nearly right.
"""

from __future__ import annotations

import contextlib
import copy
import json
import random
from collections.abc import Iterator
from typing import Any

from callboard import canonical
from tests.model.canon import Refused
from tests.model.writing import reseal

TOKENS = [
    b"{}", b"[]", b"null", b"true", b"false", b"0", b"-0", b"1e3", b"1.0", b"-1", b"0.5", b"1E400",
    b"9007199254740991", b"9007199254740992", b"-9007199254740991", b"18446744073709551616",
    b"1" * 5000, b'""', b'"\\u0000"', b'"\\ud800"', b'"\\ud83d\\ude00"', b'"\\udc00"', b'"\\/"',
    b'"\\u2028"', b"\xe2\x80\xa8", b"\xed\xa0\x80", b"\xff", b"\x00", b"\x7f", b"\\u007f",
    b"\xef\xbb\xbf", b"\n", b"\r\n", b" ", b"\t", b",", b":", b"[", b"]", b"{", b"}", b'"',
    b'"a":1,"a":2', b'"\\u0061":1', b"[" * 70, b'{"a":' * 66, b"[0" + b",0" * 16_384 + b"]",
    b'"kind":', b'"operations":', b'],"policy_epoch":', b',"operations":', b'"version":3', b'"id":',
    b'"previous":null', b'"parameters":', b'"nodes":', b'"payload":',
]  # fmt: skip
SCALARS: list[Any] = [
    None, True, False, 0, 1, 2, 3, -1, 16, 17, 64, 65, 256, 257, 4096, 4097, 2**53 - 1,
    2**53, -(2**53), 1.0, 0.5, "", "a", "1", "01", "h1", "root", "é", "\x00", "\x7f", "a\n",
    "\u2028", "\ud800",
    "x" * 257, "y" * 70_000, "é" * 129, "0" * 64, "a" * 40, "f" * 64, "work", "issue",
    "completed", "cancelled", "administrator", "worker", "projector", "aw", "Checkpoint",
    "Deployment", {}, [], [[]], {"": 0},
    {"kind": "none"}, {"kind": "Work"},
]  # fmt: skip
KEYS = [
    "claim_id", "run_id", "run_attempt", "trace", "extra", "kind", "", "k\n\x1b[2J", "k" * 70_000,
    "\u202e", "~/", "é" * 200,
]  # fmt: skip
MAX_BYTES = 400_000

Document = Any


def mutate(data: bytes, rng: random.Random, corpus: list[bytes]) -> bytes:
    """One to four changes, of bytes, of lines or of what the lines say."""
    for _ in range(rng.choice([1, 1, 1, 2, 2, 3, 4])):
        change = rng.choices([of_bytes, of_lines, of_documents], [2, 3, 6])[0]
        data = change(data, rng, corpus)
    return data[:MAX_BYTES]


# --- bytes --------------------------------------------------------------------------------------


def of_bytes(data: bytes, rng: random.Random, corpus: list[bytes]) -> bytes:
    """A token put in, some bytes removed, changed or repeated."""
    at = rng.randint(0, len(data))
    size = rng.choice([0, 1, 1, 2, 4, 16, 64])
    kind = rng.randrange(6)
    if kind == 0:
        return data[:at] + rng.choice(TOKENS) + data[at + size :]
    if kind == 1:
        return data[:at] + data[at + max(1, size) :]
    if kind == 2:
        return data[:at] + data[at : at + size] * rng.choice([2, 3, 100]) + data[at + size :]
    if kind == 3:
        return data[:at] + bytes([rng.randrange(256)]) + data[at + 1 :]
    if kind == 4:
        return data[:at]
    other = rng.choice(corpus) if corpus else data
    start = rng.randint(0, len(other))
    return data[:at] + other[start : start + rng.choice([1, 8, 64, 512])] + data[at:]


# --- lines --------------------------------------------------------------------------------------


def of_lines(data: bytes, rng: random.Random, corpus: list[bytes]) -> bytes:
    """A line dropped, doubled, moved, taken from elsewhere or laid out in another way."""
    rows = data.splitlines(keepends=True)
    if not rows:
        return rng.choice(corpus) if corpus else data
    at = rng.randrange(len(rows))
    kind = rng.randrange(8)
    if kind == 0:
        del rows[at]
    elif kind == 1:
        rows.insert(rng.randint(0, len(rows)), rows[at])
    elif kind == 2:
        rows.insert(rng.randint(0, len(rows) - 1), rows.pop(at))
    elif kind == 3:
        rows = rows[: at + 1]
    elif kind == 4 and corpus:
        rows[at : at + rng.randint(0, 2)] = rng.choice(corpus).splitlines(keepends=True)[:40]
    elif kind == 5 and corpus:
        rows.insert(at, rng.choice(rng.choice(corpus).splitlines(keepends=True) or [b"\n"]))
    elif kind == 6:
        rng.shuffle(rows)
    else:
        rows[at] = laid_out(rows[at], rng)
    return b"".join(rows)


def laid_out(row: bytes, rng: random.Random) -> bytes:
    """The same record in another layout: spaces, escapes, another order of keys."""
    value = parsed(row)
    if not isinstance(value, dict):
        return row
    items = list(value.items())
    rng.shuffle(items)
    text = json.dumps(
        dict(items),
        ensure_ascii=rng.random() < 0.5,
        separators=rng.choice([(",", ":"), (", ", ": ")]),
    )
    return text.encode("utf-8", "surrogatepass") + b"\n"


# --- what lines say -----------------------------------------------------------------------------


def parsed(row: bytes) -> Document:
    """A line's value, or None."""
    with contextlib.suppress(ValueError, RecursionError):
        return json.loads(row)
    return None


def of_documents(data: bytes, rng: random.Random, corpus: list[bytes]) -> bytes:
    """A field of one record changed, removed, added, moved or taken from another record."""
    rows = data.splitlines(keepends=True)
    if not rows:
        return data
    at = rng.randrange(len(rows))
    document = parsed(rows[at])
    if not isinstance(document, dict):
        return of_bytes(data, rng, corpus)
    donor = parsed(rng.choice(rows))
    if corpus and rng.random() < 0.3:
        donor = parsed(rng.choice(rng.choice(corpus).splitlines() or [b"{}"])) or donor
    changed(document, donor, rng)
    if rng.random() < 0.7:
        document = sealed(document, rng)
    with contextlib.suppress(TypeError, ValueError, RecursionError):
        text = json.dumps(document, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
        rows[at] = text.encode("utf-8", "surrogatepass") + b"\n"
    return b"".join(rows)


def places(value: Document) -> Iterator[tuple[Any, Any]]:
    """Every container with each of its keys, the whole tree over."""
    stack = [value] if isinstance(value, (dict, list)) else []
    while stack:
        node = stack.pop()
        members = node.items() if isinstance(node, dict) else enumerate(node)
        for key, member in members:
            yield node, key
            if isinstance(member, (dict, list)):
                stack.append(member)


def changed(document: Document, donor: Document, rng: random.Random) -> None:
    """Change one place of the document, in place."""
    found = list(places(document))
    if not found:
        document[rng.choice(["a", ""])] = rng.choice(SCALARS)
        return
    node, key = rng.choice(found)
    kind = rng.randrange(8)
    if kind == 0:
        node[key] = rng.choice(SCALARS)
    elif kind == 1:
        del node[key]
    elif kind == 2 and isinstance(node, dict):
        node[rng.choice(KEYS)] = rng.choice(SCALARS)
    elif kind == 3:
        other, place = rng.choice(found)
        node[key], other[place] = copy.deepcopy(other[place]), copy.deepcopy(node[key])
    elif kind in (4, 5):
        # An equally named field elsewhere holds a value of the right type.
        same = [one for one in places(donor) if one[1] == key] if donor else []
        if same:
            other, place = rng.choice(same)
            node[key] = copy.deepcopy(other[place])
    elif kind == 6 and isinstance(node[key], int):
        node[key] += rng.choice([-1, 1, -(node[key]), 1000])
    elif isinstance(node[key], list) and node[key]:
        members = node[key]
        rng.choice([members.reverse, members.pop, lambda: members.append(members[0])])()


def sealed(document: Document, rng: random.Random) -> Document:
    """The record with its parameters, and perhaps its fingerprint, made to fit its operations."""
    try:
        request = dict(document["request"])
        operations = document["operations"]
        if "operations" in request["parameters"]:
            request["parameters"] = {"operations": operations}
        elif request["kind"] == "submit":
            nodes = [one for one in operations if one.get("kind") == "Work"]
            request["parameters"] = {"nodes": nodes}
        return reseal({**document, "request": request}) if rng.random() < 0.95 else document
    # A document of any shape at all; what cannot be sealed stays as it is.
    except (KeyError, TypeError, AttributeError, ValueError, RecursionError, Refused):
        return document


def canonical_line(document: Document) -> bytes:
    """A record as its line."""
    return canonical.encode(document) + b"\n"
