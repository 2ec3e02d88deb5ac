"""`project.doctor`: what is wrong, and the repairs, which are for a person to order."""

from __future__ import annotations

from callboard.errors import CallboardError
from callboard.project import doctor, names
from callboard.project.access import around_of, read, refuse_plainly, store_of, write
from callboard.project.answers import ClaimRepaired, ClockRepaired, Diagnosis
from callboard.project.groups.group import Group, order
from callboard.project.operations import claims, clock

MAX_REASON = 1000


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
        why = names.text(reason, "reason", limit=MAX_REASON)
        return write(
            self._key,
            order(
                "doctor repair expire-claim",
                {"claim": wanted, "reason": why},
                _needed(expected_revision, "the claim"),
                request_id,
            ),
            ClaimRepaired,
            lambda unit: claims.repair(unit, wanted, why),
        )

    def correct_clock(
        self,
        reason: str,
        *,
        expected_revision: int,
        request_id: str | None = None,
    ) -> ClockRepaired:
        """Let the project's time go on from the database's clock, where it is ahead of that.

        For a machine whose clock was far ahead once: until it has caught up, no claim lapses. Live
        claims keep the time they have left, lapsed ones stay so. The expected revision and a reason
        are required. Raises `clock_not_behind`.
        """
        why = names.text(reason, "reason", limit=MAX_REASON)
        return write(
            self._key,
            order(
                "doctor repair clock",
                {"reason": why},
                _needed(expected_revision, "what the doctor says"),
                request_id,
            ),
            ClockRepaired,
            lambda unit: clock.repair(unit, why),
        )


def _needed(revision: int | None, seen: str) -> int:
    """The revision that a repair needs; whether it is one is checked with the order."""
    if revision is None:
        raise CallboardError(
            "value_invalid",
            "no expected revision is given",
            f"look at {seen}, and give the revision it was seen at",
            {"field": "expected revision"},
        )
    return revision
