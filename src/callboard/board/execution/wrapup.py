"""The wrap-up of one run: each Claim for itself, from staged wishes to a Result.

Source: specification 1, §§7.14, 7.15; wire-v3 §10. Outputs are prepared before a Claim's
Completion, published after it, read back from Git, and only then stand in a Result. One Claim's
trouble never takes another with it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from callboard import telemetry
from callboard.board.execution import workspace
from callboard.board.execution.carriage import Carriage
from callboard.board.execution.desk import ControlDesk
from callboard.board.execution.hosts.local.run_folder import RunFolder
from callboard.board.execution.intent_checks import INTENT_CHECKS
from callboard.board.execution.outlast import PASSING, outlast
from callboard.board.execution.remembering import memory_of
from callboard.board.execution.settle import Settler
from callboard.board.execution.site import Site
from callboard.board.execution.snapshot import diff_to_commit
from callboard.board.execution.transfer import fetch_into
from callboard.board.outputs.authority import EffectContext, context_of
from callboard.board.outputs.claims import ClaimOutputs, PatchCommit, Refusal
from callboard.board.outputs.closed import ClosedClaims
from callboard.board.outputs.effects import prepare_claim
from callboard.board.outputs.fault_document import fault_document
from callboard.board.outputs.intake import take
from callboard.board.outputs.messages import Terms
from callboard.board.projection.entities import DispatchState
from callboard.board.publishing import lifecycle
from callboard.board.storage.remote_refusals import UNPUBLISHED
from callboard.errors import CallboardError
from callboard.git import Git

_UNJUDGED = UNPUBLISHED | PASSING


class WrapUp:
    """Ends the Claims of one run whose commands are over.

    `closed` are the Claims that had ended before the run began: what was staged for them is only
    reported. `keep` is given the report of what was staged, before a Claim's end is published.
    `on_wait` hears what keeps the board from being written, which is waited out: the work is done.
    """

    def __init__(
        self,
        site: Site,
        git: Git,
        state: DispatchState,
        run_id: str,
        folder: RunFolder,
        terms: Terms,
        *,
        closed: ClosedClaims,
        keep: Callable[[dict[str, object]], None],
        on_wait: Callable[[CallboardError], None],
    ) -> None:
        self._site = site
        self._git = git
        self._assignment = state.assignment
        self._profile = state.profile
        self._run_id = run_id
        self._folder = folder
        self._terms = terms
        self._closed = closed
        self._keep = keep
        self._on_wait = on_wait
        self._settler = Settler(site)

    def finish_claims(self) -> dict[str, object]:
        """Finish every Claim of the assignment; answers the report of what was staged."""
        intake = take(
            self._folder.staging,
            self._assignment,
            self._terms,
            make_patch=self._make_patch,
            checks=INTENT_CHECKS,
            closed=self._closed,
        )
        report = intake.document()
        self._keep(report)
        claims = report["claims"] = [claim.document() for claim in intake.claims]

        def ended(place: int) -> dict[str, object]:
            if self._closed.of(intake.claims[place].handle) is not None:
                return {**claims[place], "published": "closed"}
            claim = self._prepared(intake.claims[place])
            if claim.outcome != intake.claims[place].outcome:
                claims[place] = claim.document()
                self._keep(report)
            return self._finish(claim)

        for place in range(len(claims)):
            # As a whole: where outputs cannot be stored now, as nothing can, and the Claim cannot
            # be cancelled for it either, it is completed once both can be written.
            claims[place] = outlast(partial(ended, place), self._on_wait)
        return report

    def _prepared(self, claim: ClaimOutputs) -> ClaimOutputs:
        if claim.outcome != "completed":
            return claim
        prepared = prepare_claim(self._context(claim.handle), claim)
        if prepared.outcome != "completed":
            return prepared
        try:
            Carriage(self._site).send_note(claim.claim_id)
        except CallboardError as error:
            refusal = Refusal.of_host(error, claim.handle, claim.handle)
            refused = replace(prepared, refusals=(*prepared.refusals, refusal))
            return refused.cancelled("output_failed", f"{error.code}: {error.message}")
        return prepared

    def _finish(self, claim: ClaimOutputs) -> dict[str, object]:
        actor = self._site.run_actor(
            "worker",
            workflow=self._profile.workflow,
            run_id=self._run_id,
            dispatch_id=self._assignment.dispatch_id,
            claim_handle=claim.handle,
        )
        document = claim.document()
        try:
            self._site.publisher.publish(
                lifecycle.finish(self._assignment.dispatch_id, claim.handle, claim.outcome, actor)
            )
        except CallboardError as error:
            if error.code in _UNJUDGED:
                raise
            # The Claim ended otherwise meanwhile (its Work was cancelled, say): no effects.
            return {**document, "published": error.code}
        if claim.outcome != "completed":
            return {**document, "published": "cancelled"}
        with telemetry.span(
            "work-queue.run.verify",
            dispatch_id=self._assignment.dispatch_id,
            claim_refs=[claim.claim_id],
            work_refs=[claim.work_id],
            handle=claim.handle,
        ):
            return {**document, **self._settle(claim.work_id)}

    def _settle(self, work_id: str) -> dict[str, object]:
        """Publish and verify what a completed Claim delivers; trouble is left to reconciliation,
        since the Claims after this one still have to be finished."""
        try:
            settled = self._settler.settle(work_id)
            telemetry.tell(result=settled)
            trouble = self._settler.trouble(work_id)
        except CallboardError as error:
            telemetry.tell(result=error.code)
            settled, trouble = "pending", error
        told = {} if trouble is None else {"trouble": fault_document(trouble)}
        return {"published": settled, **told}

    def _context(self, handle: str) -> EffectContext:
        projection = self._site.publisher.refresh().projection
        state = projection.dispatches[self._assignment.dispatch_id]
        member = next(one for one in self._assignment.claims if one.handle == handle)
        return context_of(
            projection,
            self._site.repository,
            dispatch_id=self._assignment.dispatch_id,
            handle=handle,
            run_id=self._run_id,
            desk=ControlDesk(self._site, self._assignment.dispatch_id, handle, self._run_id),
            memory=memory_of(self._site, state, member.work),
        )

    def _patch_message(self) -> str:
        """The nodes that the run was for, for a person; their ids below."""
        projection = self._site.publisher.known().projection
        states = [projection.works[one.work_id] for one in self._assignment.claims]
        title = ", ".join(
            f"{state.work.node_key} (graph {state.work.graph_id[:40]}), attempt {state.attempts}"
            for state in states
        )
        ids = "".join(f"Work: {state.work.work_id}\n" for state in states)
        return f"{title}\n\n{ids}Dispatch: {self._assignment.dispatch_id}\n"

    def _make_patch(self, paths: tuple[str, ...]) -> PatchCommit | None:
        """The work tree, or what of it is at `paths`, as a commit in the user's object store, under
        no ref yet."""
        source = self._site.repository.common_dir
        clone = workspace.Workspace(self._folder.work, source, self._profile.ref)
        trusted = self._folder.scratch / "patch.git"
        snapshot = diff_to_commit(
            self._git,
            clone,
            trusted=trusted,
            message=self._patch_message(),
            at_ms=self._site.clock.now_ms(),
            paths=paths,
        )
        if snapshot is None:
            return None
        try:
            fetch_into(self._git, source, snapshot)
        finally:
            workspace.remove_tree(trusted)
        return PatchCommit(snapshot.commit, snapshot.tree, snapshot.parent)
