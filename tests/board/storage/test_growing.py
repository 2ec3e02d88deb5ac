"""A deflated stream that grows: any zlib reads it, and nobody goes on with a wrong one."""

from __future__ import annotations

import random
import zlib

from hypothesis import given
from hypothesis import strategies as st

from callboard.board.storage import growing


def joined(stream: growing.Growing) -> bytes:
    return b"".join(stream.pieces)


def resumed(
    stream: growing.Growing, data: bytes, known: growing.Growing | None = None
) -> growing.Growing | None:
    return growing.resume(joined(stream), len(stream.closed), stream.closed_bytes, data, known)


PIECE = st.builds(
    lambda seed, size: random.Random(seed).randbytes(size // 3).hex().encode() + b"\n",
    st.integers(0, 9),
    st.sampled_from([0, 3, 100, 1000, 40_000, 100_000]),
)


@given(PIECE, st.lists(PIECE, max_size=8))
def test_it_always_holds_the_whole(first: bytes, rest: list[bytes]) -> None:
    data, stream = first, growing.start(first)
    earlier = [stream]
    for piece in rest:
        data += piece
        stream = growing.extend(stream, data)
        assert zlib.decompress(joined(stream)) == data
        earlier.append(stream)
    assert resumed(stream, data) == stream
    for known in earlier:
        assert resumed(stream, data, known) == stream


def test_lines_cost_what_they_would_in_one_stream() -> None:
    noise = random.Random(1)
    lines = [b'{"work_id":"%s","state":"done"}\n' % noise.randbytes(16).hex().encode() * 4
             for _ in range(2000)]  # fmt: skip
    data, stream = lines[0], growing.start(lines[0])
    for line in lines[1:]:
        data += line
        stream = growing.extend(stream, data)
    assert len(joined(stream)) <= 1.05 * len(zlib.compress(data, 6))
    # What was closed is not touched again.
    later = growing.extend(stream, data + b"x")
    assert later.closed is stream.closed


def test_nobody_goes_on_with_anything_else() -> None:
    data = b"".join(b"%d\n" % number for number in range(40_000))
    stream = growing.extend(growing.start(data[:100_000]), data)
    stream = growing.extend(stream, data + b"more\n")
    data += b"more\n"
    pieces, closed, held = joined(stream), len(stream.closed), stream.closed_bytes
    assert growing.resume(pieces, closed, held, data, None) == stream
    wrongs = [(closed + 1, held), (closed, held - 1), (closed, held + 1), (len(pieces), held)]
    for wrong in [*wrongs, (closed - 1, held), (closed, len(data) + 1), (2, 0), (0, 0), (-1, -1)]:
        found = growing.resume(pieces, *wrong, data, None)
        # At the very beginning there is a boundary too; all is open then.
        assert found is None or wrong == (2, 0)
    for other in (data[:-1], data + b"x", b"x" + data[1:], data[:-2] + b"x\n", b""):
        assert growing.resume(pieces, closed, held, other, None) is None
    for spoilt in (pieces[:-1], pieces[:-4] + bytes(4), pieces + b"x", b"\x78\x9c" + pieces[2:]):
        assert growing.resume(spoilt, closed, held, data, None) is None
    stranger = growing.start(b"something else\n" * 10_000)
    assert growing.resume(pieces, closed, held, data, stranger) == stream
