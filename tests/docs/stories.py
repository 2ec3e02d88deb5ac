"""What is to have happened to each node of an operations page, and which tasks its workers began.

A story has a word for each fact of the ledger, in its order: `granted`, the states of a launch,
`completed`, `verified`, `failed(EFFECTS)`, `lost(REASON)` for a Claim that was cancelled,
`cancelled(REASON)` for a node, `released` for its place.
"""

from __future__ import annotations

RUN = "granted started bound"
DONE = f"{RUN} completed verified released"
LATE = f"{RUN} completed released verified"
STOPPED = f"{RUN} lost(worker_cancelled) released"
KILLED = f"{RUN} lost(supervisor_lost) released"
RULED_OUT = "granted started uncertain unresolved lost(not_launched) released"
SUPERSEDED = "cancelled(superseded)"

STORIES = {
    "docs/operations/recovery-table.md": {
        "lost:lost-drop": "granted cancelled(not_needed) released",
        "lost:lost-sort": DONE,
        "doubt:doubt-sort": f"{RULED_OUT} {DONE}",
        "over:over-wait": f"{KILLED} {DONE}",
        "late:late-report": LATE,
        "gone:gone-summary": f"{RUN} completed released failed(unknown)",
        "trio:trio-red": DONE,
        "trio:trio-green": LATE,
        "trio:trio-blue": f"{KILLED} {DONE}",
    },
    "docs/operations/outage.md": {
        "day:live": DONE,
        "day:done": DONE,
        "day:doubt": f"{RULED_OUT} {DONE}",
        "day:next": DONE,
    },
    "docs/operations/stopped-run.md": {
        "one:one-c1": DONE,
        "one:one-c2": f"{STOPPED} {DONE}",
        "one:one-c3": f"{RUN} cancelled(not_needed) released",
        "one:one-next": DONE,
        "two:two-c1": LATE,
        "two:two-c2": f"{STOPPED} {KILLED} {DONE}",
        "two:two-c3": f"{STOPPED} {KILLED} {DONE}",
        "two:two-next": "cancelled(not_needed)",
    },
    "docs/operations/failing-agent.md": {
        "today:crash": f"{STOPPED} {DONE}",
        "today:hang": f"{STOPPED} {DONE}",
        "today:typo": f"{STOPPED} {RUN} lost(worker_cancelled) "
        "cancelled(attempts_exhausted) released",
        "today:after-typo": SUPERSEDED,
        "again:typo": DONE,
        "again:after-typo": DONE,
        "g:staged": f"{KILLED} {DONE}",
    },
    "docs/operations/revise-a-campaign.md": {
        "campaign-x:r1/prepare": DONE,
        "campaign-x:r1/analyze": SUPERSEDED,
        "campaign-x:r1/report": SUPERSEDED,
        "campaign-x:r2/analyze": DONE,
        "campaign-x:r2/report": DONE,
        "campaign-x:r1/extra": f"{RUN} {SUPERSEDED} released",
        "campaign-x:r1/spare": SUPERSEDED,
        "campaign-x:r1/table": LATE,
        "campaign-x:r1/figure": f"{RUN} completed released failed(unknown)",
        "campaign-x:r2/summary": "cancelled(wrong_edge)",
        "campaign-x:r2/poster": "cancelled(wrong_edge)",
        "campaign-x:r2/late": DONE,
        "campaign-x:r2/later": SUPERSEDED,
        "campaign-x:overview": SUPERSEDED,
        "campaign-x:r3/analyze": DONE,
    },
}

BEGUN = {
    "docs/operations/recovery-table.md": {
        "sort": 2, "wait": 2, "report": 1, "summary": 1, "red": 1, "green": 1, "blue": 2,
    },
    "docs/operations/outage.md": {"live": 1, "done": 1, "quick": 2},
    "docs/operations/stopped-run.md": {
        "one-c1": 1, "one-c2": 2, "one-c3": 1, "one-next": 1, "two-c1": 1, "two-c2": 3, "two-c3": 3,
    },
    "docs/operations/failing-agent.md": {
        "crash": 2, "hang": 2, "typo": 1, "after": 1, "staged": 2,
    },
}  # fmt: skip
