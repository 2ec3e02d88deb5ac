"""What the Claims of a worker may remember, as the recipe says that the worker is pinned at.

Source: specification 1, §9.1. The rules are read anew from the pinned commit each time, also by
whoever finishes what another process began: nothing that a run left behind can change them.
"""

from __future__ import annotations

from callboard.board.execution.carriage import Carriage
from callboard.board.execution.site import Site
from callboard.board.projection.entities import DispatchState
from callboard.board.protocol.contract import contract_of
from callboard.board.protocol.memory_rules import MemoryRules
from callboard.board.protocol.operations import Payload
from callboard.board.publishing.recipe import MAX_RECIPE_BYTES, parse_recipe
from callboard.errors import CallboardError

MEMORY = "memory"
# The recipe is not to be had, or none of ours, whoever looks.
_WITHOUT = frozenset(
    {
        "contract_invalid", "file_not_regular", "object_corrupt", "object_missing",
        "object_wrong_kind", "recipe_invalid", "resource_limit",
    }
)  # fmt: skip


def memory_of(site: Site, state: DispatchState, payload: Payload) -> MemoryRules | None:
    """The rules for a Work of this group with that payload, its base brought here if need be; None
    where its contract has no memory, or its recipe is not to be had."""
    profile = state.profile
    try:
        contract = contract_of(payload)
        if contract is None or contract.rule(MEMORY) is None:
            return None
        carriage = Carriage(site)
        carriage.bring_commit(profile.ref)
        data = site.repository.read_file(profile.ref, profile.workflow, MAX_RECIPE_BYTES)
        if data is None:
            return None
        rules = parse_recipe(data, name=state.assignment.worker_profile).memory
    except CallboardError as error:
        if error.code not in _WITHOUT:
            raise
        return None
    if rules is not None and rules.base is not None:
        carriage.bring_commit(rules.base)
    return rules
