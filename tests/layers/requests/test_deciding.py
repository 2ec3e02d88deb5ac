"""Pending requests: what becomes a child, and what is put away, why, and in one pass."""

from __future__ import annotations

import copy
import json
import os
import shutil
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from callboard.errors import CallboardError
from callboard.layers.layers import Layers
from callboard.layers.records.session import Limits
from tests.layers.requests.parent import CONFIG, SCOPE, Parent, item, parent, sha


@pytest.fixture
def made(tmp_path: Path) -> Parent:
    return parent(tmp_path)


def refused(made: Parent, value: Any, name: str = "a.json") -> dict[str, Any]:
    """The receipt of a refusal, after one pass, with all that holds for every one of them."""
    data = made.put(name, value)
    before = made.state
    assert made.decide() == before
    assert made.names("pending") == []
    (receipt,) = [one for one in made.rejections() if one["body_sha256"] == sha(data)]
    assert made.kept(receipt) == data
    assert receipt["file_name"] == name
    assert receipt["reason"].strip()
    assert made.children() == []
    effects: list[tuple[str, str]] = []
    made.decide(lambda *effect: effects.append(effect))
    assert effects == []
    return receipt


def test_a_sound_request_becomes_a_child(made: Parent) -> None:
    attempt_id = made.attempt()
    extra = made.root_path / "notes.txt"
    extra.write_bytes(b"look here\n")
    request = made.request("part-1", attempt_id)
    request["inputs"].append({"ref": "repo:/notes.txt", "sha256": sha(b"look here\n")})
    body = made.put("whatever.json", request)
    state = made.decide()
    assert state.child is not None
    child = made.path("children", state.child.session_id)
    assert (child / "goal.md").read_text() == "Write part.txt"
    assert (child / "inputs/accepted_request.json").read_bytes() == body
    inputs = sorted((child / "inputs/artifacts").iterdir())
    assert [one.name for one in inputs] == ["001_part-1.json", "002_notes.txt"]
    assert inputs[1].read_bytes() == b"look here\n"
    goal = json.loads((child / "goal_contract.json").read_bytes())
    assert {name: goal[name] for name in SCOPE} == SCOPE
    assert made.names("pending") == []
    assert made.names("accepted") == ["part-1.json", "part-1.receipt.json"]
    assert made.path("child_requests/accepted/part-1.json").read_bytes() == body
    assert made.names("rejected") == []
    effects: list[str] = []
    assert made.decide(lambda step, _place: effects.append(step)) == made.state
    assert effects == []


def test_the_layer_goes_on_after_a_refusal(made: Parent) -> None:
    refused(made, b"{")
    made.put("good.json", made.request("good", made.attempt()))
    assert made.decide().child is not None
    assert made.children() == ["good"]


# --- every field ----------------------------------------------------------------------------------


def _paths(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    below: list[tuple[Any, ...]] = []
    if isinstance(value, dict):
        for name, one in value.items():
            below += _paths(one, (*path, name))
    elif isinstance(value, list):
        for number, one in enumerate(value):
            below += _paths(one, (*path, number))
    return [path, *below]


def _parent_of(value: Any, path: tuple[Any, ...]) -> Any:
    for step in path[:-1]:
        value = value[step]
    return value


def test_a_request_with_any_field_wrong_missing_or_extra_is_refused(made: Parent) -> None:
    attempt_id = made.attempt()
    sound = made.request("field-1", attempt_id)
    sound["assignment"]["stop_criteria"] = ["when it is late"]
    broken: list[Any] = []
    for path in _paths(sound)[1:]:
        wrong: Any
        for wrong in (7, 1.5, True, "", "\u0000", [], {}, [[]], "a" * 300_000):
            changed = copy.deepcopy(sound)
            if type(wrong) is type(_parent_of(changed, path)[path[-1]]) and wrong in ([], {}):
                continue
            _parent_of(changed, path)[path[-1]] = wrong
            broken.append(changed)
        if isinstance(path[-1], str):
            changed = copy.deepcopy(sound)
            del _parent_of(changed, path)[path[-1]]
            broken.append(changed)
        inside = copy.deepcopy(sound)
        found = _parent_of(inside, path)[path[-1]]
        if isinstance(found, dict):
            found["further"] = None
            broken.append(inside)
    broken += [sound | {"further": 1}, [sound], None, "text", 3]
    for number, value in enumerate(broken):
        made.put(f"{number:04d}.json", value)
    assert made.decide().child is None
    assert made.names("pending") == []
    assert len(broken) > 150
    # Keys may be any text, so some are wrong in what they mean, and not in their form.
    codes = set(made.codes().values())
    assert codes <= {
        "record_invalid", "key_invalid", "request_not_alone", "snapshot_missing",
        "request_origin_unknown",
    }  # fmt: skip
    assert len(made.rejections()) == len(broken)


@pytest.mark.parametrize(
    "body",
    [
        b"", b"\0" * 400, b"{", b'{"schema_version": 2', b"\xff\xfe{}", b"[" * 5000, b"nonsense",
        b'{"request_id": "a", "request_id": "b"}', b'{"request_id": "a", "\\u0072equest_id": "b"}',
    ],
)  # fmt: skip
def test_what_is_no_json_object_is_refused(made: Parent, body: bytes) -> None:
    code = "resource_limit" if body.startswith(b"[[") else "record_invalid"
    assert refused(made, body)["code"] == code


def test_a_truncated_request_is_refused(made: Parent) -> None:
    whole = json.dumps(made.request("cut", made.attempt())).encode()
    for cut in range(1, len(whole), 97):
        made.put(f"{cut:05d}.json", whole[:cut])
    made.decide()
    assert set(made.codes().values()) == {"record_invalid"}


def test_a_file_of_ten_megabytes_is_refused_with_its_digest(made: Parent) -> None:
    receipt = refused(made, b" " * 10_000_000)
    assert receipt["code"] == "resource_limit"


def test_a_file_that_is_too_large_to_be_hashed_is_put_away_whole(made: Parent) -> None:
    path = made.path("child_requests/pending/huge.json")
    with path.open("wb") as stream:
        stream.truncate(40 * 1024 * 1024)
    made.decide()
    (receipt,) = made.rejections()
    assert (receipt["code"], receipt["body_sha256"]) == ("resource_limit", None)
    assert made.path("child_requests/rejected", receipt["kept_as"]).stat().st_size == 41_943_040
    assert made.names("pending") == []


# --- what lies there ------------------------------------------------------------------------------


def _link(path: Path) -> None:
    path.symlink_to("/etc/passwd")


def _dangling(path: Path) -> None:
    path.symlink_to("/nowhere/at/all")


def _folder(path: Path) -> None:
    (path / "deep").mkdir(parents=True)


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as bound:
        here = os.getcwd()
        os.chdir(path.parent)
        try:
            bound.bind(path.name)
        finally:
            os.chdir(here)


def _device(path: Path) -> None:
    try:
        os.mknod(path, 0o600 | 0o020000, os.makedev(1, 3))
    except PermissionError:
        pytest.skip("devices cannot be made here")


@pytest.mark.parametrize("make", [_link, _dangling, _folder, os.mkfifo, _socket, _device])
def test_what_is_no_file_is_moved_away(made: Parent, make: Callable[[Path], None]) -> None:
    path = made.path("child_requests/pending/odd.json")
    make(path)
    kind = path.lstat().st_mode
    made.decide()
    assert made.names("pending") == []
    (receipt,) = made.rejections()
    assert (receipt["code"], receipt["body_sha256"]) == ("file_not_regular", None)
    kept = made.path("child_requests/rejected", receipt["kept_as"])
    assert kept.lstat().st_mode == kind
    make(path)
    made.decide()
    assert len({one["kept_as"] for one in made.rejections()}) == 2


NAMES = [
    "two\nlines.json", "escape\x1b[2J.json", "x" * 250 + ".json", ".hidden.json", ".a.123.tmp",
    "no-ending", "half.json.tmp", "UPPER.JSON", "\u202ereversed.json",
    os.fsdecode(b"no-utf8-\xff.json"),
]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_a_file_of_a_foreign_name_is_put_away_or_read_as_any_other(made: Parent, name: str) -> None:
    body = made.put(name, made.request("named", made.attempt()))
    made.decide()
    assert made.names("pending") == []
    if name == "x" * 250 + ".json":
        assert made.children() == ["named"]
        return
    (receipt,) = made.rejections()
    assert receipt["code"] == "request_foreign"
    assert made.kept(receipt) == body
    assert receipt["file_name"].isprintable()
    # What was written can be read again.
    made.put("after.json", made.request("after", made.attempt()))
    made.decide()
    assert made.children() == ["after"]


@pytest.mark.parametrize("name", ["a.receipt.json", "a.Receipt.JSON", ".receipt.json"])
def test_a_pending_file_that_is_called_a_receipt_is_taken_for_none(made: Parent, name: str) -> None:
    made.put(name, b"no receipt at all")
    made.decide()
    made.put("after.json", made.request("after", made.attempt()))
    made.decide()
    assert made.children() == ["after"]
    assert len(made.rejections()) == 1


def test_two_names_of_the_same_bytes_are_one_request(made: Parent) -> None:
    request = made.request("one", made.attempt())
    made.put("first.json", request)
    made.put("second.json", request)
    made.decide()
    assert made.children() == ["one"]
    assert made.names("pending") == []
    assert made.names("rejected") == []


def test_an_accepted_request_that_is_said_again_changes_nothing(made: Parent) -> None:
    request = made.request("one", made.attempt())
    made.put("first.json", request)
    made.decide()
    made.end_child()
    state = made.state
    made.put("again.json", request)
    assert made.decide() == state
    assert made.children() == ["one"]
    assert made.names("pending") == []
    assert made.names("rejected") == []


def test_a_file_that_is_replaced_while_its_request_is_accepted_is_judged_for_itself(
    made: Parent,
) -> None:
    first = made.put("a.json", made.request("one", made.attempt()))
    pending = made.path("child_requests/pending/a.json")

    def replace(step: str, place: str) -> None:
        if step == "link" and place.endswith("one.receipt.json"):
            pending.write_bytes(b"another thing")

    made.decide(replace)
    assert made.path("child_requests/accepted/one.json").read_bytes() == first
    assert pending.read_bytes() == b"another thing"
    made.end_child()
    made.decide()
    (receipt,) = made.rejections()
    assert made.kept(receipt) == b"another thing"


def test_a_file_that_is_replaced_while_it_is_put_away_is_judged_for_itself(made: Parent) -> None:
    made.put("a.json", b"one")
    pending = made.path("child_requests/pending/a.json")

    def replace(step: str, _place: str) -> None:
        if step == "link" and pending.read_bytes() == b"one":
            pending.write_bytes(b"two")

    made.decide(replace)
    assert pending.read_bytes() == b"two"
    made.decide()
    assert sorted(made.kept(one) for one in made.rejections()) == [b"one", b"two"]
    assert [one["body_sha256"] for one in made.rejections()].count(sha(b"two")) == 1


@pytest.mark.parametrize("name", ["a.json", "b.json"])
def test_a_file_that_vanishes_meanwhile_hinders_nothing(made: Parent, name: str) -> None:
    made.put("a.json", b"one")
    made.put("b.json", b"two")

    def vanish(step: str, _place: str) -> None:
        made.path("child_requests/pending", name).unlink(missing_ok=True)

    made.decide(vanish)
    assert made.names("pending") == []


def test_a_pending_folder_that_is_a_link_is_not_followed(made: Parent, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "a.json").write_bytes(b"one")
    made.path("child_requests/pending").rmdir()
    made.path("child_requests/pending").symlink_to(outside)
    with pytest.raises(CallboardError) as caught:
        made.decide()
    assert caught.value.code == "path_invalid"
    assert [one.name for one in outside.iterdir()] == ["a.json"]


@pytest.mark.parametrize("folder", ["accepted", "rejected"])
@pytest.mark.parametrize("damage", [b"", b"\0" * 300])
def test_a_damaged_receipt_is_told_and_is_no_fault_of_a_request(
    made: Parent, folder: str, damage: bytes
) -> None:
    body = made.put("a.json", made.request("one", made.attempt()))
    made.path("child_requests", folder, "x.receipt.json").write_bytes(damage)
    with pytest.raises(CallboardError) as caught:
        made.decide()
    assert caught.value.code == "layer_corrupt"
    assert made.path("child_requests/pending/a.json").read_bytes() == body
    made.path("child_requests", folder, "x.receipt.json").unlink()
    made.decide()
    assert made.children() == ["one"]


def test_what_was_put_away_is_no_damage(made: Parent) -> None:
    pending = made.path("child_requests/pending")
    (pending / "folder.json").mkdir()
    (pending / "link.json").symlink_to("/etc/passwd")
    made.put("a.receipt.json", b"no receipt")
    made.put("large.json", b" " * 2_000_000)
    made.put("two\nlines.json", b"{")
    made.put("good.json", made.request("good", made.attempt()))
    made.decide()
    assert len(made.rejections()) == 5
    found = Layers(made.around()).check()
    # An attempt that these tests end by hand has no trace.
    assert [one for one in found if "child_requests" in one.place] == []


# --- ids ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "request_id",
    [
        "..", "../up", "/abs", "a/b", "C:x", "con", "COM1", "nul.txt", "LPT9.a", "a.", "a b",
        "語" * 90, "a\u200bb", "x.receipt", "ａ／b", "a" * 101, "~a", "-a",
    ],
)  # fmt: skip
def test_an_id_that_may_be_no_file_name_is_refused(made: Parent, request_id: str) -> None:
    request = made.request("safe", made.attempt()) | {"request_id": request_id}
    assert refused(made, request)["code"] in ("record_invalid", "key_invalid")
    request = made.request("safe", made.attempt())
    request["origin"]["parent_work_item_id"] = request_id
    assert refused(made, request, "b.json")["code"] in ("record_invalid", "key_invalid")


TWINS = [
    ("Foo", "foo"), ("caf\u00e9", "cafe\u0301"), ("stra\u00dfe", "STRASSE"), ("\ufb01x", "fix"),
]  # fmt: skip


@pytest.mark.parametrize(("first", "second"), TWINS)
def test_a_twin_of_an_accepted_id_is_refused_with_the_name_of_the_first(
    made: Parent, first: str, second: str
) -> None:
    body = made.put("a.json", made.request(first, made.attempt()))
    made.decide()
    made.end_child()
    made.put("b.json", made.request(second, made.attempt(), supersedes=first))
    made.decide()
    (receipt,) = made.rejections()
    assert receipt["code"] == "request_twin"
    assert first in receipt["reason"]
    assert made.children() == [first]
    assert made.path("child_requests/accepted", f"{first}.json").read_bytes() == body


def test_another_body_of_an_accepted_id_is_refused(made: Parent) -> None:
    body = made.put("a.json", made.request("one", made.attempt()))
    made.decide()
    made.end_child()
    made.put("b.json", made.request("one", made.attempt(), supersedes="one"))
    made.decide()
    assert made.codes() == {"b.json": "request_conflict"}
    assert made.path("child_requests/accepted/one.json").read_bytes() == body


def test_a_refused_id_stays_refused_under_every_file_name(made: Parent) -> None:
    request = made.request("one", made.attempt(), item_id="nowhere")
    made.put("a.json", request)
    made.decide()
    made.ledger(item("nowhere"))
    made.put("a.json", request)
    made.put("b.json", request)
    made.decide()
    assert made.codes() == {"a.json": "work_item_unknown", "b.json": "request_conflict"}
    assert made.children() == []


# --- origin, item, lineage, set -------------------------------------------------------------------


def test_two_new_requests_of_one_attempt_are_both_refused(made: Parent) -> None:
    attempt_id = made.attempt()
    for name in ("one", "two"):
        made.put(f"{name}.json", made.request(name, attempt_id))
    made.decide()
    assert made.codes() == {"one.json": "request_not_alone", "two.json": "request_not_alone"}
    assert made.children() == []


def test_a_second_request_of_an_attempt_that_has_one_accepted_is_refused(made: Parent) -> None:
    attempt_id = made.attempt()
    made.put("one.json", made.request("one", attempt_id))
    made.decide()
    made.end_child()
    made.put("two.json", made.request("two", attempt_id, supersedes="one"))
    made.decide()
    assert made.codes() == {"two.json": "request_not_alone"}


def test_the_origin_is_an_attempt_of_this_layer_that_has_ended_and_may_ask(made: Parent) -> None:
    planner = made.attempt("planner")
    made.attempt()
    forged = made.path("attempts", "0009_dispatcher")
    shutil.copytree(made.path("attempts", "0002_dispatcher"), forged)
    made.begin()
    origins = [planner, "0007_dispatcher", "0009_dispatcher", "dispatcher", "0003_dispatcher"]
    made.disk.remove_tree(made.layer.file("attempts/0003_dispatcher/finished.json"))
    for number, attempt_id in enumerate(origins):
        made.put(f"{number}.json", made.request(f"r{number}", attempt_id))
    made.decide()
    assert made.codes() == {f"{number}.json": "request_origin_unknown" for number in range(5)}


def test_the_item_is_one_of_the_ledger(made: Parent) -> None:
    request = made.request("one", made.attempt(), item_id="Part")
    assert refused(made, request)["code"] == "work_item_unknown"
    made.path("project_state/work_items.md").unlink()
    request = made.request("two", made.attempt())
    assert refused(made, request)["code"] == "file_missing"
    made.ledger("## part: x\n")
    request = made.request("three", made.attempt())
    assert refused(made, request)["code"] == "work_items_invalid"


def test_the_lineage_of_an_item_is_unbroken(made: Parent) -> None:
    assert refused(made, made.request("a", made.attempt(), supersedes="z"))["code"] == (
        "request_lineage"
    )
    made.put("b.json", made.request("b", made.attempt()))
    made.decide()
    made.end_child()
    for name, supersedes in (("c", None), ("d", "a"), ("e", "nothing")):
        made.put(f"{name}.json", made.request(name, made.attempt(), supersedes=supersedes))
        made.decide()
    assert set(made.codes().values()) == {"request_lineage"}
    made.put("f.json", made.request("f", made.attempt(), supersedes="b"))
    made.decide()
    assert made.children() == ["b", "f"]


def test_one_child_lives_at_a_time(made: Parent) -> None:
    made.ledger(item() + "\n" + item("other"))
    first, second = made.attempt(), made.attempt()
    made.put("a.json", made.request("a", first))
    made.put("b.json", made.request("b", second, "other"))
    made.decide()
    assert made.children() == ["a"]
    assert made.codes() == {"b.json": "child_live"}


def test_an_unknown_or_faulty_set_is_refused(made: Parent) -> None:
    request = made.request("one", made.attempt(), workflow_set="nowhere")
    made.snapshot("one", workflow_set="nowhere")
    request["inputs"][0]["sha256"] = sha(
        made.path("project_state/dispatch_inputs/one.json").read_bytes()
    )
    assert refused(made, request)["code"] == "workflow_set_missing"
    config = made.root_path / ".callboard/workflow_sets/below/workflows/worker/config.yaml"
    config.write_text(CONFIG + "nonsense: 1\n")
    request = made.request("two", made.attempt())
    assert refused(made, request)["code"] == "workflow_set_invalid"


# --- inputs ---------------------------------------------------------------------------------------


def _with(made: Parent, request_id: str, *refs: tuple[str, bytes]) -> dict[str, Any]:
    request = made.request(request_id, made.attempt())
    request["inputs"] += [{"ref": ref, "sha256": sha(data)} for ref, data in refs]
    return request


MUTABLE = [
    "parent:/project_state/work_items.md", "root:/project_state/work_items.md",
    "session:{session}:/project_state/work_items.md", "parent:/project_state/finished.md",
    "parent:/state.json", "parent:/children.json", "parent:/events.jsonl",
    "parent:/inputs/updates.jsonl", "root:/PROJECT_STATE/Work_Items.md",
]  # fmt: skip


@pytest.mark.parametrize("ref", MUTABLE)
def test_a_file_that_changes_is_no_input(made: Parent, ref: str) -> None:
    ref = ref.format(session=made.session_id)
    assert refused(made, _with(made, "one", (ref, b"")))["code"] == "input_mutable"


def test_the_ledger_of_another_layer_is_no_input_either(made: Parent) -> None:
    made.put("a.json", made.request("a", made.attempt()))
    made.decide()
    below = made.child()
    below.ledger(item())
    session_id = made.end_child()
    data = made.ledger_text().encode()
    request = made.request("b", made.attempt(), supersedes="a")
    ref = f"session:{session_id}:/project_state/work_items.md"
    request["inputs"].append({"ref": ref, "sha256": sha(data)})
    made.put("b.json", request)
    made.decide()
    assert made.codes() == {"b.json": "input_mutable"}


def test_an_input_has_the_bytes_that_were_declared(made: Parent) -> None:
    (made.root_path / "a.txt").write_bytes(b"new")
    receipt = refused(made, _with(made, "one", ("repo:/a.txt", b"old")))
    assert receipt["code"] == "input_changed"
    assert sha(b"new") in receipt["reason"]


@pytest.mark.parametrize(
    "ref",
    [
        "repo:/../x", "repo:/.git/config", "repo:/.callboard/layers/repository.json",
        "session:/state.json", "session:other:/a", "/etc/passwd", "file:/etc/passwd",
        "repo:/link", "repo:/folder/link/a", "parent:/a%2e",
    ],
)  # fmt: skip
def test_an_input_out_of_scope_is_refused(made: Parent, ref: str) -> None:
    (made.root_path / "link").symlink_to("/etc/passwd")
    (made.root_path / "folder").mkdir()
    (made.root_path / "folder/link").symlink_to("/etc")
    code = refused(made, _with(made, "one", (ref, b"x")))["code"]
    assert code in ("reference_invalid", "reference_out_of_scope", "layer_missing")


def test_an_input_that_is_missing_or_too_large_is_refused(made: Parent) -> None:
    assert refused(made, _with(made, "one", ("repo:/no", b"")))["code"] == "file_missing"
    large = made.root_path / "large"
    with large.open("wb") as stream:
        stream.truncate(16 * 1024 * 1024 + 1)
    assert refused(made, _with(made, "two", ("repo:/large", b"")))["code"] == "resource_limit"
    names = []
    for number in range(5):
        with (made.root_path / f"part{number}").open("wb") as stream:
            stream.truncate(16 * 1024 * 1024 - 1)
        names.append((f"repo:/part{number}", b"\0" * (16 * 1024 * 1024 - 1)))
    assert refused(made, _with(made, "three", *names))["code"] == "resource_limit"


@pytest.mark.parametrize("other", ["A.txt", "a.txt"])
def test_an_input_is_named_once(made: Parent, other: str) -> None:
    for name in {"a.txt", other}:
        (made.root_path / name).write_bytes(b"x")
    request = _with(made, "one", ("repo:/a.txt", b"x"), (f"repo:/{other}", b"x"))
    receipt = refused(made, request)
    assert receipt["code"] == "input_twin"
    assert "repo:/a.txt" in receipt["reason"]


@pytest.mark.parametrize("name", ["n" * 251 + ".txt", "語" * 83 + ".txt"])
def test_an_input_of_the_longest_name_arrives(made: Parent, name: str) -> None:
    (made.root_path / name).write_bytes(b"x")
    made.put("a.json", _with(made, "one", (f"repo:/{name}", b"x")))
    state = made.decide()
    assert state.child is not None
    artifacts = made.path("children", state.child.session_id, "inputs/artifacts")
    assert (sorted(artifacts.iterdir())[1]).read_bytes() == b"x"
    assert sorted(artifacts.iterdir())[1].suffix == ".txt"


def test_the_snapshot_is_named_and_describes_this_request(made: Parent) -> None:
    request = made.request("one", made.attempt())
    request["inputs"] = []
    assert refused(made, request)["code"] == "snapshot_missing"
    wrong = {
        "work_item_id": "other", "workflow_set": "above", "supersedes_request_id": "z",
        "session_id": "other", "request_id": "other", "child_scope": SCOPE | {"goal": "Else"},
    }  # fmt: skip
    for name, value in wrong.items():
        request_id = f"r-{name}"
        request = made.request(request_id, made.attempt())
        data = _described(made, request_id, name, value)
        request["inputs"][0]["sha256"] = sha(data)
        assert refused(made, request, f"{name}.json")["code"] == "snapshot_mismatch"
    request = made.request("two", made.attempt())
    made.path("project_state/dispatch_inputs/two.json").write_bytes(b"\0" * 100)
    request["inputs"][0]["sha256"] = sha(b"\0" * 100)
    assert refused(made, request, "z.json")["code"] == "record_invalid"


def _described(made: Parent, request_id: str, name: str, value: Any) -> bytes:
    path = made.path("project_state/dispatch_inputs", f"{request_id}.json")
    data = json.dumps(json.loads(path.read_bytes()) | {name: value}).encode()
    path.write_bytes(data)
    return data


# --- limits ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("depth", [0, 1, 2])
def test_exactly_the_allowed_depth_is_reached(tmp_path: Path, depth: int) -> None:
    layer = parent(tmp_path, limits=Limits(max_depth=depth))
    for level in range(depth):
        _ask(layer, f"level-{level}", "above")
        layer = layer.child()
        layer.ledger(item())
    attempt_id = layer.attempt()
    layer.put("deeper.json", layer.request("deeper", attempt_id))
    layer.decide()
    assert layer.codes() == {"deeper.json": "depth_limit"}
    assert layer.children() == []
    assert layer.layer.session.depth == depth


def _ask(layer: Parent, request_id: str, workflow_set: str, supersedes: str | None = None) -> None:
    request = layer.request(request_id, layer.attempt(), supersedes=supersedes)
    request["workflow_set"] = workflow_set
    data = layer.snapshot(request_id, workflow_set=workflow_set, supersedes_request_id=supersedes)
    request["inputs"][0]["sha256"] = sha(data)
    layer.put(f"{request_id}.json", request)
    assert layer.decide().child is not None, layer.rejections()


def test_exactly_the_allowed_children_are_made(tmp_path: Path) -> None:
    made = parent(tmp_path, limits=Limits(max_children=2))
    last = None
    for name in ("a", "b"):
        _ask(made, name, "below", last)
        made.end_child()
        last = name
    made.put("c.json", made.request("c", made.attempt(), supersedes="b"))
    made.decide()
    assert made.codes() == {"c.json": "children_limit"}
    assert made.children() == ["a", "b"]


def test_exactly_the_allowed_descendants_are_made_whoever_asks(tmp_path: Path) -> None:
    made = parent(tmp_path, limits=Limits(max_descendants=5))
    _ask(made, "first", "above")
    below = made.child()
    below.ledger(item())
    last = None
    for number in range(4):
        _ask(below, f"b{number}", "below", last)
        below.end_child()
        last = f"b{number}"
    # Neither what lies about in `children`, nor a limit that a child claims, counts.
    below.path("children", "notes.txt").write_text("x")
    below.put("b4.json", below.request("b4", below.attempt(), supersedes="b3"))
    below.decide()
    assert below.codes() == {"b4.json": "descendants_limit"}
    made.end_child()
    made.put("second.json", made.request("second", made.attempt(), supersedes="first"))
    made.decide()
    assert made.codes() == {"second.json": "descendants_limit"}


def test_a_set_whose_contract_nobody_could_read_again_is_refused(made: Parent) -> None:
    folder = made.root_path / ".callboard/workflow_sets/below"
    roles = [f"role{number}" for number in range(9)]
    for role in roles:
        shutil.copytree(folder / "workflows/worker", folder / "workflows" / role)
        config = folder / "workflows" / role / "config.yaml"
        config.write_text(CONFIG.replace("Do your part.", '"' + "x" * 200_000 + '"'))
    contract = (folder / "contract.yaml").read_text()
    names = ", ".join(["worker", *roles])
    (folder / "contract.yaml").write_text(
        contract.replace("roles: [worker]", f"roles: [{names}]", 1)
    )
    assert refused(made, made.request("one", made.attempt()))["code"] == "resource_limit"


def test_a_folder_in_the_place_of_the_archived_body_stops_nothing(made: Parent) -> None:
    (made.path("child_requests/accepted", "part-1.json") / "deep").mkdir(parents=True)
    body = made.put("a.json", made.request("part-1", made.attempt()))
    assert made.decide().child is not None
    assert made.path("child_requests/accepted", "part-1.json").read_bytes() == body
