"""The prompt of an attempt, from a role's template and its assignment. Pure.

A placeholder is a lower-case word in braces; a word in doubled braces stands for itself, and
every other brace is plain text, so that a template may show JSON. What is put in is never read
for placeholders again.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from callboard.errors import CallboardError
from callboard.layers.records.assignment import Assignment
from callboard.visible import visible

PLACEHOLDERS = ("assignment", "role", "session", "depth", "attempt", "goal")
_FOUND = re.compile(r"\{\{([a-z_]+)\}\}|\{([a-z_]+)\}")


MAX_PLACEHOLDERS = 1000
MAX_GOALS = 8
"""Of one template, whose prompt would else grow past what can be given to an attempt."""


def crowded(template: str) -> str | None:
    """Why the prompt of a long goal or path could be too long, in words; None: it cannot."""
    names = [found[2] for found in _FOUND.finditer(template) if found[2] is not None]
    if len(names) > MAX_PLACEHOLDERS:
        return f"it has {len(names)} placeholders, and may have {MAX_PLACEHOLDERS}"
    if names.count("goal") > MAX_GOALS:
        return f"it has the goal {names.count('goal')} times, and may have it {MAX_GOALS} times"
    return None


def unknown(template: str) -> Iterator[tuple[int, str]]:
    """Each placeholder that has no meaning, with its index in the template."""
    for found in _FOUND.finditer(template):
        name = found[2]
        if name is not None and name not in PLACEHOLDERS:
            yield found.start(), name


def render(template: str, assignment_path: str, assignment: Assignment) -> str:
    """The prompt: a line with the absolute path of the assignment, then the filled template.

    `assignment_path` must be one line (`path_invalid`). The template's placeholders are known:
    a set with others was refused when it was frozen.
    """
    if len(assignment_path.splitlines()) != 1 or not assignment_path.startswith("/"):
        raise CallboardError(
            "path_invalid",
            f"the assignment's path '{visible(assignment_path)}' is not absolute, or not one line",
            "give the repository a path without line breaks",
        )
    identity = assignment.identity
    values = {
        "assignment": assignment_path,
        "role": identity.role,
        "session": identity.session_id,
        "depth": str(identity.depth),
        "attempt": identity.attempt_id,
        "goal": assignment.goal.goal,
    }

    def filled(found: re.Match[str]) -> str:
        literal, name = found[1], found[2]
        return f"{{{literal}}}" if name is None else values.get(name, found[0])

    # Ahead of the template, so that no template can leave it out or push it down.
    return f"Your assignment file: {assignment_path}\n\n{_FOUND.sub(filled, template)}"
