"""An agent without a model: it plays every role of the packaged workflow sets by a story.

Like any agent it gets its prompt on standard input, finds the assignment in it, and works with
files and the `callboard` command alone. It shows what a role does, and in which order.

    python3 agent.py STORY < PROMPT
    python3 agent.py STORY ASSIGNMENT
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

MISSING = "Deliver what is missing: "
_ITEM = re.compile(r"^## ([^\s:]+): .*?\n```yaml\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Attempt:
    """One attempt: its assignment, its story, and the few things that every role does."""

    def __init__(self, story: Path, assignment: Path) -> None:
        self.file = assignment
        self.story = json.loads(story.read_text("utf-8"))
        self.given = json.loads(assignment.read_text("utf-8"))
        self.role: str = self.given["identity"]["role"]
        self.id: str = self.given["identity"]["attempt_id"]
        self.repository = self.place("repository")
        self.ledger = self.place("project_state") / "work_items.md"

    def place(self, name: str) -> Path:
        """A path of the assignment; no other is ever made up."""
        return Path(self.given["paths"][name])

    def callboard(self, command: str, *words: str) -> int:
        """Run a command for this assignment; what it says goes to the log of the attempt."""
        argv = ["callboard", "layers", command, "--assignment", str(self.file), *words]
        return subprocess.run(argv, cwd=self.repository, check=False).returncode

    def git(self, *words: str) -> str:
        """What git says in the repository."""
        who = ("-c", "user.name=Agent", "-c", "user.email=agent@callboard.invalid")
        argv = ["git", "-C", str(self.repository), *who, *words]
        return subprocess.run(argv, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()

    def item(self) -> dict[str, Any]:
        """The story's item that this layer is about, where it is not about the whole."""
        goal = self.given["goal"]["goal"]
        return next(one for one in self.story["items"] if one["scope"]["goal"] == goal)


def publish(path: Path, text: str) -> None:
    """Write a file under a temporary name and rename it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.tmp")
    with temporary.open("w", encoding="utf-8") as stream:
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())
    temporary.rename(path)


# --- the ledger ---------------------------------------------------------------------------------


def write_ledger(attempt: Attempt) -> None:
    """All items of the story, open."""
    text = "# Work items\n"
    for item in attempt.story["items"]:
        fields = {
            "status": "open",
            "scope": item["scope"],
            "workflow_set": "inner_outer_eval",
            **{name: [] for name in ("decisions", "evidence", "inputs")},
            **dict.fromkeys(("supersedes", "request_id", "request_path", "outcome_ref")),
        }
        # A line a field: JSON is YAML.
        block = "".join(f"{name}: {json.dumps(value)}\n" for name, value in fields.items())
        text += f"\n## {item['id']}: {item['title']}\n\n```yaml\n{block}```\n"
    publish(attempt.ledger, text.replace('status: "open"', "status: open"))


def items(text: str) -> dict[str, str]:
    """The block of each item by its id; a blank line may stand before the block."""
    return dict(_ITEM.findall(text.replace("\n\n```yaml", "\n```yaml")))


def field(block: str, name: str) -> str | None:
    """A scalar of a block."""
    found = re.search(rf"^{name}: *[\"']?([^\"'\n]*)[\"']?$", block, re.MULTILINE)
    return None if found is None or found[1] in ("", "null", "~") else found[1].strip()


def change(attempt: Attempt, item: str, fields: dict[str, str]) -> None:
    """Set scalars of one item, and leave all else of the ledger as it is."""
    text = attempt.ledger.read_text("utf-8")
    start = text.index(f"## {item}: ")
    end = text.index("\n```\n", start)
    block = text[start:end]
    for name, value in fields.items():
        block = re.sub(rf"^{name}:.*$", lambda _, n=name, v=value: f"{n}: {v}", block, flags=re.M)
    publish(attempt.ledger, text[:start] + block + text[end:])


# --- the roles of the parent ---------------------------------------------------------------------


def planner(attempt: Attempt) -> int:
    """Write the ledger, judge outcomes, select the next item."""
    if not attempt.ledger.exists():
        write_ledger(attempt)
    for item, block in items(attempt.ledger.read_text("utf-8")).items():
        if field(block, "status") == "ready_for_review" and judge(attempt, item, block):
            return 1
    found = items(attempt.ledger.read_text("utf-8"))
    status = {item: field(block, "status") for item, block in found.items()}
    if not {"selected", "waiting_for_child", "ready_for_review"}.intersection(status.values()):
        for item in [one for one in status if status[one] in ("open", "rework")][:1]:
            select(attempt, item)
    if set(status.values()) == {"accepted"}:
        lines = [f"- {item}: accepted, {field(found[item], 'outcome_ref')}" for item in found]
        publish(
            attempt.place("project_state") / "finished.md", "\n".join(["# Finished", *lines, ""])
        )
    return 0


def judge(attempt: Attempt, item: str, block: str) -> int:
    """Accept an outcome whose deliverables are there; ask for what is missing otherwise."""
    request = field(block, "request_id") or ""
    outcome = json.loads((attempt.place("child_outcomes") / f"{request}.json").read_text("utf-8"))
    scope = next(one for one in attempt.story["items"] if one["id"] == item)["scope"]
    missing = [name for name in scope["deliverables"] if not (attempt.repository / name).is_file()]
    good = outcome["status"] == "goal_met" and not missing
    evidence = [f"session:/child_outcomes/{request}.json"]
    evidence += [one["ref"] for one in outcome["evidence"]]
    words = [request, "accepted" if good else "rework", "--rationale"]
    words.append("all deliverables are there" if good else f"missing: {', '.join(missing)}")
    for ref in evidence:
        words += ["--evidence", ref]
    if attempt.callboard("accept", *words):
        return 1
    if good:
        change(attempt, item, {"status": "accepted"})
        return 0
    scope["constraints"] = [*scope["constraints"], MISSING + ", ".join(missing)]
    empty = dict.fromkeys(("request_id", "request_path", "outcome_ref"), "null")
    again = {"status": "rework", "supersedes": request, "scope": json.dumps(scope)}
    change(attempt, item, again | empty)
    return 0


def select(attempt: Attempt, item: str) -> None:
    """Choose an item, with the decision in a file that is never edited."""
    name = f"{attempt.id}.md"
    publish(attempt.place("project_state") / "decisions" / name, f"{item} is next in the story.\n")
    reference = json.dumps([f"session:/project_state/decisions/{name}"])
    change(attempt, item, {"status": "selected", "decisions": reference})


def dispatcher(attempt: Attempt) -> int:
    """Ask for the selected item's child, or hand an ended child to the planner."""
    for item, block in items(attempt.ledger.read_text("utf-8")).items():
        if field(block, "status") in ("selected", "waiting_for_child"):
            return attempt.callboard("dispatch", item)
    return 0


# --- the roles of the child ----------------------------------------------------------------------


def outer(attempt: Attempt) -> int:
    """Say what inner is to do: the goal, or what its rework misses."""
    wanted = [one for one in attempt.given["goal"]["constraints"] if one.startswith(MISSING)]
    task = "\n".join(wanted) or attempt.given["goal"]["goal"]
    publish(attempt.place("project_state") / "next.md", f"# Next\n\n{task}\n")
    return 0


def inner(attempt: Attempt) -> int:
    """Write the files of the story, commit them, and leave both receipts."""
    task = (attempt.place("project_state") / "next.md").read_text("utf-8")
    item = attempt.item()
    base = attempt.git("rev-parse", "HEAD")
    for name, text in item["rework" if MISSING in task else "first"].items():
        publish(attempt.repository / name, text)
        attempt.git("add", "--", name)
    if attempt.git("diff", "--cached", "--name-only"):
        attempt.git("commit", "--quiet", "-m", item["title"])
    head = attempt.git("rev-parse", "HEAD")
    commits = attempt.git("log", "--format=%H %s", f"{base}..{head}").splitlines()
    branch = attempt.git("rev-parse", "--abbrev-ref", "HEAD")
    receipt(attempt, "git_receipts", branch=branch, base=base, head=head, commits=commits)
    there = [one for one in item["scope"]["deliverables"] if (attempt.repository / one).is_file()]
    criterion = item["scope"]["completion_criteria"][0]
    delivered = [
        {"path": one, "sha256": digest(attempt.repository / one), "criterion": criterion}
        for one in there
    ]
    receipt(attempt, "delivery_receipts", deliverables=delivered)
    publish(attempt.place("project_state") / "done.md", f"# Done\n\n{len(commits)} commits.\n")
    return 0


def receipt(attempt: Attempt, folder: str, **fields: object) -> None:
    """A receipt of this attempt."""
    document = {"attempt_id": attempt.id, **fields}
    publish(attempt.place(folder) / f"{attempt.id}.json", json.dumps(document, indent=1) + "\n")


def digest(path: Path) -> str:
    """The digest of a file's exact bytes."""
    return f"sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}"


# --- the roles of both ---------------------------------------------------------------------------


def eval_reviewer(attempt: Attempt) -> int:
    """Write the checks, and say whether it is time to run them."""
    if attempt.given["goal"]["goal"] == attempt.story["goal"]["goal"]:
        checks = attempt.story["goal_checks"]
        ready = (attempt.place("project_state") / "finished.md").exists()
    else:
        checks, ready = attempt.item()["checks"], True
    for number, (criterion, command) in enumerate(checks.items(), start=1):
        fields = {"kind": "command", "check_id": f"check-{number}", "title": criterion}
        check = fields | {"command": command, "timeout_s": 60, "criteria": [criterion]}
        text = "".join(f"{name}: {json.dumps(value)}\n" for name, value in check.items())
        publish(attempt.place("eval_checks") / f"check-{number}.yaml", text)
    note = f"ready: {'yes' if ready else 'no'}\n\nBy the story.\n"
    publish(attempt.place("eval_readiness") / f"{attempt.id}.md", note)
    return 0


def eval_runner(attempt: Attempt) -> int:
    """Run the checks if it is time, and report that the goal is met if they pass."""
    # Attempt ids begin with their number, so the newest note has the greatest name.
    *_, newest = sorted(attempt.place("eval_readiness").glob("*.md"))
    if not newest.read_text("utf-8").startswith("ready: yes\n"):
        return 0
    attempt.callboard("evaluate")
    made = {
        path: json.loads(path.read_bytes())
        for path in attempt.place("eval_receipts").glob("*.json")
    }
    own = [path for path, found in made.items() if found["attempt_id"] == attempt.id]
    if not own:
        return 1
    newest = max(own, key=lambda path: made[path]["created_at_ms"])
    if made[newest]["verdict"] != "pass":
        return 0
    reference = f"session:/eval_receipts/{newest.name}"
    summary = "every check has passed"
    return attempt.callboard("control", "goal_met", "--receipt", reference, "--summary", summary)


ROLES: dict[str, Callable[[Attempt], int]] = {
    "planner": planner,
    "dispatcher": dispatcher,
    "outer": outer,
    "inner": inner,
    "eval_reviewer": eval_reviewer,
    "eval_runner": eval_runner,
}


def main() -> int:
    """Play the role of the assignment; the status that the attempt ends with."""
    story, *given = sys.argv[1:]
    path = (
        given[0] if given else sys.stdin.readline().removeprefix("Your assignment file: ").strip()
    )
    attempt = Attempt(Path(story), Path(path))
    print(f"{attempt.role}, attempt {attempt.id}", flush=True)
    return ROLES[attempt.role](attempt)


if __name__ == "__main__":
    sys.exit(main())
