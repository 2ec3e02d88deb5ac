"""What a run left behind, told where a person looks: refusals, staging folders, whole folders."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from callboard.board.execution.hosts.local.run_report import claim_ending, claim_refusals
from callboard.surfaces.cli.left_words import left_lines
from tests.surfaces.cli.conftest import Person, shell

_JUNK = 'cd "$CALLBOARD_STAGING"; echo {} > message-000001.json; echo [ > message-000002.json'
SCRIPTS = {
    "junk": _JUNK,
    "gone": 'rm -rf "$CALLBOARD_STAGING"',
    "moved": 'mv "$CALLBOARD_STAGING" "$CALLBOARD_STAGING.old"; mkdir "$CALLBOARD_STAGING"',
    "linked": 'mv "$CALLBOARD_STAGING" "$CALLBOARD_STAGING.old"; ln -s / "$CALLBOARD_STAGING"',
    "razed": 'rm -rf "$(dirname "$CALLBOARD_STAGING")"',
}


def attempt(person: Person, name: str) -> tuple[dict[str, Any], str]:
    """What `show` says of the one attempt of a worker that does that, as JSON and to people."""
    recipe = f"command = {json.dumps(['sh', '-c', SCRIPTS[name]])}\n"
    (person.folder / ".callboard" / "workers" / "default.toml").write_text(recipe)
    person.configure("[work_queue.retry]\nmax_attempts = 1\nbackoff_seconds = 1\n")
    person.submit(json.dumps({"graph": "g", "nodes": [{"key": "a", "payload": {}}]}))
    answer = shell(person, "run", "--until-idle")
    assert answer.status == 0, answer
    (claim,) = person.ask("show", "a")["claims"]
    return claim, person.done("show", "a").stdout


def test_show_lists_what_was_refused(person: Person) -> None:
    claim, text = attempt(person, "junk")
    report = json.loads((Path(claim["run_folder"]) / "report.json").read_text())
    (own,), (nobodys,) = report["claims"][0]["refusals"], report["unattributed"]
    assert [
        (one["code"], one["count"], one["message"], one["of_claim"]) for one in claim["refusals"]
    ] == [
        (own["code"], 1, own["message"], True),
        (nobodys["code"], 1, nobodys["message"], False),
    ]
    assert f"          refused: {own['code']}: {own['message']}\n" in text
    assert f"          refused, of no task: {nobodys['code']}: {nobodys['message']}\n" in text


@pytest.mark.parametrize("name", ["gone", "moved", "linked"])
def test_a_staging_folder_that_is_not_the_host_s_is_told(person: Person, name: str) -> None:
    claim, text = attempt(person, name)
    assert [one["code"] for one in claim["refusals"]] == ["staging_invalid"]
    assert "refused, of no task: staging_invalid: the staging folder" in text


def test_of_a_run_that_left_nothing_nothing_is_made_up(person: Person) -> None:
    claim, text = attempt(person, "razed")
    assert claim["cancellation_reason"] == "worker_cancelled"
    assert not {"ending", "run_folder", "refusals"} & claim.keys()
    assert "attempt 1 failed: not completed, and no report of its run is here that says why" in text


def test_refusals_are_counted_by_code_and_bounded() -> None:
    report: dict[str, Any] = {
        "claims": [
            {
                "claim_id": "c_1",
                "refusals": [
                    {"code": "output_limit", "message": "one", "hint": "h"},
                    {"code": "output_limit", "message": "two", "hint": "h"},
                    {"code": "x" * 5_000, "message": "m" * 5_000, "hint": ""},
                    "no refusal",
                    {"message": "without a code"},
                ],
            },
            {"claim_id": "c_2", "refusals": [{"code": "foreign", "message": "", "hint": ""}]},
        ],
        "unattributed": [{"code": f"code_{n}", "message": "m", "hint": ""} for n in range(100)],
    }
    found = claim_refusals(report, "c_1")
    assert len(found) == 32
    assert found[0] == {
        "code": "output_limit", "count": 2, "message": "one", "hint": "h", "of_claim": True,
    }  # fmt: skip
    assert (len(found[1]["code"]), len(found[1]["message"])) == (1_000, 1_000)
    assert found[2] == {"code": "code_0", "count": 1, "message": "m", "of_claim": False}
    lines = [str(line) for line in left_lines({"refusals": found})]
    assert lines[0] == "          refused (2 times): output_limit: one"
    assert len(lines) == 9
    assert "and 24 more refusals (--json)" in lines[-1]
    assert claim_refusals({"claims": 3, "unattributed": {}}, "c_1") == []


def test_what_stood_against_a_delivery_is_told_until_it_is_verified() -> None:
    trouble = {"code": "work_conflict", "message": "taken", "hint": "h", "details": {}}
    report = {"claims": [{"claim_id": "c_1", "published": "pending", "trouble": trouble}]}
    ending = claim_ending(report, "c_1")
    assert ending["delivery"] == {"code": "work_conflict", "message": "taken", "hint": "h"}
    for stage in ("completed_pending", "failed"):
        assert list(left_lines({"stage": stage, "ending": ending})) == [
            "          not delivered: work_conflict: taken"
        ]
    assert list(left_lines({"stage": "verified", "ending": ending})) == []
