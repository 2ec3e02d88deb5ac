"""`project.branches`: make, choose and close work branches."""

from __future__ import annotations

from callboard.project import names
from callboard.project.access import read, write
from callboard.project.answers import BranchChanged, BranchList
from callboard.project.groups.group import Group, order
from callboard.project.operations import branches


class Branches(Group):
    """Work branches of one project."""

    __slots__ = ()

    def create(
        self,
        name: str,
        *,
        expected_revision: int | None = None,
        request_id: str | None = None,
    ) -> BranchChanged:
        """A new open branch. Raises `name_taken` (details: first), also for a twin."""
        wanted = names.name(name, "branch")
        return write(
            self._key,
            order("branch create", {"name": wanted}, expected_revision, request_id),
            BranchChanged,
            lambda unit: branches.create(unit, wanted),
        )

    def select(
        self,
        name: str,
        *,
        expected_revision: int | None = None,
        request_id: str | None = None,
    ) -> BranchChanged:
        """Mean `name` where no branch is named. Raises `not_found`, `branch_closed`."""
        wanted = names.name(name, "branch")
        return write(
            self._key,
            order("branch select", {"name": wanted}, expected_revision, request_id),
            BranchChanged,
            lambda unit: branches.select(unit, wanted),
        )

    def close(
        self,
        name: str,
        *,
        expected_revision: int | None = None,
        request_id: str | None = None,
    ) -> BranchChanged:
        """Close a branch. Raises `not_found`, `branch_closed`, `branch_protected`."""
        wanted = names.name(name, "branch")
        return write(
            self._key,
            order("branch close", {"name": wanted}, expected_revision, request_id),
            BranchChanged,
            lambda unit: branches.close(unit, wanted),
        )

    def list(self) -> BranchList:
        """All branches, in the order of their making."""
        return read(self._key, branches.listing)
