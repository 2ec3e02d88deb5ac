"""Playing the messages of a staging folder through a judge, one after the other.

Whoever looks at a folder looks this way: the run's own side, the trusted one, and a preview. A
message that is refused counts for nothing and stops none behind it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from callboard.board.outputs.folder import Staged
from callboard.board.outputs.judgement import Accepted, Judge
from callboard.errors import CallboardError


class Verdict(NamedTuple):
    """What became of a message: `accepted`, or else `refusal`, with the handle if one was meant."""

    message: Staged
    handle: str | None
    accepted: Accepted | None
    refusal: CallboardError | None


def play(messages: Iterable[Staged], judge: Judge) -> Iterator[Verdict]:
    """The judge's verdict on each message, in their order."""
    for message in messages:
        handle: str | None = None
        try:
            if message.error is not None:
                raise message.error
            handle = judge.resolve(message.value)
            verdict = Verdict(message, handle, judge.accept(message.value), None)
        except CallboardError as error:
            verdict = Verdict(message, handle, None, error)
        yield verdict
