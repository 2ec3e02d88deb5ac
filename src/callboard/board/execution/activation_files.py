"""The private files that an agent is started with: context, snapshot, and how to reach the tools.

Source: specification 1, §7.12. Written by the trusted side before anything of the agent runs, each
whole or not at all. Nothing reads them back to decide anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from callboard import canonical, files
from callboard.board.outputs.context import (
    AgentContext,
    AgentTerms,
    write_context,
)
from callboard.board.reading.activation import Viewer, activation_snapshot
from callboard.board.reading.activation_document import encode_snapshot
from callboard.board.reading.view import View

CLIENT_VARIABLE = "CALLBOARD_MCP_CONFIG"
SERVER_NAME = "callboard"


@dataclass(frozen=True, slots=True)
class ActivationFiles:
    """The files of one agent, which lie in `root`, a folder of the agent's own."""

    root: Path

    @property
    def context(self) -> Path:
        """As what the agent is started."""
        return self.root / "context.json"

    @property
    def snapshot(self) -> Path:
        """What it may know of the board."""
        return self.root / "snapshot.json"

    @property
    def client(self) -> Path:
        """How a client of the Model Context Protocol starts the board's tools."""
        return self.root / "mcp.json"

    def put(
        self,
        viewer: Viewer,
        *,
        staging: Path | None = None,
        assignment: Path | None = None,
        terms: AgentTerms | None = None,
        work_tree: Path | None = None,
    ) -> None:
        """Write the context of `viewer`. Raises `OSError`, `invalid_unicode`."""
        places = {} if work_tree is None else {"work_tree": str(work_tree)}
        context = AgentContext(
            version=1,
            role=viewer.role,
            snapshot=str(self.snapshot),
            staging=None if staging is None else str(staging),
            assignment=None if assignment is None else str(assignment),
            terms=terms,
            **places,
        )
        write_context(self.context, context)

    def put_snapshot(self, view: View, viewer: Viewer) -> None:
        """Write what `viewer` is shown of the board. Raises `OSError`."""
        files.publish(
            self.snapshot, encode_snapshot(activation_snapshot(view, viewer)), private=True
        )

    def put_client(self, command: Sequence[str]) -> None:
        """Write the configuration for a client; `command` starts this very callboard. Raises
        `OSError`, `invalid_unicode`."""
        program, *words = command
        server = {
            "command": program,
            "args": [*words, "mcp", "board", "--context", str(self.context)],
        }
        document = {"mcpServers": {SERVER_NAME: server}}
        files.publish(self.client, canonical.encode(document) + b"\n", private=True)
