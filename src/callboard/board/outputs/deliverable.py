"""Whether what a Work promises could be delivered at all, asked before it is admitted.

Source: specification 1, §§7.2, 7.15; wire-v3 §9. Work that no worker of its profile could deliver
would only use up its attempts; it is refused while nothing is written yet.
"""

from __future__ import annotations

from collections.abc import Mapping

from callboard.board.outputs.bounds import Bounds
from callboard.board.outputs.claims import (
    ArtifactOutput,
    BatchOutput,
    BodyOutput,
    NoopOutput,
    Output,
    PatchOutput,
)
from callboard.board.outputs.descriptor import (
    ARTIFACTS,
    BRANCHES,
    CONTROLS,
    NOTES,
    OWN,
    PREPARED,
    check_size,
    memory_branch,
    patch_branch,
)
from callboard.board.outputs.estimates import estimate
from callboard.board.outputs.handlers.memory import check_base
from callboard.board.outputs.judgement import check_budget
from callboard.board.outputs.messages import MAX_RESULT_BYTES, Terms
from callboard.board.outputs.own_call import check_installed
from callboard.board.outputs.resources import SCOPE_FIELD, parse_scope
from callboard.board.protocol.commit import AssignedClaim
from callboard.board.protocol.contract import contract_of
from callboard.board.protocol.memory_rules import MemoryRules
from callboard.board.protocol.operations import Work
from callboard.board.protocol.output_types import is_own_type
from callboard.board.storage.repository import Repository
from callboard.errors import CallboardError

_CLAIM_ID = f"c_{'0' * 64}_1"
_DIGEST = "0" * 64
_LACKING = frozenset(
    {
        "dispatch_budget_exceeded", "output_limit", "output_missing", "output_not_declared",
        "result_limit",
    }
)  # fmt: skip
"""What another contract, or another recipe, would put right."""


def check_deliverable(
    repository: Repository,
    work: Work,
    worker: str,
    recipe: Mapping[str, tuple[int, int]],
    *,
    memory: MemoryRules | None = None,
    began_at: str = "",
    max_dispatches: int = 256,
) -> None:
    """Refuse a Work whose contract the outputs of `worker`'s recipe, `{type: (min, max)}`, cannot
    meet; the refusal names the node.

    `memory` is what that recipe lets it remember, `began_at` the commit its runs begin at,
    `max_dispatches` what a run may ask for. Raises `output_not_declared`, `output_limit`,
    `output_missing`, `result_limit`, `dispatch_budget_exceeded`, `verifier_unknown`,
    `scope_invalid`, `contract_invalid`, `handler_missing`, `memory_base_missing` or `path_taken`
    where no memory could stand, or `ref_conflict` where a branch or another ref of the repository
    stands in the way of its outputs.
    """
    try:
        _check(repository, work, recipe)
        _check_least(repository, work, recipe, max_dispatches)
        _check_memory(repository, work, memory, began_at)
    except CallboardError as error:
        details = {**error.details, "node_key": work.node_key, "work_id": work.work_id}
        message, hint = f"node {work.node_key!r}: {error.message}", error.hint
        if error.code in _LACKING:
            possible = sorted(recipe)
            details |= {"worker": worker, "possible": possible}
            message = (
                f"node {work.node_key!r} could never be delivered by worker {worker!r}: "
                f"{error.message}"
            )
            hint = (
                f"worker {worker!r} can deliver {' and '.join(possible) or 'nothing'}: change the "
                "contract, or the recipe's outputs"
            )
        raise CallboardError(error.code, message, hint, details) from error


def _check(repository: Repository, work: Work, recipe: Mapping[str, tuple[int, int]]) -> None:
    if SCOPE_FIELD in work.payload:
        parse_scope(work.payload[SCOPE_FIELD])
    contract = contract_of(work.payload)
    if contract is None:
        return
    bounds = Bounds(work.payload, recipe)
    for rule in contract.outputs:
        if rule.max > 0:
            bounds.check(rule.type, max(rule.min, 1))
            if is_own_type(rule.type):
                check_installed(rule.type)
                _check_folder(repository, OWN, "outputs of own types are kept")
    for unmet in bounds.unmet({rule.type: rule.max for rule in contract.outputs}):
        raise CallboardError(
            unmet.code,
            unmet.message,
            "install the package that has it among its callboard.verifiers, or change the contract",
        )
    if contract.rule("patch") is not None:
        _check_branch(repository, patch_branch(work.work_id, 1), "patches")
    kept = (
        ("artifact", ARTIFACTS, "artifacts are kept"),
        ("note", NOTES, "notes are kept"),
        ("submit", CONTROLS, "what becomes of plans is noted"),
        ("dispatch_next", CONTROLS, "what becomes of requests is noted"),
    )
    for name, folder, what in kept:
        if contract.rule(name) is not None:
            _check_folder(repository, folder, what)
    if contract.outputs:
        _check_folder(repository, PREPARED, "what a run delivers is noted")


def _check_least(
    repository: Repository,
    work: Work,
    recipe: Mapping[str, tuple[int, int]],
    max_dispatches: int,
) -> None:
    """Refuse what no Claim could ever promise: a least number of outputs that no Result can
    describe, or more launches than a run may ask for."""
    contract = contract_of(work.payload)
    if contract is None:
        return
    least = {rule.type: rule.min for rule in contract.outputs}
    for name in least:
        least[name] = max(least[name], recipe.get(name, (0, 0))[0])
    check_budget(0, least.get("dispatch_next", 0), max_dispatches)
    member = AssignedClaim(
        handle="h1", claim_id=_CLAIM_ID, work_id=work.work_id, work=work.payload, result_refs=[]
    )
    terms = Terms.of({}, object_format=repository.object_format)
    check_size(
        [
            estimate(member, work.pool, _smallest(name, number), terms)
            for name, count in least.items()
            for number in range(1, count + 1)
        ],
        MAX_RESULT_BYTES,
    )


def _smallest(output_type: str, number: int) -> Output:
    """An output of a type as short to describe as one can be."""
    intent_id = f"i_{number}"
    if output_type == "artifact":
        return ArtifactOutput(intent_id, str(number), _DIGEST, 0, None)
    if output_type == "patch":
        return PatchOutput(intent_id)
    if output_type == "dispatch_next":
        return BatchOutput(intent_id, number, 1, 1)
    if output_type == "noop":
        return NoopOutput(intent_id, "-")
    return BodyOutput(intent_id, output_type, number, _DIGEST, 1, None)


def _check_memory(
    repository: Repository, work: Work, memory: MemoryRules | None, began_at: str
) -> None:
    contract = contract_of(work.payload)
    if memory is None or contract is None or contract.rule("memory") is None:
        return
    check_base(repository, memory, began_at)
    _check_branch(repository, memory_branch(memory.branch, work.work_id, 1), "memories")


def _check_branch(repository: Repository, branch: str, what: str) -> None:
    rival = repository.ref_in_the_way(BRANCHES + branch)
    if rival is not None:
        raise CallboardError(
            "ref_conflict",
            f"{what} become branches like {branch!r}, and {rival!r} stands in their way",
            f"rename that branch: git branch -m {rival.removeprefix(BRANCHES)} NAME",
            {"ref": BRANCHES + branch, "found": rival},
        )


def _check_folder(repository: Repository, folder: str, what: str) -> None:
    """Refuse where no ref could be made in `folder`, whatever its name."""
    # No Claim is there yet to name one; only what stands above it counts.
    rival = repository.ref_in_the_way(f"{folder}any")
    if rival is not None:
        raise CallboardError(
            "ref_conflict",
            f"{what} in refs below {folder!r}, and {rival!r} stands in their way",
            f"leave refs/callboard/ to Callboard: git update-ref -d {rival}",
            {"ref": folder, "found": rival},
        )
