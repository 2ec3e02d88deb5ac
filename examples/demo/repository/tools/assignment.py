"""What the board asked this run to do, and how to hand something back.

The tools beside this file are ordinary scripts. They read their task from the assignment, work on
the files around them, and stage outputs with `callboard worker`.
"""

import json
import os
import subprocess


def claim() -> dict:
    """The one claim of this run: `work` is the task, `result_refs` what predecessors delivered."""
    with open(os.environ["CALLBOARD_ASSIGNMENT"], encoding="utf-8") as file:
        return json.load(file)["claims"][0]


def outputs(reference: dict) -> list[dict]:
    """The outputs that one predecessor delivered, as the board verified them."""
    return reference["descriptor"]["outputs"]


def git(*arguments: str) -> bytes:
    """What a git command prints. The clone of this run holds every object of the repository."""
    return subprocess.run(["git", *arguments], check=True, stdout=subprocess.PIPE).stdout


def deliver_file(path: str) -> None:
    """Hand a file back."""
    subprocess.run(["callboard", "worker", "artifact", path], check=True)


def deliver_patch() -> None:
    """Hand back what was changed in the work tree."""
    subprocess.run(["callboard", "worker", "patch"], check=True)
