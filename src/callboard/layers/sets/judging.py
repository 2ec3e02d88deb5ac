"""What the files of a workflow set must agree on: the names of roles, and that a layer can begin.

It judges records that are sound in themselves, and adds every fault with its place; it reads no
file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

import msgspec

from callboard.layers.choosing import choose
from callboard.layers.records.base import Name, Record, Text
from callboard.layers.records.state import State
from callboard.layers.records.workflow import Caps, RoleConfig, WorkflowContract
from callboard.layers.yaml_records.faults import Faults, near, pointer, quoted
from callboard.layers.yaml_records.tree import Node

LISTS = (
    "goal_control_roles",
    "blocker_roles",
    "request_roles",
    "acceptance_roles",
    "evaluation_roles",
)


class SetContract(Record, frozen=True, kw_only=True):
    """`contract.yaml`: the roles of a set in their order, what each may do, and what ends it."""

    description: Text
    roles: Annotated[tuple[Name, ...], msgspec.Meta(min_length=1, max_length=50)]
    goal_control_roles: Annotated[tuple[Name, ...], msgspec.Meta(min_length=1)]
    blocker_roles: tuple[Name, ...] = ()
    request_roles: tuple[Name, ...] = ()
    acceptance_roles: tuple[Name, ...] = ()
    evaluation_roles: Annotated[tuple[Name, ...], msgspec.Meta(min_length=1)]
    caps: Caps = Caps()
    recovery: Literal["drain", "reap"] = "drain"


@dataclass(frozen=True, slots=True)
class Sound:
    """A record with the file and the tree that it was read from."""

    file: str
    tree: Node

    def fault(self, faults: Faults, steps: tuple[str | int, ...], message: str) -> None:
        """Add a fault of the value at `steps`."""
        node = self.tree.at(*steps)
        faults.add(self.file, node.line, node.column, pointer(*steps), message)


def judge_names(contract: SetContract, source: Sound, faults: Faults) -> None:
    """Each role stands once, and the other lists name roles only, each once."""
    _once(contract.roles, "roles", source, faults)
    for field in LISTS:
        names = getattr(contract, field)
        _once(names, field, source, faults)
        for index, name in enumerate(names):
            if name not in contract.roles:
                problem = f"there is no role {quoted(name)}{near(name, contract.roles)}"
                source.fault(faults, (field, index), problem)


def _once(names: Iterable[str], field: str, source: Sound, faults: Faults) -> None:
    first: dict[str, int] = {}
    for index, name in enumerate(names):
        before = first.setdefault(name, index)
        if before != index:
            line = source.tree.at(field, before).line
            problem = f"{quoted(name)} stands twice, first in line {line}"
            source.fault(faults, (field, index), problem)


def judge_config(
    role: str, config: RoleConfig, roles: Iterable[str], source: Sound, faults: Faults
) -> None:
    """What a role waits for is another role of the set, and can come about."""
    after = config.run_after_successes
    awaited: list[tuple[tuple[str, ...], str | None]] = [
        (("must_follow",), config.must_follow),
        (("run_after_successes", "role"), None if after is None else after.role),
    ]
    for steps, name in awaited:
        if name is None:
            continue
        if name not in roles:
            source.fault(faults, steps, f"there is no role {quoted(name)}{near(name, roles)}")
        elif name == role:
            source.fault(faults, steps, f"{role} waits for itself, and so would never run")
        if config.run_on_start:
            problem = f"run_on_start says that {role} may be the first, and this that it cannot be"
            source.fault(faults, steps, problem)
    if config.run_on_start and config.not_before_iteration > 1:
        problem = f"run_on_start says that {role} may be the first, and this that it cannot be"
        source.fault(faults, ("not_before_iteration",), problem)


def judge_folders(
    kinds: Mapping[str, str], roles: Iterable[str], place: str, faults: Faults
) -> None:
    """Whatever lies beside the roles' folders and is no plain file belongs to a role.

    `kinds` says of each name in the folder `place` what it is.
    """
    known = {role.casefold(): role for role in roles}
    for name, kind in sorted(kinds.items()):
        if kind == "file" or name.startswith(".") or known.get(name) == name:
            continue
        twin = known.get(name.casefold())
        why = (
            f"is not the folder of the role {twin}: its name is in lower case"
            if twin
            else f"belongs to no role that contract.yaml names{near(name, known.values())}"
        )
        faults.add(f"{place}/{name}", 1, 1, "", why)


def judge_start(contract: WorkflowContract, source: Sound, faults: Faults) -> None:
    """Some role can go first; else nothing would ever run."""
    fresh = State(
        schema_version=1, session_id="none", revision=1, status="running", changed_at_ms=0
    )
    choice = choose(contract, fresh)
    if choice.role is None:
        reasons = "; ".join(f"{one.role}: {one.reason}" for one in choice.verdicts)
        source.fault(faults, ("roles",), f"no role could be the first ({reasons})")
