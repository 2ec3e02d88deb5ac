"""Packs, deltas and indexes of our own making, judged by Git's own reader."""

from __future__ import annotations

import subprocess
import tempfile
import zlib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from callboard.board.storage import pack_format as fmt
from callboard.board.storage.loose import header
from tests.ambient import DEEP

BYTES = st.binary(max_size=400) | st.builds(
    lambda piece, times: piece * times, st.binary(max_size=20), st.integers(1, 3000)
)


def name(algorithm: str, kind: str, data: bytes) -> bytes:
    return fmt.digest(algorithm, (header(kind, (data,)), data))


def packed(algorithm: str, entries: list[tuple[bytes, bytes]]) -> tuple[bytes, bytes]:
    """The pack and the index of (name, entry) pairs."""
    rows, body = [], fmt.pack_header(len(entries))
    for oid, entry in entries:
        rows.append(fmt.row(oid, len(body), zlib.crc32(entry)))
        body += entry
    digest = fmt.digest(algorithm, (body,))
    return body + digest, fmt.index_bytes(sorted(rows), digest, algorithm)


def judged(algorithm: str, pack: bytes, objects: dict[str, bytes]) -> bytes:
    """The index that Git makes of the pack, once it has read every object from it."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)

        def git(*args: str, stdin: bytes | None = None) -> bytes:
            argv = ["git", "-C", folder, *args]
            return subprocess.run(argv, input=stdin, capture_output=True, check=True).stdout

        git("init", "-q", f"--object-format={algorithm}")
        git("index-pack", "--stdin", "--strict", "--no-rev-index", stdin=pack)
        asked = "".join(f"{oid}\n" for oid in objects).encode()
        said = git("cat-file", "--batch", stdin=asked)
        expected = b"".join(
            f"{oid} blob {len(data)}\n".encode() + data + b"\n" for oid, data in objects.items()
        )
        assert said == expected
        return next((place / ".git/objects/pack").glob("*.idx")).read_bytes()


@settings(max_examples=200 if DEEP else 25, deadline=None)
@given(
    st.sampled_from(["sha1", "sha256"]),
    BYTES,
    st.lists(st.tuples(st.integers(0, 5000), BYTES), max_size=5),
    st.lists(BYTES, max_size=4),
)
def test_git_reads_what_we_pack(
    algorithm: str, base: bytes, beginnings: list[tuple[int, bytes]], others: list[bytes]
) -> None:
    root = name(algorithm, "blob", base)
    entries: dict[bytes, bytes] = {}
    objects: dict[str, bytes] = {}

    def put(data: bytes, delta: bytes) -> None:
        oid = name(algorithm, "blob", data)
        if data and oid not in entries and oid != root:
            entries[oid] = fmt.ref_delta_entry(root, delta)
            objects[oid.hex()] = data

    for cut, rest in beginnings:
        shared = min(cut, len(base))
        delta = fmt.prefix_delta(len(base), shared, rest)
        assert fmt.read_prefix_delta(delta) == (shared, rest)
        assert fmt.apply_delta(base, delta) == base[:shared] + rest
        put(base[:shared] + rest, delta)
    for target in others:
        delta = fmt.delta_between(base, target)
        assert fmt.apply_delta(base, delta) == target
        put(target, delta)
    # The deltas' base may come after them.
    entries[root], objects[root.hex()] = fmt.entry("blob", base), base
    pack, index = packed(algorithm, list(entries.items()))
    assert judged(algorithm, pack, objects) == index
    tables = fmt.read_index(index, pack[-len(root) :], algorithm)
    assert {tables.oids[at : at + len(root)] for at in range(0, len(tables.oids), len(root))} == (
        fmt.index_names(index, len(root))
    )
    assert fmt.index_names(index, len(root)) == set(entries)


def test_copies_beyond_what_one_instruction_can_say() -> None:
    base = bytes(range(256)) * (70_000)
    for shared in (0xFFFFFF, 0x1000000, 0x1000001, 0x10000, len(base)):
        delta = fmt.prefix_delta(len(base), shared, b"end")
        assert fmt.apply_delta(base, delta) == base[:shared] + b"end"
    target = base[:0x1000003] + b"!" + base[0x1000003:]
    algorithm = "sha1"
    oids = [name(algorithm, "blob", data) for data in (base, target)]
    entry = fmt.ref_delta_entry(oids[0], fmt.delta_between(base, target))
    pack, index = packed(algorithm, [(oids[0], fmt.entry("blob", base)), (oids[1], entry)])
    assert judged(algorithm, pack, {oids[1].hex(): target}) == index
    assert len(entry) < 100


@given(BYTES, BYTES, st.data())
def test_a_damaged_delta_is_refused_or_within_its_size(
    base: bytes, target: bytes, data: st.DataObject
) -> None:
    delta = bytearray(fmt.delta_between(base, target))
    at = data.draw(st.integers(0, len(delta) - 1))
    delta[at] = data.draw(st.integers(0, 255))
    cut = bytes(delta[: data.draw(st.integers(0, len(delta)))])
    for damaged in (bytes(delta), cut):
        try:
            built = fmt.apply_delta(base, damaged)
        except (ValueError, IndexError):
            continue
        assert len(built) == fmt.delta_sizes(damaged)[1]


@pytest.mark.parametrize(
    "delta",
    [
        b"",
        b"\x03",
        b"\x03\x01",
        b"\x03\x01\x00",
        b"\x03\x05\x05abc",
        b"\x03\x02\x91\x02\x02",
        b"\x03\x03\x90\x02",
        b"\x03\x01\x90\x03",
        b"\x03" + b"\xff" * 12,
    ],
)
def test_deltas_that_do_not_fit_are_refused(delta: bytes) -> None:
    for act in (lambda: fmt.apply_delta(b"abc", delta), lambda: fmt.read_prefix_delta(delta)):
        with pytest.raises((ValueError, IndexError)):
            act()


@pytest.mark.parametrize(
    "size",
    [0, 1, 15, 16, 2047, 2048, 1 << 20, (1 << 32) + 5],
)
def test_heads_say_type_and_size(size: int) -> None:
    head = fmt.entry_head(7, size)
    assert fmt.read_head(head + b"x", 0) == (7, size, len(head))


def test_no_more_is_inflated_than_was_said() -> None:
    bomb = zlib.compress(bytes(50_000_000), 9)
    for size in (0, 10, 100_000):
        with pytest.raises(ValueError, match="not the length"):
            fmt.inflate(bomb, 0, size)
    assert fmt.inflate(bomb, 0, 50_000_000) == bytes(50_000_000)
    # Flushes without end make a stream longer than its contents.
    deflater = zlib.compressobj()
    padded = b"".join(deflater.flush(zlib.Z_FULL_FLUSH) for _ in range(30)) + deflater.compress(
        b"ab"
    )
    padded += deflater.flush()
    assert fmt.inflate(padded, 0, 2) == b"ab"


@pytest.mark.parametrize("spoil", [slice(0, 1), slice(7, 8), slice(1030, 1040), slice(-3, -2)])
def test_a_damaged_index_is_refused(spoil: slice) -> None:
    oid = name("sha1", "blob", b"x")
    pack, index = packed("sha1", [(oid, fmt.entry("blob", b"x"))])
    damaged = bytearray(index)
    damaged[spoil] = bytes(255 - byte for byte in damaged[spoil])
    with pytest.raises(ValueError):
        fmt.read_index(bytes(damaged), pack[-20:], "sha1")
    with pytest.raises(ValueError, match="another pack"):
        fmt.read_index(index, bytes(20), "sha1")
    for cut in (0, 8, 1031, len(index) - 1):
        with pytest.raises(ValueError):
            fmt.read_index(index[:cut], pack[-20:], "sha1")
        with pytest.raises(ValueError):
            fmt.index_names(index[:cut], 20)
