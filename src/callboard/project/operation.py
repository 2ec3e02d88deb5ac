"""What an operation of a project is to its surfaces: words, fields, and its place in the façade.

Names and shapes alone; which operations there are stands in `operations_table`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

Kind = Literal["text", "texts", "count", "flag", "off", "object", "artifacts", "changes"]
"""What a value is: `off` is a flag on the command line that turns a default off."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """One thing that an operation takes. `name` is its field in tools, and in most façade calls."""

    name: str
    kind: Kind
    help: str
    required: bool = False
    keyword: str = ""
    """In the façade's call, where it differs from the name."""
    spelling: str = ""
    """On the command line, where it differs from the name."""
    is_argument: bool = False
    """On the command line it has its place instead of a name."""
    is_caller: bool = False
    """Whoever asks, where nothing is given: as they were declared when the surface was started."""
    is_actor_alone: bool = False
    """It says who asks and nothing else, so the façade's call does not take it."""

    @property
    def is_repeated(self) -> bool:
        """Whether it is given several times."""
        return self.kind in ("texts", "artifacts", "changes")

    @property
    def option(self) -> str:
        """Its name on the command line."""
        return "--" + (self.spelling or self.name.replace("_", "-"))


def _answered(_document: Mapping[str, Any]) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation. `call` is its place in the façade, with a dot for what needs a project."""

    noun: str
    verb: str
    help: str
    call: str
    parameters: tuple[Parameter, ...] = ()
    changes: bool = False
    rows: str = ""
    """The list in the answer that comes in pages, with `after`, `limit` and `next`."""
    found: Callable[[Mapping[str, Any]], bool] = _answered
    """Whether an answer has what was asked for; otherwise a command ends with 3."""

    @property
    def words(self) -> tuple[str, ...]:
        """The words of its command, after `callboard project`."""
        return tuple(f"{self.noun} {self.verb}".split())

    @property
    def tool(self) -> str:
        """The name of its tool."""
        return "_".join(("project", *self.words)).replace("-", "_")

    def parameter(self, name: str) -> Parameter:
        """The parameter of that name."""
        return next(one for one in self.parameters if one.name == name)
