"""Whether what a Work promises could be delivered at all, asked before it is admitted.

Source: specification 1, §§7.2, 7.15; wire-v3 §9. Work that no worker of its profile could deliver
would only use up its attempts; it is refused while nothing is written yet.
"""

from __future__ import annotations

from collections.abc import Mapping

from callboard.board.outputs.bounds import Bounds
from callboard.board.outputs.descriptor import BRANCHES, patch_branch
from callboard.board.outputs.resources import SCOPE_FIELD, parse_scope
from callboard.board.protocol.contract import contract_of
from callboard.board.protocol.operations import Work
from callboard.board.storage.repository import Repository
from callboard.errors import CallboardError


def check_deliverable(
    repository: Repository, work: Work, recipe: Mapping[str, tuple[int, int]]
) -> None:
    """Refuse a Work whose contract the recipe's outputs, `{type: (min, max)}`, cannot meet.

    Raises `output_not_declared`, `output_limit`, `verifier_unknown`, `scope_invalid`,
    `contract_invalid`, or `ref_conflict` where a branch of the repository stands in the way of
    patches.
    """
    if SCOPE_FIELD in work.payload:
        parse_scope(work.payload[SCOPE_FIELD])
    contract = contract_of(work.payload)
    if contract is None:
        return
    bounds = Bounds(work.payload, recipe)
    for rule in contract.outputs:
        if rule.max > 0:
            bounds.check(rule.type, max(rule.min, 1))
    for unmet in bounds.unmet({rule.type: rule.max for rule in contract.outputs}):
        raise CallboardError(
            unmet.code,
            f"node {work.node_key!r} could never be delivered: {unmet.message}",
            "change the contract, or the recipe's outputs",
            {"node_key": work.node_key},
        )
    if contract.rule("patch") is not None:
        _check_branch(repository, work)


def _check_branch(repository: Repository, work: Work) -> None:
    branch = patch_branch(work.work_id, 1)
    rival = repository.ref_in_the_way(BRANCHES + branch)
    if rival is not None:
        raise CallboardError(
            "ref_conflict",
            f"patches become branches like {branch!r}, and {rival!r} stands in their way",
            "rename that branch",
            {"ref": BRANCHES + branch, "found": rival},
        )
