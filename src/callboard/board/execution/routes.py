"""Whether what is posted could be run and delivered here, asked before it is admitted.

Every node at fault is named in one refusal. A recipe is that of the commit at which the Work
would run, never a newer one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from msgspec import UNSET

from callboard.board.outputs.deliverable import check_deliverable
from callboard.board.protocol.operations import Work
from callboard.board.protocol.policy import Profile
from callboard.board.publishing.intents import RouteOf
from callboard.board.publishing.recipe import MAX_RECIPE_BYTES, Recipe, parse_recipe
from callboard.board.storage.repository import Repository
from callboard.errors import CallboardError
from callboard.validate import MAX_FAULTS


@dataclass(slots=True)
class Routes:
    """Judges the new nodes of one plan. While it is `lenient` it keeps the refusals for `close`,
    so that all parts of a plan are judged before one of them is refused.

    `bring` is asked once for a commit that the repository lacks, and tells whether it came.
    """

    repository: Repository
    lenient: bool = False
    bring: Callable[[str], bool] | None = None
    _refusals: list[tuple[int, CallboardError]] = field(default_factory=list)

    def check(self, route_of: RouteOf, fresh: Mapping[int, Work], places: Sequence[int]) -> None:
        """Refuse Work whose recipe is not there, or could not deliver it.

        `fresh` is Work by its place in a request, `places` that of each node in the plan. Raises
        `worker_unavailable` or what `check_deliverable` raises, with all `faults` in the details.
        """
        recipes = self._recipes(route_of, list(fresh.values()))
        for at, work in fresh.items():
            name = work.worker_profile
            recipe, ref = recipes[work.pool, name, _pin(work)]
            declared = {rule.type: (rule.min, rule.max) for rule in recipe.outputs}
            if recipe.memory is not None and recipe.memory.base and self.bring is not None:
                self.bring(recipe.memory.base)
            try:
                check_deliverable(
                    self.repository,
                    work,
                    name,
                    declared,
                    memory=recipe.memory,
                    began_at=ref,
                    max_dispatches=recipe.max_dispatches,
                )
            except CallboardError as error:
                self._refusals.append((places[at], error))
        if not self.lenient:
            self.close()

    def close(self) -> None:
        """Refuse with everything found up to now, if anything was."""
        self.lenient = False
        refusals = sorted(self._refusals, key=lambda one: one[0])
        self._refusals = []
        if not refusals:
            return
        first = refusals[0][1]
        if len(refusals) == 1:
            pointer = {"pointer": _pointer(*refusals[0])}
            raise CallboardError(first.code, first.message, first.hint, first.details | pointer)
        faults = [
            {"pointer": _pointer(at, error), "code": error.code, "message": error.message}
            for at, error in refusals[:MAX_FAULTS]
        ]
        raise CallboardError(
            first.code,
            f"{first.message} (and {len(refusals) - 1} more)",
            first.hint,
            {**first.details, "count": len(refusals), "faults": faults},
        )

    def _recipes(
        self, route_of: RouteOf, works: list[Work]
    ) -> dict[tuple[str, str, str], tuple[Recipe, str]]:
        """Each with the commit it is of, by pool, worker and pin; a pin that the board does not
        know is the board's to refuse."""
        recipes: dict[tuple[str, str, str], tuple[Recipe, str]] = {}
        asked = {(work.pool, work.worker_profile, _pin(work)) for work in works}
        for pool_name, profile_name, pin in sorted(asked):
            route = route_of(pool_name, profile_name)
            profile = route.revisions.get(pin, route.head).profile
            data = self._pinned(profile)
            if data is None:
                raise CallboardError(
                    "worker_unavailable",
                    f"profile {profile_name!r} pins {profile.workflow} at {profile.ref[:12]}, "
                    "which this repository does not have",
                    "fetch that commit, or choose another profile",
                    {"pool": pool_name, "profile": profile_name, "ref": profile.ref},
                )
            recipe = parse_recipe(data, name=profile_name)
            recipes[pool_name, profile_name, pin] = recipe, profile.ref
        return recipes

    def _pinned(self, profile: Profile) -> bytes | None:
        if self.bring is not None and not self.bring(profile.ref):
            return None
        try:
            return self.repository.read_file(profile.ref, profile.workflow, MAX_RECIPE_BYTES)
        except CallboardError as error:
            if error.code != "object_missing":
                raise
            return None


def _pin(work: Work) -> str:
    return "" if work.execution_ref is UNSET else work.execution_ref


def _pointer(place: int, error: CallboardError) -> str:
    name = "payload/resource_scope" if error.code == "scope_invalid" else "contract"
    return f"/nodes/{place}/{name}"
