"""Reading packs: Git's own of every kind, and no more built than was allowed."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from callboard.board.storage import pack_format as fmt
from callboard.board.storage.repository import Repository
from callboard.errors import CallboardError
from tests.board.storage.shapes import Git, Shape
from tests.board.storage.test_pack_format import name, packed

Open = Callable[[Path], Repository]


def code(act: Callable[[], object]) -> str:
    with pytest.raises(CallboardError) as refused:
        act()
    assert refused.value.hint
    return refused.value.code


def put(shape: Shape, entries: list[tuple[bytes, bytes]]) -> Path:
    """Lay a pack of these entries into the repository."""
    pack, index = packed("sha1", entries)
    path = shape.git_dir / "objects" / "pack" / f"pack-{pack[-20:].hex()}.pack"
    path.write_bytes(pack)
    path.with_suffix(".idx").write_bytes(index)
    return path


@pytest.mark.parametrize("shape_name", ["sha1", "sha256"])
@pytest.mark.parametrize("version", ["1", "2"])
@pytest.mark.parametrize("offsets", ["true", "false"])
def test_what_git_packs_is_read(
    shape_name: str,
    version: str,
    offsets: str,
    make_shape: Callable[[str], Shape],
    git: Git,
    opened: Open,
) -> None:
    shape = make_shape(shape_name)
    lines = [f"{number} {number * 7919}\n" * 3 for number in range(400)]
    states: list[tuple[str, bytes]] = []
    for count in range(40):
        lines[count * 9] = f"changed {count * 104_729}\n" * 4
        (shape.path / "file").write_text("".join(lines))
        git(shape.path, "add", "file")
        git(shape.path, "commit", "-qm", str(count))
        states.append((git(shape.path, "rev-parse", "HEAD"), "".join(lines).encode()))
    git(shape.path, "tag", "-am", "note", "v1")
    git(shape.path, "config", "pack.indexVersion", version)
    git(shape.path, "config", "repack.useDeltaBaseOffset", offsets)
    git(shape.path, "repack", "-adq", "--depth=50", "--window=50")
    git(shape.path, "prune-packed")
    (pack,) = (shape.git_dir / "objects" / "pack").glob("*.pack")
    assert "chain length = 5:" in git(shape.path, "verify-pack", "-v", str(pack))
    repository = opened(shape.path)
    for commit, expected in states:
        assert repository.read_file(commit, "file", len(expected)) == expected
        entry = repository.entry(commit, "file")
        assert entry is not None
        oid = entry.oid
        assert code(lambda: repository.read_blob(oid, len(expected) - 1)) == "resource_limit"  # noqa: B023
    tag = git(shape.path, "rev-parse", "v1")
    assert code(lambda: repository.read_blob(tag, 1000)) == "object_wrong_kind"


def test_a_small_object_may_be_made_from_a_large_one(shape: Shape, opened: Open) -> None:
    base = b"0123456789\n" * 500_000
    root, small = name("sha1", "blob", base), name("sha1", "blob", base[:30])
    delta = fmt.prefix_delta(len(base), 30, b"")
    put(shape, [(small, fmt.ref_delta_entry(root, delta)), (root, fmt.entry("blob", base))])
    repository = opened(shape.path)
    assert repository.read_blob(small.hex(), 30) == base[:30]
    assert code(lambda: repository.read_blob(small.hex(), 29)) == "resource_limit"
    assert code(lambda: repository.read_blob(root.hex(), len(base) - 1)) == "resource_limit"
    assert repository.read_blob(root.hex(), len(base)) == base


def test_sizes_are_refused_before_anything_is_built(shape: Shape, opened: Open) -> None:
    repository = opened(shape.path)
    base = b"0123456789" * 100_000
    root = name("sha1", "blob", base)
    liars: dict[bytes, tuple[str, bytes]] = {}

    def lie(number: int, expected: str, entry: bytes) -> None:
        liars[bytes([number] * 20)] = expected, entry

    # A delta that copies its base a hundred thousand times: 100 GB, as it says itself.
    bomb = fmt.varint(len(base)) + fmt.varint(len(base) * 100_000)
    lie(1, "resource_limit", fmt.ref_delta_entry(root, bomb + fmt.copy(0, len(base)) * 100_000))
    # The same, saying that it is small.
    bomb = fmt.varint(len(base)) + fmt.varint(1000) + fmt.copy(0, len(base)) * 100_000
    lie(2, "object_corrupt", fmt.ref_delta_entry(root, bomb))
    # A stream that inflates to more than its entry says, and one that says very much.
    deflated = zlib.compress(bytes(100_000_000))
    lie(3, "object_corrupt", fmt.entry_head(3, 1000) + deflated)
    lie(4, "resource_limit", fmt.entry_head(3, 1 << 40) + deflated)
    lie(5, "object_corrupt", fmt.entry_head(3, 10) + zlib.compress(b"short"))
    lie(6, "object_corrupt", fmt.entry_head(5, 10) + zlib.compress(bytes(10)))
    lie(7, "object_corrupt", fmt.entry_head(3, 10) + b"nonsense that is no zlib stream")
    # Deltas in a circle, on nothing, against something larger than any ledger, too long.
    short = fmt.prefix_delta(1000, 1000, b"")
    lie(8, "object_corrupt", fmt.ref_delta_entry(bytes([9] * 20), short))
    lie(9, "object_corrupt", fmt.ref_delta_entry(bytes([8] * 20), short))
    lie(10, "object_corrupt", fmt.ref_delta_entry(bytes([99] * 20), short))
    lie(11, "object_corrupt", fmt.entry_head(6, len(short)) + b"\x05" + zlib.compress(short))
    huge = fmt.prefix_delta(1 << 30, 10, b"")
    lie(12, "object_corrupt", fmt.ref_delta_entry(root, huge))
    lie(13, "resource_limit", fmt.ref_delta_entry(bytes([14] * 20), huge))
    lie(14, "resource_limit", fmt.entry_head(3, 1 << 30) + deflated)
    lie(15, "resource_limit", fmt.entry_head(7, 1 << 40) + root + zlib.compress(short))
    lie(16, "object_corrupt", fmt.entry("blob", b"another name"))
    put(shape, [(root, fmt.entry("blob", base)), *((oid, lie[1]) for oid, lie in liars.items())])
    for oid, (expected, _entry) in liars.items():
        assert (oid[0], code(lambda: repository.read_blob(oid.hex(), 2000))) == (oid[0], expected)  # noqa: B023
    repository.close()


@pytest.mark.parametrize("how", ["empty", "short", "version", "no pack", "folder"])
def test_an_index_that_is_none_hides_only_its_pack(how: str, shape: Shape, opened: Open) -> None:
    good, bad = name("sha1", "blob", b"good"), name("sha1", "blob", b"bad")
    put(shape, [(good, fmt.entry("blob", b"good"))])
    path = put(shape, [(bad, fmt.entry("blob", b"bad"))])
    index = path.with_suffix(".idx")
    if how == "folder":
        index.unlink()
        index.mkdir()
    elif how == "no pack":
        path.unlink()
    else:
        data = index.read_bytes()
        index.write_bytes({"empty": b"", "short": data[:900], "version": b"\xfftOc\0\0\0\3"}[how])
    repository = opened(shape.path)
    assert repository.read_blob(good.hex(), 10) == b"good"
    found = code(lambda: repository.read_blob(bad.hex(), 10))
    assert found == "object_missing" if how != "no pack" else found in (
        "object_missing", "storage_failed")  # fmt: skip


def test_many_packs_are_read_without_keeping_all_of_them_open(
    shape: Shape, git: Git, opened: Open
) -> None:
    contents = [b"content %d" % number for number in range(100)]
    oids = [name("sha1", "blob", content) for content in contents]
    for oid, content in zip(oids, contents, strict=True):
        put(shape, [(oid, fmt.entry("blob", content))])
    repository = opened(shape.path)
    for _ in range(2):
        for oid, content in zip(oids, contents, strict=True):
            assert repository.read_blob(oid.hex(), 20) == content
    git(shape.path, "repack", "-adq", "--keep-unreachable")
    for oid, content in zip(oids, contents, strict=True):
        assert repository.read_blob(oid.hex(), 20) == content
