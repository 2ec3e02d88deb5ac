"""Work files as bytes: what they say, and every fault in its place."""

from __future__ import annotations

import hashlib
import time
from pathlib import Path

import pytest

from callboard.project.source import fields, nodes, place, reading, shape
from tests.project.source.scene import faults, put, read, refused

WHOLE = """\
sources: [more.yaml]
goals:
  - id: G-1
    title: Ship it
  - id: G-2
    title: Later
    status: cancelled
work_items:
  - id: W-1
    title: "Write: the parser"
    status: in_progress
    goal: G-1
    acceptance: [it reads, "it says: where"]
    next_action: |
      Begin with the tests
      and go on
    depends_on:
      - W-2
      - other-repo:42
    workstream: core
    owner: Ann
    paths: [src/, docs/a.md]
    tags: [parser, yes]
    priority: 1
"""
MORE = "work_items:\n- {id: W-2, title: 2026-11-30 or so}\n"


def test_every_field_is_read(tmp_path: Path) -> None:
    found = read(tmp_path, WHOLE, more=MORE).checked()
    one, two = found.items
    assert one.key == "W-1"
    assert one.title == "Write: the parser"
    assert (one.status, one.goal, one.priority) == ("in_progress", "G-1", 1)
    assert one.acceptance == ("it reads", "it says: where")
    assert one.next_action == "Begin with the tests\nand go on\n"
    assert one.depends_on == ("W-2", "other-repo:42")
    assert (one.workstream, one.owner) == ("core", "Ann")
    assert (one.paths, one.tags) == (("src/", "docs/a.md"), ("parser", "yes"))
    assert (two.title, two.status, two.acceptance) == ("2026-11-30 or so", "open", ())
    assert [(goal.key, goal.status) for goal in found.goals] == [
        ("G-1", "open"),
        ("G-2", "cancelled"),
    ]


def test_each_file_has_its_own_fingerprint(tmp_path: Path) -> None:
    found = read(tmp_path, WHOLE, more=MORE)
    first, second = found.source_files()
    assert first.sha256 == hashlib.sha256(WHOLE.encode()).hexdigest()
    assert second.sha256 == hashlib.sha256(MORE.encode()).hexdigest()
    assert (first.path, second.path) == ("work.yaml", "more.yaml")
    assert [item.source_sha256 for item in found.items] == [first.sha256, second.sha256]
    assert [item.source_file for item in found.items] == ["work.yaml", "more.yaml"]


def test_an_edge_to_another_repository_is_kept_and_told(tmp_path: Path) -> None:
    found = read(tmp_path, WHOLE, more=MORE)
    (edge,) = found.externals
    assert (edge.work, edge.edge) == ("W-1", "other-repo:42")
    assert (edge.spot.line, edge.spot.pointer) == (19, "/work_items/0/depends_on/1")


def test_all_faults_come_at_once_each_in_its_place(tmp_path: Path) -> None:
    data = (
        "goals:\n"
        "  - title: no id\n"
        "what: 1\n"
        "work_items:\n"
        "  - id: A\n"
        "    title: 12\n"
        "    status: finished\n"
        "    priority: 9\n"
        "    paths: [../x, /etc, .git/hooks, 'C:\\x']\n"
        "    acceptance: nothing\n"
        "    colour: red\n"
        "    a~/b: 1\n"
        "  - 7\n"
        "  - id: 'a:b'\n"
        "    title: [x]\n"
    )
    found = [(line, column, pointer) for line, column, pointer, _ in faults(tmp_path, data)]
    assert found == [
        (2, 5, "/goals/0"),
        (3, 1, "/what"),
        (6, 12, "/work_items/0/title"),
        (7, 13, "/work_items/0/status"),
        (8, 15, "/work_items/0/priority"),
        (9, 13, "/work_items/0/paths/0"),
        (9, 19, "/work_items/0/paths/1"),
        (9, 25, "/work_items/0/paths/2"),
        (9, 37, "/work_items/0/paths/3"),
        (10, 17, "/work_items/0/acceptance"),
        (11, 5, "/work_items/0/colour"),
        (12, 5, "/work_items/0/a~0~1b"),
        (13, 5, "/work_items/1"),
        (14, 9, "/work_items/2/id"),
        (15, 12, "/work_items/2/title"),
    ]


def test_a_refusal_names_file_pointer_line_and_column(tmp_path: Path) -> None:
    data = (
        "work_items:\n- {id: A, title: 1}\n- {id: B}\n- {id: C, title: no}\n- {id: C, title: x}\n"
    )
    error = refused("source_invalid", lambda: read(tmp_path, data).checked())
    assert error.details["count"] == 3
    listed = error.details["faults"]
    assert isinstance(listed, list)
    assert listed[0] == {
        "file": "work.yaml",
        "pointer": "/work_items/0/title",
        "line": 2,
        "column": 18,
        "message": "title is a number, not text; put it in quotes: '1'",
    }
    assert "work.yaml:2:18 /work_items/0/title" in error.message


@pytest.mark.parametrize(
    ("data", "line", "column", "words"),
    [
        (b"goals: &x []\n", 1, 8, "anchors"),
        (b"work_items:\n- *x\n", 2, 3, "aliases"),
        (b"work_items:\n- !!python/object/apply:os.system 'id'\n", 2, 3, "python/object"),
        (b"work_items: !!python/name:os.system x\n", 1, 13, "python/name"),
        (b"work_items: !thing []\n", 1, 13, "!thing"),
        (b"goals: !!binary aGk=\n", 1, 8, "binary"),
        (b"? [a]\n: 1\n", 1, 3, "a key is a list"),
        (b"1: 2\n", 1, 1, "a key is a number"),
        (b"<<: {a: 1}\n", 1, 1, "unknown key '<<'"),
        (b"goals: []\ngoals: []\n", 2, 1, "twice, first in line 1"),
        (b"goals: []\n---\ngoals: []\n", 2, 1, "second document"),
        (b"%YAML 1.1\n---\ngoals: []\n", 2, 1, "directives"),
        (b"goals: [\n", 2, 1, "not YAML"),
        (b"goals:\n\t- a\n", 2, 1, "not YAML"),
        (b"goals: \x00\n", 1, 8, "U+0000"),
        (b"goals: []\n# \x1b[31m\n", 2, 3, "U+001B"),
        ("goals: []  # \u2028\n".encode(), 1, 14, "U+2028"),
        ("goals: []  # x\ufeff\n".encode(), 1, 15, "U+FEFF"),
        (b"goals: []\rwork_items: []\n", 1, 10, "carriage return"),
        (b"goals: []\n# caf\xe9\n", 2, 6, "0xe9 is not UTF-8"),
        ("goals: []\n".encode("utf-16"), 1, 1, "UTF-16"),
        (b"", 1, 1, "empty"),
        (b"# nothing\n", 1, 1, "empty"),
        (b"- a\n", 1, 1, "a list, not a mapping"),
        (b"just text\n", 1, 1, "text, not a mapping"),
        (b"goals: {}\n", 1, 8, "a mapping, not a list"),
    ],
)
def test_what_is_no_plain_yaml_is_refused_in_its_place(
    tmp_path: Path, data: bytes, line: int, column: int, words: str
) -> None:
    found = faults(tmp_path, data)
    assert len(found) == 1, found
    assert found[0][:2] == (line, column)
    assert words in found[0][3]


@pytest.mark.parametrize(
    ("value", "fault"),
    [
        ('"a\\0b"', "U+0000"),
        ('"a\\eb"', "U+001B"),
        ('"a\\ud800b"', "U+D800"),
        ('"a\\nb"', "more than one line"),
        ('"  "', "is empty"),
        ("''", "is empty"),
        ("", "title is empty, not text"),
        ("~", "title is empty, not text"),
        ("true", "truth value"),
        ("1.5", "a number"),
        ("0x1F", "a number"),
        ("{a: b}", "a mapping"),
        ("x" * 501, "501 characters"),
    ],
)
def test_a_title_is_one_line_of_text(tmp_path: Path, value: str, fault: str) -> None:
    found = faults(tmp_path, f"work_items:\n- id: A\n  title: {value}\n")
    assert [(line, fault in message) for line, _, _, message in found] == [(3, True)]


@pytest.mark.parametrize("value", ["no", "on", "2026-11-30", "12:30", "1_000", "'7'", "Ünïcode ✓"])
def test_what_only_old_yaml_takes_for_something_else_is_text(tmp_path: Path, value: str) -> None:
    found = read(tmp_path, f"work_items:\n- id: A\n  title: {value}\n").checked()
    assert found.items[0].title == value.strip("'")


def test_line_ends_and_a_byte_order_mark_do_not_matter(tmp_path: Path) -> None:
    unix = read(tmp_path, WHOLE, more=MORE).checked().items
    windows = b"\xef\xbb\xbf" + WHOLE.replace("\n", "\r\n").encode()
    dos = read(tmp_path, windows, more=MORE).checked().items
    for one, two in zip(unix, dos, strict=True):
        assert one.key == two.key
        assert one.next_action == two.next_action
        assert one.acceptance == two.acceptance
    crooked = windows.replace(b"title: Later", b"title: 5")
    (fault,) = faults(tmp_path, crooked, more=MORE)
    assert fault[:3] == (6, 12, "/goals/1/title")


def test_hidden_characters_are_never_in_a_message(tmp_path: Path) -> None:
    data = 'work_items:\n- id: "a\\u202Eb"\n  title: x\n  "k\\eey": 1\n'
    found = faults(tmp_path, data)
    assert len(found) == 2
    assert all(message.isprintable() and pointer.isprintable() for *_, pointer, message in found)


# --- several files ------------------------------------------------------------------------------


def test_faults_of_further_files_name_their_file(tmp_path: Path) -> None:
    data = "sources: [more.yaml]\nwork_items:\n- {id: A, title: x}\n"
    more = "sources: []\nwork_items:\n- {id: a, title: x, depends_on: [A]}\n"
    found = read(tmp_path, data, more=more)
    assert [(one.file, one.line, one.pointer) for one in found.faults] == [
        ("more.yaml", 1, "/sources"),
        ("more.yaml", 3, "/work_items/0/id"),
    ]
    assert "first in work.yaml line 3" in found.faults[1].message


@pytest.mark.parametrize(
    "path", ["../x.yaml", "/etc/x.yaml", "a/../x.yaml", ".git/x.yaml", "x.json", "./x.yaml", "x:/y"]
)
def test_a_source_lies_below_the_project(tmp_path: Path, path: str) -> None:
    found = faults(tmp_path, f"sources: ['{path}']\n")
    assert [(line, column, pointer) for line, column, pointer, _ in found] == [
        (1, 11, "/sources/0")
    ]


def test_a_source_that_cannot_be_read_is_a_fault_where_it_is_named(tmp_path: Path) -> None:
    (tmp_path / "folder.yaml").mkdir()
    (tmp_path / "outside").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "outside")
    (tmp_path / "link.yaml").symlink_to("work.yaml")
    data = (
        "sources:\n- none.yaml\n- folder.yaml\n- link.yaml\n- link/x.yaml\n- work.yaml\n"
        "- none.yaml\nwork_items:\n- {id: A, title: x, depends_on: [B]}\n"
    )
    found = faults(tmp_path, data)
    # That B is missing is not said: it may be in a file that could not be read.
    assert [line for line, *_ in found] == [2, 3, 4, 5, 6, 7]
    assert "no regular file" in found[1][3]
    assert "link" in found[2][3]


def test_without_a_work_file_nothing_is_read(tmp_path: Path) -> None:
    refused("source_missing", lambda: reading.read_work(place.Place(tmp_path)))
    (tmp_path / "work.yaml").symlink_to("/etc/passwd")
    refused("source_unsafe", lambda: reading.read_work(place.Place(tmp_path)))


# --- bounds -------------------------------------------------------------------------------------


def test_a_bomb_of_aliases_does_not_grow(tmp_path: Path) -> None:
    rows = ["a0: &a0 [x]"] + [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 9)]
    before = time.process_time()
    found = read(tmp_path, "\n".join(rows))
    assert found.fault_count == 9 + 8 * 9 + 9
    assert time.process_time() - before < 5


@pytest.mark.parametrize(
    "data",
    [
        "a: " + "[" * 5000,
        "a: " + "{a: " * 5000,
        "- " * 5000,
        "? " * 5000,
        "".join(" " * n + "a:\n" for n in range(500)),
        "a: " + "'" * 99_999,
        "a: |" + "\n " * 50_000,
        "[" + "a: b, " * 20_000 + "]",
        "&a " * 20_000,
        "!" * 100_000,
        "a" * 300_000,
        ": " * 50_000,
        "# " + "c" * 300_000,
    ],
    ids=range(13),
)
def test_what_is_deep_or_long_ends_soon(tmp_path: Path, data: str) -> None:
    before = time.process_time()
    found = read(tmp_path, data)
    assert found.fault_count
    assert time.process_time() - before < 10


def test_a_file_that_is_too_large_is_refused_unparsed(tmp_path: Path) -> None:
    put(tmp_path / "work.yaml", b"#" * (nodes.MAX_FILE_BYTES + 1))
    error = refused("resource_limit", lambda: reading.read_work(place.Place(tmp_path)))
    assert error.details["limit_bytes"] == nodes.MAX_FILE_BYTES
    put(tmp_path / "big.yaml", b"#" * (nodes.MAX_FILE_BYTES + 1))
    (fault,) = faults(tmp_path, "sources: [big.yaml]\n")
    assert fault[2] == "/sources/0"


def test_all_files_together_have_a_limit(tmp_path: Path) -> None:
    comment = b"goals: []\n#" + b"x" * (nodes.MAX_FILE_BYTES - 20) + b"\n"
    for name in "abcd":
        put(tmp_path / f"{name}.yaml", comment)
    found = faults(tmp_path, "sources: [a.yaml, b.yaml, c.yaml, d.yaml]\n" + "#" * 100)
    assert [pointer for *_, pointer, _ in found] == ["/sources/3"]


def test_lists_have_limits(tmp_path: Path) -> None:
    tags = ", ".join(f"t{n}" for n in range(fields.MAX_ENTRIES + 1))
    sources = ", ".join(f"s{n}.yaml" for n in range(shape.MAX_SOURCES + 1))
    found = faults(tmp_path, f"work_items:\n- {{id: A, title: x, tags: [{tags}]}}\n")
    assert [pointer for *_, pointer, _ in found] == ["/work_items/0/tags"]
    found = faults(tmp_path, f"sources: [{sources}]\n")
    assert "/sources" in [pointer for *_, pointer, _ in found]


def test_of_very_many_faults_the_first_are_kept_and_all_are_counted(tmp_path: Path) -> None:
    found = read(tmp_path, "work_items:\n" + "- 1\n" * 3000)
    assert found.fault_count == 3000
    assert len(found.faults) == 1000
    error = refused("source_invalid", found.checked)
    assert error.details["count"] == 3000
    listed = error.details["faults"]
    assert isinstance(listed, list)
    assert len(listed) == 100
