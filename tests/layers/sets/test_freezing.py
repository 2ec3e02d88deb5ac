"""A workflow set is read as a whole, or every fault of it is told with its place."""

from __future__ import annotations

import hashlib
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callboard.errors import CallboardError
from callboard.layers import sets
from callboard.layers.disk import Disk
from callboard.layers.records.workflow import AfterSuccesses, Caps

SET = ".callboard/workflow_sets/mine"
CONTRACT = """\
description: Two roles
roles: [maker, judge]
goal_control_roles: [judge]
evaluation_roles: [judge]
caps: {max_turns: 7}
recovery: reap
"""
MAKER = """\
responsibility: Makes it
run_on_start: true
harness:
  command: [agent, --prompt, "{prompt_file}"]
  environment: [PATH]
"""
JUDGE = """\
responsibility: Judges it
run_after_successes: {role: maker, count: 2}
harness: {command: [agent]}
"""
FILES = {
    "contract.yaml": CONTRACT,
    "workflows/maker/config.yaml": MAKER,
    "workflows/maker/prompt.md": "Make {goal}\n",
    "workflows/judge/config.yaml": JUDGE,
    "workflows/judge/prompt.md": "Judge {goal}\n",
}

NO_PLACEHOLDER = "{gaol} is no placeholder; double the braces of plain text"
NOT_FIRST = "run_on_start says that maker may be the first, and this that it cannot be"
NO_COMMAND = "no command is set; name the agent that carries out the role"


def written(root: Path, changed: dict[str, str | None] | None = None) -> Disk:
    """A repository with the set, some files of it changed or left out."""
    for name, text in {**FILES, **(changed or {})}.items():
        path = root / SET / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if text is not None:
            path.write_text(text)
    return Disk(root)


def refusal(disk: Disk, name: str = "mine") -> CallboardError:
    with pytest.raises(CallboardError) as refused:
        sets.freeze(disk, name)
    return refused.value


def faults(disk: Disk) -> list[str]:
    """Each fault as `file below the set:line:column message`."""
    error = refusal(disk)
    assert error.code == "workflow_set_invalid"
    told = error.details["faults"]
    assert isinstance(told, list)
    assert error.details["count"] == len(told)
    return [
        f"{one['file'].removeprefix(SET + '/')}:{one['line']}:{one['column']} {one['message']}"
        for one in told
    ]


def test_a_sound_set_is_frozen_from_the_very_bytes(tmp_path: Path) -> None:
    frozen = sets.freeze(written(tmp_path), "mine")
    contract = frozen.contract
    assert contract.workflow_set == "mine"
    assert contract.description == "Two roles"
    assert [role.name for role in contract.roles] == ["maker", "judge"]
    assert (contract.goal_control_roles, contract.blocker_roles) == (("judge",), ())
    assert contract.caps == Caps(max_turns=7)
    assert contract.recovery == "reap"
    maker, judge = contract.roles
    assert maker.config.harness.command == ("agent", "--prompt", "{prompt_file}")
    assert judge.config.run_after_successes == AfterSuccesses(role="maker", count=2)
    for role in contract.roles:
        config, prompt = frozen.configs[role.name], frozen.prompts[role.name]
        assert config.decode() == FILES[f"workflows/{role.name}/config.yaml"]
        assert prompt.decode() == FILES[f"workflows/{role.name}/prompt.md"]
        assert role.config_sha256 == "sha256:" + hashlib.sha256(config).hexdigest()
        assert role.prompt_sha256 == "sha256:" + hashlib.sha256(prompt).hexdigest()


def test_faults_of_all_files_are_told_at_once(tmp_path: Path) -> None:
    disk = written(
        tmp_path,
        {
            "contract.yaml": CONTRACT.replace("caps", "cap")
            + "request_roles: [mkaer, maker, maker]\n",
            "workflows/maker/config.yaml": MAKER + "priority: high\nmust_follow: jugde\n",
            "workflows/maker/prompt.md": "Make\nthe {gaol}\n",
            "workflows/judge/config.yaml": None,
            "workflows/judge/prompt.md": " \n",
        },
    )
    assert faults(disk) == [
        "contract.yaml:5:1 there is no field 'cap'; did you mean caps?",
        "contract.yaml:7:17 there is no role 'mkaer'; did you mean maker?",
        "contract.yaml:7:31 'maker' stands twice, first in line 7",
        "workflows/judge/config.yaml:1:1 is missing",
        "workflows/judge/prompt.md:1:1 the prompt is empty",
        "workflows/maker/config.yaml:6:11 needs a whole number, and this is text, 'high'",
        f"workflows/maker/config.yaml:7:14 {NOT_FIRST}",
        "workflows/maker/config.yaml:7:14 there is no role 'jugde'; did you mean judge?",
        f"workflows/maker/prompt.md:2:5 {NO_PLACEHOLDER}; did you mean goal?",
    ]


def test_names_that_are_no_roles_are_told(tmp_path: Path) -> None:
    contract = CONTRACT.replace("[maker, judge]", "[maker, judge, maker]")
    contract = contract.replace("evaluation_roles: [judge]", "evaluation_roles: [jugde]")
    disk = written(
        tmp_path,
        {
            "contract.yaml": contract + "blocker_roles: [judge, judge]\n",
            "workflows/maker/config.yaml": MAKER.replace(
                "run_on_start: true", "must_follow: marker"
            ),
            "workflows/judge/config.yaml": JUDGE.replace("role: maker", "role: judge"),
        },
    )
    assert faults(disk) == [
        "contract.yaml:2:23 'maker' stands twice, first in line 2",
        "contract.yaml:4:20 there is no role 'jugde'; did you mean judge?",
        "contract.yaml:7:24 'judge' stands twice, first in line 7",
        "workflows/judge/config.yaml:2:29 judge waits for itself, and so would never run",
        "workflows/maker/config.yaml:2:14 there is no role 'marker'; did you mean maker?",
    ]


def test_who_may_be_the_first_does_not_wait(tmp_path: Path) -> None:
    config = MAKER + "not_before_iteration: 2\nmust_follow: judge\n"
    assert faults(written(tmp_path, {"workflows/maker/config.yaml": config})) == [
        f"workflows/maker/config.yaml:6:23 {NOT_FIRST}",
        f"workflows/maker/config.yaml:7:14 {NOT_FIRST}",
    ]


def test_a_set_in_which_nothing_can_begin_is_refused(tmp_path: Path) -> None:
    config = MAKER.replace("run_on_start: true", "enabled: false")
    waits = "waits for 2 successes of maker since it ran last, has 0"
    assert faults(written(tmp_path, {"workflows/maker/config.yaml": config})) == [
        f"contract.yaml:2:8 no role could be the first (maker: disabled; judge: {waits})"
    ]


def test_folders_of_no_role_are_told(tmp_path: Path) -> None:
    disk = written(
        tmp_path,
        {"workflows/Judge/config.yaml": JUDGE, "workflows/marker/x": "", "workflows/ｍaker/x": ""},
    )
    (tmp_path / SET / "workflows" / "README.md").write_text("Files are nobody's folder")
    (tmp_path / SET / "workflows" / ".git").mkdir()
    (tmp_path / SET / "workflows" / "\x1b").mkdir()
    (tmp_path / SET / "workflows" / "link").symlink_to("maker")
    assert faults(disk) == [
        "workflows/Judge:1:1 is not the folder of the role judge, only spelled like it",
        "workflows/\\x1b:1:1 belongs to no role that contract.yaml names; known are judge, maker",
        "workflows/link:1:1 belongs to no role that contract.yaml names; known are judge, maker",
        "workflows/marker:1:1 belongs to no role that contract.yaml names; did you mean maker?",
        "workflows/ｍaker:1:1 is not the folder of the role maker, only spelled like it",
    ]


def test_large_and_irregular_files_are_refused_unread(tmp_path: Path) -> None:
    disk = written(tmp_path, {"workflows/maker/prompt.md": "x" * (256 * 1024 + 1)})
    config = tmp_path / SET / "workflows" / "judge" / "config.yaml"
    config.unlink()
    config.symlink_to(tmp_path / SET / "contract.yaml")
    contract = tmp_path / SET / "contract.yaml"
    contract.write_text("#" * (256 * 1024 + 1))
    assert [one.split(" ")[0] for one in faults(disk)] == [
        "contract.yaml:1:1",
        "workflows/judge/config.yaml:1:1",
        "workflows/maker/prompt.md:1:1",
    ]


def test_a_contract_that_cannot_be_read_hides_no_fault_of_a_role(tmp_path: Path) -> None:
    disk = written(tmp_path, {"contract.yaml": "roles: [", "workflows/maker/prompt.md": ""})
    told = faults(disk)
    assert [one.split(" ")[0] for one in told] == [
        "contract.yaml:1:9",
        "workflows/maker/prompt.md:1:1",
    ]


def test_a_goal_that_nobody_could_end_is_refused(tmp_path: Path) -> None:
    contract = CONTRACT.replace("[judge]\ne", "[]\ne").replace("evaluation_roles: [judge]\n", "")
    assert faults(written(tmp_path, {"contract.yaml": contract})) == [
        "contract.yaml:1:1 the field evaluation_roles is missing",
        "contract.yaml:3:21 needs 1 entries at least, and has 0",
    ]


def test_a_role_without_a_command_is_refused_with_what_to_do(tmp_path: Path) -> None:
    disk = written(tmp_path, {"workflows/judge/config.yaml": JUDGE.replace("[agent]", "[]")})
    error = refusal(disk)
    assert error.code == "harness_missing"
    assert error.message == f"no command is set in {SET}/workflows/judge/config.yaml:3"
    assert error.details["files"] == [f"{SET}/workflows/judge/config.yaml"]
    assert '["claude", "-p"]' in error.hint
    assert "docs/how-to/layers.md" in error.hint


@pytest.mark.parametrize(
    ("word", "meant"), [("{promptfile}", "prompt_file"), ("a={assignement}", "assignment")]
)
def test_a_misspelled_placeholder_is_told(tmp_path: Path, word: str, meant: str) -> None:
    judge = JUDGE.replace("[agent]", f"[agent, '{word}']")
    (found,) = faults(written(tmp_path, {"workflows/judge/config.yaml": judge}))
    assert found.endswith(f"is no placeholder; did you mean {{{meant}}}?")
    assert found.startswith("workflows/judge/config.yaml:3:")


def test_braces_of_another_kind_are_left_to_the_command(tmp_path: Path) -> None:
    words = """[sh, -c, "awk '{print}' {prompt_file} {assignment}; find . -exec ls {} +"]"""
    judge = JUDGE.replace("[agent]", words)
    frozen = sets.freeze(written(tmp_path, {"workflows/judge/config.yaml": judge}), "mine")
    assert frozen.contract.roles[1].config.harness.command[2].startswith("awk '{print}' ")


def test_a_missing_command_is_told_among_other_faults(tmp_path: Path) -> None:
    judge = JUDGE.replace("[agent]", "[], timeout_s: 0")
    assert faults(written(tmp_path, {"workflows/judge/config.yaml": judge})) == [
        f"workflows/judge/config.yaml:3:20 {NO_COMMAND}",
        "workflows/judge/config.yaml:3:35 needs 1 or more, and this is 0",
    ]


@pytest.mark.parametrize("name", ["mien", "", "../mine", "Mine", "a/b", "x" * 500, "m\x1b"])
def test_a_set_that_is_not_there_is_told_with_a_near_name(tmp_path: Path, name: str) -> None:
    error = refusal(written(tmp_path), name)
    assert error.code == "workflow_set_missing"
    assert error.message.isprintable()
    assert error.details["there"] == ["mine"]
    if name == "mien":
        assert error.message.endswith("'mien'; did you mean mine?")
        assert "--set NAME" in error.hint


@pytest.mark.parametrize("name", ["planner_dispatcher", "planer_dispatcher"])
def test_a_set_that_is_packaged_and_not_installed_is_told_how_to_install(
    tmp_path: Path, name: str
) -> None:
    disk = written(tmp_path)
    error = refusal(disk, name)
    assert error.code == "workflow_set_missing"
    assert ("did you mean planner_dispatcher?" in error.message) == (name != "planner_dispatcher")
    assert "`callboard layers init --set planner_dispatcher`" in error.hint
    sets.install(disk, "planner_dispatcher")
    if name == "planner_dispatcher":
        assert refusal(disk, name).code == "harness_missing"
    else:
        assert "--set NAME" in refusal(disk, name).hint


@given(
    st.sampled_from(sorted(FILES)),
    st.binary(max_size=80) | st.text("abr:-[]{}&*! \n'\"", max_size=40).map(str.encode),
    st.integers(0, 200),
    st.integers(0, 60),
)
def test_whatever_stands_in_a_file_the_set_is_sound_or_refused(
    name: str, data: bytes, at: int, length: int
) -> None:
    with TemporaryDirectory() as folder:
        disk = written(Path(folder))
        path = Path(folder) / SET / name
        before = path.read_bytes()
        path.write_bytes(before[:at] + data + before[at + length :])
        frozen, error = None, None
        try:
            frozen = sets.freeze(disk, "mine")
        except CallboardError as refused:
            error = refused
        if frozen is not None:
            assert len(frozen.contract.roles) == len(frozen.configs) == len(frozen.prompts)
        if error is not None:
            assert error.code in ("workflow_set_invalid", "harness_missing")
            assert error.message.isprintable()


def test_a_file_instead_of_a_set_is_no_set(tmp_path: Path) -> None:
    disk = written(tmp_path)
    (tmp_path / ".callboard" / "workflow_sets" / "flat").write_text("")
    assert refusal(disk, "flat").code == "workflow_set_missing"


@pytest.mark.parametrize(
    ("prompt", "told"),
    [
        ("{goal} " * 8, None),
        ("{goal} " * 9, "it has the goal 9 times, and may have it 8 times"),
        ("{{goal}} " * 9 + "{role} " * 1000, None),
        ("{assignment}" * 1001, "it has 1001 placeholders, and may have 1000"),
    ],
)
def test_no_prompt_may_grow_past_what_an_attempt_can_be_given(
    tmp_path: Path, prompt: str, told: str | None
) -> None:
    disk = written(tmp_path, {"workflows/maker/prompt.md": prompt})
    if told is None:
        assert sets.freeze(disk, "mine").prompts["maker"] == prompt.encode()
    else:
        assert faults(disk) == [f"workflows/maker/prompt.md:1:1 {told}"]
