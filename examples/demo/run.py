"""The demo: a small repository whose work is called, run and verified while you watch.

Everything happens in a new folder, which is kept: the repository, and the folders that hold the
demo's own identity and runs. The board is driven by the `callboard` command alone. Ends with 1
where any node did not end verified, or where a team got other turns than its share.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
CALLBOARD = Path(sys.executable).with_name("callboard")
MODULES = (
    "catalog customers labels money orders payments reports search sdk sessions shipping stock"
).split()
PLATFORM_RULES = "docstrings annotations imports lines exceptions".split()
SECURITY_RULES = "evaluation processes secrets guessing loading".split()


@dataclass(frozen=True, slots=True)
class Demo:
    """The demo's folder and how its commands are run."""

    folder: Path

    @property
    def repository(self) -> Path:
        """The repository that the board belongs to."""
        return self.folder / "shop"

    def environment(self) -> dict[str, str]:
        """The outer environment, with the demo's own identity and without the user's."""
        outer = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("GIT_", "CALLBOARD_"))
        }
        return outer | {
            "PATH": f"{CALLBOARD.parent}{os.pathsep}{outer.get('PATH', os.defpath)}",
            "CALLBOARD_CONFIG_DIR": str(self.folder / "config"),
            "CALLBOARD_STATE_DIR": str(self.folder / "state"),
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_CONFIG_NOSYSTEM": "1",
        }

    def git(self, *arguments: str) -> bytes:
        """What a git command in the repository prints."""
        command = ["git", "-C", str(self.repository), *arguments]
        return subprocess.run(
            command, env=self.environment(), check=True, stdout=subprocess.PIPE
        ).stdout

    def show(self, *arguments: str) -> None:
        """Run a callboard command and let it speak for itself."""
        print(f"\n$ callboard {shlex.join(arguments)}", flush=True)
        command = [str(CALLBOARD), *arguments]
        subprocess.run(command, cwd=self.repository, env=self.environment(), check=True)

    def ask(self, *arguments: str) -> Any:
        """The JSON document that a callboard command answers with."""
        command = [str(CALLBOARD), "--repo", str(self.repository), *arguments, "--json"]
        done = subprocess.run(command, env=self.environment(), check=True, stdout=subprocess.PIPE)
        return json.loads(done.stdout)


def prepare(demo: Demo) -> str:
    """Make the repository with one commit; returns its id."""
    shutil.copytree(
        HERE / "repository", demo.repository, ignore=shutil.ignore_patterns("__pycache__")
    )
    demo.git("init", "--quiet", "--template=", "--initial-branch=main")
    demo.git("add", "--all")
    author = ("-c", "user.name=Demo", "-c", "user.email=demo@callboard.invalid")
    demo.git(*author, "commit", "--quiet", "-m", "A shop on the old SDK")
    return demo.git("rev-parse", "HEAD").decode().strip()


def write_plans(demo: Demo, platform: int, security: int) -> list[Path]:
    """The plans as files: the migration, and each team's checks."""
    migration = demo.folder / "migration.yaml"
    shutil.copy(HERE / "migration.yaml", migration)
    # Security looks first where money and people are.
    guarded = ["payments", "sessions"]
    guarded += [one for one in MODULES if one not in guarded]
    return [
        migration,
        write_checks(demo, "platform", MODULES, PLATFORM_RULES, platform),
        write_checks(demo, "security", guarded, SECURITY_RULES, security),
    ]


def write_checks(demo: Demo, team: str, modules: list[str], rules: list[str], wanted: int) -> Path:
    """A plan with `wanted` checks of one team, each a file and a rule."""
    pairs = list(itertools.islice(itertools.product(modules, rules), wanted))
    lines = [f"graph: {team}-checks", "defaults:", f"  fairness_key: {team}", "nodes:"]
    for module, rule in pairs:
        lines.append(f"  - key: {module}-{rule}")
        lines.append(f"    payload: {{file: shop/{module}.py, rule: {rule}}}")
    path = demo.folder / f"{team}.yaml"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def grants(state: dict[str, Any]) -> list[str]:
    """The Claims of a replayed board, in the order they were granted."""
    return [claim for request in state["requests"] for claim in request["claims"]]


def print_shares(state: dict[str, Any]) -> bool:
    """Turns due and got while both teams had work; tells whether each got its share."""
    works = state["works"]
    keys = [works[state["claims"][claim]["work_id"]]["fairness_key"] for claim in grants(state)]
    both = 1 + min(max(at for at, key in enumerate(keys) if key == team) for team in set(keys))
    weights = {team: state["policy"]["accounting_weights"][team] for team in sorted(set(keys))}
    print(f"\nTurns while both teams had work: the first {both} of {len(keys)}\n")
    print(f"  {'key':<10}  {'weight':>6}  {'due':>5}  {'got':>4}  {'in all':>6}")
    fair = True
    for team, weight in weights.items():
        due = both * weight / sum(weights.values())
        got = keys[:both].count(team)
        print(f"  {team:<10}  {weight:>6}  {due:>5.1f}  {got:>4}  {keys.count(team):>6}")
        fair = fair and abs(got - due) <= 1
    return fair


def print_outcomes(demo: Demo, state: dict[str, Any]) -> bool:
    """The migration and whatever is not verified node by node, the other checks in a line a team.

    Tells whether all nodes are verified and Git has their outputs.
    """
    print(f"\n  {'node':<22}  {'key':<9}  {'outcome':<9}  output")
    sound = True
    checks: dict[str, list[bool]] = {}
    for work in sorted(state["works"].values(), key=posted):
        outcome = work["barrier"] if work["state"] == "completed" else work["state"]
        found = [described(demo, output) for output in work.get("result", {}).get("outputs", [])]
        good = outcome == "verified" and all(there for _text, there in found)
        sound = sound and good
        if work["graph_id"].endswith("-checks"):
            checks.setdefault(work["fairness_key"], []).append(good)
            if good:
                continue
        told = ", ".join(text for text, _there in found) or "none"
        print(f"  {work['node_key']:<22}  {work['fairness_key']:<9}  {outcome:<9}  {told}")
    for team, done in checks.items():
        print(f"  {f'{len(done)} checks':<22}  {team:<9}  {sum(done)} verified")
    return sound


def posted(work: dict[str, Any]) -> tuple[int, int]:
    """When a node was posted: the commit's place in the ledger, the node's in the commit."""
    return work["position"]["commit"], work["position"]["operation"]


def described(demo: Demo, output: dict[str, Any]) -> tuple[str, bool]:
    """An output in words, and whether Git has exactly it."""
    if output["type"] == "patch":
        tip = demo.git("rev-parse", f"refs/heads/{output['branch']}").decode().strip()
        text = f"commit {output['commit'][:12]} on {output['branch']}"
        return text, tip == output["commit"]
    data = demo.git("cat-file", "blob", output["ref"])
    text = f"artifact {output['name']}, {len(data)} bytes, blob {output['blob'][:12]}"
    return text, hashlib.sha256(data).hexdigest() == output["sha256"]


def look_further(demo: Demo, state: dict[str, Any]) -> Iterator[str]:
    """Three commands that can be pasted as they stand."""
    board = [str(CALLBOARD), "--repo", str(demo.repository)]
    (code,) = (work for work in state["works"].values() if work["node_key"] == "code")
    patch = code.get("result", {}).get("outputs", [{}])[0].get("commit", "HEAD")
    yield shlex.join([*board, "trace", "review"])
    yield shlex.join([*board, "explain", "--before-claim", grants(state)[1]])
    yield shlex.join(["git", "-C", str(demo.repository), "show", patch])


def untouched(demo: Demo, head: str) -> bool:
    """Whether the checkout is as it was before the board began."""
    now = demo.git("rev-parse", "HEAD").decode().strip()
    return now == head and not demo.git("status", "--porcelain")


def main() -> int:
    """Run the demo; 0 where all is verified and fair."""
    parser = argparse.ArgumentParser(description="See a board at work.")
    parser.add_argument("--checks", type=int, default=60, help="checks of the team Platform")
    parser.add_argument("--security", type=int, default=10, help="checks of the team Security")
    parser.add_argument("--workers", type=int, default=4, help="runs at a time")
    asked = parser.parse_args()
    most = len(MODULES) * len(PLATFORM_RULES)
    if not (1 <= asked.checks <= most and 1 <= asked.security <= most):
        parser.error(f"each team has 1 to {most} checks")
    demo = Demo(Path(tempfile.mkdtemp(prefix="callboard-demo-")))
    started = time.monotonic()
    print(f"everything is in {demo.folder}, and stays there")
    head = prepare(demo)
    demo.show("init")
    for plan in write_plans(demo, asked.checks, asked.security):
        demo.show("submit", str(plan))
    watch = ["--watch"] if sys.stdout.isatty() else []
    demo.show("run", "--until-idle", "--workers", str(asked.workers), *watch)
    state = demo.ask("ledger", "replay")
    verdicts = {
        "every node is verified, and Git has what it delivered": print_outcomes(demo, state),
        "each team got its share": print_shares(state),
        "your checkout is as it was": untouched(demo, head),
    }
    took = time.monotonic() - started
    print(f"\nIt took {took:.0f} s for {len(state['works'])} nodes:")
    for what, holds in verdicts.items():
        print(f"  {'yes' if holds else 'NO'}: {what}")
    print("\nTo look further:")
    for command in look_further(demo, state):
        print(f"  {command}")
    return 0 if all(verdicts.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
