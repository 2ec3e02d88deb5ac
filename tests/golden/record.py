"""Records golden ledgers: `python -m tests.golden.record` adds the stories that have no file yet.

What was recorded is never written again: a story that changed is recorded under another name. A
story that this version cannot tell is named and left out. The model has to agree before anything
is written.
"""

from __future__ import annotations

import json
import sys

from callboard import canonical
from callboard.board.ledger.history import History
from callboard.errors import CallboardError
from tests.board.ledger.checkpoints import plain, without_checkpoints
from tests.golden.expected import FOLDER, SUMS, outcome, sum_of, sums
from tests.golden.stories import STORIES
from tests.model.canon import Doc, Refused
from tests.model.model import Board

UNSUPPORTED = "unsupported_operation"


def main() -> int:
    """Record what is new; returns 1 where something recorded is gone or changed."""
    recorded = sums()
    changed = [
        name
        for name, value in recorded.items()
        if not (FOLDER / name).is_file() or sum_of(name) != value
    ]
    for name in changed:
        say(f"{name} is not what was recorded: restore it, or tell the story under another name")
    if changed:
        return 1
    for name, story in STORIES.items():
        if f"{name}.jsonl" in recorded:
            continue
        try:
            data = story()
            record(name, data)
        except CallboardError as error:
            if error.code != UNSUPPORTED:
                raise
            say(f"{name}: not told by this version: {error.message}")
        except Refused as refusal:
            if refusal.reason != UNSUPPORTED:
                raise
            say(f"{name}: not read by the model yet: {refusal.detail}")
    return 0


def record(name: str, data: bytes) -> None:
    """Write one ledger, what it comes to, and the digests of both."""
    expected = outcome(data)
    if expected["outcome"] == "valid":
        check_with_model(name, data)
    (FOLDER / f"{name}.jsonl").write_bytes(data)
    text = json.dumps(expected, indent=1, sort_keys=True)
    (FOLDER / f"{name}.json").write_text(text + "\n")
    with SUMS.open("a") as listing:
        for suffix in ("jsonl", "json"):
            listing.write(f"{sum_of(f'{name}.{suffix}')}  {name}.{suffix}\n")
    say(f"{name}: {expected['outcome']}, {len(data)} bytes")


def check_with_model(name: str, data: bytes) -> None:
    """Let the model read the commits in their order, and compare the states.

    The model knows no checkpoints: it reads the ledger whose beginning they stand for.
    """
    history = History.read(data)
    found = plain(history.projection)
    whole = (FOLDER / "checkpoint-full.jsonl").read_bytes() if name == "checkpoint" else data
    expected = model_state(History.read(whole))
    if whole != data:
        found = without_checkpoints(found, expected)
    if canonical.encode_trusted(found) != canonical.encode_trusted(expected):
        raise AssertionError("the model comes to another state: nothing was recorded")


def model_state(history: History) -> Doc:
    """What the model makes of a history's commits."""
    model = Board()
    for ordinal in range(len(history.spans)):
        model.apply(canonical.decode(canonical.encode(history.commit(ordinal))))
    return model.state()


def say(line: str) -> None:
    sys.stdout.write(line + "\n")


if __name__ == "__main__":
    sys.exit(main())
