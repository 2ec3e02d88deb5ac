"""Replacing a delivery-failed node: first all that can be refused, then the proof, then one commit.

Source: specification 1, §7.15. A request that stands is answered from its record, so that saying it
again runs no verifier. Nobody's word takes the place of a registered verifier's proof.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from callboard.board.execution.carriage import Carriage
from callboard.board.execution.inquiry import inquiry
from callboard.board.execution.remediation import Attestation, Attestor
from callboard.board.execution.routes import Routes
from callboard.board.execution.site import Site
from callboard.board.projection.entities import WorkState
from callboard.board.publishing.intents import Nothing
from callboard.board.publishing.proposal import Proposal
from callboard.board.publishing.publisher import Accepted
from callboard.board.publishing.replacement import (
    Asking,
    Remedy,
    Replace,
    Wish,
    failed_work,
    remedy_of_failure,
)
from callboard.board.publishing.verifier import FOLDER
from callboard.errors import CallboardError


@dataclass(frozen=True, slots=True)
class Replaced:
    """What became of the request; `attestation` where a verifier was run for it."""

    outcome: Accepted | Nothing
    attestation: Attestation | None = None


@dataclass(slots=True)
class Replacer:
    """Replaces nodes of one site's board. `environment` is the outer one, for the verifier."""

    site: Site
    environment: Mapping[str, str]
    head: Proposal
    _routes: Routes = field(init=False)

    def __post_init__(self) -> None:
        bring = Carriage(self.site).bring_commit
        self._routes = Routes(self.site.repository, bring=bring)

    def replace(self, request_id: str, wish: Wish, asking: Asking) -> Replaced:
        """Post the replacement that `wish` describes.

        Raises `replacement_invalid`, `replacement_exists`, `remediation_verifier_required`,
        `remediation_verifier_unknown`, `verifier_invalid`, `remediation_unproven`, or whatever
        refuses a plan.
        """
        publisher = self.site.publisher
        intent = Replace(
            request_id,
            self.site.actor("producer"),
            wish,
            asking,
            None,
            partial(self._routes.check, places=[0]),
        )
        known = publisher.refresh().projection.requests.get(request_id)
        if known is not None:
            return Replaced(publisher.publish(intent))
        publisher.rehearse(intent)
        old = failed_work(publisher.refresh().projection, wish.work_id)
        attestation = self._attested(old, wish, asking)
        remedy = remedy_of_failure(old) if attestation is None else attestation.remedy
        assert remedy is not None, "without a verifier the failure itself is the proof"
        return Replaced(publisher.publish(replace(intent, remedy=remedy)), attestation)

    def _attested(self, old: WorkState, wish: Wish, asking: Asking) -> Attestation | None:
        """The verifier's proof; None where the recorded failure is one already."""
        if asking.verifier is None:
            own = remedy_of_failure(old)
            if own is None:
                raise self._required(old, asking)
            _check_wanted(own, asking)
            return None
        verifier = self.head.verifier(asking.verifier)
        if asking.disposition is not None and asking.disposition not in verifier.dispositions:
            raise CallboardError(
                "remediation_unproven",
                f"verifier {asking.verifier!r} may attest {', '.join(verifier.dispositions)}, "
                f"not {asking.disposition!r}; it was not run",
                "leave --disposition out, or name a verifier that may attest it",
                {"verifier": asking.verifier, "revision": self.head.revision},
            )
        Carriage(self.site).check_pushed(self.head.revision)
        attestor = Attestor(
            self.site, self.environment, asking.verifier, verifier, self.head.revision
        )
        return attestor.ask(inquiry(self.site, old, wish), asking.disposition)

    def _required(self, old: WorkState, asking: Asking) -> CallboardError:
        names = self.head.verifier_names()
        claimed = (
            ""
            if asking.disposition is None
            else f"; that it is {asking.disposition} was typed, which proves nothing"
        )
        hint = (
            f"name one that HEAD has with --verifier: {', '.join(names[:20])}"
            if names
            else f"register one: commit a file {FOLDER}NAME.toml with command and dispositions, "
            "then name it with --verifier NAME"
        )
        return CallboardError(
            "remediation_verifier_required",
            f"node {old.work.node_key!r} failed with {old.disposition} effects, so its replacement "
            f"needs the proof of a registered remediation verifier{claimed}",
            hint,
            {
                "work_id": old.work.work_id,
                "disposition": old.disposition,
                "reason": old.failure_reason,
                "registered": names,
            },
        )


def _check_wanted(own: Remedy, asking: Asking) -> None:
    if asking.disposition not in (None, own.disposition):
        raise CallboardError(
            "remediation_unproven",
            f"the recorded failure proves {own.disposition!r}, as its effects never began, not "
            f"{asking.disposition!r}",
            "leave --disposition out, or name a verifier that attests it",
        )
