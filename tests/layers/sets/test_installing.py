"""The packaged sets: they are in the package, go into a repository, and are sound there."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callboard.errors import CallboardError
from callboard.layers import sets
from callboard.layers.choosing import after, choose
from callboard.layers.disk import Disk
from callboard.layers.records.state import RoleHistory
from callboard.layers.sets.installing import _spelled
from callboard.layers.yaml_records.faults import Faults
from callboard.layers.yaml_records.tree import parse
from tests.ambient import ROOT
from tests.layers.contracts import state

SETS = {
    "inner_outer_eval": ["outer", "inner", "eval_reviewer", "eval_runner"],
    "planner_dispatcher": ["planner", "dispatcher", "eval_reviewer", "eval_runner"],
}
HARNESS = ("agent", "-p", 'a "quoted" \\ word with é and \u2028')


def expected_files(name: str) -> list[str]:
    roles = [
        f"workflows/{role}/{file}" for role in SETS[name] for file in ("config.yaml", "prompt.md")
    ]
    return sorted(f".callboard/workflow_sets/{name}/{file}" for file in ["contract.yaml", *roles])


def test_there_are_two_packaged_sets() -> None:
    assert sets.packaged() == ("inner_outer_eval", "planner_dispatcher")


@pytest.mark.parametrize("name", SETS)
def test_an_installed_set_is_sound_once_a_command_is_given(tmp_path: Path, name: str) -> None:
    disk = Disk(tmp_path)
    assert sorted(sets.install(disk, name, HARNESS)) == expected_files(name)
    contract = sets.freeze(disk, name).contract
    assert [role.name for role in contract.roles] == SETS[name]
    for role in contract.roles:
        assert role.config.harness.command == HARNESS
        assert "PATH" in role.config.harness.environment


@pytest.mark.parametrize("name", SETS)
def test_without_a_command_a_packaged_set_is_refused_until_it_has_one(
    tmp_path: Path, name: str
) -> None:
    disk = Disk(tmp_path)
    sets.install(disk, name)
    with pytest.raises(CallboardError) as refused:
        sets.freeze(disk, name)
    assert refused.value.code == "harness_missing"
    assert refused.value.details["files"] == [
        f".callboard/workflow_sets/{name}/workflows/{role}/config.yaml" for role in SETS[name]
    ]


def test_a_file_that_is_there_is_never_changed(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    own = tmp_path / expected_files("planner_dispatcher")[0]
    own.parent.mkdir(parents=True)
    own.write_text("mine")
    assert (
        sorted(sets.install(disk, "planner_dispatcher")) == expected_files("planner_dispatcher")[1:]
    )
    assert own.read_text() == "mine"
    assert sets.install(disk, "planner_dispatcher", ("other",)) == []


def test_a_set_that_is_not_packaged_is_told_with_a_near_name(tmp_path: Path) -> None:
    with pytest.raises(CallboardError) as refused:
        sets.install(Disk(tmp_path), "planner_dispacher")
    assert refused.value.code == "workflow_set_missing"
    assert refused.value.message.endswith("did you mean planner_dispatcher?")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("harness", [("a\0b",), ("\udc80",), ("x" * 4097,), ("a",) * 201])
def test_what_cannot_be_a_command_is_refused(tmp_path: Path, harness: tuple[str, ...]) -> None:
    with pytest.raises(CallboardError) as refused:
        sets.install(Disk(tmp_path), "inner_outer_eval", harness)
    assert refused.value.code == "harness_invalid"
    assert list(tmp_path.iterdir()) == []


@given(
    st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\0")), min_size=1, max_size=4)
)
def test_any_words_are_read_as_they_were_given(words: list[str]) -> None:
    tree = parse(f"command: {_spelled(words)}\n".encode(), "f", Faults())
    assert tree is not None
    assert tree.plain() == {"command": words}


@pytest.mark.parametrize(
    ("name", "round_of_turns"),
    [
        ("inner_outer_eval", "outer inner eval_reviewer eval_runner"),
        ("planner_dispatcher", "planner dispatcher planner dispatcher eval_reviewer eval_runner"),
    ],
)
def test_the_order_of_turns_while_all_goes_well(
    tmp_path: Path, name: str, round_of_turns: str
) -> None:
    turns = 2 * round_of_turns.split()
    disk = Disk(tmp_path)
    sets.install(disk, name, HARNESS)
    contract = sets.freeze(disk, name).contract
    roles: dict[str, RoleHistory] = {}
    went: list[str] = []
    for number in range(1, len(turns) + 1):
        last = {"last_role": went[-1], "last_succeeded": True} if went else {}
        chosen = choose(contract, state(iteration=number - 1, roles=roles, **last)).role
        assert chosen is not None
        went.append(chosen.name)
        roles = after(roles, chosen.name, True, number)
    assert went == turns


def test_the_built_package_has_every_file_of_the_sets(tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)],
        cwd=ROOT,
        check=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    (wheel,) = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    folder = "callboard/layers/packaged/"
    found = sorted(name.removeprefix(folder) for name in names if name.startswith(folder))
    assert found == sorted(
        file.removeprefix(".callboard/workflow_sets/")
        for name in SETS
        for file in expected_files(name)
    )
