"""The report of an evaluation for people: what was checked, on what, and what each check said.

It is made of a receipt, its results and the checks alone. Nothing is decided by it.
"""

from __future__ import annotations

from callboard.layers.check_files import CheckFile
from callboard.layers.records.evaluation import CheckResult, EvalReceipt, JudgeCheck
from callboard.layers.records.session import GoalContract
from callboard.visible import visible


def report(
    goal: GoalContract,
    receipt: EvalReceipt,
    results: tuple[CheckResult, ...],
    checks: tuple[CheckFile, ...],
) -> bytes:
    """The report in Markdown. `results` are those of the receipt, with all that they say."""
    subject = receipt.subject
    passed = sum(one.verdict == "pass" for one in results)
    lines = [
        f"# {receipt.verdict}: {passed} of {len(results)} checks passed",
        "",
        f"- receipt: `{receipt.receipt_id}`, by `{receipt.attempt_id}`",
        f"- HEAD: `{subject.head or 'none'}`",
        f"- changes: `{subject.dirty or 'none'}`",
        "",
        "## Goal",
        "",
        *_quoted(goal.goal),
        *(f"- {visible(one)}" for one in goal.completion_criteria),
    ]
    titles = {one.check.check_id: one for one in checks}
    for result in results:
        lines += ["", *_section(result, titles[result.check_id])]
    return ("\n".join(lines) + "\n").encode()


def _section(result: CheckResult, one: CheckFile) -> list[str]:
    check = one.check
    asked = _quoted(check.question) if isinstance(check, JudgeCheck) else []
    return [
        f"## {result.verdict}: {visible(check.title)}",
        "",
        f"- check: `{result.check_id}` in `{result.file}`, `{result.sha256}`",
        f"- took: {result.duration_ms} ms",
        f"- output: `{result.output_sha256 or 'none'}`",
        *(f"- criterion: {visible(criterion)}" for criterion in check.criteria),
        "",
        *asked,
        *_quoted(result.detail),
    ]


def _quoted(text: str) -> list[str]:
    """A text of somebody's, as a block in which nothing acts."""
    return [*(f"    {visible(line)}" for line in text.split("\n")), ""]
