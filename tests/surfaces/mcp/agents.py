"""An agent as the board's tools meet it: the SDK's own client, and the real server process."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import anyio
from mcp.client.session import ClientSession
from mcp.client.stdio import StdioServerParameters, stdio_client

from callboard import canonical
from callboard.board.execution.activation_files import ActivationFiles
from callboard.board.outputs.context import AgentTerms
from callboard.board.outputs.messages import Terms
from callboard.board.outputs.staging import prepare_folder
from callboard.board.protocol.commit import Assignment
from callboard.board.reading.activation import Viewer
from callboard.board.reading.view import View
from callboard.surfaces.mcp.answers import MAX_ANSWER_BYTES
from tests.ambient import ROOT
from tests.board.outputs import scene

T = TypeVar("T")

SERVER = [sys.executable, "-m", "callboard", "mcp", "board"]
READERS = ["work_queue_read", "work_queue_explain"]


class Agent:
    """A connected client. Every answer is checked for its form and its bound."""

    def __init__(self, session: ClientSession) -> None:
        self.session = session

    async def tools(self) -> list[str]:
        return [tool.name for tool in (await self.session.list_tools()).tools]

    async def _call(self, tool: str, arguments: dict[str, Any]) -> tuple[bool, Any]:
        answer = await self.session.call_tool(tool, arguments)
        (content,) = answer.content
        assert content.type == "text"
        assert len(content.text.encode()) <= MAX_ANSWER_BYTES
        assert json.loads(content.text) == answer.structured_content
        return bool(answer.is_error), answer.structured_content

    async def ask(self, tool: str, /, **arguments: Any) -> Any:
        """The document of a call that is answered, labelled with where it is from."""
        is_error, document = await self._call(tool, arguments)
        assert not is_error, document
        assert document["provenance"] in ("activation_snapshot", "staged_preview")
        return document

    async def stage(self, tool: str, /, **arguments: Any) -> str:
        """The intent of a wish that is staged."""
        document = await self.ask(tool, **arguments)
        assert document == {
            "intent_id": document["intent_id"],
            "status": "staged",
            "provenance": "staged_preview",
        }
        return str(document["intent_id"])

    async def refused(self, tool: str, /, **arguments: Any) -> str:
        """The code of a call that is refused as every refusal is."""
        is_error, document = await self._call(tool, arguments)
        assert is_error, document
        assert list(document) == ["error"]
        error = document["error"]
        assert set(error) == {"code", "message", "hint", "details"}
        assert error["message"]
        assert error["hint"]
        return str(error["code"])


@asynccontextmanager
async def connected(
    *words: str, env: dict[str, str] | None = None, cwd: Path | None = None
) -> AsyncIterator[Agent]:
    """A client that has started the server with these words."""
    program, *rest = SERVER
    parameters = StdioServerParameters(
        command=program,
        args=[*rest, *words],
        env={"PYTHONPATH": str(ROOT / "src"), **(env or {})},
        cwd=cwd,
    )
    async with (
        stdio_client(parameters) as (reading, writing),
        ClientSession(reading, writing) as session,
    ):
        await session.initialize()
        yield Agent(session)


def talk(play: Callable[[], Awaitable[T]]) -> T:
    """Play an asynchronous part, which has a minute for it."""

    async def bounded() -> T:
        with anyio.fail_after(60):
            return await play()

    try:
        return anyio.run(bounded)
    except BaseExceptionGroup as group:
        error: BaseException = group
        while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
            (error,) = error.exceptions
        raise error from None


class Desk:
    """The files of one agent in a folder, as the trusted side makes them."""

    def __init__(self, root: Path) -> None:
        root.mkdir(parents=True, exist_ok=True)
        self.root = root
        self.files = ActivationFiles(root)
        self.staging = root / "staging"
        self.assignment = root / "assignment.json"
        self.work_tree = root / "work"

    @property
    def words(self) -> list[str]:
        """What names the context to the server."""
        return ["--context", str(self.files.context)]

    def observer(self, view: View, principal: str | None = None) -> Desk:
        """For somebody who looks on."""
        viewer = Viewer("observer", principal)
        self.files.put_snapshot(view, viewer)
        self.files.put(viewer)
        return self

    def worker(self, view: View, assignment: Assignment, terms: Terms | None = None) -> Desk:
        """For the worker of an assignment, with a work tree of its own."""
        viewer = Viewer("worker", members={one.handle: one.work_id for one in assignment.claims})
        self.work_tree.mkdir()
        prepare_folder(self.staging, scene.TERMS if terms is None else terms)
        self.assignment.write_bytes(canonical.encode(assignment))
        self.files.put_snapshot(view, viewer)
        self.files.put(
            viewer,
            staging=self.staging,
            assignment=self.assignment,
            work_tree=self.work_tree,
        )
        return self

    def dispatcher(self, view: View, role: Any, principal: str, terms: AgentTerms) -> Desk:
        """For a producer or a dispatcher."""
        viewer = Viewer(role, principal)
        prepare_folder(self.staging, scene.TERMS)
        self.files.put_snapshot(view, viewer)
        self.files.put(viewer, staging=self.staging, terms=terms)
        return self
