"""`callboard layers`: where it works, how each command answers and ends, and what it refuses."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import click
import pytest
from msgspec import structs

from callboard.layers.layers import Layers as LayersOpened
from callboard.surfaces.cli.layers.commands import layers as group
from callboard.surfaces.cli.layers.words import clipped, status_text
from tests.repositories import git
from tests.surfaces.cli.conftest import Answer
from tests.surfaces.cli.layered import Layered

ID = re.compile(r"[0-9]{8}_[0-9]{6}_[0-9a-f]{8}_[0-9a-f]{8}")


@pytest.fixture
def here(tmp_path: Path) -> Layered:
    return Layered.make(tmp_path / "repository")


@pytest.fixture(scope="module")
def refusing(tmp_path_factory: pytest.TempPathFactory) -> Layered:
    """A repository with one tree, which no refusal changes."""
    here = Layered.make(tmp_path_factory.mktemp("refusing") / "repository")
    here.begin()
    return here


# --- a newcomer -------------------------------------------------------------------------------


def test_a_newcomer_is_led_from_one_command_to_the_next(tmp_path: Path) -> None:
    here = Layered(tmp_path / "new")
    here.folder.mkdir()
    git("init", "-q", cwd=here.folder)

    nothing = here.call("status")
    assert nothing.status == 3
    assert nothing.stdout.splitlines() == [
        "There is no layer in this repository.",
        "next: callboard layers init, then callboard layers start --goal TEXT",
    ]

    made = here.call("init", "--set", "inner_outer_eval")
    assert made.status == 0
    sets = ".callboard/workflow_sets/inner_outer_eval"
    roles = ("eval_reviewer", "eval_runner", "inner", "outer")
    configs = [f"{sets}/workflows/{role}/config.yaml" for role in roles]
    lines = made.stdout.splitlines()
    at = lines.index("No agent is named yet. Write its command line over `command: []` in:")
    assert [line.strip() for line in lines[at + 1 : at + 5]] == configs
    for name in configs:
        assert (here.folder / name).read_text().count("command: []") == 1

    early = here.call("start", "--goal", "Do it", "--set", "inner_outer_eval", "--json")
    assert early.error["code"] == "harness_missing"
    assert here.call("status").status == 3

    again = here.call("init", "--set", "inner_outer_eval")
    assert again.stdout.startswith("Every file is there already; nothing was changed.\n")


def test_a_harness_that_is_named_stands_in_every_role(tmp_path: Path) -> None:
    here = Layered(tmp_path / "new")
    here.folder.mkdir()
    git("init", "-q", cwd=here.folder)
    made = here.ask("init", "--harness", "agent --say 'two words'")
    configs = [name for name in made["written"] if name.endswith("/config.yaml")]
    assert len(configs) == 8
    assert (made["without_harness"], made["harness_unchanged"]) == ([], [])
    for name in configs:
        assert 'command: ["agent", "--say", "two words"]' in (here.folder / name).read_text()
    assert here.ask("init") == {"written": [], "without_harness": [], "harness_unchanged": []}
    assert here.ask("start", "--goal", "Do it")["workflow_set"] == "planner_dispatcher"


def test_a_harness_that_reaches_no_role_is_told(tmp_path: Path) -> None:
    here = Layered(tmp_path / "new")
    here.folder.mkdir()
    git("init", "-q", cwd=here.folder)
    here.ask("init", "--set", "inner_outer_eval")
    told = here.call("init", "--harness", "agent -p").stdout
    assert "The roles of inner_outer_eval keep the command that they have." in told
    assert "`command:` in .callboard/workflow_sets/inner_outer_eval/workflows/ROLE/" in told
    assert "The roles of planner_dispatcher" not in told
    again = here.ask("init", "--harness", "other")
    assert again["harness_unchanged"] == ["inner_outer_eval", "planner_dispatcher"]
    left = here.folder / ".callboard/workflow_sets/inner_outer_eval/workflows/outer/config.yaml"
    assert left.read_text().count("command: []") == 1


@pytest.mark.parametrize(
    ("command", "mode", "words"),
    [
        ("nowhere-there", None, "(ENOENT: no such program is found; see harness.command"),
        ("plain", 0o644, "(EACCES: the program may not be executed; see harness.command"),
        ("plain", 0o755, "(ENOEXEC: this is no program that can be executed; see harness."),
    ],
)
def test_an_agent_that_cannot_be_started_is_told_in_words(
    tmp_path: Path, command: str, mode: int | None, words: str
) -> None:
    file = tmp_path / command
    if mode is not None:
        file.write_text("No program\n")
        file.chmod(mode)
    here = Layered.make(tmp_path / "repository", (str(file),))
    session = here.begin()
    ran = here.call("run", "--session", session)
    assert f"0001_worker: deterministic {words}" in ran.stderr
    assert ran.status == 1
    assert f"each layer: callboard layers status --session {session}\n" in ran.stderr


@pytest.mark.parametrize("words", ["'half", "", "   "])
def test_a_harness_that_is_no_command_is_misuse(here: Layered, words: str) -> None:
    answer = here.call("init", "--harness", words, "--json")
    assert (answer.status, answer.json["error"]["code"]) == (2, "usage")
    assert not (here.folder / ".callboard" / "workflow_sets" / "planner_dispatcher").exists()


# --- where ------------------------------------------------------------------------------------


def test_a_sub_folder_belongs_to_its_repository(here: Layered) -> None:
    session = here.begin()
    below = here.folder / "deep" / "down"
    below.mkdir(parents=True)
    for repo in (below, here.folder / "deep" / ".." / "deep"):
        found = here.call("status", "--json", repo=repo).json
        assert [one["session_id"] for one in found["layers"]] == [session]
    assert here.call("status", "--repo", below, repo=here.folder.parent).status == 0


def test_without_a_repository_there_are_no_layers(here: Layered, tmp_path: Path) -> None:
    here.begin()
    outside = tmp_path / "outside"
    outside.mkdir()
    for place in (outside, here.folder / "typo", here.folder / "a\0b", Path("/dev/null")):
        error = here.call("status", "--json", "--repo", place).error
        assert error["code"] == "repository_missing"
        assert "--repo" in error["hint"]


def test_options_that_choose_a_board_are_misuse(here: Layered) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "callboard", "--branch", "b", "layers", "status"],
        cwd=here.folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "--branch before the verb chooses a board" in done.stderr


def test_no_part_of_the_layers_is_imported_before_a_command_of_theirs_runs() -> None:
    program = """
import sys
from callboard.surfaces.cli.main import root
try:
    root.main(sys.argv[1:])
except SystemExit:
    pass
print(sorted(n for n in sys.modules if n.startswith("callboard.layers"))[:3], file=sys.stderr)
print(sorted(n for n in sys.modules if ".cli.layers" in n)[:1], file=sys.stderr)
"""
    for words, surfaces in (
        (("--version",), "[]"),
        (("--help",), "[]"),
        (("layers", "--help"), "['callboard.surfaces.cli.layers']"),
        (("layers", "run", "--help"), "['callboard.surfaces.cli.layers']"),
    ):
        done = subprocess.run(
            [sys.executable, "-c", program, *words], capture_output=True, text=True, check=True
        )
        assert done.stderr.splitlines() == ["[]", surfaces], words


def test_every_option_of_every_command_says_what_it_is() -> None:
    def walk(command: click.Command) -> list[click.Command]:
        below = command.commands.values() if isinstance(command, click.Group) else ()
        return [command, *(one for child in below for one in walk(child))]

    for command in walk(group):
        assert command.help
        for one in command.params:
            if isinstance(one, click.Option):
                assert one.help, (command.name, one.name)


# --- one tree ---------------------------------------------------------------------------------


def test_a_tree_runs_to_an_end_that_is_not_its_goal(here: Layered) -> None:
    session = here.begin()
    (first,) = here.ask("status")["layers"]
    assert {
        name: first[name] for name in ("session_id", "depth", "phase", "goal", "request_id")
    } == {
        "session_id": session,
        "depth": 0,
        "phase": "ready",
        "goal": "Have it done",
        "request_id": None,
    }

    following = here.ask("next")
    assert (following["role"], following["session_id"]) == ("worker", session)
    assert [one["role"] for one in following["verdicts"]] == ["worker"]

    step = here.ask("run", "--once")["step"]
    assert step == {"did": "began", "session_id": session, "detail": "0001_worker", "refused": 0}
    under_way = here.call("next", "--json")
    assert (under_way.status, under_way.json["phase"], under_way.json["role"]) == (
        3,
        "executing",
        None,
    )

    ran = here.call("run")
    assert ran.status == 1
    lines = ran.stderr.splitlines()
    assert lines[:4] == [
        f"{session}  0001_worker: success",
        f"{session}  began 0002_worker",
        f"{session}  0002_worker: success",
        f"{session}  has reached its end: max_turns",
    ]
    assert ran.stdout == f"{session}  is over: max_turns\n"
    assert "code: goal_not_met" in lines

    in_json = here.call("run", "--json")
    assert in_json.status == 1
    assert in_json.json == {
        "step": {"did": "over", "session_id": session, "detail": "max_turns", "refused": 0}
    }
    assert "code: goal_not_met" in in_json.stderr.splitlines()
    assert here.call("next").status == 3
    assert here.ask("check") == {"findings": []}


def test_updates_and_a_stop_reach_the_tree(here: Layered) -> None:
    session = here.begin()
    assert here.ask("update", "Take care") == {"session_id": session, "updates": 1}
    said = here.call("update", "-", stdin=b"Take more care\n")
    assert said.stdout == f"layer {session} was told; it has 2 updates\n"
    here.ask("run", "--once")
    attempt = here.layer(session) / "attempts" / "0001_worker" / "assignment.json"
    assert json.loads(attempt.read_bytes())["updates"] == ["Take care", "Take more care\n"]

    assert here.ask("stop", "--reason", "enough") == {"asked": True}
    assert here.ask("stop", "--reason", "really") == {"asked": False}
    ran = here.call("run", "--json")
    assert (ran.status, ran.json["step"]["detail"]) == (1, "user_stop")
    (one,) = here.ask("status")["layers"]
    assert (one["state"]["stop_reason"], one["state"]["stop_detail"]) == ("user_stop", "enough")


def test_several_trees_have_to_be_told_apart(here: Layered) -> None:
    ids = sorted([here.begin("one"), here.begin("two")])
    assert len({*ids}) == 2
    assert sorted(one["session_id"] for one in here.ask("status")["layers"]) == ids
    for words in (("run",), ("next",), ("update", "x"), ("stop", "--reason", "x"), ("events",)):
        error = here.call(*words, "--json").error
        assert error["code"] == "layer_ambiguous"
        assert sorted(error["details"]["candidates"]) == ids
    shown = here.call("run")
    assert all(f"  {one}\n" in shown.stderr for one in ids)
    assert here.ask("next", "--session", ids[0])["session_id"] == ids[0]
    # What is to be typed next names the tree.
    stopped = here.call("stop", "--reason", "x", "--session", ids[1]).stdout
    assert stopped.endswith(f"it ends with: callboard layers run --session {ids[1]}\n")
    assert re.search(rf"next: callboard .*layers run --session {ID.pattern}", _begun(here))


def _begun(here: Layered) -> str:
    return here.call("start", "--goal", "three", "--set", "small").stdout


def test_damage_is_told_by_check_with_3_and_refused_elsewhere(here: Layered) -> None:
    session = here.begin()
    (here.layer(session) / "goal.md").write_text("Something else")
    found = here.call("check", "--json")
    assert found.status == 3
    assert [one["place"].rpartition("/")[2] for one in found.json["findings"]] == ["goal.md"]
    told = here.call("check")
    assert told.status == 3
    assert len(told.stdout.splitlines()) == len(found.json["findings"])
    (here.layer(session) / "state.json").write_text("{}")
    assert here.call("status", "--json").error["code"] == "layer_corrupt"


def test_goals_come_from_files_with_their_lists(here: Layered, tmp_path: Path) -> None:
    file = tmp_path / "goal.json"
    file.write_text(json.dumps({"goal": "Do it", "completion_criteria": ["a"]}))
    begun = here.ask(
        *("start", "--set", "small", "--goal-file", file, "--criterion", "b", "--constraint", "c"),
        *("--max-depth", "3", "--max-children", "4", "--max-descendants", "5"),
    )
    layer = here.layer(begun["session_id"])
    contract = json.loads((layer / "goal_contract.json").read_bytes())
    assert (contract["goal"], contract["completion_criteria"]) == ("Do it", ["a", "b"])
    assert contract["constraints"] == ["c"]
    limits = json.loads((layer / "session.json").read_bytes())["limits"]
    assert limits == {"max_depth": 3, "max_children": 4, "max_descendants": 5}
    piped = here.call("start", "--set", "small", "--goal-file", "-", "--json", stdin=b"By pipe")
    assert piped.json["goal"] == "By pipe"


@pytest.mark.parametrize(
    ("words", "status", "code"),
    [
        (("start", "--set", "small"), 2, "usage"),
        (("start", "--goal", "a", "--goal-file", "b"), 2, "usage"),
        (("start", "--goal", "a", "--max-depth", "101"), 2, "usage"),
        (("start", "--goal", "a", "--max-children", "0"), 2, "usage"),
        (("start", "--goal", "", "--set", "small"), 1, "goal_invalid"),
        (("start", "--goal", "a\0b", "--set", "small"), 1, "goal_invalid"),
        (("start", "--goal", "\udcff", "--set", "small"), 1, "goal_invalid"),
        (("start", "--goal", "x" * 300_000, "--set", "small"), 1, "goal_invalid"),
        (("start", "--goal", "a", "--criterion", "", "--set", "small"), 1, "goal_invalid"),
        (("start", "--goal", "a", "--set", "../small"), 1, "workflow_set_missing"),
        (("start", "--goal-file", "/nowhere"), 1, "file_missing"),
        (("start", "--goal-file", "/dev/null"), 1, "file_not_regular"),
        (("init", "--set", "nothing"), 1, "workflow_set_missing"),
        (("status", "--session", "../.."), 1, "layer_missing"),
        (("status", "--session", "x\x1b[31m"), 1, "layer_missing"),
        (("run", "--session", "nothing"), 1, "layer_missing"),
        (("update", ""), 1, "text_invalid"),
        (("update", "\udcff"), 1, "text_invalid"),
        (("update", "-"), 1, "text_invalid"),
        (("stop",), 2, "usage"),
        (("check", "--session", "/"), 1, "layer_missing"),
        (("events", "--session", ""), 2, "usage"),
        (("run", "--session", ""), 2, "usage"),
        (("traces", "list", "--session", "nothing"), 1, "layer_missing"),
        (("traces", "inspect", "0001_worker"), 1, "trace_missing"),
        (("traces", "inspect", "../../x"), 1, "trace_missing"),
        (("traces", "export", "0001_worker", "/"), 2, "usage"),
        (("traces", "export", "0001_worker", "a\0b"), 2, "usage"),
        (("traces", "prune"), 2, "usage"),
        (("traces", "prune", "--keep", "-1"), 2, "usage"),
        (("traces", "prune", "--older-than-hours", "soon"), 2, "usage"),
        (("accept", "r", "accepted", "--rationale", "x"), 1, "request_missing"),
        (("accept", "r", "fine", "--rationale", "x"), 2, "usage"),
        (("accept", "r", "accepted"), 2, "usage"),
        (("dispatch", "item"), 2, "usage"),
        (("dispatch", "item", "--assignment", "relative"), 1, "assignment_invalid"),
        (("evaluate", "--assignment", "/nowhere"), 1, "file_missing"),
        (("control", "goal_met", "--assignment", "/dev/null"), 1, "file_not_regular"),
        (("control", "done", "--assignment", "/nowhere"), 2, "usage"),
    ],
)
def test_what_cannot_be_is_refused_with_a_code(
    refusing: Layered, words: tuple[str, ...], status: int, code: str
) -> None:
    here = refusing
    layers = here.folder / ".callboard" / "layers"
    before = _files(layers)
    answer = here.call(*words, "--json")
    assert (answer.status, answer.json["error"]["code"]) == (status, code), answer
    error = answer.json["error"]
    assert set(error) == {"code", "message", "hint", "details"}
    assert error["message"]
    assert error["hint"]
    in_words = here.call(*words)
    assert (in_words.status, in_words.stdout) == (status, "")
    assert "Traceback" not in in_words.stderr
    assert "\x1b" not in in_words.stderr
    assert _files(layers) == before


def _files(folder: Path) -> dict[str, bytes]:
    found = {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    # Whoever was about to coordinate locked it, and let go.
    return {name: data for name, data in found.items() if not name.endswith("/coordinator.lock")}


# --- what is read -----------------------------------------------------------------------------


def test_status_stays_readable_whatever_the_goal_is(here: Layered) -> None:
    here.begin("\n\n  Ünïcödé 目標 " + "長い" * 200 + "\nsecond line")
    here.begin("turned \u202e round\x0a")
    shown = here.call("status").stdout
    assert "turned \\u202e round" in shown
    assert "second line" not in shown
    goal = next(line for line in shown.splitlines() if "Ünïcödé" in line)
    assert goal.startswith("  Ünïcödé 目標 長い")
    assert goal.endswith("…")
    # Each of the signs at its end takes two columns.
    assert len(goal) <= 2 + 76 - 30


def test_a_deep_tree_keeps_room_for_its_lines(here: Layered) -> None:
    here.begin("Go deep")
    (root,) = LayersOpened.open(here.folder, {}).status()
    deep = [
        replace(root, layer=replace(root.layer, session=structs.replace(session, depth=depth)))
        for session in [root.layer.session]
        for depth in range(100)
    ]
    lines = [str(getattr(block, "text", block)) for block in status_text(deep)]
    goals = [line for line in lines if line.strip() == "Go deep"]
    assert [len(line) - len("Go deep") for line in goals] == [
        2 * min(depth, 10) + 2 for depth in range(100)
    ]
    told = [line.split(" · ")[0].strip() for line in lines if " attempts · " in line]
    assert told == ["small"] * 11 + [f"depth {depth}" for depth in range(11, 100)]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("one\ntwo", "one …"),
        ("", "(blank)"),
        ("\r\n", "(blank)"),
        ("x" * 76, "x" * 76),
        ("x" * 77, "x" * 76 + "…"),
        ("長" * 38, "長" * 38),
        ("長" * 39, "長" * 38 + "…"),
        ("e\u0301" * 76, "e\u0301" * 76),
        ("tab\there", "tab\\there"),
    ],
)
def test_a_goal_is_cut_by_columns_of_a_terminal(text: str, shown: str) -> None:
    assert clipped(text) == shown


def test_every_command_answers_with_one_document_of_its_own_shape(here: Layered) -> None:
    here.begin()
    here.call("run")
    answers: dict[str, Answer] = {
        words: here.call(*words.split(), "--json")
        for words in (
            *("status", "next", "check", "events", "requests", "outcomes", "traces list"),
            *("traces inspect 0001_worker", "traces prune --keep 1"),
        )
    }
    found = {words: (answer.status, sorted(answer.json)) for words, answer in answers.items()}
    assert found == {
        "status": (0, ["layers"]),
        "next": (3, ["phase", "role", "session_id", "verdicts"]),
        "check": (0, ["findings"]),
        "events": (0, ["events"]),
        "requests": (0, ["requests"]),
        "outcomes": (0, ["outcomes"]),
        "traces list": (0, ["traces"]),
        "traces inspect 0001_worker": (
            0,
            [
                "added",
                "changed",
                "complete",
                "manifest_is_sealed",
                "missing",
                "skipped",
                "sound",
                "trace",
            ],
        ),
        "traces prune --keep 1": (0, ["pruned", "size_bytes"]),
    }
