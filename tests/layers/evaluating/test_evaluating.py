"""The checks of a goal: read with every fault at once, carried out, and bound to what they saw."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from callboard.errors import CallboardError
from callboard.layers.records.evaluation import EvalReceipt
from tests.layers.machine import CHECK, Attempt, Machine
from tests.repositories import head


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def check(attempt: Attempt, check_id: str = "one", *, name: str = "", **fields: Any) -> None:
    """Write one check; JSON is YAML."""
    value = {"kind": "command", "check_id": check_id, "title": "A check", "command": ["true"]}
    path = attempt.path("eval_checks") / (name or f"{check_id}.yaml")
    path.write_text(json.dumps(value | fields))


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def judge(attempt: Attempt, code: str, **fields: Any) -> None:
    check(attempt, "judge", kind="judge", question="Is it?", command=python(code), **fields)


def verdicts(receipt: EvalReceipt) -> dict[str, str]:
    return {one.check_id: one.verdict for one in receipt.checks}


def evaluated(machine: Machine, attempt: Attempt) -> Mapping[str, str]:
    return verdicts(machine.layers.evaluate(attempt.assignment))


def refused(machine: Machine, attempt: Attempt) -> CallboardError:
    with pytest.raises(CallboardError) as found:
        machine.layers.evaluate(attempt.assignment)
    assert list(attempt.path("eval_receipts").iterdir()) == []
    return found.value


# --- reading --------------------------------------------------------------------------------------


def test_every_fault_of_every_file_is_told_at_once(machine: Machine) -> None:
    attempt = machine.begin()
    folder = attempt.path("eval_checks")
    (folder / "a.yaml").write_text("kind: command\ncheck_id: a\ntitle: T\n")
    (folder / "b.yml").write_text("kind: guess\n")
    (folder / "c.yaml").write_text("kind: [\n")
    (folder / "d.yaml").mkdir()
    (folder / "e.yaml").symlink_to("a.yaml")
    (folder / "f.YAML").write_text("kind: command\ncheck_id: f\ntitle: T\ncommand: []\nextra: 1\n")
    (folder / "g.yaml").write_bytes(b"#" * 300_000)
    (folder / "README.md").write_text("no check\n")
    (folder / ".h.yaml").write_text("no check\n")
    error = refused(machine, attempt)
    assert error.code == "eval_check_invalid"
    faults = error.details["faults"]
    assert isinstance(faults, list)
    found = [(one["file"], one["line"], one["pointer"]) for one in faults]
    assert {file for file, _line, _pointer in found} == {
        "a.yaml", "b.yml", "c.yaml", "d.yaml", "e.yaml", "f.YAML", "g.yaml",
    }  # fmt: skip
    assert ("f.YAML", 4, "/command") in found
    assert ("f.YAML", 5, "/extra") in found


@pytest.mark.parametrize(
    ("first", "second"), [("one", "one"), ("one", "ONE"), ("a.b", "A.b"), ("x-1", "X-1")]
)
def test_two_checks_with_one_id_or_twins_are_refused(
    machine: Machine, first: str, second: str
) -> None:
    attempt = machine.begin()
    check(attempt, first, name="1.yaml")
    check(attempt, second, name="2.yaml")
    error = refused(machine, attempt)
    assert error.code == "eval_check_invalid"
    assert error.details["count"] == 1
    assert "1.yaml" in error.message
    assert error.message.count("2.yaml") == 1


def test_there_has_to_be_a_check_and_not_too_many(machine: Machine) -> None:
    attempt = machine.begin()
    assert refused(machine, attempt).code == "eval_checks_missing"
    for number in range(201):
        check(attempt, f"c{number}")
    assert refused(machine, attempt).code == "eval_check_invalid"


# --- commands -------------------------------------------------------------------------------------


def test_a_command_runs_in_the_repository_or_a_folder_of_it(machine: Machine) -> None:
    attempt = machine.begin()
    (machine.root / "inside").symlink_to("src")
    where = "import os, sys; sys.exit(os.getcwd() != os.environ.get('PWD', '') and 0)"
    check(attempt, "root", command=["test", "-f", "README"])
    check(attempt, "src", command=["test", "-f", "code.py"], cwd="src")
    check(attempt, "linked", command=["test", "-f", "code.py"], cwd="inside")
    check(attempt, "argv", command=python(where))
    check(attempt, "plain", command=["test", "$HOME", "=", "$HOME"])
    assert set(evaluated(machine, attempt).values()) == {"pass"}


@pytest.mark.parametrize("cwd", ["..", "/", "/etc", "src/../..", "away", "loop", "none", "README"])
def test_a_command_runs_nowhere_else(machine: Machine, tmp_path: Path, cwd: str) -> None:
    attempt = machine.begin()
    (tmp_path / "outside").mkdir()
    (machine.root / "away").symlink_to(tmp_path / "outside")
    (machine.root / "loop").symlink_to("loop")
    check(attempt, cwd=cwd, command=["touch", str(tmp_path / "ran")])
    assert evaluated(machine, attempt) == {"one": "error"}
    assert not (tmp_path / "ran").exists()


def test_a_command_has_to_end_as_expected(machine: Machine) -> None:
    attempt = machine.begin()
    check(attempt, "zero")
    check(attempt, "one", command=["false"])
    check(attempt, "wanted", command=["false"], expected_exit=1)
    check(attempt, "unwanted", expected_exit=1)
    check(attempt, "slow", command=["sleep", "60"], timeout_s=1)
    check(attempt, "patient", timeout_s=9_007_199_254_740_991)
    check(attempt, "killed", command=python("import os; os.kill(os.getpid(), 9)"))
    check(attempt, "missing", command=["/no/such/program"])
    check(attempt, "folder", command=[str(machine.root)])
    receipt = machine.layers.evaluate(attempt.assignment)
    assert verdicts(receipt) == {
        "zero": "pass", "one": "fail", "wanted": "pass", "unwanted": "fail", "slow": "error",
        "patient": "pass", "killed": "error", "missing": "error", "folder": "error",
    }  # fmt: skip
    said = {one.check_id: one.detail for one in receipt.checks}
    assert said["one"] == "exit 1, expected 0"
    assert said["slow"] == "'sleep' was ended after its timeout_s of 1 s"
    assert said["killed"] == f"{sys.executable!r} was ended by signal 9"
    assert said["missing"] == "'/no/such/program' cannot be started: ENOENT"


def test_output_is_kept_within_bounds(machine: Machine) -> None:
    attempt = machine.begin()
    check(attempt, command=python("import sys; sys.stdout.write('x' * 9_000_000)"))
    receipt = machine.layers.evaluate(attempt.assignment)
    kept = hashlib.sha256(b"x" * 4 * 1024 * 1024).hexdigest()
    assert receipt.checks[0].output_sha256 == f"sha256:{kept}"
    [folder] = attempt.path("trace_root").glob("eval_*")
    assert (folder / "one.stdout").stat().st_size == 4 * 1024 * 1024


# --- judges ---------------------------------------------------------------------------------------

ANSWER = "import json, sys; q = json.load(sys.stdin); print(json.dumps({answer}))"


def test_a_judge_is_given_question_goal_and_evidence(machine: Machine) -> None:
    attempt = machine.begin()
    answer = (
        "{'verdict': 'pass' if q['evidence'][0]['text'] == 'two\\n' and q['question'] == 'Is it?'"
        " and q['goal']['goal'] == 'Have it done' and q['criteria'] == ['c'] else 'fail',"
        " 'rationale': q['evidence'][0]['sha256']}"
    )
    judge(attempt, ANSWER.format(answer=answer), evidence=["repo:/README"], criteria=["c"])
    receipt = machine.layers.evaluate(attempt.assignment)
    assert receipt.checks[0].verdict == "pass"
    assert receipt.checks[0].detail == f"sha256:{hashlib.sha256(b'two' + bytes([10])).hexdigest()}"


@pytest.mark.parametrize(
    ("code", "verdict"),
    [
        ('print(\'{"verdict": "fail", "rationale": "no"}\')', "fail"),
        ("print('pass')", "error"),
        ('print(\'{"verdict": "pass"}\')', "error"),
        ('print(\'{"verdict": "pass", "rationale": ""}\')', "error"),
        ('print(\'{"verdict": "maybe", "rationale": "x"}\')', "error"),
        ('print(\'{"verdict": "pass", "rationale": "x", "sure": 1}\')', "error"),
        ('print(\'{"verdict":"fail","verdict":"pass","rationale":"x"}\')', "error"),
        ('print(\'{"verdict": "pass", "rationale": "x"}\' * 2)', "error"),
        ('print(\'{"verdict": "pass", "rationale": "\' + \'x\' * 300_000 + \'"}\')', "error"),
        ('print(\'{"verdict": "pass", "rationale": "x"}\'); raise SystemExit(1)', "error"),
        ('print(\'{"verdict": "pass", "rationale": "x"}\', flush=1); 1/0', "error"),
        ("", "error"),
        ("import os; os.kill(os.getpid(), 9)", "error"),
    ],
)
def test_what_a_judge_cannot_say_is_no_pass(machine: Machine, code: str, verdict: str) -> None:
    attempt = machine.begin()
    judge(attempt, code)
    receipt = machine.layers.evaluate(attempt.assignment)
    assert (receipt.checks[0].verdict, receipt.verdict) == (verdict, "fail")


def test_a_judge_that_is_slow_or_lacks_its_evidence_is_no_pass(machine: Machine) -> None:
    passing = 'print(\'{"verdict": "pass", "rationale": "x"}\')'
    attempt = machine.begin()
    judge(attempt, f"{passing}; import time; time.sleep(60)", timeout_s=1)
    assert evaluated(machine, attempt) == {"judge": "error"}
    (machine.root / "large.log").write_bytes(b"x" * 1_100_000)
    (machine.root / "part.log").write_bytes(b"x" * 1_000_000)
    for evidence in (
        ["repo:/none"], ["repo:/large.log"], ["repo:/part.log"] * 9, ["repo:/src"],
        ["parent:/goal.md"], ["repo:/link"], ["x:/y"],
    ):  # fmt: skip
        judge(attempt, passing, evidence=evidence)
        assert evaluated(machine, attempt) == {"judge": "error"}, evidence
    judge(attempt, passing, evidence=["repo:/part.log"] * 8)
    assert evaluated(machine, attempt) == {"judge": "pass"}


# --- receipts -------------------------------------------------------------------------------------


def test_a_receipt_names_goal_checks_and_subject_and_has_a_report(machine: Machine) -> None:
    attempt = machine.begin()
    (machine.root / "part.txt").write_text("done\n")
    (attempt.path("eval_checks") / "done.yaml").write_text(CHECK)
    receipt = machine.layers.evaluate(attempt.assignment)
    session = json.loads((attempt.path("session_root") / "session.json").read_bytes())
    assert receipt.session_id == session["session_id"]
    assert receipt.goal_contract_sha256 == session["goal_contract_sha256"]
    assert (receipt.attempt_id, receipt.role) == ("0001_worker", "worker")
    assert receipt.subject.head == head(machine.root)
    assert (receipt.subject.dirty or "").startswith("dirty-1:sha256:")
    [only] = receipt.checks
    assert (only.file, only.detail) == ("done.yaml", "exit 0, expected 0")
    assert only.sha256 == f"sha256:{hashlib.sha256(CHECK.encode()).hexdigest()}"
    [folder] = attempt.path("trace_root").glob("eval_*")
    report = (folder / "report.md").read_bytes()
    assert receipt.report_sha256 == f"sha256:{hashlib.sha256(report).hexdigest()}"
    text = report.decode()
    assert text.startswith("# pass: 1 of 1 checks passed\n")
    for part in ("Have it done", "part.txt says done", receipt.receipt_id, head(machine.root)):
        assert part in text
    path = attempt.path("eval_receipts") / f"{receipt.receipt_id}.json"
    assert json.loads(path.read_bytes())["report_sha256"] == receipt.report_sha256


@pytest.mark.parametrize(
    ("commands", "verdict", "headline"),
    [
        ((["true"], ["true"]), "pass", "# pass: 2 of 2 checks passed\n"),
        ((["true"], ["false"]), "fail", "# fail: 1 of 2 checks passed\n"),
        ((["false"], ["true"]), "fail", "# fail: 1 of 2 checks passed\n"),
        ((["no-such-program"], ["true"]), "fail", "# fail: 1 of 2 checks passed\n"),
        ((["false"], ["false"]), "fail", "# fail: 0 of 2 checks passed\n"),
    ],
)
def test_a_receipt_passes_where_every_check_does(
    machine: Machine, commands: tuple[list[str], ...], verdict: str, headline: str
) -> None:
    attempt = machine.begin()
    for number, command in enumerate(commands):
        check(attempt, f"c{number}", command=command)
    receipt = machine.layers.evaluate(attempt.assignment)
    assert receipt.verdict == verdict
    [report] = attempt.path("trace_root").glob("eval_*/report.md")
    assert report.read_text().startswith(headline)


def test_a_receipt_of_as_many_checks_as_may_be_can_be_read_again(machine: Machine) -> None:
    attempt = machine.begin()
    rationale = '"' * 1900
    for number in range(200):
        check(
            attempt, f"c{number}", kind="judge", question="Is it?",
            command=["printf", "%s", json.dumps({"verdict": "pass", "rationale": rationale})],
        )  # fmt: skip
    ref = f"session:/eval_receipts/{machine.layers.evaluate(attempt.assignment).receipt_id}.json"
    machine.layers.control(attempt.assignment, "goal_met", eval_receipt_ref=ref)
    assert machine.end().status == "goal_met"


@pytest.mark.parametrize(
    "command", [["touch", "new.txt"], ["rm", "README"], ["chmod", "+x", "README"]]
)
def test_checks_that_change_the_repository_speak_of_no_state_of_it(
    machine: Machine, command: list[str]
) -> None:
    attempt = machine.begin()
    check(attempt, command=command)
    assert refused(machine, attempt).code == "eval_subject_changed"


def test_checks_may_change_what_git_ignores(machine: Machine) -> None:
    attempt = machine.begin()
    check(attempt, command=["touch", "made.log"])
    assert evaluated(machine, attempt) == {"one": "pass"}
