"""A campaign by agents alone: one posts, one asks for batches, workers do the work.

Each is a process of its own with the SDK's client, reaches the board through its tools only, and
tries everything that is forbidden first. The repository, the runs and the ledger are real.
"""

from __future__ import annotations

import json
import stat
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from callboard import canonical
from callboard.board.execution.principal import make_principal
from callboard.board.outputs.context import read_context
from callboard.board.reading.activation_document import read_snapshot
from tests.repositories import git, worker_repository
from tests.surfaces.cli.conftest import Person, shell
from tests.surfaces.mcp.scripted_agent import FORBIDDEN

SCRIPT = str(Path(__file__).with_name("scripted_agent.py"))
READERS = ["work_queue_read", "work_queue_explain"]
REFUSALS = {
    "producer": [
        "tool_unknown", "arguments_invalid", "work_unknown", "role_forbidden", "role_forbidden",
        "role_forbidden", "plan_invalid", "claim_scope_invalid", "role_forbidden",
        "role_forbidden", "role_forbidden", "role_forbidden",
    ],
    "dispatcher": [
        "tool_unknown", "arguments_invalid", "work_unknown", "arguments_invalid",
        "dispatch_budget_exceeded", "pool_forbidden", "plan_invalid", "claim_scope_invalid",
        "role_forbidden", "role_forbidden", "role_forbidden", "role_forbidden",
    ],
    "worker": [
        "tool_unknown", "arguments_invalid", "work_unknown", "arguments_invalid",
        "dispatch_budget_exceeded", "pool_forbidden", "output_not_declared", "claim_scope_invalid",
        "claim_scope_invalid", "path_invalid", "output_not_declared", "claim_scope_invalid",
    ],
}  # fmt: skip


class Campaign:
    """A person whose agents do everything."""

    def __init__(self, root: Path, recipe: str) -> None:
        self.root = root
        folder = worker_repository(root / "repository", recipe)
        make_principal(root / "config")
        self.person = Person(folder, root / "config", root / "state")
        self.journal_file = root / "journal"
        self.answers: list[Any] = []
        self.person.environment["CAMPAIGN_JOURNAL"] = str(self.journal_file)
        self.person.environment["CAMPAIGN_REPOSITORY"] = str(folder)

    @property
    def journal(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.journal_file.read_text().splitlines()]

    def of(self, role: str, fact: str) -> list[Any]:
        return [one[fact] for one in self.journal if one["role"] == role and fact in one]

    def agent(self, role: str, *options: str) -> Any:
        """Start an agent, and answer what it staged."""
        words = ["agent", "run", "--role", role, *options, "--json", "--"]
        done = shell(self.person, *words, sys.executable, SCRIPT, role)
        assert done.status == 0, done
        return done.json


def recipe(*, tools: bool) -> str:
    command = json.dumps([sys.executable, SCRIPT, "worker"])
    return (
        f"command = {command}\nmcp = {str(tools).lower()}\n"
        'env = ["CAMPAIGN_JOURNAL", "CAMPAIGN_REPOSITORY"]\noutputs = ["artifact", "note"]\n'
    )


@pytest.fixture(scope="module")
def campaign(tmp_path_factory: pytest.TempPathFactory) -> Campaign:
    """One campaign, played to its end."""
    found = Campaign(tmp_path_factory.mktemp("campaign"), recipe(tools=True))
    found.answers.append(found.agent("producer"))
    found.answers.append(found.agent("dispatcher", "--pool", "default", "--max-dispatches", "1"))
    shell(found.person, "run", "--until-idle")
    return found


def test_agents_carry_a_campaign_from_plan_to_results(campaign: Campaign) -> None:
    person = campaign.person
    posted, asked = campaign.answers
    assert [one["status"] for one in posted["intents"]] == ["accepted"]
    assert posted["refusals"] == []
    assert [one["kind"] for one in asked["intents"]] == ["submit", "dispatch_next"]
    assert [one["status"] for one in asked["intents"]] == ["accepted"] * 2
    columns = person.ask("status")["columns"]
    assert {name: one["count"] for name, one in columns.items() if one["count"]} == {"done": 3}
    assert {one["reason"] for one in columns["done"]["works"]} == {"verified"}
    artifact = git(
        "for-each-ref", "--format=%(objectname)", "refs/callboard/artifacts", cwd=person.folder
    )
    assert git("cat-file", "blob", artifact, cwd=person.folder) == "drafted"
    assert Counter(campaign.of("worker", "task")) == Counter(["draft", "review", "extra"])
    assert campaign.of("dispatcher", "ready") == [["draft"]]
    assert campaign.of("dispatcher", "staged") == [2]
    assert campaign.of("dispatcher", "provenance") == ["staged_preview"]


def test_everything_that_is_forbidden_is_refused_and_changes_nothing(campaign: Campaign) -> None:
    for role, count in (("producer", 1), ("dispatcher", 1), ("worker", 3)):
        codes: dict[int, list[str]] = {}
        for one in campaign.journal:
            if one["role"] == role and "forbidden" in one:
                codes.setdefault(one["pid"], []).append(one["error"])
        assert list(codes.values()) == [REFUSALS[role]] * count, role
        assert len(REFUSALS[role]) == len(FORBIDDEN) >= 10
        if role != "worker":
            # Of runs that go on side by side each writes to the board meanwhile.
            assert campaign.of(role, "unchanged") == [True]
    commits = campaign.person.ask("ledger", "log", "--limit", "1000")["commits"]
    kinds = Counter(one["kind"] for one in commits)
    assert (kinds["submit"], kinds["finish"], kinds["result"]) == (2, 3, 3)
    # One batch was asked for by the agent; the other two nodes are the dispatcher's own.
    assert kinds["dispatch_next"] == 3


def test_each_role_is_given_its_own_tools(campaign: Campaign) -> None:
    dispatchers = [*READERS, "work_queue_submit", "work_queue_dispatch_next"]
    assert campaign.of("producer", "tools") == [dispatchers[:3]]
    assert campaign.of("dispatcher", "tools") == [dispatchers]
    workers = [*dispatchers, "work_queue_claim_finish", "work_queue_output"]
    assert campaign.of("worker", "tools") == [workers] * 3


def test_a_run_finds_its_files_and_each_is_private(campaign: Campaign) -> None:
    runs = sorted((campaign.person.state / "runs").iterdir())
    assert len(runs) == 3
    for run in runs:
        context = read_context(run / "context.json")
        assert context.role == "worker"
        assert context.work_tree == str(run / "work")
        snapshot = read_snapshot((run / "snapshot.json").read_bytes())
        claims = canonical.decode((run / "assignment.json").read_bytes().strip())["claims"]
        shown = {one.work_id: one.claim_handle for one in snapshot.nodes if one.is_shown}
        assert shown == {one["work_id"]: one["handle"] for one in claims}
        server = json.loads((run / "mcp.json").read_text())["mcpServers"]["callboard"]
        assert server["command"] == str(run / "bin" / "callboard")
        assert server["args"] == ["mcp", "board", "--context", str(run / "context.json")]
        for name in ("context.json", "snapshot.json", "mcp.json"):
            assert stat.S_IMODE((run / name).stat().st_mode) == 0o600


def test_a_run_without_the_tools_has_a_context_and_no_snapshot(tmp_path: Path) -> None:
    script = (
        'env > "$TMPDIR/env"; callboard mcp board </dev/null; '
        # As a client starts its server that hands on next to nothing of its environment.
        'env -i "PATH=$PATH" "HOME=$HOME" callboard mcp board </dev/null 2> "$TMPDIR/bare"; '
        "callboard worker finish completed"
    )
    command = json.dumps(["sh", "-c", script])
    campaign = Campaign(tmp_path, f"command = {command}\n")
    campaign.person.submit("nodes: [{payload: {}}]\n")
    shell(campaign.person, "run", "--until-idle")
    (run,) = (campaign.person.state / "runs").iterdir()
    variables = dict(
        line.split("=", 1) for line in (run / "tmp" / "env").read_text().splitlines() if "=" in line
    )
    assert variables["CALLBOARD_CONTEXT"] == str(run / "context.json")
    assert "CALLBOARD_MCP_CONFIG" not in variables
    assert read_context(run / "context.json").role == "worker"
    assert not (run / "snapshot.json").exists()
    assert not (run / "mcp.json").exists()
    told = (run / "worker.stderr.log").read_text()
    assert "code: snapshot_invalid" in told
    assert "mcp = true" in told
    assert "code: snapshot_invalid" in (run / "tmp" / "bare").read_text()
    assert campaign.person.ask("status")["columns"]["done"]["count"] == 1
