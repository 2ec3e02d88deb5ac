"""Work branches: histories side by side. They have nothing to do with Git's branches."""

from __future__ import annotations

import msgspec

from callboard.errors import CallboardError
from callboard.project import names, queries, schema
from callboard.project.answers import BranchChanged, BranchList
from callboard.project.operations import lookup
from callboard.project.records import MAIN, Branch
from callboard.project.unit import Scope, Unit


def create(unit: Unit, name: str) -> BranchChanged:
    """A new open branch; a name that would be confused with an earlier one is refused."""
    first = queries.branch_twin(unit, names.twin(name))
    if first is not None:
        what = "is there already" if first == name else f"would be confused with {first!r}"
        raise CallboardError(
            "name_taken",
            f"the branch {names.shown(name)} {what}",
            "choose another name",
            {"name": name, "first": first},
        )
    branch = Branch(
        name=name, state="open", selected=False, created_at_ms=unit.now_ms, closed_at_ms=None
    )
    write(unit, branch)
    return _changed(unit, branch, "branch.created", {})


def write(unit: Unit, branch: Branch) -> None:
    """Insert a branch."""
    unit.add(
        schema.branches,
        name=branch.name,
        twin=names.twin(branch.name),
        state=branch.state,
        position=queries.next_position(unit, schema.branches),
        created_at_ms=branch.created_at_ms,
        closed_at_ms=branch.closed_at_ms,
    )


def select(unit: Unit, name: str) -> BranchChanged:
    """Let `name` be meant where no branch is named; nothing that exists is moved."""
    branch = lookup.open_branch(unit, name)
    before = queries.selected_branch(unit)
    unit.change(schema.selections, {"person": unit.person}, branch=branch.name)
    selected = msgspec.structs.replace(branch, selected=True)
    return _changed(unit, selected, "branch.selected", {"before": before})


def close(unit: Unit, name: str) -> BranchChanged:
    """Close a branch for new sessions and observations; it stays readable."""
    if name == MAIN:
        raise CallboardError(
            "branch_protected",
            "the main branch is always open",
            "close the branches that were created",
        )
    branch = lookup.open_branch(unit, name)
    unit.change(schema.branches, {"name": name}, state="closed", closed_at_ms=unit.now_ms)
    closed = msgspec.structs.replace(branch, state="closed", closed_at_ms=unit.now_ms)
    remarks: tuple[str, ...] = ()
    if closed.selected:
        remark = (
            "it is still the selected one, so nothing can be begun where no branch is named: "
            "`callboard project branch select main`"
        )
        remarks = (remark,)
    return _changed(unit, closed, "branch.closed", {}, remarks)


def listing(scope: Scope) -> BranchList:
    """All branches."""
    return BranchList(project_revision=scope.revision, branches=tuple(queries.branches(scope)))


def _changed(
    unit: Unit,
    branch: Branch,
    type: str,
    more: dict[str, object],
    remarks: tuple[str, ...] = (),
) -> BranchChanged:
    event = unit.event(type, {"branch": branch.name, **more}, branch=branch.name)
    return BranchChanged(
        project_revision=unit.revision, branch=branch, event=event, remarks=remarks
    )
