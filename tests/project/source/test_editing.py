"""Changes of a work file: what is meant changes, every other byte stays."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ruamel.yaml import YAML

from callboard.errors import CallboardError
from callboard.project.source import editing, writing
from callboard.project.source.faults import Faults
from callboard.project.source.nodes import parse
from tests.project.source.scene import refused

HAND = """\
# How we work
goals:
  - {id: G, title: "Ship it"}   # the goal

work_items:
  # first
  - id: A      # the a
    title: 'It''s A'   # t
    status:   open
    acceptance:
      - one       # c1
      # between
      - "two"
      - three
    next_action: |  # note
      do this
      and that

    tags: [ x,  y ]
  # second
  - title: B
    id: B
    owner:
    depends_on: []   # none

# the end
"""


def change(text: str, work: str, **values: Any) -> str:
    faults = Faults()
    tree = parse(text, "work.yaml", faults)
    assert not faults.count
    items = tree.value("work_items").entries
    item = next(one for one in items if one.value("id").text == work)
    return editing.set_fields(text, tree, item, values)[0]


def add(text: str, **values: Any) -> str:
    return editing.add_item(text, parse(text, "work.yaml", Faults()), values)[0]


def changed_lines(before: str, after: str) -> tuple[list[str], list[str]]:
    """The lines that went and that came, between what both begin and end with."""
    one, two = before.splitlines(keepends=True), after.splitlines(keepends=True)
    while one and two and one[0] == two[0]:
        del one[0], two[0]
    while one and two and one[-1] == two[-1]:
        del one[-1], two[-1]
    return one, two


@pytest.mark.parametrize(
    ("work", "values", "gone", "come"),
    [
        ("A", {"status": "done"}, ["    status:   open\n"], ["    status:   done\n"]),
        (
            "A",
            {"title": "It's B"},
            ["    title: 'It''s A'   # t\n"],
            ["    title: 'It''s B'   # t\n"],
        ),
        ("A", {"status": "open"}, [], []),
        ("A", {"owner": "Ann"}, [], ["    owner: Ann\n"]),
        ("A", {"priority": 2}, [], ["    priority: 2\n"]),
        ("A", {"owner": "yes"}, [], ['    owner: "yes"\n']),
        ("A", {"goal": None}, [], []),
        ("A", {"status": None}, ["    status:   open\n"], []),
        ("B", {"owner": "Ann"}, ["    owner:\n"], ["    owner: Ann\n"]),
        ("B", {"title": "C"}, ["  - title: B\n"], ["  - title: C\n"]),
        ("B", {"paths": ["src/", "a b"]}, [], ["    paths:\n", "      - src/\n", "      - a b\n"]),
        (
            "B",
            {"depends_on": ["A", "r:1"]},
            ["    depends_on: []   # none\n"],
            ["    depends_on:   # none\n", "      - A\n", '      - "r:1"\n'],
        ),
        ("A", {"tags": ["x", "z"]}, ["    tags: [ x,  y ]\n"], ["    tags: [x, z]\n"]),
        ("A", {"tags": None}, ["    tags: [ x,  y ]\n"], []),
        (
            "A",
            {"acceptance": ["one", "two", "three", "four"]},
            [],
            ["      - four\n"],
        ),
        (
            "A",
            {"acceptance": ["zero", "two", "three"]},
            ["      - one       # c1\n"],
            ["      - zero       # c1\n"],
        ),
        ("A", {"acceptance": ["one", "three"]}, ['      - "two"\n'], []),
        (
            "A",
            {"next_action": "rest"},
            ["    next_action: |  # note\n", "      do this\n", "      and that\n"],
            ["    next_action: rest  # note\n"],
        ),
        (
            "A",
            {"next_action": "do this\nand more\n"},
            ["      and that\n"],
            ["      and more\n"],
        ),
        (
            "B",
            {"next_action": "one\n\ntwo"},
            [],
            ["    next_action: |-\n", "      one\n", "\n", "      two\n"],
        ),
    ],
)
def test_only_the_lines_that_are_meant_change(
    work: str, values: dict[str, Any], gone: list[str], come: list[str]
) -> None:
    for end in ("\n", "\r\n"):
        text = HAND.replace("\n", end)
        after = change(text, work, **values)
        expected = [[line.replace("\n", end) for line in lines] for lines in (gone, come)]
        assert list(changed_lines(text, after)) == expected


def test_the_first_field_of_an_item_keeps_its_dash() -> None:
    text = "work_items:\n- owner: Ann  # her\n  id: A\n  title: x\n"
    assert change(text, "A", owner=None) == text.replace("Ann", "null")
    text = "work_items:\n- tags:  # these\n  - a\n  - b\n  id: A\n  title: x\n"
    after = change(text, "A", tags=[])
    assert after == "work_items:\n- tags: []  # these\n  id: A\n  title: x\n"


def test_items_in_braces_stay_in_braces() -> None:
    text = "work_items: [{id: A, title: x, owner: ~,}, {id: B, title: y}]  # all\n"
    after = change(text, "A", status="done", owner="Ann", tags=["a, b"])
    assert after == (
        'work_items: [{id: A, title: x, owner: Ann, status: done, tags: ["a, b"],}, '
        "{id: B, title: y}]  # all\n"
    )
    assert add(text, id="C", title="z") == text.replace("y}", "y}, {id: C, title: z}")


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ("goals: []\n", "goals: []\nwork_items:\n  - id: X\n    title: new\n"),
        ("work_items:\n", "work_items:\n  - id: X\n    title: new\n"),
        ("work_items: []  # none\n", "work_items:  # none\n  - id: X\n    title: new\n"),
        ("goals: []", "goals: []\nwork_items:\n  - id: X\n    title: new"),
        (
            "work_items:\n- id: A\n  title: x\n\n# end\ngoals: []\n",
            "work_items:\n- id: A\n  title: x\n- id: X\n  title: new\n\n# end\ngoals: []\n",
        ),
        (
            "work_items:\n  -   id: A\n      title: |\n        x\n\n\ngoals: []\n",
            (
                "work_items:\n  -   id: A\n      title: |\n        x\n"
                "  - id: X\n    title: new\n\n\ngoals: []\n"
            ),
        ),
    ],
)
def test_a_new_item_comes_behind_the_others(text: str, after: str) -> None:
    assert add(text, id="X", title="new") == after


@pytest.mark.parametrize(
    "text",
    [
        "{work_items: [{id: A, title: x, tags: [a, # why\n b]}]}\n",
        "work_items:\n- id: A\n  title: x\n  tags:\n  -\n    a\n  - b\n",
        "work_items:\n- id: A\n  title: x\n  ? tags\n  : - a\n    - b\n",
    ],
)
def test_what_cannot_be_changed_piece_by_piece_is_left_alone(text: str) -> None:
    refused("source_edit_refused", lambda: change(text, "A", tags=["c"]))


def test_a_document_that_was_ended_is_not_written_behind() -> None:
    refused("source_edit_refused", lambda: add("goals: []\n...\n", id="X", title="new"))


# --- any file, any change -------------------------------------------------------------------------

texts = st.one_of(
    st.sampled_from(
        "yes null ~ 1 1e3 0x1f 2026-11-30 [a] {a ' \" it's a\\b %a @a *a &a !a ? x: é".split()
    ),
    st.sampled_from(["a: b", "a #b", "- a", "ﬁ ✓", "<<", "...", "---"]),
    st.text(
        st.characters(
            codec="utf-8", exclude_categories=("Cc", "Cs"), exclude_characters="\u2028\u2029\ufeff"
        ),
        min_size=1,
        max_size=12,
    ).filter(lambda text: text.strip() and "\ufffe" not in text and "\uffff" not in text),
)
lines_of_text = st.lists(texts, min_size=2, max_size=3).map("\n".join)
lists = st.lists(texts, unique=True, max_size=4)

changes = st.fixed_dictionaries(
    {},
    optional={
        "title": texts,
        "owner": st.none() | texts,
        "next_action": st.none()
        | texts
        | lines_of_text
        | lines_of_text.map(lambda one: one + "\n"),
        "priority": st.none() | st.integers(1, 5),
        "acceptance": lists,
        "tags": st.none() | lists,
        "paths": lists,
    },
).filter(bool)


@st.composite
def documents(draw: st.DrawFn) -> tuple[str, list[str], int]:
    """A file as people write them: its text, its items' texts, and which one is to change."""
    indent = draw(st.sampled_from(["", "  ", "    "]))
    blocks = [draw(item_texts(f"I{number}", indent)) for number in range(draw(st.integers(1, 3)))]
    head = draw(st.sampled_from(["", "# head: [x]\n", "goals: []\n\n", "---\n"]))
    tail = draw(st.sampled_from(["", "\n", "# tail\n", "sources:\n- x.yaml  # s\n"]))
    text = head + "work_items:\n" + "".join(blocks) + tail
    if draw(st.booleans()):
        text, blocks = text.replace("\n", "\r\n"), [one.replace("\n", "\r\n") for one in blocks]
    if draw(st.booleans()):
        text = text.rstrip("\r\n")
    return text, blocks, draw(st.integers(0, len(blocks) - 1))


def written(draw: st.DrawFn, value: str) -> str:
    """A value in one of the ways to write it."""
    ways = [writing.scalar(value, '"'), writing.scalar(value), writing.scalar(value, "'")]
    return draw(st.sampled_from(ways))


@st.composite
def item_texts(draw: st.DrawFn, key: str, indent: str) -> str:
    note = st.sampled_from(["", "", "  # note", " # it's: [odd"])
    if draw(st.integers(0, 4)) == 0:
        tags = ", ".join(writing.scalar(tag, '"') for tag in draw(lists))
        title = writing.scalar(draw(texts), '"')
        return f"{indent}- {{id: {key}, title: {title}, tags: [{tags}]}}{draw(note)}\n"
    fields = [f"id: {key}{draw(note)}", f"title: {written(draw, draw(texts))}{draw(note)}"]
    for field in draw(st.sets(st.sampled_from(["owner", "next_action", "acceptance", "tags"]))):
        if field == "owner":
            fields.append(f"owner:{draw(st.sampled_from(['', ' ~', ' null', ' Ann']))}{draw(note)}")
        elif field == "next_action":
            header = draw(st.sampled_from(["|", "|-", ">", ">-", "|+"]))
            fields.append(
                f"next_action: {header}{draw(note)}\n{indent}      do it\n{indent}      now"
            )
        else:
            entries = draw(lists)
            rows = "".join(f"\n{indent}    - {written(draw, one)}{draw(note)}" for one in entries)
            fields.append(f"{field}:{draw(note)}{rows}")
    order = draw(st.permutations(fields))
    text = f"\n{indent}  ".join(order)
    after = draw(st.sampled_from(["", "", f"{indent}# after\n", "\n"]))
    after = draw(st.sampled_from(["", "", f"{indent}# after\n", "\n"]))
    return f"{indent}- {text}\n{after}"


def outcome(text: str, act: Callable[[], str]) -> str | None:
    """The changed text; None where it ends in a block of text that a line end would change."""
    refusal = None
    try:
        return act()
    except CallboardError as error:
        refusal = error.code
    assert (refusal, text.endswith("\n")) == ("source_edit_refused", False)
    return None


def loaded(text: str) -> Any:
    """The file as another reader of YAML 1.2 has it; nothing and what is empty are the same."""
    value = YAML(typ="safe", pure=True).load(text)
    return [
        {field: one for field, one in item.items() if one not in (None, [])}
        for item in value["work_items"] or []
    ]


@given(documents(), changes)
def test_any_change_means_what_was_asked_and_touches_nothing_else(
    document: tuple[str, list[str], int], values: dict[str, Any]
) -> None:
    text, blocks, chosen = document
    after = outcome(text, lambda: change(text, f"I{chosen}", **values))
    if after is None:
        return
    expected = loaded(text)
    expected[chosen] |= values
    assert loaded(after) == [
        {field: one for field, one in item.items() if one not in (None, [])} for item in expected
    ]
    start = text.index(blocks[0].rstrip("\r\n")) + len("".join(blocks[:chosen]))
    before, rest = text[:start], text[start + len(blocks[chosen].rstrip("\r\n")) :]
    assert after.startswith(before)
    assert after.endswith(rest.lstrip("\r\n"))
    assert change(after, f"I{chosen}", **values) == after
    ends = set(re.findall("\r?\n", after))
    assert len(ends) <= 1 or "\n" not in text


@given(documents(), texts, lists)
def test_any_new_item_is_read_and_nothing_else_moves(
    document: tuple[str, list[str], int], title: str, tags: list[str]
) -> None:
    text, _, _ = document
    after = outcome(text, lambda: add(text, id="New", title=title, tags=tags))
    if after is None:
        return
    new = {"id": "New", "title": title} | ({"tags": tags} if tags else {})
    assert loaded(after) == [*loaded(text), new]
    gone, _ = changed_lines(text, after)
    # A last line without its end gets one; nothing else goes.
    assert [line.rstrip("\r\n") for line in gone] == [] or gone == [text.splitlines(True)[-1]]


@given(texts | lines_of_text, st.sampled_from(["", "'", '"']))
def test_a_written_value_is_read_the_same_by_every_reader(value: str, style: str) -> None:
    text = writing.scalar(value, style)
    assert "\n" not in text
    for version in ("1.1", "1.2"):
        for document in (f"a: {text}  # c\n", f"a: [{text}, b]\n"):
            reader = YAML(typ="safe", pure=True)
            reader.version = version
            found = reader.load(document)["a"]
            assert (found[0] if isinstance(found, list) else found) == value
