"""`callboard worker` as a worker meets it: real processes, a real run's folder, real exits."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from callboard import canonical
from callboard.board.execution import workspace
from callboard.board.outputs.claims import ClaimOutputs
from callboard.board.outputs.closed import ClosedClaim, ClosedClaims, closed_bytes
from callboard.board.outputs.intake import take
from callboard.board.outputs.messages import Terms
from callboard.board.outputs.staging import prepare_folder
from callboard.board.protocol.commit import Assignment
from callboard.board.protocol.memory_rules import MemoryRules
from callboard.git import Git
from tests.board.outputs import scene
from tests.board.outputs.scene import BOTH, NO_WRITES

PROGRAM = [sys.executable, "-c", "from callboard.surfaces.cli.main import main; main()"]
TERMS = Terms.of({"artifact": (0, 128), "patch": (0, 1)})


class Run:
    """One run's folder, and the program started inside it."""

    def __init__(self, root: Path, members: Assignment, terms: Terms = TERMS) -> None:
        self.assignment = members
        self.folder = root / "staging"
        prepare_folder(self.folder, terms)
        file = root / "assignment.json"
        file.write_bytes(canonical.encode(members))
        self.cwd = root
        self.environment = {
            **os.environ,
            "CALLBOARD_ASSIGNMENT": str(file),
            "CALLBOARD_STAGING": str(self.folder),
        }

    def start(self, *words: str, **options: Any) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*PROGRAM, "worker", *words],
            cwd=self.cwd,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            **options,
        )

    def __call__(self, *words: str) -> subprocess.CompletedProcess[str]:
        process = self.start(*words)
        out, err = process.communicate(timeout=60)
        return subprocess.CompletedProcess(words, process.returncode, out, err)

    def json(self, *words: str) -> Any:
        done = self(*words, "--json")
        assert done.stderr == ""
        assert done.stdout.endswith("\n")
        return json.loads(done.stdout)

    def refused(self, *words: str) -> str:
        done = self(*words)
        assert done.returncode == 1, done
        assert done.stdout == ""
        return done.stderr.strip().rsplit("code: ", 1)[1]

    def taken(self) -> tuple[ClaimOutputs, ...]:
        found = take(self.folder, self.assignment, TERMS)
        assert found.unattributed == ()
        assert found.ignored == ()
        return found.claims


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run(tmp_path, scene.assignment(BOTH))


@pytest.fixture
def pair(tmp_path: Path) -> Run:
    return Run(tmp_path, scene.assignment(BOTH, NO_WRITES))


def test_the_assignment_is_printed_whole_or_by_claim(pair: Run) -> None:
    whole = pair.json("assignment")
    assert whole == json.loads(canonical.encode(pair.assignment))
    assert pair.json("assignment", "--claim", "h2") == whole["claims"][1]
    assert json.loads(pair("assignment").stdout) == whole
    assert pair.refused("assignment", "--claim", "h3") == "claim_scope_invalid"


def test_every_stage_answers_its_intent(run: Run) -> None:
    (run.cwd / "report.md").write_text("text")
    for words in (("artifact", "report.md"), ("patch",), ("finish", "completed")):
        answer = run.json(*words)
        assert set(answer) == {"intent_id", "status"}
        assert answer["status"] == "staged"
        assert run.json(*words) == answer
    assert run("finish", "completed").stdout == "staged for h1: completed\n"
    assert run("artifact", "report.md", "--name", "b").stdout == "staged for h1: artifact b\n"
    assert run.refused("finish", "cancelled") == "finish_conflict"
    (claim,) = run.taken()
    assert [output.type for output in claim.suppressed] == ["artifact", "artifact"]
    assert claim.reason == "output_failed", "no work tree stands behind this folder"
    # Whoever outlives the run is told that it is too late.
    for late in (("finish", "completed"), ("artifact", "report.md", "--name", "c"), ("patch",)):
        assert run.refused(*late) == "staging_closed"


def test_a_disk_that_takes_nothing_is_a_refusal(run: Run) -> None:
    done = subprocess.run(
        ["sh", "-c", 'ulimit -f 0; exec "$@"', "sh", *PROGRAM, "worker", "finish", "completed",
         "--json"],
        cwd=run.cwd, env=run.environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert json.loads(done.stdout)["error"]["code"] == "staging_failed"
    assert [one.name for one in run.folder.iterdir()] == ["terms.json"]


def test_several_claims_are_told_apart(pair: Run) -> None:
    assert pair.refused("finish", "completed") == "claim_scope_required"
    assert pair.refused("finish", "completed", "--claim", "") == "claim_scope_invalid"
    assert pair.refused("artifact", "x", "--claim", "h2") == "file_missing"
    (pair.cwd / "x").write_text("x")
    assert pair.refused("artifact", "x", "--claim", "h2") == "output_not_declared"
    assert pair.refused("patch", "--claim", "h2") == "output_not_declared"
    assert pair("finish", "completed", "--claim", "h2").returncode == 0
    assert pair("finish", "cancelled", "--claim", "h1").returncode == 0
    assert [claim.outcome for claim in pair.taken()] == ["cancelled", "completed"]


def test_bad_usage_is_usage(run: Run) -> None:
    assert run("finish", "finished").returncode == 2
    assert run("exec").returncode == 2
    assert run("artifact").returncode == 2


@pytest.mark.parametrize("variable", ["CALLBOARD_ASSIGNMENT", "CALLBOARD_STAGING"])
def test_outside_a_run_nothing_is_staged(run: Run, variable: str) -> None:
    del run.environment[variable]
    for words in (("finish", "completed"), ("patch",), ("exec", "--", "touch", "made")):
        assert run.refused(*words) == "not_in_a_run"
    document = json.loads(run("finish", "completed", "--json").stdout)
    assert document["error"]["code"] == "not_in_a_run"
    assert "recipe" in document["error"]["hint"]
    assert not (run.cwd / "made").exists()
    run.environment[variable] = ""
    assert run.refused("finish", "completed") == "not_in_a_run"


def test_no_command_needs_a_repository_or_its_libraries(run: Run) -> None:
    program = (
        "import sys\nfrom callboard.surfaces.cli.main import main\n"
        "try:\n    main()\nfinally:\n    "
        "sys.stderr.write(' '.join(m for m in sys.modules if m.startswith(('dulwich', "
        "'callboard.board.storage', 'callboard.board.execution', 'callboard.board.publishing'))))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, "worker", "finish", "completed"],
        cwd=run.cwd,
        env=run.environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""


# --- members that had ended before ---------------------------------------------------------------

REMARK = "h2 was cancelled before this run began (not_needed)"


@pytest.fixture
def short(pair: Run) -> Run:
    """A run whose second member had ended before it began."""
    member = pair.assignment.claims[1]
    closed = ClosedClaim(
        handle="h2",
        claim_id=member.claim_id,
        work_id=member.work_id,
        state="cancelled",
        reason="not_needed",
    )
    path = pair.cwd / "claims.json"
    path.write_bytes(closed_bytes(ClosedClaims(closed=[closed])))
    pair.environment["CALLBOARD_CLAIMS"] = str(path)
    return pair


def test_the_assignment_stays_and_says_who_had_ended(short: Run) -> None:
    whole = json.loads(canonical.encode(short.assignment))
    for words in ((), ("--json",)):
        done = short("assignment", *words)
        assert (done.returncode, json.loads(done.stdout)) == (0, whole)
        assert done.stderr == REMARK + "\n"
        assert json.loads(short("assignment", "--open", *words).stdout) == {
            **whole,
            "claims": whole["claims"][:1],
        }
    assert short("assignment", "--claim", "h1").stderr == ""
    assert short("assignment", "--claim", "h2").stderr == REMARK + "\n"
    assert short("assignment", "--claim", "h2", "--open").returncode == 2


def test_staging_for_a_member_that_had_ended_answers_as_ever_and_says_so(short: Run) -> None:
    warning = f"{REMARK}; nothing staged for it has an effect\n"
    done = short("finish", "completed", "--claim", "h2")
    assert (done.returncode, done.stdout) == (0, "staged for h2: completed\n")
    assert done.stderr == warning
    done = short("finish", "completed", "--claim", "h2", "--json")
    assert (json.loads(done.stdout)["status"], done.stderr) == ("staged", warning)
    assert short("exec", "--claim", "h2", "--", "true").stderr == warning
    assert short("finish", "completed", "--claim", "h1").stderr == ""
    # Which claim is meant is still asked of all that were granted.
    assert short.refused("finish", "completed") == "claim_scope_required"


@pytest.mark.parametrize("damage", ["gone", "[]"])
def test_a_list_that_cannot_be_read_keeps_nobody_from_staging(short: Run, damage: str) -> None:
    path = short.cwd / "claims.json"
    path.unlink()
    if damage != "gone":
        path.write_text(damage)
    done = short("finish", "completed", "--claim", "h1")
    assert (done.returncode, done.stdout) == (0, "staged for h1: completed\n")
    assert done.stderr.startswith("it cannot be told which claims had ended before: ")
    assert short("assignment").returncode == 0
    assert short.refused("assignment", "--open") in ("file_missing", "claims_invalid")


def test_without_a_list_every_member_is_open(pair: Run) -> None:
    assert pair.json("assignment", "--open") == pair.json("assignment")


# --- exec ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [0, 1, 7, 255])
def test_execs_status_is_the_commands(run: Run, status: int) -> None:
    done = run("exec", "--", "sh", "-c", f"echo out; echo err >&2; exit {status}")
    assert (done.returncode, done.stdout, done.stderr) == (status, "out\n", "err\n")
    (claim,) = run.taken()
    assert claim.reason == ("finished" if status == 0 else "worker_cancelled")


def test_exec_passes_options_and_input_on(run: Run) -> None:
    process = run.start("exec", "cat", "-u", "-", stdin=subprocess.PIPE)
    out, _ = process.communicate("through", timeout=60)
    assert (process.returncode, out) == (0, "through")


def test_exec_for_one_of_several(pair: Run) -> None:
    assert pair.refused("exec", "--", "touch", "made") == "claim_scope_required"
    assert pair.refused("exec", "--claim", "h9", "--", "touch", "made") == "claim_scope_invalid"
    assert not (pair.cwd / "made").exists()
    assert pair("exec", "--claim", "h2", "--", "true").returncode == 0
    assert [claim.outcome for claim in pair.taken()] == ["cancelled", "completed"]


def test_exec_in_json_keeps_stdout_for_the_document(run: Run) -> None:
    done = run("exec", "--json", "--", "sh", "-c", "echo out; exit 3")
    assert done.returncode == 3
    assert done.stderr == "out\n"
    document = json.loads(done.stdout)
    assert document.pop("intent_id")
    assert document == {
        "status": "staged",
        "claim_handle": "h1",
        "outcome": "cancelled",
        "exit_status": 3,
    }


def test_a_finish_of_the_commands_own_stands(run: Run) -> None:
    inner = " ".join(f"'{word}'" for word in [*PROGRAM, "worker", "finish", "cancelled"])
    done = run("exec", "--", "sh", "-c", inner)
    assert done.returncode == 0
    assert "finished the claim as cancelled" in done.stderr
    (claim,) = run.taken()
    assert claim.reason == "worker_cancelled"
    assert claim.refusals == ()


def test_a_command_that_is_none(run: Run) -> None:
    assert run.refused("exec", "--", "./no-such-command") == "command_not_found"
    (run.cwd / "plain").write_text("x")
    assert run.refused("exec", "--", "./plain") == "command_not_executable"
    (claim,) = run.taken()
    assert claim.reason == "worker_cancelled"


@pytest.fixture
def started(run: Run) -> Iterator[subprocess.Popen[str]]:
    """`worker exec` of a command that says when it is ready, then waits for its input to end."""
    process = run.start(
        "exec",
        "--",
        "sh",
        "-c",
        "trap 'echo caught; exit 9' USR1; trap '' HUP; echo ready; read line; exit 5",
        stdin=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stdin is not None
    assert process.stdout.readline() == "ready\n"
    yield process
    process.stdin.close()
    process.stdout.close()
    assert process.stderr is not None
    process.stderr.close()
    process.wait(60)


def test_a_signal_reaches_the_command(run: Run, started: subprocess.Popen[str]) -> None:
    started.send_signal(signal.SIGHUP)
    started.send_signal(signal.SIGUSR1)
    assert started.stdout is not None
    assert started.stdout.readline() == "caught\n"
    assert started.wait(60) == 9
    assert run.taken()[0].reason == "worker_cancelled"


def test_exec_ends_by_the_signal_that_ended_the_command(
    run: Run, started: subprocess.Popen[str]
) -> None:
    started.send_signal(signal.SIGTERM)
    assert started.wait(60) == -signal.SIGTERM
    assert run.taken()[0].reason == "worker_cancelled"


def test_a_killed_exec_has_finished_nothing(run: Run) -> None:
    process = run.start("exec", "--", "sh", "-c", "echo $$; read line", stdin=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline()
    process.kill()
    process.communicate(timeout=60)
    assert run.taken()[0].reason == "no_finish"


# --- patch ---------------------------------------------------------------------------------------


@pytest.fixture
def clone(run: Run, tmp_path: Path) -> Path:
    """The run's private clone, as the host makes it; the program now starts in it."""
    user = scene.make_repository(tmp_path / "user")
    head = scene.git(user, "rev-parse", "HEAD")
    folder = tmp_path / "work"
    workspace.create(Git(os.environ["PATH"]), user / ".git", head, folder)
    run.cwd = folder
    return folder


def test_a_patch_of_an_untouched_tree_is_refused_early(run: Run, clone: Path) -> None:
    assert run.refused("patch") == "patch_empty"
    (clone / "sub").mkdir()
    run.cwd = clone / "sub"
    assert run.refused("patch") == "patch_empty"
    assert run.taken()[0].reason == "no_finish"


@pytest.mark.parametrize("change", ["edited", "deleted", "added", "committed", "mode"])
def test_any_change_is_worth_a_patch(run: Run, clone: Path, change: str) -> None:
    readme = clone / "README"
    if change == "deleted":
        readme.unlink()
    elif change == "mode":
        readme.chmod(0o755)
    elif change == "added":
        (clone / "sub").mkdir()
        (clone / "sub" / "new").touch()
    else:
        readme.write_text("changed\n")
    if change == "committed":
        scene.git(clone, "commit", "-qam", "own commit")
    (clone / "elsewhere").mkdir()
    run.cwd = clone / "elsewhere"
    assert run("patch").returncode == 0


def test_without_a_clone_nobody_can_tell(run: Run) -> None:
    scene.make_repository(run.cwd / "other")
    run.cwd = run.cwd / "other"
    assert run("patch").returncode == 0


def test_a_memory_is_judged_as_it_is_staged(tmp_path: Path) -> None:
    schema = {"type": "object", "properties": {"fact": {"type": "string"}}}
    rules = MemoryRules("facts.json", "facts", schema)
    terms = Terms.of({"memory": (0, 1)}, memory=rules)
    run = Run(tmp_path, scene.assignment(scene.outputs(memory=(1, 1))), terms)
    (run.cwd / "facts.json").write_text('{"fact": 3, "more": 1}')
    document = json.loads(run("memory", "facts.json", "--json").stdout)["error"]
    assert document["code"] == "memory_invalid"
    assert [one["pointer"] for one in document["details"]["faults"]] == ["/fact", "/more"]
    (run.cwd / "facts.json").write_text('{"fact": "x"}')
    assert run.json("memory", "facts.json")["status"] == "staged"
    assert run.refused("memory", "nowhere.json") == "file_missing"
    (run.cwd / "facts.json").write_text('{"fact": "y"}')
    assert run.refused("memory", "facts.json") == "output_limit"
    assert run("finish", "completed").returncode == 0
    (claim,) = take(run.folder, run.assignment, terms).claims
    assert [output.type for output in claim.outputs] == ["memory"]
