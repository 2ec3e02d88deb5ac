"""`work_queue_claim_finish` and `work_queue_output`: a worker's wishes, staged and nothing more.

Source: specification 1, §§7.12, 7.14. Which Claim is meant is decided by the one rule for
selectors, on the arguments as they were given, before anything else of a wish is looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, NamedTuple

from msgspec import UNSET, Meta, UnsetType

from callboard.board.outputs.beneath import read_beneath
from callboard.board.outputs.scope import SELECTOR, resolve
from callboard.board.outputs.staging import Receipt, Stager
from callboard.board.protocol.policy import Record
from callboard.board.protocol.validate import near, show
from callboard.errors import CallboardError
from callboard.surfaces.mcp.answers import Document
from callboard.surfaces.mcp.arguments import FinishArguments, Handle
from callboard.surfaces.mcp.preview import PROVENANCE
from callboard.surfaces.mcp.session import Session


class OutputArguments(Record, frozen=True, kw_only=True):
    """One output of one Claim; which fields go with which type says the description of the tool."""

    type: Annotated[str, Meta(max_length=256, description="The type of the output.")]
    claim_handle: Handle = UNSET
    name: (
        Annotated[
            str,
            Meta(
                max_length=1024,
                description="artifact: the name to deliver it under; needed with text.",
            ),
        ]
        | UnsetType
    ) = UNSET
    path: (
        Annotated[
            str,
            Meta(max_length=4096, description="artifact: a file of the run's work tree."),
        ]
        | UnsetType
    ) = UNSET
    text: Annotated[str, Meta(description="artifact: its content, as text.")] | UnsetType = UNSET


class OutputKind(NamedTuple):
    """A type of output: what it is, the fields that it takes, and what stages it."""

    summary: str
    fields: tuple[str, ...]
    stage: Callable[[Session, Stager, OutputArguments, str | None], Receipt]


def finish(session: Session, arguments: FinishArguments, raw: Mapping[str, Any]) -> Document:
    """Stage how a Claim ended."""
    stager, selector = _scoped(session, raw)
    return staged(stager.finish(arguments.outcome, selector))


def output(session: Session, arguments: OutputArguments, raw: Mapping[str, Any]) -> Document:
    """Stage an output of a Claim."""
    stager, selector = _scoped(session, raw)
    kind = OUTPUTS.get(arguments.type)
    if kind is None:
        raise CallboardError(
            "output_not_declared",
            f"{show(arguments.type)} is no type of output here{near(arguments.type, [*OUTPUTS])}",
            "types: " + ", ".join(OUTPUTS),
        )
    given = [name for name in raw if name not in ("type", SELECTOR, *kind.fields)]
    if given:
        raise CallboardError(
            "arguments_invalid",
            f"{show(given[0])} does not go with the type {arguments.type}",
            "fields: " + (", ".join(kind.fields) or "none but type and claim_handle"),
            {"faults": [{"pointer": f"/{name}", "message": "does not go here"} for name in given]},
        )
    return staged(kind.stage(session, stager, arguments, selector))


def staged(receipt: Receipt) -> Document:
    """The answer to a wish: it is on file, and that is all that has happened."""
    return {**receipt.document(), "provenance": PROVENANCE}


def _scoped(session: Session, raw: Mapping[str, Any]) -> tuple[Stager, str | None]:
    """The stager and the selector, once the rule has found the Claim that is meant."""
    stager = session.stager()
    assert session.assignment is not None
    handle = resolve(session.assignment, raw).handle
    return stager, handle if SELECTOR in raw else None


def _artifact(
    session: Session, stager: Stager, arguments: OutputArguments, selector: str | None
) -> Receipt:
    path, text, name = arguments.path, arguments.text, arguments.name
    if isinstance(path, str) and text is UNSET:
        data = _file(session, path, stager.artifact_bytes())
        return stager.content(
            data, name if isinstance(name, str) else path.rsplit("/", 1)[-1], selector
        )
    if isinstance(text, str) and path is UNSET and isinstance(name, str):
        return stager.content(text.encode(), name, selector)
    raise CallboardError(
        "arguments_invalid",
        "an artifact is either a path, or a text together with a name",
        "give path alone or with name, or give text and name",
    )


def _file(session: Session, path: str, limit_bytes: int) -> bytes:
    if session.work_tree is None:
        raise CallboardError(
            "path_invalid",
            "this run has no work tree that files could be taken from",
            "hand the artifact over as text, or with callboard worker artifact",
        )
    return read_beneath(
        session.work_tree, path, limit_bytes, what="the artifact", code="artifact_limit"
    )


def _patch(
    _session: Session, stager: Stager, _arguments: OutputArguments, selector: str | None
) -> Receipt:
    # Whether there is anything to make it of would have to be asked of git, which obeys what the
    # work tree configures; the trusted side asks it in an environment of its own.
    return stager.patch(selector)


OUTPUTS: dict[str, OutputKind] = {
    "artifact": OutputKind(
        "a file: its `path` in the run's work tree, or its `text` with a `name`",
        ("name", "path", "text"),
        _artifact,
    ),
    "patch": OutputKind(
        "the changes of the work tree, as the run leaves it, as a commit on a branch",
        (),
        _patch,
    ),
}
"""Every type of output that can be staged."""
