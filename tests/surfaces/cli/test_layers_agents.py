"""The lines that the pages give for real agents: each works with a program of that name.

The programs are scripts with the options of those agents; given anything else, or the prompt in
another place than they look for it, they fail. They go on as the scripted agent of the example.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.ambient import ROOT
from tests.repositories import git, repository

EXAMPLE = ROOT / "examples" / "layers"
STORY = json.loads((EXAMPLE / "story.json").read_text("utf-8"))
PAGE = (ROOT / "docs" / "how-to" / "layers.md").read_text("utf-8")
AGENTS = {
    name: line
    for line, name in re.findall(
        r"^\$ callboard layers init --harness ('(\w+) .*')$", PAGE, re.MULTILINE
    )
}
"""What a reader types after `--harness`, by the name of the program in it."""

STAND_IN = """#!{python}
import argparse, pathlib, subprocess, sys

name = pathlib.Path(sys.argv[0]).name
if sys.stdin.isatty():
    sys.exit("somebody would be asked")
parser = argparse.ArgumentParser(prog=name, allow_abbrev=False)
if name == "claude":
    parser.add_argument("-p", "--print", action="store_true", required=True)
    parser.add_argument("--permission-mode", choices=["default", "acceptEdits", "plan"])
    parser.add_argument("--allowedTools", nargs="+")
    found = parser.parse_args()
    assert set(" ".join(found.allowedTools).split()) >= {{"Bash", "Edit", "Write"}}
    prompt = sys.stdin.read()
elif name == "codex":
    parser.add_argument("command", choices=["exec"])
    sandboxes = ["read-only", "workspace-write", "danger-full-access"]
    parser.add_argument("--sandbox", choices=sandboxes)
    parser.add_argument("prompt")
    found = parser.parse_args()
    # Narrower ones cannot commit.
    assert (found.prompt, found.sandbox) == ("-", "danger-full-access")
    prompt = sys.stdin.read()
elif name == "gemini":
    parser.add_argument("--yolo", action="store_true", required=True)
    parser.add_argument("-p", "--prompt", default="")
    found = parser.parse_args()
    prompt = found.prompt + sys.stdin.read()
else:
    assert name == "copilot"
    parser.add_argument("--allow-all-tools", action="store_true", required=True)
    parser.add_argument("-p", "--prompt", required=True)
    words = parser.parse_args().prompt
    (path,) = [word for word in words.split() if word.startswith("/")]
    prompt = pathlib.Path(path).read_text("utf-8")
done = subprocess.run(
    [sys.executable, {agent!r}, {story!r}], input=prompt.encode(), check=False
)
sys.exit(done.returncode)
"""


def test_the_page_has_a_line_for_each_of_these_agents() -> None:
    assert sorted(AGENTS) == ["claude", "codex", "copilot", "gemini"]


@pytest.mark.parametrize("name", sorted(AGENTS))
def test_the_line_of_the_page_works_a_layer_to_its_goal(name: str, tmp_path: Path) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    script = STAND_IN.format(
        python=sys.executable, agent=str(EXAMPLE / "agent.py"), story=str(EXAMPLE / "story.json")
    )
    (programs / name).write_text(script, encoding="utf-8")
    (programs / name).chmod(0o755)
    # Of these, only `name` is on the path: no other agent answers in its place.
    path = os.pathsep.join([str(programs), str(Path(sys.executable).parent), "/usr/bin", "/bin"])
    environment = {"PATH": path, "HOME": str(tmp_path), "GIT_CONFIG_GLOBAL": os.devnull}
    here = repository(tmp_path / "repository")

    def callboard(*words: str) -> str:
        done = subprocess.run(
            ["callboard", "layers", *words, "--json"],
            cwd=here,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, (words, done.stdout, done.stderr)
        return done.stdout

    # Split as the reader's shell does it.
    (harness,) = shlex.split(AGENTS[name])
    callboard("init", "--set", "inner_outer_eval", "--harness", harness)
    scope = STORY["items"][0]["scope"]
    callboard("start", "--set", "inner_outer_eval", "--goal", scope["goal"])
    ran = json.loads(callboard("run"))["step"]
    assert ran["detail"] == "goal_met"
    (receipt,) = here.glob(".callboard/layers/sessions/*/eval_receipts/*.json")
    assert json.loads(receipt.read_bytes())["verdict"] == "pass"
    assert git("log", "-1", "--format=%an", cwd=here).strip() == "Agent"
