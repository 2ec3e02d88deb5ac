"""The ledger: which items are in it, every fault with its line, and what a change leaves alone."""

from __future__ import annotations

import re
import time
from importlib.resources import files
from typing import get_args

import pytest

from callboard.errors import CallboardError
from callboard.layers import work_items
from callboard.layers.records.items import ItemStatus

SCOPE = (
    "scope: {goal: g, completion_criteria: [c], stop_criteria: [], constraints: [],"
    " deliverables: [], required_evidence: []}\n"
)
ONE = "## a: First\n\n```yaml\nstatus: open\n```\n"


def refusal(data: bytes | str) -> CallboardError:
    with pytest.raises(CallboardError) as caught:
        work_items.read(data.encode() if isinstance(data, str) else data)
    return caught.value


def items(text: str) -> list[tuple[str, str, str]]:
    return [(one.item_id, one.title, one.fields.status) for one in work_items.read(text.encode())]


def test_an_item_is_a_heading_and_a_block() -> None:
    text = "# All\n\nprose\n\n## a: First thing\n\nwhy\n\n```yaml\nstatus: open\n```\n\n## b: Two\n"
    text += "~~~yaml\nstatus: selected\n~~~\n"
    assert items(text) == [("a", "First thing", "open"), ("b", "Two", "selected")]
    assert items("") == []
    assert items("nothing\n## Only a heading\n") == []


def test_the_statuses_are_those_that_the_packaged_prompts_name() -> None:
    folder = files("callboard.layers") / "packaged/planner_dispatcher/workflows"
    prompt = (folder / "planner/prompt.md").read_text(encoding="utf-8")
    found = re.search(r"`status` is one of ([^.]*)\.", " ".join(prompt.split()))
    assert found is not None
    named = re.findall(r"`([a-z_]+)`", found[1])
    assert named == list(get_args(ItemStatus))
    for status in named:
        assert items(ONE.replace("open", status)) == [("a", "First", status)]
    dispatcher = (folder / "dispatcher/prompt.md").read_text(encoding="utf-8")
    for status in ("waiting_for_child", "ready_for_review"):
        assert f"`{status}`" in dispatcher


PROSE = {
    "a byte order mark": "\ufeff" + ONE,
    "an item right behind it": "\ufeff" + ONE.replace("\n\n", "\n"),
    "carriage returns": ("# x\n\n" + ONE).replace("\n", "\r\n"),
    "no line break at the end": ONE.rstrip("\n"),
    "tildes": ONE.replace("```", "~~~"),
    "a longer fence": ONE.replace("```yaml", "`````yaml").replace("\n```\n", "\n`````\n"),
    "a longer end": ONE.replace("\n```\n", "\n``````\n"),
    "another block between": ONE.replace("```yaml", "```sh\n## no: item\n```\n\n```yaml"),
    "nested fences": "````md\n```yaml\n## x: y\n```\n````\n\n" + ONE,
    "tildes within backticks": "```\n~~~\n## x: y\n```\n\n" + ONE,
    "an indented fence": "   ```\n## x: y\n   ```\n\n" + ONE,
    "an indented code block": "    ```yaml\n    ## x: y\n\n" + ONE,
    "code in a line": "```one``` is code\n\n" + ONE,
    "a block behind": ONE + "\n```yaml\nwhatever: [\n```\n",
    "odd line ends": "one\u2028## x: y\x0b## x: y\x0c## x: y\x85## x: y\r## x: y\n\n" + ONE,
    "headings of prose": "## Next steps: later\n\n### deep: er\n\n##none: x\n\n" + ONE,
    "trailing blanks": ONE.replace("First", "First  \t").replace("yaml", "yaml  "),
}


@pytest.mark.parametrize("name", PROSE)
def test_all_other_text_stays_to_the_byte(name: str) -> None:
    data = PROSE[name].encode()
    assert [one.item_id for one in work_items.read(data)] == ["a"]
    ending = b"\r\n" if b"\r\n" in data else b"\n"
    changed = work_items.changed(data, "a", {"status": "selected"})
    line = b"status: open" + ending
    assert data.count(line) == 1
    assert changed == data.replace(line, b'status: "selected"' + ending)
    added = work_items.changed(data, "a", {"request_id": "r1"})
    assert added == data.replace(line, line + b'request_id: "r1"' + ending)


FAULTS = {
    "# x\n\n## a: First\n\ntext\n": 3,
    "## a: First\n\n## b: Second\n": 1,
    "## a: First\n# Part\n": 1,
    "x\n```\nnever closed\n": 2,
    ONE + "\n~~~\n```\n": 7,
    ONE + "\n" + ONE: 7,
    ONE + "\n" + ONE.replace("## a", "## A"): 7,
    ONE.replace("## a", "## caf\u00e9") + ONE.replace("## a", "## cafe\u0301"): 6,
    "\n## a:\n\n```yaml\nstatus: open\n```\n": 2,
    "\n## con: x\n\n```yaml\nstatus: open\n```\n": 2,
    "\n## a/b: x\n\n```yaml\nstatus: open\n```\n": 2,
    "\n## ../up: x\n\n```yaml\nstatus: open\n```\n": 2,
    "\n## a: x\u202ey\n\n```yaml\nstatus: open\n```\n": 2,
    "\n## a: " + "x" * 1001 + "\n\n```yaml\nstatus: open\n```\n": 2,
    "## a: x\n\n```yaml\nstatus: open\nstatus: open\n```\n": 5,
    "## a: x\n\n```yaml\n\nstatus: done\n```\n": 5,
    "## a: x\n\n```yaml\nstatus: open\nfurther: 1\n```\n": 5,
    "## a: x\n\n```yaml\n```\n": 4,
    "## a: x\n\n```yaml\nworkflow_set: b\n```\n": 4,
    "## a: x\n\n```yaml\nstatus: open\nscope: {goal: g}\n```\n": 5,
    "## a: x\n\n```yaml\nstatus: open\nrequest_id: a/b\n```\n": 5,
    "## a: x\n\n```yaml\nstatus: open\n\tx: 1\n```\n": 5,
    "## a: x\n\n   ```yaml\n   status: open\n   ```\n": 1,
}  # fmt: skip


@pytest.mark.parametrize("text", FAULTS)
@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_every_fault_is_told_with_its_line(text: str, ending: str) -> None:
    error = refusal(text.replace("\n", ending))
    assert error.code == "work_items_invalid"
    assert error.details["line"] == FAULTS[text]
    assert f"line {FAULTS[text]}: " in error.message


def test_what_is_no_utf_8_is_told_with_its_line() -> None:
    error = refusal(b"one\ntwo\n\xff\n")
    assert (error.code, error.details["line"]) == ("work_items_invalid", 3)


def test_all_faults_of_all_items_are_told_at_once() -> None:
    text = "## a: x\n\n```yaml\nstatus: no\nmore: 1\n```\n\n## b: x\n\n```yaml\nstatus: [\n```\n"
    found = refusal(text).details["faults"]
    assert isinstance(found, list)
    assert [one["line"] for one in found[:2]] == [4, 5]
    assert found[2]["line"] >= 11


HOSTILE = [
    "status: &a open\n", "status: !!python/object/apply:os.system [ls]\n", "status: *a\n",
    "%YAML 1.1\n---\nstatus: open\n", "status: open\n---\nstatus: open\n",
    "status: " + "[" * 200 + "\n", "? [a]\n: b\n", "status: open\n<<: {a: b}\n",
    "status: open\ninputs: [" + "x, " * 30_000 + "]\n", "status: 1e400\n", "status: \x00\n",
    "a: &x [1]\nb: &y [*x, *x]\nc: [*y, *y]\n",
]  # fmt: skip


@pytest.mark.parametrize("block", HOSTILE)
def test_hostile_yaml_is_refused_soon(block: str) -> None:
    started = time.monotonic()
    error = refusal(f"## a: x\n\n```yaml\n{block}```\n")
    assert error.code == "work_items_invalid"
    assert time.monotonic() - started < 20


@pytest.mark.parametrize(
    "text",
    [
        "## a: " + " " * 4_000_000 + "x\n", "## " + "a" * 4_000_000 + "\n",
        "`" * 4_000_000 + "x`\n", "~" * 4_000_000, "\n" * 4_000_000, "## " + " " * 4_000_000,
        "#" * 4_000_000,
    ],
)  # fmt: skip
def test_a_ledger_of_the_largest_size_is_judged_soon(text: str) -> None:
    started = time.monotonic()
    told = ""
    try:
        work_items.read(text.encode())
    except CallboardError as error:
        told = error.message
    assert len(told) < 2000
    assert time.monotonic() - started < 30


def test_one_item_of_many_is_found_without_reading_the_others() -> None:
    text = "".join(
        f"## item{number}: x\n\n```yaml\nstatus: open\n{SCOPE}```\n" for number in range(20_000)
    )
    assert len(text) < work_items.MAX_LEDGER_BYTES
    started = time.monotonic()
    found = work_items.item(text.encode(), "item19999")
    assert found.fields.status == "open"
    assert time.monotonic() - started < 10


def test_a_fault_in_one_item_is_no_matter_to_another() -> None:
    text = "## bad: x\n\n```yaml\nstatus: [\n```\n\n" + ONE
    assert work_items.item(text.encode(), "a").fields.status == "open"
    assert work_items.changed(text.encode(), "a", {"status": "selected"}) == (
        text.replace("status: open", 'status: "selected"').encode()
    )
    assert refusal(text).details["line"] == 5


def test_an_item_that_is_not_there_is_told_with_those_that_are() -> None:
    with pytest.raises(CallboardError) as caught:
        work_items.item(ONE.encode(), "A")
    assert caught.value.code == "work_item_unknown"
    assert "it has a" in caught.value.message


# --- changing -------------------------------------------------------------------------------------


WITH_SCOPE = """status: open
scope:
  goal: |
    request_id: no
  completion_criteria: [c]
  stop_criteria: []
  constraints: []
  deliverables: []
  required_evidence: []
"""


def block(text: str) -> bytes:
    return f"## a: x\n\n```yaml\n{text}```\n".encode()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("status: open\nrequest_id: null\n", 'status: open\nrequest_id: "r"\n'),
        ("status: open\nrequest_id:\n", 'status: open\nrequest_id: "r"\n'),
        ("status: open\nrequest_id: 'old' # why\n", 'status: open\nrequest_id: "r"\n'),
        ("status: open\n\"request_id\": old\n", 'status: open\nrequest_id: "r"\n'),
        ("  status: open\n  request_id: old\n", '  status: open\n  request_id: "r"\n'),
        ("  status: open\n", '  status: open\n  request_id: "r"\n'),
        (WITH_SCOPE + "request_id: old\n", WITH_SCOPE + 'request_id: "r"\n'),
    ],
)  # fmt: skip
def test_a_change_touches_one_line(before: str, after: str) -> None:
    assert work_items.changed(block(before), "a", {"request_id": "r"}) == block(after)


@pytest.mark.parametrize(
    "text",
    [
        "status: open\nrequest_path: |\n  one\n  two\n",
        "status: open\nrequest_path: 'one\n  two'\n",
        "status: open\nrequest_path: one\n  two\n",
        "status: open\nrequest_path:\n  one\n",
        "status: open\nrequest_path: >-\n  one\n",
        "{status: open, request_path: one}\n",
        "{status: open,\n request_path: one}\n",
        "status: open\n? request_path\n: one\n",
    ],
)
def test_a_value_of_several_lines_is_not_changed(text: str) -> None:
    assert work_items.item(block(text), "a").fields.status == "open"
    with pytest.raises(CallboardError) as caught:
        work_items.changed(block(text), "a", {"request_path": "p"})
    assert caught.value.code == "work_items_invalid"
    assert "request_path" in caught.value.message


@pytest.mark.parametrize("value", ['"', "\\", "a: b # c", "#", "'", "null", "7", "{}", "é\u00a0x"])
def test_a_value_is_read_as_it_was_set(value: str) -> None:
    changed = work_items.changed(ONE.encode(), "a", {"request_path": value})
    assert work_items.item(changed, "a").fields.request_path == value


def test_a_ledger_does_not_grow_past_what_is_read() -> None:
    prose = "x" * (work_items.MAX_LEDGER_BYTES - len(ONE) - 1) + "\n"
    data = (prose + ONE).encode()
    assert len(data) == work_items.MAX_LEDGER_BYTES
    assert work_items.read(data)[0].item_id == "a"
    with pytest.raises(CallboardError) as caught:
        work_items.changed(data, "a", {"status": "selected"})
    assert caught.value.code == "resource_limit"


def test_several_fields_are_set_at_once() -> None:
    values = {"status": "waiting_for_child", "request_id": "r", "request_path": "p"}
    assert work_items.changed(ONE.encode(), "a", values).decode() == (
        '## a: First\n\n```yaml\nstatus: "waiting_for_child"\n'
        'request_id: "r"\nrequest_path: "p"\n```\n'
    )
