"""Taking in what a run staged, once it is over: per Claim an outcome, outputs and refusals.

Source: specification 1, §7.14 (individual finalization), §7.15. This is the trusted side; it reads
a folder the worker ruled, always comes to an answer, and writes nothing. One bad message, or one
bad Claim, never takes another with it.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from callboard.board.outputs.claims import (
    ClaimOutputs,
    Intake,
    Output,
    PatchCommit,
    PatchOutput,
    Refusal,
)
from callboard.board.outputs.closed import NONE_CLOSED, ClosedClaim, ClosedClaims
from callboard.board.outputs.folder import StagingFolder
from callboard.board.outputs.judgement import BodyChecks, Judge, Tally, not_loaded
from callboard.board.outputs.messages import Terms
from callboard.board.outputs.playing import play
from callboard.board.protocol.commit import Assignment
from callboard.errors import CallboardError

MakePatch = Callable[[tuple[str, ...]], PatchCommit | None]
"""Makes the work tree, or what of it lies at given paths, a commit in the repository's object
store; None: nothing has changed there."""


def take(
    staging_folder: Path,
    assignment: Assignment,
    terms: Terms,
    *,
    make_patch: MakePatch | None = None,
    checks: BodyChecks | None = None,
    closed: ClosedClaims = NONE_CLOSED,
) -> Intake:
    """Everything the run of `assignment` staged in `staging_folder`, judged by `terms`.

    No finish means cancelled. A Claim that says completed, but whose accepted outputs cannot meet
    the Work's contract, is turned into cancelled here, before its Completion: once completed it
    could never be verified, and would only strand its successors, while a cancelled one goes back
    to the board for another attempt.

    `make_patch` is called for each Claim that is to be completed with a patch; all Claims of a run
    share its one work tree, and of several each has its own paths in it. `checks` judge bodies.
    `closed` had ended before the run began: whatever they staged is suppressed, and no patch made
    of it. A folder that cannot be read counts as empty, with the refusal among `unattributed`; one
    that lacks what the host put there counts for what is in it, with the same refusal.
    """
    try:
        with StagingFolder(staging_folder) as folder:
            # What a process that outlives the run says from now on is refused to it, not lost.
            with suppress(OSError):
                folder.close_for_good()
            judge, refusals = _judged(folder, assignment, terms, checks)
            if not folder.has_terms():
                refusals.append(Refusal.of(_replaced(staging_folder), staging_folder.name))
            ignored = folder.strangers()
    except CallboardError as error:
        judge = Judge(assignment, terms, not_loaded)
        refusals = [Refusal.of(error, staging_folder.name)]
        ignored = ()
    return Intake(
        claims=tuple(
            _settled(
                tally,
                tuple(item for item in refusals if item.handle == handle),
                make_patch,
                closed.of(handle),
            )
            for handle, tally in judge.tallies.items()
        ),
        unattributed=tuple(item for item in refusals if item.handle is None),
        ignored=ignored,
    )


def _judged(
    folder: StagingFolder, assignment: Assignment, terms: Terms, checks: BodyChecks | None
) -> tuple[Judge, list[Refusal]]:
    judge = Judge(assignment, terms, folder.load, checks)
    refusals = [
        Refusal.of(one.refusal, one.message.source, one.handle)
        for one in play(folder.messages(), judge)
        if one.refusal is not None
    ]
    return judge, refusals


def _replaced(staging_folder: Path) -> CallboardError:
    return CallboardError(
        "staging_invalid",
        f"the staging folder {staging_folder.name!r} lacks the terms that the host put there",
        "it belongs to the run and is made for it; leave it, and what is in it, in its place",
    )


def _made(make: MakePatch | None, paths: tuple[str, ...]) -> PatchCommit:
    """The commit, or `patch_empty`, `patch_unavailable` or what making it refuses with."""
    if make is None:
        raise CallboardError(
            "patch_unavailable",
            "this host has no work tree of the run to make a patch of",
            "deliver files with callboard worker artifact",
        )
    commit = make(paths)
    if commit is None:
        what = (
            "the work tree is as it was" if not paths else f"nothing at {', '.join(paths)} is new"
        )
        raise CallboardError(
            "patch_empty",
            f"{what} since the run began",
            "change files before the run ends, or stage no patch",
        )
    return commit


def _settled(
    tally: Tally,
    refusals: tuple[Refusal, ...],
    make: MakePatch | None,
    closed: ClosedClaim | None,
) -> ClaimOutputs:
    member = tally.member
    claim = ClaimOutputs(
        handle=member.handle,
        claim_id=member.claim_id,
        work_id=member.work_id,
        outcome="completed",
        reason="finished",
        outputs=tally.outputs,
        refusals=refusals,
    )
    if closed is not None:
        return claim.cancelled("claim_closed", closed.text())
    if tally.outcome is None:
        said = "the run ended without a finish for this claim"
        return claim.cancelled("no_finish", "; ".join([said, *_lacking(tally)]))
    if tally.outcome == "cancelled":
        return claim.cancelled("worker_cancelled", "the worker gave the claim up")
    return _with_minimum(_with_patch(claim, make), tally)


def _with_patch(claim: ClaimOutputs, make: MakePatch | None) -> ClaimOutputs:
    """The Claim with its commit made. Nothing changed: a refused wish like any other refused
    message. Failing otherwise: work would be lost silently, so the Claim is not completed.
    """
    wish = next((output for output in claim.outputs if isinstance(output, PatchOutput)), None)
    if wish is None:
        return claim
    rest: tuple[Output, ...] = tuple(output for output in claim.outputs if output is not wish)
    try:
        commit = _made(make, wish.paths)
    except CallboardError as error:
        refused = replace(
            claim,
            outputs=rest,
            refusals=(*claim.refusals, Refusal.of_host(error, wish.intent_id, claim.handle)),
        )
        if error.code == "patch_empty":
            return refused
        return refused.cancelled("output_failed", f"the patch could not be made: {error.message}")
    return replace(claim, outputs=(*rest, replace(wish, commit=commit)))


def _with_minimum(claim: ClaimOutputs, tally: Tally) -> ClaimOutputs:
    if claim.outcome != "completed":
        return claim
    if isinstance(tally.bounds, CallboardError):
        return claim.cancelled(tally.bounds.code, tally.bounds.message)
    unmet = tally.bounds.unmet(_counts(claim.outputs))
    if not unmet:
        return claim
    return claim.cancelled(unmet[0].code, "; ".join(item.message for item in unmet))


def _lacking(tally: Tally) -> list[str]:
    """What a Claim that nobody finished would have lacked besides."""
    if isinstance(tally.bounds, CallboardError):
        return []
    return [item.message for item in tally.bounds.unmet(_counts(tally.outputs))]


def _counts(outputs: tuple[Output, ...]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for output in outputs:
        counts[output.type] = counts.get(output.type, 0) + 1
    return counts
