"""The output types that exist. A type that does not stand here cannot be delivered."""

from __future__ import annotations

from types import MappingProxyType

from callboard.board.outputs.handlers.artifact import ArtifactHandler
from callboard.board.outputs.handlers.controls import DispatchNextHandler, SubmitHandler
from callboard.board.outputs.handlers.memory import MemoryHandler
from callboard.board.outputs.handlers.noop import NoopHandler
from callboard.board.outputs.handlers.note import NoteHandler
from callboard.board.outputs.handlers.own import OwnHandler
from callboard.board.outputs.handlers.patch import PatchHandler
from callboard.board.outputs.handlers.port import Handler
from callboard.board.protocol.output_types import is_own_type
from callboard.errors import CallboardError

_ALL: tuple[Handler, ...] = (
    ArtifactHandler(),
    PatchHandler(),
    NoteHandler(),
    MemoryHandler(),
    SubmitHandler(),
    DispatchNextHandler(),
    NoopHandler(),
)
HANDLERS = MappingProxyType({handler.type: handler for handler in _ALL})
"""Built-in output type -> its handler. Own types share one, which asks the project's code."""


def handler_of(output_type: str) -> Handler:
    """The handler of a type, or `output_not_declared`."""
    handler = OwnHandler(output_type) if is_own_type(output_type) else HANDLERS.get(output_type)
    if handler is None:
        raise CallboardError(
            "output_not_declared",
            f"no {output_type} can be delivered here",
            "output types: " + ", ".join(HANDLERS),
            {"type": output_type},
        )
    return handler
