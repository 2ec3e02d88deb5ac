"""What the files of a workflow set must agree on: the names of roles, and that a layer can begin.

It adds every fault with its place, also in a file whose record has faults of its own, and reads
no file.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

import msgspec

from callboard.layers.choosing import choose
from callboard.layers.records.base import Name, Record, Text
from callboard.layers.records.state import State
from callboard.layers.records.workflow import PLACEHOLDERS, Caps, WorkflowContract
from callboard.layers.yaml_records.faults import Faults, near, nearest, pointer, quoted
from callboard.layers.yaml_records.tree import Node
from callboard.visible import visible

LISTS = (
    "goal_control_roles",
    "blocker_roles",
    "request_roles",
    "acceptance_roles",
    "evaluation_roles",
)
_BRACED = re.compile(r"\{([A-Za-z_-]{1,40})\}")
AWAITED = (("must_follow",), ("run_after_successes", "role"))


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
class Source:
    """The tree of a file of the set; the record that it should be may have faults."""

    file: str
    tree: Node

    def fault(self, faults: Faults, steps: tuple[str | int, ...], message: str) -> None:
        """Add a fault of the value at `steps`."""
        node = self.tree.at(*steps)
        faults.add(self.file, node.line, node.column, pointer(*steps), message)

    def value(self, *steps: str) -> Node | None:
        """What stands at `steps`, if something does."""
        node: Node | None = self.tree
        for step in steps:
            _, node = node.fields.get(step, (None, None)) if node is not None else (None, None)
        return node

    def text(self, *steps: str) -> str | None:
        """The text at `steps`, if one is there."""
        node = self.value(*steps)
        return node.scalar if node is not None and node.kind == "text" else None

    def names(self, field: str) -> dict[int, str]:
        """The texts in a list, by their place in it."""
        node = self.value(field)
        entries = [] if node is None else node.entries
        return {at: one.scalar for at, one in enumerate(entries) if one.kind == "text"}


def judge_names(source: Source, faults: Faults) -> None:
    """Each role stands once, and the other lists name roles only, each once."""
    roles = set(source.names("roles").values())
    _once("roles", source, faults)
    for field in LISTS:
        _once(field, source, faults)
        for index, name in source.names(field).items():
            if name not in roles:
                problem = f"there is no role {quoted(name)}{near(name, roles)}"
                source.fault(faults, (field, index), problem)


def _once(field: str, source: Source, faults: Faults) -> None:
    first: dict[str, int] = {}
    for index, name in source.names(field).items():
        before = first.setdefault(name, index)
        if before != index:
            line = source.tree.at(field, before).line
            problem = f"{quoted(name)} stands twice, first in line {line}"
            source.fault(faults, (field, index), problem)


def judge_config(role: str, roles: Collection[str], source: Source, faults: Faults) -> None:
    """What a role waits for is another role of the set, and can come about."""
    node = source.value("run_on_start")
    starts = node is not None and node.scalar is True
    contradiction = f"run_on_start says that {role} may be the first, and this that it cannot be"
    for steps in AWAITED:
        name = source.text(*steps)
        if name is None:
            continue
        if name not in roles:
            source.fault(faults, steps, f"there is no role {quoted(name)}{near(name, roles)}")
        elif name == role:
            source.fault(faults, steps, f"{role} waits for itself, and so would never run")
        if starts:
            source.fault(faults, steps, contradiction)
    _judge_placeholders(source, faults)
    late = source.value("not_before_iteration")
    if starts and late is not None and late.kind == "integer" and late.scalar > 1:
        source.fault(faults, ("not_before_iteration",), contradiction)


def _judge_placeholders(source: Source, faults: Faults) -> None:
    """Words in braces that are nearly those which stand for paths; others are the command's own."""
    node = source.value("harness", "command")
    for index, word in enumerate(node.entries if node is not None else []):
        for found in _BRACED.findall(str(word.scalar)):
            meant = None if found in PLACEHOLDERS else nearest(found, PLACEHOLDERS)
            if meant is not None:
                problem = f"{{{found}}} is no placeholder; did you mean {{{meant}}}?"
                source.fault(faults, ("harness", "command", index), problem)


def judge_folders(
    kinds: Mapping[str, str], roles: Iterable[str], place: str, faults: Faults
) -> None:
    """Whatever lies beside the roles' folders and is no plain file belongs to a role.

    `kinds` says of each name in the folder `place` what it is.
    """
    known = set(roles)
    for name, kind in sorted(kinds.items()):
        if kind == "file" or name.startswith(".") or name in known:
            continue
        twin = unicodedata.normalize("NFKC", name).casefold()
        why = (
            f"is not the folder of the role {twin}, only spelled like it"
            if twin in known
            else f"belongs to no role that contract.yaml names{near(name, known)}"
        )
        faults.add(f"{place}/{visible(name)}", 1, 1, "", why)


def judge_start(contract: WorkflowContract, source: Source, faults: Faults) -> None:
    """Some role can go first; else nothing would ever run."""
    fresh = State(
        schema_version=1, session_id="none", revision=1, status="running", changed_at_ms=0
    )
    choice = choose(contract, fresh)
    if choice.role is None:
        reasons = "; ".join(f"{one.role}: {one.reason}" for one in choice.verdicts)
        source.fault(faults, ("roles",), f"no role could be the first ({reasons})")
