"""The example of layers, once: a goal is met by two children, one of them after rework."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

from tests.ambient import ROOT

SCRIPT = ROOT / "examples" / "layers" / "run.py"


def test_the_example_meets_its_goal(tmp_path: Path) -> None:
    made = tmp_path / "made"
    made.mkdir()
    done = subprocess.run(
        [sys.executable, str(SCRIPT)],
        env=os.environ | {"TMPDIR": str(made)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    lines = done.stdout.splitlines()
    verdicts = [line.strip() for line in lines if line.startswith(("  yes: ", "  NO: "))]
    assert verdicts == [
        "yes: the goal is met",
        "yes: the first greeting came back for rework, and the second was accepted",
        "yes: each of the four layers has a receipt that its checks passed",
        "yes: the tree is sound",
        "yes: everything is committed",
    ]
    assert sum(line.endswith("  over: goal_met") for line in lines) == 4

    (folder,) = made.iterdir()
    greeting = (folder / "greeter" / "docs" / "greet.md").read_text()
    assert greeting == '# Greeting\n\n`greet("Ada")` is `Hello, Ada!`.\n'
    further = lines[lines.index("To look further:") + 1 :]
    assert shlex.split(further[0]) == ["cd", str(folder / "greeter")]
    for command in further[1:]:
        looked = subprocess.run(
            shlex.split(command),
            cwd=folder / "greeter",
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        assert looked.stdout
    # 24 attempts of the parent, and 4 of each child.
    assert looked.stdout.count("  sealed  ") == 36
