"""Carrying out an operation of the table for a surface: from plain JSON values to a plain document.

It opens the project, calls the façade and closes it again. It judges nothing that the façade
judges; the façade is imported with the first operation, as it needs the database's library.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from callboard.errors import CallboardError
from callboard.project.names import LOCAL
from callboard.project.operation import Operation, Parameter

if TYPE_CHECKING:
    from callboard.project.project import Project


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks, and of which project. `agent` is what they declare; nobody authenticates it."""

    folder: Path
    agent: str | None = None
    read_only: bool = False

    @property
    def actor(self) -> str:
        """In whose name requests are kept."""
        return LOCAL if self.agent is None else self.agent

    def open(self) -> Project:
        """The project; the caller closes it. Raises as `Project.open`."""
        from callboard.project.project import Project

        return Project.open(self.folder, actor=self.actor, read_only=self.read_only)


def ask(caller: Caller, operation: Operation, values: Mapping[str, Any]) -> dict[str, Any]:
    """The answer of an operation, as its JSON document. Raises what the façade refuses.

    `values` are by the parameters' names; what is absent was not given, and None is refused with
    `arguments_invalid`, also where it could have been left out. Who asks is who the call itself
    declares, else who was declared for the surface: an agent, and the actor in whose name the
    request is kept, are the same one.
    """
    caller = _effective(caller, operation, values)
    given = _given(caller, operation, values)
    call = _call_for(operation)
    if call is not None:
        from callboard.project.project import Project

        found = getattr(Project, call)(caller.folder, **_around(caller, call), **given)
    else:
        with caller.open() as project:
            place: Any = project
            for name in operation.call.split("."):
                place = getattr(place, name)
            found = place(**given)
    return _document(found)


_WITHOUT_PROJECT = ("init", "diagnose")


def _call_for(operation: Operation) -> str | None:
    """The façade's call for an operation that also works where no project can be opened."""
    return operation.call if operation.call in _WITHOUT_PROJECT else None


def _around(caller: Caller, call: str) -> dict[str, Any]:
    return {"actor": caller.actor} if call == "init" else {}


def _effective(caller: Caller, operation: Operation, values: Mapping[str, Any]) -> Caller:
    said = [values.get(one.name) for one in operation.parameters if one.is_caller]
    agents = [one for one in said if one is not None]
    return replace(caller, agent=agents[0]) if agents else caller


def _document(found: Any) -> dict[str, Any]:
    import msgspec

    # By way of its text, so that lists are lists and nothing else.
    document = msgspec.json.decode(msgspec.json.encode(found))
    assert isinstance(document, dict)
    return document


def _given(caller: Caller, operation: Operation, values: Mapping[str, Any]) -> dict[str, Any]:
    found = {}
    for one in operation.parameters:
        value = values.get(one.name)
        if value is None and (one.name in values or (one.required and not one.is_caller)):
            raise _malformed(one, "", "is null" if one.name in values else "is missing")
        if value is None and one.is_caller:
            value = caller.agent
            if value is None and one.required:
                raise _undeclared(operation)
        if value is not None and not one.is_actor_alone:
            found[one.keyword or one.name] = _converted(one, value)
    return found


def _undeclared(operation: Operation) -> CallboardError:
    return CallboardError(
        "agent_undeclared",
        f"{' '.join(operation.words)} does not know which agent asks",
        "give --agent, the field agent, or CALLBOARD_AGENT; any name will do, nobody checks it",
    )


def _converted(parameter: Parameter, value: Any) -> Any:
    if parameter.kind == "artifacts":
        return _artifacts(parameter, value)
    if parameter.kind == "changes":
        return _changes(parameter, value)
    return value


def _artifacts(parameter: Parameter, value: Any) -> list[Any]:
    from callboard.project.records import Artifact

    return [
        Artifact(ref=one["ref"], sha256=one["sha256"])
        for one in _members(parameter, value, {"ref": str, "sha256": str}, ("ref", "sha256"))
    ]


def _changes(parameter: Parameter, value: Any) -> list[Any]:
    from callboard.project.source.answers import AddItem, SetFields

    found: list[Any] = []
    kinds = {"work": str, "file": str, "values": dict}
    for number, one in enumerate(_members(parameter, value, kinds, ("values",))):
        if "work" not in one:
            found.append(AddItem(values=one["values"], file=one.get("file")))
        elif "file" in one:
            raise _malformed(parameter, f"/{number}", "names an item and a file too")
        else:
            found.append(SetFields(work=one["work"], values=one["values"]))
    return found


def _members(
    parameter: Parameter, value: Any, kinds: Mapping[str, type], required: tuple[str, ...]
) -> list[dict[str, Any]]:
    """A list of objects that have these fields and no others."""
    if not isinstance(value, list):
        raise _malformed(parameter, "", "is no list")
    for number, one in enumerate(value):
        at = f"/{number}"
        if not isinstance(one, dict):
            raise _malformed(parameter, at, "is no object")
        for name, member in one.items():
            if name not in kinds:
                raise _malformed(parameter, at, f"has the unknown field {ascii(name)[:80]}")
            if not isinstance(member, kinds[name]):
                raise _malformed(parameter, f"{at}/{name}", "is not of its type")
        for name in required:
            if name not in one:
                raise _malformed(parameter, at, f"has no field {name}")
    return value


def _malformed(parameter: Parameter, pointer: str, what: str) -> CallboardError:
    return CallboardError(
        "arguments_invalid",
        f"{parameter.name}{pointer} {what}",
        parameter.help,
        {"faults": [{"pointer": f"/{parameter.name}{pointer}", "message": what}]},
    )
