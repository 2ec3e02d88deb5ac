"""What stands in a prompt, whatever template and goal say."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callboard.errors import CallboardError
from callboard.layers import prompting
from callboard.layers.records.assignment import Assignment, AttemptIdentity, Paths
from callboard.layers.records.session import GoalContract
from tests.layers.contracts import PROVENANCE

PATH = "/repo/.callboard/layers/sessions/R/attempts/0007_planner/assignment.json"


def assignment(goal: str = "Ship it") -> Assignment:
    return Assignment(
        schema_version=1,
        identity=AttemptIdentity(
            root_session_id="R",
            session_id="S",
            parent_session_id="R",
            depth=3,
            workflow_set="tried",
            role="planner",
            iteration=7,
            attempt_id="0007_planner",
        ),
        goal=GoalContract(schema_version=1, goal_id="g", goal=goal, completion_criteria=("done",)),
        inputs=(),
        updates=(),
        responsibility="plans",
        expected_outputs=(),
        provenance=PROVENANCE,
        paths=Paths(**dict.fromkeys(Paths.__struct_fields__, "/repo")),
    )


def test_every_placeholder_is_filled() -> None:
    template = "{role} {session} {depth} {attempt} {assignment}: {goal}"
    assert prompting.render(template, PATH, assignment()) == (
        f"Your assignment file: {PATH}\n\nplanner S 3 0007_planner {PATH}: Ship it"
    )


def test_other_braces_are_plain_text() -> None:
    template = '{"a": {}} {{role}} {Role} { role } {{{role}}}'
    filled = prompting.render(template, PATH, assignment()).partition("\n\n")[2]
    assert filled == '{"a": {}} {role} {Role} { role } {{role}}'
    assert list(prompting.unknown(template)) == []


def test_a_goal_that_looks_like_a_placeholder_stays_as_it_is() -> None:
    filled = prompting.render("{goal}", PATH, assignment("say {role} and {{goal}}"))
    assert filled.endswith("\n\nsay {role} and {{goal}}")


def test_placeholders_without_a_meaning_are_found_with_their_index() -> None:
    assert list(prompting.unknown("{role}\n{gaol} {{gaol}} {path}")) == [(7, "gaol"), (23, "path")]


@given(st.text(), st.text(min_size=1))
def test_the_path_stands_within_the_first_ten_lines(template: str, goal: str) -> None:
    lines = prompting.render(template, PATH, assignment(goal)).split("\n")
    assert any(PATH in line for line in lines[:10])


@pytest.mark.parametrize("path", ["relative/assignment.json", "/a\nb", "/a\u2028b", ""])
def test_a_path_that_is_not_one_absolute_line_is_refused(path: str) -> None:
    with pytest.raises(CallboardError) as refused:
        prompting.render("", path, assignment())
    assert refused.value.code == "path_invalid"


def test_the_longest_prompt_that_a_set_may_have_can_be_frozen() -> None:
    most = prompting.MAX_PLACEHOLDERS - prompting.MAX_GOALS
    template = "{assignment}" * most + "{goal}" * prompting.MAX_GOALS
    template += "x" * (256 * 1024 - len(template))
    assert prompting.crowded(template) is None
    path = "/" + "p" * 4095
    filled = prompting.render(template, path, assignment("\U0001f600" * 262_144))
    assert len(filled.encode()) < 16 * 1024 * 1024
