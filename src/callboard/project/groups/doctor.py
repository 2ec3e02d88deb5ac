"""`project.doctor`: what is wrong, and the one repair."""

from __future__ import annotations

from callboard.errors import CallboardError
from callboard.project import doctor, names
from callboard.project.access import around_of, read, refuse_plainly, store_of, write
from callboard.project.groups.group import Group, order
from callboard.project.operations import claims
from callboard.project.records import ClaimRepaired, Diagnosis


class Doctor(Group):
    """The doctor of one project."""

    __slots__ = ()

    def check(self) -> Diagnosis:
        """What there is to say about the project; nothing is changed."""
        read(self._key, lambda scope: scope.revision)
        root, around = store_of(self._key).backing.root, around_of(self._key)
        return refuse_plainly(lambda: doctor.diagnose(root, around))

    def expire_claim(
        self,
        claim: str,
        reason: str,
        *,
        expected_revision: int,
        request_id: str | None = None,
    ) -> ClaimRepaired:
        """Mark a lapsed claim as expired. Raises `not_found`, `claim_not_expired`.

        The expected revision and a reason are required; no other claim and no session is touched.
        """
        wanted = names.name(claim, "claim")
        why = names.text(reason, "reason", limit=1000)
        if expected_revision is None:
            raise CallboardError(
                "value_invalid",
                "no expected revision is given",
                "look at the claim, and give the revision it was seen at",
                {"field": "expected revision"},
            )
        return write(
            self._key,
            order(
                "doctor repair expire-claim",
                {"claim": wanted, "reason": why},
                expected_revision,
                request_id,
            ),
            ClaimRepaired,
            lambda unit: claims.repair(unit, wanted, why),
        )
