"""The coordinator killed after any one effect on requests: the next one comes to the same end."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.ambient import DEEP
from tests.layers.killing import Killed, killing
from tests.layers.requests.parent import Parent, item, parent


def accepted(made: Parent) -> None:
    made.put("a.json", made.request("a", made.attempt()))


def superseding(made: Parent) -> None:
    made.put("a.json", made.request("a", made.attempt()))
    made.decide()
    made.end_child()
    made.put("b.json", made.request("b", made.attempt(), supersedes="a"))


def two_of_one_attempt(made: Parent) -> None:
    attempt_id = made.attempt()
    made.put("a.json", made.request("a", attempt_id))
    made.put("b.json", made.request("b", attempt_id))


def two_of_two_attempts_for_one_item(made: Parent) -> None:
    made.ledger(item() + "\n" + item("other"))
    made.put("a.json", made.request("a", made.attempt(), "nowhere"))
    made.put("b.json", made.request("b", made.attempt(), "other"))


def refused_of_every_kind(made: Parent) -> None:
    pending = made.path("child_requests/pending")
    (pending / "folder.json").mkdir()
    (pending / "link.json").symlink_to("/etc/passwd")
    made.put("bad.json", b"{")
    made.put("large.json", b" " * 2_000_000)
    made.put("odd\nname.json", made.request("odd", made.attempt()))


def end(made: Parent) -> dict[str, Any]:
    state = made.state
    accepted = made.path("child_requests/accepted")
    return {
        "children": sorted(made.children()),
        "live": state.child and state.child.request_id,
        "made": state.children_made,
        "pending": made.names("pending"),
        "accepted": {name: (accepted / name).read_bytes() for name in made.names("accepted")
                     if not name.endswith(".receipt.json")},
        "receipts": [name for name in made.names("accepted") if name.endswith(".receipt.json")],
        "rejected": [name for name in made.names("rejected") if not name.startswith(".")],
        "codes": made.codes(),
    }  # fmt: skip


@pytest.mark.parametrize(
    "prepare",
    [
        accepted, superseding, two_of_one_attempt, two_of_two_attempts_for_one_item,
        refused_of_every_kind,
    ],
)  # fmt: skip
def test_killed_after_any_effect_the_end_is_the_same(
    tmp_path: Path, prepare: Callable[[Parent], None]
) -> None:
    first = parent(tmp_path / "first")
    prepare(first)
    seen: list[tuple[str, str]] = []
    made = Parent(shutil.copytree(first.root_path, tmp_path / "whole", symlinks=True))
    made.decide(killing(0, seen))
    whole = end(made)
    assert whole["pending"] == []
    assert len(seen) > 5
    for at, (_step, place) in enumerate(seen, start=1):
        # The steps of building a child aside are all of one kind.
        if ".building/" in place and at % 10 and not DEEP:
            continue
        made = Parent(shutil.copytree(first.root_path, tmp_path / str(at), symlinks=True))
        with pytest.raises(Killed):
            made.decide(killing(at))
        assert gone_on(made) == whole, (at, place)
        # What was built for nobody, or half, is no child and does not stay.
        assert list(made.root_path.rglob(".*.building")) == [], (at, place)


def gone_on(made: Parent) -> dict[str, Any]:
    """What the next coordinator comes to. Another chance than the first one had gives other ids."""
    made.chance.count = 1000
    made.decide()
    found = end(made)
    if found["live"] is not None:
        # What was pending then is cleared when the layer decides again.
        made.end_child()
        made.decide()
        assert sorted(made.children()) == found["children"]
        found["pending"] = made.names("pending")
        found["codes"] = made.codes()
    return found
