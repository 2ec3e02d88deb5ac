"""`callboard agent`: what agents without a Claim stage, and what becomes of it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil
import pytest

from callboard import canonical
from tests.repositories import git, worker_repository
from tests.surfaces.cli.conftest import PROGRAM, RECIPE, Answer, Person, environment, shell
from tests.waiting import until

PLAN = {"graph": "g", "nodes": [{"key": "a", "payload": {"plan": "of a"}}]}
LATER = {"graph": "g", "nodes": [{"key": "b", "payload": {"plan": "of b"}, "after": ["a"]}]}


class Agents:
    """Starts agents of one person; each is a shell script with the board's own commands."""

    def __init__(self, person: Person, folder: Path) -> None:
        self.person = person
        self.folder = folder

    def file(self, name: str, content: Any) -> Path:
        path = self.folder / name
        path.write_text(json.dumps(content))
        return path

    def run(self, script: str, *options: str, role: str = "dispatcher") -> Answer:
        words = ("agent", "run", "--json", "--role", role, *options, "--", "sh", "-ec", script)
        return shell(self.person, *words)

    def settle(self, *words: str) -> Answer:
        return shell(self.person, "agent", "settle", "--json", *words)

    def start(self, script: str, role: str = "dispatcher") -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [*PROGRAM, "agent", "run", "--role", role, "--", "sh", "-ec", script],
            env=environment(self.person),
            cwd=self.person.folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def root(self) -> Path:
        (found,) = (self.person.state / "agents").iterdir()
        return found


@pytest.fixture
def agents(person: Person, tmp_path: Path) -> Agents:
    folder = tmp_path / "agent-files"
    folder.mkdir()
    return Agents(person, folder)


def requests(person: Person) -> list[tuple[str, str, str]]:
    """Kind, role and request id of each commit of the board."""
    if git("for-each-ref", "refs/heads/work-queue", cwd=person.folder) == "":
        return []
    text = git("show", "work-queue:work-queue.jsonl", cwd=person.folder)
    commits = [json.loads(line) for line in text.splitlines()]
    return [
        (one["request"]["kind"], one["actor"]["role"], one["request"]["id"])
        for one in commits
        if one["request"]["kind"] in ("submit", "dispatch_next")
    ]


def test_nothing_counts_before_the_agent_is_over(agents: Agents) -> None:
    plan = agents.file("plan.json", PLAN)
    seen = agents.folder / "seen"
    answer = agents.run(
        f"callboard agent submit {plan} --json > {agents.folder}/receipt\n"
        f"callboard agent dispatch-next\n"
        f"git for-each-ref refs/heads > {seen}\n"
    )
    assert answer.status == 0
    assert "work-queue" not in seen.read_text()
    receipt = json.loads((agents.folder / "receipt").read_text())
    assert receipt == {"intent_id": receipt["intent_id"], "status": "staged"}
    document = answer.json
    posted, granted = document["intents"]
    assert posted["intent_id"] == receipt["intent_id"]
    assert (posted["kind"], posted["status"]) == ("submit", "accepted")
    assert (granted["kind"], granted["status"]) == ("dispatch_next", "accepted")
    assert granted["receipt"]["granted_claims"] == 1
    assert [one["status"] for one in granted["launches"]] == ["launched"]
    assert requests(agents.person) == [
        ("submit", "dispatcher", posted["request_id"]),
        ("dispatch_next", "dispatcher", granted["request_id"]),
    ]
    shell(agents.person, "run", "--until-idle")


def test_settling_again_gives_the_first_answers(agents: Agents) -> None:
    plan = agents.file("plan.json", PLAN)
    later = agents.file("later.json", LATER)
    first = agents.run(
        f"callboard agent submit {plan}; callboard agent submit {later}", role="producer"
    ).json
    identity = first["activation"]
    before = requests(agents.person)
    again = agents.settle(identity).json
    (document,) = again["activations"]
    assert [one["receipt"] for one in document["intents"]] == [
        one["receipt"] for one in first["intents"]
    ]
    assert [one["replayed"] for one in document["intents"]] == [True, True]
    # Without its own notes the board still knows.
    (agents.root() / "outcomes.json").unlink()
    (agents.root() / "settled").unlink()
    (document,) = agents.settle(identity).json["activations"]
    assert [(one["status"], one["replayed"]) for one in document["intents"]] == [
        ("accepted", True),
        ("accepted", True),
    ]
    assert requests(agents.person) == before
    assert [role for _kind, role, _id in before] == ["producer", "producer"]
    open_ = agents.settle().json
    assert open_ == {"activations": [], "running": [], "damaged": []}


def test_a_killed_start_is_settled_by_whoever_comes_next(agents: Agents) -> None:
    plan = agents.file("plan.json", PLAN)
    ready = agents.folder / "ready"
    process = agents.start(f"callboard agent submit {plan}; : > {ready}; exec sleep 600")
    until(ready.exists)
    sleeping = psutil.Process(process.pid).children()
    while_running = agents.settle().json
    assert (while_running["activations"], len(while_running["running"])) == ([], 1)
    (identity,) = while_running["running"]
    refused = agents.settle(identity).error
    assert refused["code"] == "activation_running"
    os.kill(process.pid, signal.SIGKILL)
    process.wait(30)
    # What the agent started lives on, and may still stage something.
    assert agents.settle(identity).error["code"] == "activation_running"
    assert requests(agents.person) == []
    for one in sleeping:
        one.kill()
    psutil.wait_procs(sleeping, 30)
    with ThreadPoolExecutor(2) as pool:
        answers = [one.json for one in pool.map(lambda _number: agents.settle(), range(2))]
    assert len(requests(agents.person)) == 1
    settled = [one for answer in answers for one in answer["activations"]]
    assert {one["activation"] for one in settled} == {identity}
    assert agents.settle().json == {"activations": [], "running": [], "damaged": []}


def test_what_outlives_the_agent_is_told_that_it_is_too_late(agents: Agents) -> None:
    """A process that the agent left behind stages after the agent has ended."""
    plan = agents.file("plan.json", PLAN)
    go, said = agents.folder / "go", agents.folder / "said"
    os.mkfifo(go)
    stage = f"callboard agent submit {plan} --json > {said}.part || mv {said}.part {said}"
    late = f"read -r _ < {go}; {stage}"
    answer = agents.run(f"({late}) < /dev/null > /dev/null 2>&1 & exit 0", role="producer")
    assert (answer.status, answer.json["intents"]) == (0, [])
    go.write_text("go\n")
    until(said.exists)
    code = json.loads(said.read_text())["error"]["code"]
    assert code in ("staging_closed", "staging_invalid")
    assert requests(agents.person) == []


def test_a_settled_agent_has_spent_its_budget(agents: Agents) -> None:
    """Its messages are rewritten afterwards, with another request where one was answered."""
    agents.person.call(
        "submit",
        agents.file(
            "plan.json",
            {"graph": "g", "nodes": [{"key": "a", "payload": {}}, {"key": "b", "payload": {}}]},
        ),
    )
    first = agents.run("callboard agent dispatch-next")
    (intent,) = first.json["intents"]
    (message,) = (agents.root() / "taken").glob("message-*.json")
    forged = json.loads(message.read_text()) | {"intent_id": "another"}
    message.write_text(json.dumps(forged))
    (again,) = agents.settle(agents.root().name).json["activations"]
    assert [one["request_id"] for one in again["intents"]] == [intent["request_id"]]
    assert [kind for kind, _role, _id in requests(agents.person)] == ["submit", "dispatch_next"]
    shell(agents.person, "run", "--until-idle")


@pytest.mark.parametrize("content", ["", "[]", "{", '{"intents":[1],"refusals":[]}', '{"a":1}'])
def test_damaged_records_are_named(agents: Agents, content: str) -> None:
    agents.run("true")
    root = agents.root()
    (root / "outcomes.json").write_text(content)
    error = agents.settle(root.name).error
    assert (error["code"], str(root / "outcomes.json") in error["message"]) == (
        "activation_damaged",
        True,
    )
    (root / "settled").unlink()
    (root / "activation.json").write_text(content)
    answer = agents.settle()
    assert (answer.status, answer.json["damaged"]) == (1, [root.name])


@pytest.mark.parametrize(
    ("role", "script", "code"),
    [
        ("producer", "callboard agent dispatch-next", "role_forbidden"),
        ("observer", "callboard agent submit {plan}", "role_forbidden"),
        ("observer", "callboard agent dispatch-next", "role_forbidden"),
        ("dispatcher", "callboard worker finish completed", "not_in_a_run"),
        ("dispatcher", "callboard worker note hello", "not_in_a_run"),
        ("dispatcher", "callboard agent dispatch-next --max-dispatches 2",
         "dispatch_budget_exceeded"),
        ("dispatcher", "callboard agent dispatch-next --max-claims 17",
         "dispatch_budget_exceeded"),
        ("dispatcher", "callboard agent dispatch-next --pool other", "pool_forbidden"),
        ("free", "callboard agent dispatch-next --pool other", "pool_unknown"),
        ("dispatcher", "echo '{{}}' | callboard agent submit -", "plan_invalid"),
    ],
)  # fmt: skip
def test_what_is_not_an_agents_is_refused_at_once(
    agents: Agents, role: str, script: str, code: str
) -> None:
    agents.person.call(
        "submit", agents.file("first.json", LATER | {"nodes": [{"key": "x", "payload": {}}]})
    )
    before = requests(agents.person)
    plan = agents.file("plan.json", PLAN)
    said = agents.folder / "said"
    script = script.format(plan=plan)
    options = ["--pool", "default"] if role == "dispatcher" else []
    role = "dispatcher" if role == "free" else role
    answer = agents.run(f"{{ {script} --json; }} > {said} || true", *options, role=role)
    assert json.loads(said.read_text())["error"]["code"] == code
    assert (answer.status, answer.json["intents"]) == (0, [])
    assert requests(agents.person) == before


def test_a_folder_ruled_by_the_agent_is_read_with_care(agents: Agents) -> None:
    """Whatever lies there, what stands is published and the rest is named, message by message."""
    plan = canonical.encode(PLAN)
    digest = canonical.sha256_hex(plan)
    submit = {"kind": "submit", "intent_id": "s1", "sha256": digest, "size_bytes": len(plan)}
    batch = {"kind": "dispatch_next", "intent_id": "d1", "max_claims": 1, "max_dispatches": 1}
    messages: list[Any] = [
        {**submit, "intent_id": "s0", "claim_handle": None},
        {**submit, "intent_id": "s0", "claim_handle": ""},
        {**submit, "intent_id": "s0", "claim_handle": "h1"},
        {"kind": "finish", "intent_id": "f1", "outcome": "completed"},
        {"kind": "artifact", "intent_id": "a1", "name": "x", "sha256": digest, "size_bytes": 1},
        {"kind": "grant", "intent_id": "g1", "work_id": "w"},
        {**batch, "worker_profiles": ["default"]},
        {**batch, "work_id": "w"},
        {**batch, "trace": {"trace_id": "t"}},
        {**batch, "max_claims": 0},
        {**submit, "intent_id": "s1", "sha256": "0" * 64},
        submit,
        {**submit, "size_bytes": 1},
        "text",
        [submit],
    ]
    script = agents.folder / "stage.py"
    script.write_text(
        "import json, os, sys\n"
        "folder = json.load(open(os.environ['CALLBOARD_CONTEXT']))['staging']\n"
        f"open(folder + '/blob-{digest}', 'wb').write({plan!r})\n"
        f"for number, message in enumerate({messages!r}, start=1):\n"
        "    with open(f'{folder}/message-{number:06}.json', 'w') as file:\n"
        "        json.dump(message, file)\n"
        "os.symlink('/etc/passwd', folder + '/message-000016.json')\n"
        "os.mkfifo(folder + '/message-000017.json')\n"
        "os.mkdir(folder + '/message-000018.json')\n"
        "open(folder + '/message-000019.json', 'wb').write(b'{' * 20000)\n"
        "open(folder + '/message-000020.json', 'wb').write(b'\\xff\\xfe')\n"
    )
    answer = agents.run(f"{sys.executable} {script}")
    assert answer.status == 1
    document = answer.json
    assert [(one["intent_id"], one["status"]) for one in document["intents"]] == [
        ("s1", "accepted")
    ]
    assert [one["code"] for one in document["refusals"]] == [
        "claim_scope_invalid", "claim_scope_invalid", "claim_scope_invalid",
        "role_forbidden", "role_forbidden",
        "message_invalid", "message_invalid", "message_invalid", "message_invalid",
        "message_invalid",
        "artifact_missing",
        "intent_conflict",
        "message_invalid", "message_invalid",
        "file_not_regular", "file_not_regular", "file_not_regular",
        "staging_limit", "invalid_unicode",
    ]  # fmt: skip
    assert len(requests(agents.person)) == 1


def test_a_refused_request_leaves_the_others_alone(agents: Agents) -> None:
    wrong = agents.file("wrong.json", {**PLAN, "defaults": {"profile": "nobody"}})
    plan = agents.file("plan.json", PLAN)
    answer = agents.run(f"callboard agent submit {wrong}; callboard agent submit {plan}")
    assert answer.status == 1
    first, second = answer.json["intents"]
    assert (first["status"], first["error"]["code"]) == ("refused", "plan_invalid")
    assert second["status"] == "accepted"


def test_a_summary_is_of_what_this_agent_asked(agents: Agents) -> None:
    agents.person.call(
        "submit",
        agents.file(
            "other.json", {"graph": "o", "nodes": [{"key": "not-asked-here", "payload": {}}]}
        ),
    )
    plan = agents.file("plan.json", {"graph": "g", "nodes": [{"key": "<b>|[x](y)", "payload": {}}]})
    page = agents.folder / "summary.md"
    answer = agents.run(f"callboard agent submit {plan}", "--summary", str(page))
    assert answer.status == 0
    text = page.read_text()
    assert f"# Agent `{answer.json['activation']}`" in text
    assert "`<b>\\x7c[x](y)`" in text
    assert "not-asked-here" not in text
    nothing = agents.run("true", "--summary", str(page))
    assert nothing.status == 0
    assert page.read_text() == text


def test_the_commands_own_end_is_the_exit_status(agents: Agents) -> None:
    plan = agents.file("plan.json", PLAN)
    answer = agents.run(f"callboard agent submit {plan}; exit 7")
    assert answer.status == 7
    assert [one["status"] for one in answer.json["intents"]] == ["accepted"]
    words = ("agent", "run", "--role", "producer", "--json", "--", "no-such")
    missing = shell(agents.person, *words)
    assert missing.error["code"] == "command_not_found"


def test_what_is_no_activation_cannot_be_settled(agents: Agents, tmp_path: Path) -> None:
    for identity in ("0" * 32, "..", "../../runs", "x", "é" * 32):
        assert agents.settle(identity).error["code"] == "activation_unknown", identity
    assert agents.run("true").status == 0
    identity = agents.root().name
    other = Person(tmp_path / "elsewhere", agents.person.config, agents.person.state)
    worker_repository(other.folder, RECIPE)
    refused = shell(other, "agent", "settle", "--json", identity).error
    assert (refused["code"], "another board" in refused["message"]) == ("activation_unknown", True)


def test_outside_of_an_agent_there_is_nothing_to_stage_in(agents: Agents) -> None:
    for words in (("submit", str(agents.file("plan.json", PLAN))), ("dispatch-next",)):
        assert agents.person.call("agent", *words, "--json").error["code"] == "not_in_an_agent"


def test_a_disk_that_takes_nothing_starts_no_agent(agents: Agents) -> None:
    words = ("agent", "run", "--json", "--role", "producer", "--", "touch", "ran")
    done = subprocess.run(
        ["sh", "-c", 'ulimit -f 0; exec "$@"', "sh", *PROGRAM, *words],
        cwd=agents.person.folder, env=environment(agents.person), capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert json.loads(done.stdout)["error"]["code"] == "activation_failed"
    assert not (agents.person.folder / "ran").exists()


def test_nothing_to_grant_is_an_answer(agents: Agents) -> None:
    agents.person.call("submit", agents.file("plan.json", PLAN))
    shell(agents.person, "run", "--until-idle")
    (intent,) = agents.run("callboard agent dispatch-next").json["intents"]
    assert (intent["status"], intent["reason"]) == ("nothing", "no_work")
    assert len(requests(agents.person)) == 2


def test_what_was_prepared_for_a_predicted_winner_is_never_used_for_another(
    agents: Agents,
) -> None:
    """The agent saw A ahead and asked for a batch; B is granted, and runs with B's own plan."""
    person = agents.person
    person.call("submit", agents.file("a.json", PLAN))
    other = agents.file(
        "b.json", {"graph": "h", "nodes": [{"key": "b", "payload": {"plan": "of b"}}]}
    )
    copy = agents.folder / "snapshot.json"
    program = " ".join(PROGRAM)
    outer = {**person.environment, "PYTHONPATH": environment(person)["PYTHONPATH"]}
    settings = " ".join(f"{name}={value}" for name, value in outer.items())
    answer = agents.run(
        f"cp $(dirname $CALLBOARD_CONTEXT)/snapshot.json {copy}\n"
        "callboard agent dispatch-next\n"
        f"{settings} {program} cancel a --reason superseded > /dev/null\n"
        f"{settings} {program} submit {other} > /dev/null\n"
    )
    (intent,) = answer.json["intents"]
    assert intent["status"] == "accepted"
    predicted = json.loads(copy.read_text())["pools"][0]["prediction"]
    text = git("show", "work-queue:work-queue.jsonl", cwd=person.folder)
    commits = [json.loads(line) for line in text.splitlines()]
    works = {
        node["work_id"]: node["node_key"]
        for one in commits
        if one["request"]["kind"] == "submit"
        for node in one["request"]["parameters"]["nodes"]
    }
    (claim,) = [
        operation for one in commits for operation in one["operations"]
        if operation["kind"] == "Claim"
    ]  # fmt: skip
    assert works[predicted["work_id"]] == "a"
    assert works[claim["work_id"]] == "b"
    run = intent["launches"][0]["run_id"]
    assignment = json.loads((person.state / "runs" / run / "assignment.json").read_text())
    (member,) = assignment["claims"]
    assert member["work"]["plan"] == "of b"
    assert "of a" not in json.dumps(assignment)
    shell(person, "run", "--until-idle")
