"""One check of a goal, carried out: a command that has to end as expected, or that judges.

Source: layers.md §4. Commands run in a session of their own, within their time, with their output
kept in the attempt's trace. What a check cannot tell counts as an error, never as a pass.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

import msgspec

from callboard import canonical
from callboard.errors import CallboardError
from callboard.layers.around import Around
from callboard.layers.assigned import Assigned
from callboard.layers.check_files import CheckFile
from callboard.layers.records import base
from callboard.layers.records.evaluation import (
    CheckResult,
    CommandCheck,
    JudgeAnswer,
    JudgeCheck,
)
from callboard.layers.references import read_ref
from callboard.processes.held import Command, Outcome, hold
from callboard.processes.members import RUN_MARK
from callboard.visible import visible

MAX_EVIDENCE_BYTES = 1024 * 1024
MAX_QUESTION_BYTES = 8 * 1024 * 1024
"""Of all the evidence that one judge is given."""
MAX_DETAIL = 4000
MAX_ANSWER_BYTES = 256 * 1024
_LOG_LIMIT_BYTES = 4 * 1024 * 1024
_GRACE_S = 5.0

Verdict = Literal["pass", "fail", "error"]


def run_check(around: Around, assigned: Assigned, one: CheckFile, folder: str) -> CheckResult:
    """What came of one check; its output lies in `folder`, a place of the trace."""
    check = one.check
    stdin = None
    try:
        if isinstance(check, JudgeCheck):
            stdin = f"{folder}/{check.check_id}.question.json"
            around.disk.publish(stdin, _question(around, assigned, check))
        outcome = _run(around, check, folder, stdin)
        output = around.disk.read(f"{folder}/{check.check_id}.stdout", _LOG_LIMIT_BYTES)
    except CallboardError as error:
        return _result(one, "error", error.message, 0, None)
    if isinstance(check, JudgeCheck):
        verdict, detail = _judged(check, outcome, output)
    else:
        verdict, detail = _ended(check, outcome)
    return _result(one, verdict, detail, outcome.duration_ms, base.digest(output))


def _result(
    one: CheckFile, verdict: Verdict, detail: str, duration_ms: int, output_sha256: str | None
) -> CheckResult:
    return CheckResult(
        check_id=one.check.check_id,
        file=one.name,
        sha256=one.sha256,
        kind="judge" if isinstance(one.check, JudgeCheck) else "command",
        verdict=verdict,
        detail=visible(detail)[:MAX_DETAIL] or "-",
        duration_ms=duration_ms,
        output_sha256=output_sha256,
    )


def shortened(detail: str, room_bytes: int) -> str:
    """The beginning of a detail that takes at most about `room_bytes` in a record."""
    whole = detail
    while len(canonical.encode(detail)) > room_bytes and len(detail) > 1:
        detail = detail[: len(detail) * 3 // 4]
    return detail if detail == whole else f"{detail}…"


def _run(
    around: Around, check: CommandCheck | JudgeCheck, folder: str, stdin: str | None
) -> Outcome:
    root = around.disk.root
    cwd = root
    if isinstance(check, CommandCheck):
        cwd = _inside(root, check.cwd)
    place = around.disk.path(folder)
    command = Command(
        argv=check.command,
        env={name: value for name, value in around.environment.items() if name != RUN_MARK},
        cwd=cwd,
        stdout=place / f"{check.check_id}.stdout",
        stderr=place / f"{check.check_id}.stderr",
        timeout_s=float(check.timeout_s),
        stdin=None if stdin is None else around.disk.path(stdin),
        grace_s=_GRACE_S,
        log_limit_bytes=_LOG_LIMIT_BYTES,
    )
    mark = around.environment.get(RUN_MARK) or f"eval_{around.random(32)}"
    with hold(command, run_id=mark) as held:
        return held.run()


def _inside(root: Path, cwd: str) -> Path:
    found = Path(os.path.normpath(root / cwd))
    try:
        is_inside = "\0" not in cwd and found.resolve().is_relative_to(root.resolve())
    except (OSError, RuntimeError):
        # A link that leads to itself.
        is_inside = False
    if not is_inside:
        raise CallboardError(
            "path_invalid",
            f"{visible(cwd)!r} is no folder of the repository",
            "give a path relative to the repository's root",
        )
    return found


def _ended(check: CommandCheck, outcome: Outcome) -> tuple[Verdict, str]:
    if outcome.ended != "exited":
        return "error", _not_ended(check, outcome)
    is_expected = outcome.exit_code == check.expected_exit
    return (
        "pass" if is_expected else "fail",
        f"exit {outcome.exit_code}, expected {check.expected_exit}",
    )


def _not_ended(check: CommandCheck | JudgeCheck, outcome: Outcome) -> str:
    """Why a command came to no exit of its own, in words."""
    program = repr(check.command[0])
    if outcome.ended == "start_failed":
        return f"{program} cannot be started: {outcome.reason}"
    if outcome.ended == "timed_out":
        return f"{program} was ended after its timeout_s of {check.timeout_s} s"
    if outcome.ended == "signalled":
        return f"{program} was ended by signal {outcome.signal}"
    return f"{program} is {outcome.ended}"


def _judged(check: JudgeCheck, outcome: Outcome, output: bytes) -> tuple[Verdict, str]:
    if outcome.ended != "exited":
        return "error", f"the judge {_not_ended(check, outcome)}"
    if outcome.exit_code != 0:
        return "error", f"the judge exited with {outcome.exit_code}, and only 0 is an answer"
    try:
        answer = base.read(output, JudgeAnswer, "the answer", limit_bytes=MAX_ANSWER_BYTES)
    except CallboardError as error:
        return "error", error.message
    return answer.verdict, answer.rationale


def _question(around: Around, assigned: Assigned, check: JudgeCheck) -> bytes:
    """What a judge reads on its standard input: the question, and the evidence itself."""
    evidence = []
    room = MAX_QUESTION_BYTES
    for ref in check.evidence:
        data = read_ref(around.disk, assigned.layer, ref, MAX_EVIDENCE_BYTES)
        room -= len(data)
        if room < 0:
            raise CallboardError(
                "resource_limit",
                f"the evidence has more than {MAX_QUESTION_BYTES} bytes together",
                "ask about less at a time",
                {"limit_bytes": MAX_QUESTION_BYTES},
            )
        text = data.decode("utf-8", "replace")
        evidence.append({"ref": ref, "sha256": base.digest(data), "text": text})
    question = {
        "check_id": check.check_id,
        "question": check.question,
        "criteria": list(check.criteria),
        "goal": msgspec.to_builtins(assigned.assignment.goal),
        "evidence": evidence,
        "answer": {"verdict": "pass or fail", "rationale": "text"},
    }
    return canonical.encode(question) + b"\n"
