"""`work_queue_claim_finish` and `work_queue_output`: a worker's wishes, staged and nothing more.

Source: specification 1, §§7.12, 7.14. Which Claim is meant is decided by the one rule for
selectors, on the arguments as they were given.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, NamedTuple, TypeVar

from msgspec import UNSET, Meta, UnsetType

from callboard import canonical
from callboard.beneath import read_beneath
from callboard.board.outputs.messages import MAX_PATCH_PATHS, MAX_REASON
from callboard.board.outputs.scope import SELECTOR
from callboard.board.outputs.staging import AgentReceipt, Given, Receipt, Selector, Stager
from callboard.board.protocol.output_types import is_own_type
from callboard.errors import CallboardError
from callboard.surfaces.mcp.answers import Document
from callboard.surfaces.mcp.arguments import FinishArguments, Handle
from callboard.surfaces.mcp.closed import Arguments
from callboard.surfaces.mcp.preview import PROVENANCE
from callboard.surfaces.mcp.session import Session
from callboard.validate import near, show

T = TypeVar("T")

OWN = "TYPE"
"""How the types of a project's own are called where the types are listed."""


class OutputArguments(Arguments, frozen=True, kw_only=True):
    """One output of one Claim; which fields go with which type says the tool's description."""

    type: Annotated[str, Meta(description="The type of the output.", max_length=256)]
    claim_handle: Handle = UNSET
    path: (
        Annotated[str, Meta(description="A file of the run's work tree.", max_length=4096)]
        | UnsetType
    ) = UNSET
    name: (
        Annotated[str, Meta(description="The name to deliver a file under.", max_length=1024)]
        | UnsetType
    ) = UNSET
    text: Annotated[str, Meta(description="Content as plain text.")] | UnsetType = UNSET
    value: Annotated[dict[str, Any], Meta(description="Content as a JSON object.")] | UnsetType = (
        UNSET
    )
    paths: (
        Annotated[
            list[str],
            Meta(
                description="Files and folders of the work tree, from its top.",
                min_length=1,
                max_length=MAX_PATCH_PATHS,
            ),
        ]
        | UnsetType
    ) = UNSET
    reason: (
        Annotated[
            str,
            Meta(description="Why nothing was to be done.", min_length=1, max_length=MAX_REASON),
        ]
        | UnsetType
    ) = UNSET


class Wish(NamedTuple):
    """One output as it is asked for, with what it takes to stage it."""

    session: Session
    stager: Stager
    arguments: OutputArguments
    selector: Selector

    def field(self, name: str, kind: type[T]) -> T:
        """A field that the type cannot do without."""
        found = getattr(self.arguments, name)
        if not isinstance(found, kind):
            raise CallboardError(
                "arguments_invalid",
                f"{name} is missing, which {show(self.arguments.type)} needs",
                "the description of work_queue_output says which fields go with each type",
                {"faults": [{"pointer": f"/{name}", "message": "is missing"}]},
            )
        return found


class OutputKind(NamedTuple):
    """A type of output: what it is, the fields that it takes, and what stages it."""

    summary: str
    fields: tuple[str, ...]
    stage: Callable[[Wish], Receipt]


def finish(session: Session, arguments: FinishArguments, raw: Mapping[str, Any]) -> Document:
    """Stage how a Claim ended."""
    return staged(session.stager().finish(arguments.outcome, selected(raw)))


def output(session: Session, arguments: OutputArguments, raw: Mapping[str, Any]) -> Document:
    """Stage an output of a Claim."""
    wish = Wish(session, session.stager(), arguments, selected(raw))
    # Whose output it is comes before all else, also before any file is looked at.
    wish.stager.resolve(wish.selector)
    kind = OUTPUTS.get(OWN if is_own_type(arguments.type) else arguments.type)
    if kind is None:
        types = [name for name in OUTPUTS if name != OWN]
        raise CallboardError(
            "output_not_declared",
            f"{show(arguments.type)} is no type of output{near(arguments.type, types)}",
            f"types: {', '.join(types)}, and a project's own, such as acme.ticket",
        )
    stray = [name for name in raw if name not in ("type", SELECTOR, *kind.fields)]
    if stray:
        raise CallboardError(
            "arguments_invalid",
            f"{show(stray[0])} does not go with the type {arguments.type}",
            f"fields: {', '.join(('type', SELECTOR, *kind.fields))}",
            {"faults": [{"pointer": f"/{name}", "message": "does not go here"} for name in stray]},
        )
    return staged(kind.stage(wish))


def staged(receipt: Receipt | AgentReceipt) -> Document:
    """The answer to a wish: it is on file, and that is all that has happened."""
    return {**receipt.document(), "provenance": PROVENANCE}


def selected(raw: Mapping[str, Any]) -> Selector:
    """The selector exactly as it was given, also where it is null; None where there is none."""
    return Given(raw[SELECTOR]) if SELECTOR in raw else None


def _artifact(wish: Wish) -> Receipt:
    path, text, name = wish.arguments.path, wish.arguments.text, wish.arguments.name
    if isinstance(path, str) and text is UNSET:
        data = _file(wish, path)
        own_name = name if isinstance(name, str) else path.rsplit("/", 1)[-1]
        return wish.stager.content(data, own_name, wish.selector)
    if isinstance(text, str) and path is UNSET and isinstance(name, str):
        return wish.stager.content(text.encode(), name, wish.selector)
    raise CallboardError(
        "arguments_invalid",
        "an artifact is either a path, or a text together with a name",
        "give path alone or with name, or give text and name",
    )


def _file(wish: Wish, path: str) -> bytes:
    if wish.session.work_tree is None:
        raise CallboardError(
            "path_invalid",
            "this run has no work tree that files could be taken from",
            "hand the artifact over as text, or with callboard worker artifact",
        )
    return read_beneath(
        wish.session.work_tree,
        path,
        wish.stager.artifact_bytes(),
        what="the artifact",
        code="artifact_limit",
    )


def _patch(wish: Wish) -> Receipt:
    # Whether there is anything to make it of would have to be asked of git, which obeys what the
    # work tree configures; the trusted side asks it in an environment of its own.
    paths = wish.arguments.paths
    return wish.stager.patch(wish.selector, paths=paths if isinstance(paths, list) else ())


def _note(wish: Wish) -> Receipt:
    return wish.stager.note(wish.field("text", str), wish.selector)


def _memory(wish: Wish) -> Receipt:
    return wish.stager.memory(canonical.encode(wish.field("value", dict)), wish.selector)


def _noop(wish: Wish) -> Receipt:
    return wish.stager.noop(wish.field("reason", str), wish.selector)


def _own(wish: Wish) -> Receipt:
    body = canonical.encode(wish.field("value", dict))
    return wish.stager.own(wish.arguments.type, body, wish.selector)


OUTPUTS: dict[str, OutputKind] = {
    "artifact": OutputKind(
        "a file: its `path` in the run's work tree, or its `text` with a `name`",
        ("path", "name", "text"),
        _artifact,
    ),
    "patch": OutputKind(
        "the changes of the work tree, as the run leaves it, as a commit on a branch; with several "
        "Claims each names its own `paths`",
        ("paths",),
        _patch,
    ),
    "note": OutputKind("a comment on the node, as `text`", ("text",), _note),
    "memory": OutputKind("what is to be remembered, as `value`", ("value",), _memory),
    "noop": OutputKind("word that nothing was to be done, and the `reason`", ("reason",), _noop),
    OWN: OutputKind(
        "an output of a project's own type, such as acme.ticket, as `value`", ("value",), _own
    ),
}
"""Every type of output that can be staged."""
