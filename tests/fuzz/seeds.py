"""What fuzzing begins with: small sound inputs of every kind, made by the suite, and old findings.

`corpus/<target>/` holds the inputs that once led to a finding; each is run for ever.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from callboard.errors import CallboardError
from tests.fuzz import mutators
from tests.golden.stories import STORIES
from tests.model.history import random_history

FOLDER = Path(__file__).resolve().parent / "corpus"
GOLDEN = FOLDER.parent.parent / "golden"
GOLDEN_BYTES = 30_000
TEXTS = [
    b"{}", b"[]", b'"a"', b"0", b"-1", b"null", b"true", b' { "a" : [ 1 , 2 ] } ',
    b'{"a":1,"b":[{}]}',
    b'"\\u00e9\\n\\"\\\\"', b'{"b":1,"a":{"c":[null,true,"x"]}}', b"9007199254740991",
    '{"é":"😀","\u2028":"\\u2028"}'.encode(), b"[[[[[[[[]]]]]]]]",
]  # fmt: skip


@cache
def ledgers() -> tuple[bytes, ...]:
    """Ledgers of a few commits, between them with every kind of operation that the model knows."""
    made = []
    for seed in range(36):
        history = random_history(seed, 3 + seed // 2)
        made.append(b"".join(mutators.canonical_line(commit) for commit in history))
    small = [path for path in sorted(GOLDEN.glob("*.jsonl")) if path.stat().st_size < GOLDEN_BYTES]
    return (*made, *(path.read_bytes() for path in small), *unrecorded())


def unrecorded() -> Iterator[bytes]:
    """Stories that the engine can tell and that are not on file, like those of a new kind."""
    for name, story in STORIES.items():
        if not (GOLDEN / f"{name}.jsonl").exists():
            with contextlib.suppress(CallboardError):
                yield story()


@cache
def seeds(target: str) -> tuple[bytes, ...]:
    """The inputs a target begins with."""
    rows = [row for data in ledgers() for row in data.splitlines()]
    if target == "codec":
        return (*TEXTS, *random.Random(1).sample(rows, 40), *kept(target))
    if target == "line":
        return (*random.Random(2).sample(rows, 120), *kept(target))
    return (*ledgers(), *kept(target))


def kept(target: str) -> list[bytes]:
    """The inputs on file for a target."""
    folder = FOLDER / target
    return [path.read_bytes() for path in sorted(folder.iterdir())] if folder.is_dir() else []
