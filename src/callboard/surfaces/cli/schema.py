"""`callboard ledger schema`: what the records look like, for programs that are not Callboard.

Made from the record types; it reads no board and no file.
"""

from __future__ import annotations

from typing import Any

import click
from msgspec import UNSET, UnsetType

from callboard import canonical
from callboard.board.outputs.messages import FinishMessage
from callboard.board.projection.snapshot import RequestRecord, StateRecord
from callboard.board.protocol.commit import Assignment, QueueCommit
from callboard.board.protocol.schema import schema_of
from callboard.board.publishing.plan import Plan
from callboard.surfaces.cli.chosen import board_options
from callboard.surfaces.cli.render import write_bytes


class CheckpointState(StateRecord, frozen=True, kw_only=True):
    """A checkpoint's state, or that of `ledger replay --json`; one of the last two stands."""

    requests: list[RequestRecord] | UnsetType = UNSET
    requests_compressed: str | UnsetType = UNSET


KINDS: dict[str, Any] = {
    "commit": QueueCommit,
    "assignment": Assignment,
    "finish": FinishMessage,
    "plan": Plan,
    "state": CheckpointState,
}
"""What can be asked for by name: a ledger line, and the documents around it."""


@click.command("schema", short_help="Print the JSON Schemas of the records.")
@click.option(
    "--kind", type=click.Choice(list(KINDS)), help="Only this one: a ledger line is a commit."
)
@board_options
def schema(kind: str | None) -> None:
    """Print the JSON Schemas (draft 2020-12) of a ledger line and the documents around it.

    One document, always the same for one version. Its $comment says what a schema cannot tell.
    """
    chosen = KINDS if kind is None else {kind: KINDS[kind]}
    write_bytes(canonical.encode_trusted(schema_of(chosen)) + b"\n")
