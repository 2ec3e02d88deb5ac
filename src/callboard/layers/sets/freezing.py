"""Reading a workflow set from the repository, as a layer is to run it: all of it, or its faults.

What is returned was made of the very bytes that are returned with it. Nothing is written.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from callboard.errors import CallboardError
from callboard.layers import prompting
from callboard.layers.disk import OF_MACHINE, Disk
from callboard.layers.records.base import digest
from callboard.layers.records.workflow import FrozenRole, RoleConfig, WorkflowContract
from callboard.layers.sets.installing import SETS, packaged
from callboard.layers.sets.judging import (
    SetContract,
    Source,
    judge_config,
    judge_folders,
    judge_names,
    judge_start,
)
from callboard.layers.yaml_records.faults import Faults, near, nearest, quoted
from callboard.layers.yaml_records.tree import MAX_YAML_BYTES, Node, parse, places, text_of
from callboard.layers.yaml_records.typed import record_of

MAX_PROMPT_BYTES = 256 * 1024
_MAX_ROLES = 50
_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")


@dataclass(frozen=True, slots=True)
class FrozenSet:
    """A sound set: its contract, and the bytes of each role's `config.yaml` and `prompt.md`."""

    contract: WorkflowContract
    configs: Mapping[str, bytes]
    prompts: Mapping[str, bytes]

    def files(self) -> dict[str, bytes]:
        """The bytes by their places in a layer, which keeps them as they were frozen."""
        found = {f"workflows/{role}/config.yaml": data for role, data in self.configs.items()}
        return found | {f"workflows/{role}/prompt.md": data for role, data in self.prompts.items()}


@dataclass(slots=True)
class _Read:
    """What was read of a set, and all that is wrong with it."""

    disk: Disk
    folder: str
    faults: Faults = field(default_factory=Faults)
    contract: SetContract | None = None
    contract_source: Source | None = None
    configs: dict[str, RoleConfig] = field(default_factory=dict)
    config_sources: dict[str, Source] = field(default_factory=dict)
    config_bytes: dict[str, bytes] = field(default_factory=dict)
    prompt_bytes: dict[str, bytes] = field(default_factory=dict)
    without_command: list[tuple[str, Node]] = field(default_factory=list)


def freeze(disk: Disk, name: str) -> FrozenSet:
    """The set `name` of the repository.

    Raises `workflow_set_missing`; `workflow_set_invalid` with all faults in `details.faults`,
    each with file, line, column, pointer and message; `harness_missing` where nothing is wrong
    but that roles have no command yet (`details.files`).
    """
    folder = f"{SETS}/{name}"
    if _NAME.fullmatch(name) is None or disk.kind(folder) != "folder":
        raise _missing(disk, name)
    read = _Read(disk, folder)
    _read_contract(read)
    roles = _roles(read)
    for role in roles:
        _read_role(read, role)
    _judge(read, roles)
    if read.faults.count:
        raise _invalid(read, name)
    if read.without_command:
        raise _no_command(read)
    frozen = _frozen(read, name)
    assert read.contract_source is not None
    judge_start(frozen.contract, read.contract_source, read.faults)
    if read.faults.count:
        raise _invalid(read, name)
    return frozen


def _read_contract(read: _Read) -> None:
    file = f"{read.folder}/contract.yaml"
    data = _bytes(read, file, MAX_YAML_BYTES)
    tree = None if data is None else parse(data, file, read.faults)
    if tree is not None:
        read.contract_source = Source(file, tree)
        read.contract = record_of(tree, SetContract, file, read.faults)


def _roles(read: _Read) -> list[str]:
    """The roles to read: the contract's, or those that have folders where it cannot be told."""
    source = read.contract_source
    names = [] if source is None else list(dict.fromkeys(source.names("roles").values()))
    names = names or read.disk.names(f"{read.folder}/workflows")
    return [name for name in names if _NAME.fullmatch(name)][:_MAX_ROLES]


def _read_role(read: _Read, role: str) -> None:
    file = f"{read.folder}/workflows/{role}/config.yaml"
    data = _bytes(read, file, MAX_YAML_BYTES)
    if data is not None:
        read.config_bytes[role] = data
        _read_config(read, role, data, file)
    file = f"{read.folder}/workflows/{role}/prompt.md"
    data = _bytes(read, file, MAX_PROMPT_BYTES)
    if data is not None:
        read.prompt_bytes[role] = data
        _read_prompt(read, data, file)


def _read_config(read: _Read, role: str, data: bytes, file: str) -> None:
    tree = parse(data, file, read.faults)
    if tree is None:
        return
    command = _unset_command(tree)
    if command is not None:
        read.without_command.append((file, command))
        # The rest is judged as if there were one, so that all else is told as well.
        command.entries.append(Node("text", command.line, command.column, "none"))
    read.config_sources[role] = Source(file, tree)
    found = record_of(tree, RoleConfig, file, read.faults)
    if found is not None:
        read.configs[role] = found


def _unset_command(tree: Node) -> Node | None:
    """The empty list that stands for a command in a set that came with the program."""
    _, harness = tree.fields.get("harness", (tree, tree))
    _, command = harness.fields.get("command", (tree, tree))
    return command if command.kind == "list" and not command.entries else None


def _read_prompt(read: _Read, data: bytes, file: str) -> None:
    text = text_of(data, file, read.faults)
    if text is None:
        return
    if not text.strip():
        read.faults.add(file, 1, 1, "", "the prompt is empty")
    crowded = prompting.crowded(text)
    if crowded is not None:
        read.faults.add(file, 1, 1, "", crowded)
    strange = list(prompting.unknown(text))
    where = places(text, [index for index, _ in strange])
    for (_, name), (line, column) in zip(strange, where, strict=True):
        known = near(name, prompting.PLACEHOLDERS)
        problem = f"{{{name}}} is no placeholder; double the braces of plain text{known}"
        read.faults.add(file, line, column, "", problem)


def _bytes(read: _Read, file: str, limit_bytes: int) -> bytes | None:
    try:
        return read.disk.read(file, limit_bytes, what=file)
    except CallboardError as error:
        if error.code in OF_MACHINE:
            raise
        what = "is missing" if error.code == "file_missing" else error.message
        read.faults.add(file, 1, 1, "", what)
        return None


def _judge(read: _Read, roles: list[str]) -> None:
    if read.contract_source is not None:
        judge_names(read.contract_source, read.faults)
        folder = f"{read.folder}/workflows"
        kinds = {
            name: read.disk.kind(f"{folder}/{name}") or "file" for name in read.disk.names(folder)
        }
        judge_folders(kinds, roles, folder, read.faults)
    for role, source in read.config_sources.items():
        judge_config(role, roles, source, read.faults)


def _frozen(read: _Read, name: str) -> FrozenSet:
    contract = read.contract
    assert contract is not None
    roles = tuple(
        FrozenRole(
            name=role,
            config=read.configs[role],
            config_sha256=digest(read.config_bytes[role]),
            prompt_sha256=digest(read.prompt_bytes[role]),
        )
        for role in contract.roles
    )
    whole = WorkflowContract(
        schema_version=1,
        workflow_set=name,
        description=contract.description,
        roles=roles,
        goal_control_roles=contract.goal_control_roles,
        blocker_roles=contract.blocker_roles,
        request_roles=contract.request_roles,
        acceptance_roles=contract.acceptance_roles,
        evaluation_roles=contract.evaluation_roles,
        caps=contract.caps,
        recovery=contract.recovery,
    )
    return FrozenSet(whole, read.config_bytes, read.prompt_bytes)


def _missing(disk: Disk, name: str) -> CallboardError:
    there = [found for found in disk.names(SETS) if disk.kind(f"{SETS}/{found}") == "folder"]
    known = {*there, *packaged()}
    meant = nearest(name, known)
    guess = "" if meant == name else near(name, known)
    install = f"`callboard layers init --set NAME` installs one of {', '.join(packaged())}"
    if meant in packaged() and meant not in there:
        install = f"`callboard layers init --set {meant}` puts it there; it is packaged"
    return CallboardError(
        "workflow_set_missing",
        f"the repository has no workflow set {quoted(name)}{guess}",
        f"{install}; sets of your own are folders in {SETS}",
        {"workflow_set": name[:200], "there": there[:20], "packaged": list(packaged())},
    )


def _invalid(read: _Read, name: str) -> CallboardError:
    for file, node in read.without_command:
        problem = "no command is set; name the agent that carries out the role"
        read.faults.add(file, node.line, node.column, "/harness/command", problem)
    return CallboardError(
        "workflow_set_invalid",
        read.faults.summary(f"the workflow set {name}"),
        "correct the named places",
        {"workflow_set": name, **read.faults.details()},
    )


def _no_command(read: _Read) -> CallboardError:
    named = [f"{file}:{node.line}" for file, node in read.without_command]
    return CallboardError(
        "harness_missing",
        f"no command is set in {', '.join(named)}",
        "set `harness.command` in these files to the command line of an agent that may act without"
        ' asking and reads its prompt from standard input, such as ["claude", "-p"]; lines for four'
        " agents are in docs/how-to/layers.md",
        {"files": [file for file, _ in read.without_command]},
    )
