"""A goal within a goal while you watch: a parent layer plans, two children deliver, one twice.

Everything happens in a new folder, which is kept. The agent is a script without a model, and the
layers are driven by the `callboard` command alone. Ends with 1 where the goal was not met, the
rework did not happen, or the tree has a fault.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
CALLBOARD = Path(sys.executable).with_name("callboard")
SETS = ("planner_dispatcher", "inner_outer_eval")


@dataclass(frozen=True, slots=True)
class Example:
    """The example's folder and how its commands are run."""

    folder: Path

    @property
    def repository(self) -> Path:
        """The repository that the layers work in."""
        return self.folder / "greeter"

    def environment(self) -> dict[str, str]:
        """The outer environment, without the user's own Git and Callboard settings."""
        outer = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("GIT_", "CALLBOARD_"))
        }
        home = self.folder / "home"
        home.mkdir(exist_ok=True)
        return outer | {
            "PATH": f"{CALLBOARD.parent}{os.pathsep}{outer.get('PATH', os.defpath)}",
            "HOME": str(home),
            "CALLBOARD_CONFIG_DIR": str(self.folder / "config"),
            "CALLBOARD_STATE_DIR": str(self.folder / "state"),
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_CONFIG_NOSYSTEM": "1",
        }

    def git(self, *arguments: str) -> str:
        """What a git command in the repository prints."""
        author = ("-c", "user.name=Example", "-c", "user.email=example@callboard.invalid")
        command = ["git", "-C", str(self.repository), *author, *arguments]
        done = subprocess.run(
            command, env=self.environment(), check=True, stdout=subprocess.PIPE, text=True
        )
        return done.stdout.strip()

    def show(self, *arguments: str) -> int:
        """Run a command of the layers and let it speak for itself."""
        print(f"\n$ callboard layers {shlex.join(arguments)}", flush=True)
        command = [str(CALLBOARD), "layers", *arguments]
        return subprocess.run(
            command, cwd=self.repository, env=self.environment(), check=False
        ).returncode


def prepare(example: Example, story: Path) -> Path:
    """Make the repository with one commit; returns the file with the goal."""
    shutil.copytree(
        HERE / "repository", example.repository, ignore=shutil.ignore_patterns("__pycache__")
    )
    example.git("init", "--quiet", "--template=", "--initial-branch=main")
    commit(example, "An empty greeter")
    goal = example.folder / "goal.json"
    goal.write_text(json.dumps(json.loads(story.read_text("utf-8"))["goal"], indent=1) + "\n")
    return goal


def commit(example: Example, subject: str) -> None:
    """Commit all that is there."""
    example.git("add", "--all")
    example.git("commit", "--quiet", "-m", subject)


def install(example: Example, story: Path) -> int:
    """Install both sets with the scripted agent, and commit them."""
    harness = shlex.join([sys.executable, str(HERE / "agent.py"), str(story)])
    for name in SETS:
        if example.show("init", "--set", name, "--harness", harness):
            return 1
    commit(example, "The workflow sets")
    return 0


def records(example: Example, folder: str) -> list[dict[str, Any]]:
    """The records in each folder of that name in the tree, the oldest layer first."""
    sessions = example.repository / ".callboard" / "layers" / "sessions"
    return [json.loads(path.read_bytes()) for path in sorted(sessions.glob(f"**/{folder}/*.json"))]


def print_evidence(example: Example) -> dict[str, bool]:
    """What the parent judged, with its evidence; and what must hold of it."""
    decisions = sorted(records(example, "parent_acceptance"), key=lambda one: one["decided_at_ms"])
    print(f"\n  {'item':<8}  {'decision':<9}  rationale")
    for one in decisions:
        print(f"  {one['work_item_id']:<8}  {one['decision']:<9}  {one['rationale']}")
        for evidence in one["evidence_reviewed"]:
            print(f"  {'':<8}  {'':<9}  {evidence['ref']} {evidence['sha256'][:19]}")
    told = [(one["work_item_id"], one["decision"]) for one in decisions]
    passed = [one for one in records(example, "eval_receipts") if one["verdict"] == "pass"]
    return {
        "the first greeting came back for rework, and the second was accepted": told
        == [("greet", "rework"), ("greet", "accepted"), ("leave", "accepted")],
        "each of the four layers has a receipt that its checks passed": len(
            {one["session_id"] for one in passed}
        )
        == 4,
    }


def main() -> int:
    """Run the example; 0 where the goal is met and all of the tree holds."""
    parser = argparse.ArgumentParser(description="See a goal within a goal.")
    parser.add_argument(
        "--story", type=Path, default=HERE / "story.json", help="what the agent does"
    )
    story: Path = parser.parse_args().story.resolve()
    example = Example(Path(tempfile.mkdtemp(prefix="callboard-layers-")))
    started = time.monotonic()
    print(f"everything is in {example.folder}, and stays there")
    goal = prepare(example, story)
    if install(example, story) or example.show("start", "--goal-file", str(goal)):
        return 1
    ran = example.show("run")
    example.show("status")
    sound = example.show("check")
    verdicts = {"the goal is met": ran == 0} | print_evidence(example)
    verdicts["the tree is sound"] = sound == 0
    verdicts["everything is committed"] = not example.git("status", "--porcelain")
    print(f"\nIt took {time.monotonic() - started:.0f} s:")
    for what, holds in verdicts.items():
        print(f"  {'yes' if holds else 'NO'}: {what}")
    print("\nTo look further:")
    print(f"  cd {shlex.quote(str(example.repository))}")
    for words in ("git log --oneline", f"{shlex.quote(str(CALLBOARD))} layers traces list"):
        print(f"  {words}")
    return 0 if all(verdicts.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
