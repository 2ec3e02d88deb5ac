"""What the server serves: tools that it lists and calls, whatever they are about."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

from callboard.surfaces.mcp.answers import Document


class Listing(NamedTuple):
    """One tool, as a client is told of it. `schema` is that of its arguments."""

    name: str
    title: str
    description: str
    schema: dict[str, Any]
    changes: bool


class Toolbox(Protocol):
    """The tools of one server."""

    @property
    def instructions(self) -> str:
        """What an agent is told about all of them."""

    def listed(self) -> list[Listing]:
        """All of them."""

    def call(self, name: str, arguments: dict[str, Any]) -> Document:
        """The answer of a tool. Raises what the tool refuses, and `tool_unknown`."""
