"""What the doctor may find: the code of each finding, how grave it is, and what to do about it.

The only place where these codes stand; the reference page of them is made from it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from callboard.errors import CallboardError
from callboard.project.records import Finding, Severity
from callboard.project.sqlite_file import RESTORE

MAX_OF_A_KIND = 50
MORE = "more_findings"

_RESTORE = f"something else wrote to it: {RESTORE}"
_ASKED = {
    "project_corrupt": RESTORE,
    "storage_failed": "see to the disk and the file's permissions, then look again",
}
"""What to do about a refusal whose own hint would be to ask the doctor."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of finding. `hint` may name the finding's subject and details in braces.

    `severity` None: as grave as what it sums up.
    """

    severity: Severity | None
    hint: str


KINDS = {
    "claim_expired": Kind(
        "warning",
        "take the work over by `callboard project claim acquire --session SESSION`, or "
        "`callboard project doctor repair expire-claim {subject} "
        "--expected-revision {revision} --reason TEXT`",
    ),
    "claim_orphaned": Kind("error", _RESTORE),
    "claim_unlisted": Kind(
        "warning",
        "put the work back and run `callboard project source index`, or "
        "`callboard project session end --session {session}`",
    ),
    "clock_behind": Kind(
        "warning",
        "set the machine's clock right; if it is right, and was wrong before: "
        "`callboard project doctor repair clock --expected-revision {revision} --reason TEXT`",
    ),
    "database_not_ignored": Kind(
        "warning",
        "add the line /project.db* to .callboard/.gitignore, so that no commit takes the database "
        "along",
    ),
    "dependency_external": Kind("info", "it is kept as it is"),
    "dependency_unknown": Kind("warning", "correct the file, or add the work"),
    "disk_readonly": Kind("warning", "mount it for writing, or copy the folder to a disk that is"),
    "event_gap": Kind("error", _RESTORE),
    "file_mode": Kind("info", "`chmod {wanted} {path}`, unless that is meant"),
    "foreign_key": Kind("error", _RESTORE),
    "guard_missing": Kind("error", _RESTORE),
    "integrity": Kind("error", RESTORE),
    "journal_mode": Kind("warning", "open it for writing once; that switches it back"),
    MORE: Kind(None, "see to the first ones, then ask again"),
    "revision_gap": Kind("error", _RESTORE),
    "row_unreadable": Kind("error", _RESTORE),
    "schema_older": Kind("warning", "open it once for writing; that brings it up to date"),
    "selection_missing": Kind("error", _RESTORE),
    "session_open": Kind(
        "info",
        "`callboard project session end --session {subject}`, or go on by "
        "`callboard project session resume --from {subject} --agent NAME`",
    ),
    "source_changed": Kind("warning", "run `callboard project source index`"),
    "source_gone": Kind(
        "warning",
        "put the file back so that it can be read, or take it out of `sources` in work.yaml; then "
        "`callboard project source index`",
    ),
    "source_unindexed": Kind("warning", "run `callboard project source index`"),
}


def finding(
    code: str,
    message: str,
    *,
    subject: str | None = None,
    hinted: Mapping[str, object] = MappingProxyType({}),
    **details: object,
) -> Finding:
    """A finding of the kind `code`; `hinted`: what only its hint names."""
    kind = KINDS[code]
    assert kind.severity is not None
    return Finding(
        code=code,
        severity=kind.severity,
        subject=subject,
        message=message,
        hint=kind.hint.format(subject=subject, **{**details, **hinted}),
        details=details,
    )


def refused(error: CallboardError) -> Finding:
    """That the project cannot be opened, or not be read; the code is the refusal's."""
    return Finding(
        code=error.code,
        severity="error",
        subject=None,
        message=error.message,
        # Whoever reads this has just asked the doctor.
        hint=_ASKED.get(error.code, error.hint),
        details=dict(error.details),
    )


def few(findings: Iterator[Finding]) -> Iterator[Finding]:
    """The first of a kind, and how many more there are."""
    more = 0
    last: Finding | None = None
    for count, one in enumerate(findings):
        if count < MAX_OF_A_KIND:
            yield one
        else:
            more, last = more + 1, one
    if last is not None:
        yield Finding(
            code=MORE,
            severity=last.severity,
            subject=None,
            message=f"{more} more like the last one",
            hint=KINDS[MORE].hint,
            details={"of": last.code, "more": more},
        )
