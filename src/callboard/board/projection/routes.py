"""Routes: at which revision a worker profile runs now, and at which one a given Work may.

Source: specification 1, §7.10 (stable obligations, evolving execution); wire-v3 §5. Pure questions
about values; moving a route is the transition's part, and no answer here touches a dispatch that
was granted already.
"""

from __future__ import annotations

from msgspec import UNSET, Struct

from callboard.board.protocol.policy import Profile

UNAVAILABLE = "worker_unavailable"
INCOMPATIBLE = "worker_incompatible"


class Revision(Struct, frozen=True, gc=False):
    """One registered revision of a worker; its profile never changes, its availability may."""

    profile: Profile
    available: bool = True

    @property
    def contract(self) -> str | None:
        """The logical contract it was approved with; None for a profile without one."""
        found = self.profile.logical_contract
        return None if found is UNSET else found


class Route(Struct, frozen=True, gc=False):
    """A worker's registered revisions by ref, and which of them new work runs at.

    The revisions are those of the worker, also of its later routes: they are only ever added to,
    through the projection's journal, so that a deployment costs no copy of them.
    """

    current: str
    revisions: dict[str, Revision]

    @classmethod
    def of(cls, profile: Profile) -> Route:
        """The route of a freshly installed profile."""
        return cls(profile.ref, {profile.ref: Revision(profile)})

    @property
    def is_original(self) -> bool:
        """Whether nothing was deployed since the policy, so that it need not be told apart."""
        return len(self.revisions) == 1 and self.head.available

    @property
    def head(self) -> Revision:
        """The current revision."""
        return self.revisions[self.current]


class Lane(Struct, frozen=True, gc=False, eq=True, order=True):
    """What decides where a Work may run: its worker, the revision it is tied to, its contract.

    `ref` is a pin, or the exact revision of a worker without contract; "" follows the route.
    `contract` is that of the revision it was admitted against; "" for one without.
    """

    profile: str
    ref: str
    contract: str

    @property
    def promise(self) -> tuple[str, str]:
        """The contract, or where there is none the exact revision, that was admitted."""
        return (self.contract, "") if self.contract else ("", self.ref)

    def profile_on(self, route: Route) -> Profile:
        """The profile that this lane runs as, where it may."""
        return route.revisions[self.ref or route.current].profile

    def obstacle(self, route: Route) -> str | None:
        """Why its Work may not run now, `worker_unavailable` or `worker_incompatible`, or None."""
        revision = route.revisions.get(self.ref or route.current)
        if revision is None or not revision.available:
            return UNAVAILABLE
        if not self.ref and (revision.contract or "") != self.contract:
            return INCOMPATIBLE
        return None


def admitted(profile: str, revision: Revision, pin: str | None) -> Lane:
    """The lane of a Work that is admitted now against `revision`, pinned to it or not (§7.10)."""
    contract = revision.contract
    if pin is not None or contract is None:
        return Lane(profile, pin or revision.profile.ref, contract or "")
    return Lane(profile, "", contract)
