"""The server itself: the SDK's protocol engine between the client's pipes and the tools.

It ends with its client. Calls are answered one after the other, in threads that nobody waits for
once the client is gone; what a call had done by then is done.
"""

from __future__ import annotations

import os
import sys
import traceback
from functools import partial
from typing import Any

import anyio
import anyio.lowlevel
import anyio.to_thread
import mcp_types as types
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.message import SessionMessage

from callboard import __version__
from callboard.errors import CallboardError
from callboard.surfaces.mcp.answers import Document, refusal, text_of
from callboard.surfaces.mcp.toolbox import Toolbox
from callboard.surfaces.mcp.wire import (
    MAX_REQUEST_BYTES,
    Requests,
    TooLong,
    UnfitIdError,
    check_once,
    has_left,
    id_in,
    write_all,
)

# How long the last answer may take to be written once the client has closed its end.
_LAST_WORDS_S = 0.5
# What was asked before that is answered as long as somebody listens, and no longer than this.
_LAST_ANSWERS_S = 60.0
_LOOK_S = 0.1

_TOO_EARLY = (types.INVALID_PARAMS, "Invalid request parameters", "")
_HANDSHAKE = "the session has not begun: send `initialize` first, then ask again"

Incoming = MemoryObjectSendStream[SessionMessage | Exception]
Outgoing = MemoryObjectSendStream[SessionMessage]


def run(toolbox: Toolbox, requests: Requests, first: bytes | TooLong, writing: int) -> None:
    """Serve the client until it is gone; `first` is its first line, already read."""
    anyio.run(_serve, toolbox, requests, first, writing)


class _Owed:
    """The requests that are not answered yet."""

    def __init__(self) -> None:
        self._count = 0
        self._settled = anyio.Event()

    def ask(self) -> None:
        """One more."""
        self._count += 1
        self._settled = anyio.Event()

    def answer(self) -> None:
        """One less."""
        self._count -= 1
        if self._count <= 0:
            self._settled.set()

    async def settle(self, writing: int) -> None:
        """Wait until all are answered, or until nobody reads at the other end of `writing`."""
        with anyio.move_on_after(_LAST_ANSWERS_S):
            while self._count > 0 and not has_left(writing):
                with anyio.move_on_after(_LOOK_S):
                    await self._settled.wait()


async def _serve(
    toolbox: Toolbox, requests: Requests, first: bytes | TooLong, writing: int
) -> None:
    to_server, from_client = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    to_client, from_server = anyio.create_memory_object_stream[SessionMessage](0)
    written = anyio.Event()
    owed = _Owed()
    server = _server(toolbox)
    async with anyio.create_task_group() as tasks:

        async def read() -> None:
            async with to_server, to_client.clone() as answers:
                line: bytes | TooLong | None = first
                while line is not None:
                    await _take(line, to_server, answers, owed)
                    line = await anyio.to_thread.run_sync(requests.next, abandon_on_cancel=True)
                await owed.settle(writing)

        async def write() -> None:
            try:
                await _send(from_server, writing, owed)
            except OSError:
                # The client does not listen any more, so there is nobody to serve.
                tasks.cancel_scope.cancel()
            finally:
                written.set()

        tasks.start_soon(read)
        tasks.start_soon(write)
        await server.run(from_client, to_client, server.create_initialization_options())
        with anyio.move_on_after(_LAST_WORDS_S):
            await written.wait()
        tasks.cancel_scope.cancel()


async def _take(line: bytes | TooLong, to_server: Incoming, answers: Outgoing, owed: _Owed) -> None:
    """Hand a line on to the engine, or say why it is none."""
    if isinstance(line, TooLong):
        text = f"a request may have {MAX_REQUEST_BYTES} bytes; hand larger things over as files"
        owed.ask()
        await _complain(answers, types.INVALID_REQUEST, text, line.request_id)
        return
    if not line.strip():
        return
    try:
        check_once(line)
    except UnfitIdError as error:
        owed.ask()
        await _complain(answers, types.INVALID_REQUEST, str(error), None)
        return
    except ValueError as error:
        owed.ask()
        await _complain(answers, types.PARSE_ERROR, str(error), id_in(line))
        return
    try:
        message = types.jsonrpc_message_adapter.validate_json(line, by_name=False)
    except ValueError:
        owed.ask()
        await _complain(answers, types.PARSE_ERROR, "the line is no JSON-RPC message", None)
        return
    if isinstance(message, types.JSONRPCRequest):
        owed.ask()
    await to_server.send(SessionMessage(message))


async def _complain(answers: Outgoing, code: int, text: str, request_id: int | str | None) -> None:
    error = types.ErrorData(code=code, message=text)
    await answers.send(
        SessionMessage(types.JSONRPCError(jsonrpc="2.0", id=request_id, error=error))
    )


async def _send(
    messages: MemoryObjectReceiveStream[SessionMessage], writing: int, owed: _Owed
) -> None:
    async with messages:
        async for one in messages:
            message = _plainer(one.message)
            line = message.model_dump_json(by_alias=True, exclude_unset=True) + "\n"
            await anyio.to_thread.run_sync(
                write_all, writing, line.encode(), abandon_on_cancel=True
            )
            if isinstance(one.message, types.JSONRPCResponse | types.JSONRPCError):
                owed.answer()


def _plainer(message: types.JSONRPCMessage) -> types.JSONRPCMessage:
    """The engine's word for a request before the handshake is that of any wrong parameter."""
    if not isinstance(message, types.JSONRPCError):
        return message
    error = message.error
    if (error.code, error.message, error.data) != _TOO_EARLY:
        return message
    said = types.ErrorData(code=error.code, message=_HANDSHAKE)
    return types.JSONRPCError(jsonrpc="2.0", id=message.id, error=said)


def _server(toolbox: Toolbox) -> Server[Any]:
    turn = anyio.Lock()

    async def list_tools(
        _context: ServerRequestContext[Any], _params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        return types.ListToolsResult(tools=_listed(toolbox))

    async def call_tool(
        _context: ServerRequestContext[Any], params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        answering = partial(_answer, toolbox, params.name, dict(params.arguments or {}))
        async with turn:
            return await anyio.to_thread.run_sync(answering, abandon_on_cancel=True)

    server: Server[Any] = Server(
        "callboard",
        version=__version__,
        title="Callboard",
        instructions=toolbox.instructions,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )
    # What is told of spans comes from a closed list of our own, which the engine does not know.
    server.middleware.clear()
    return server


def _listed(toolbox: Toolbox) -> list[types.Tool]:
    return [
        types.Tool(
            name=tool.name,
            title=tool.title,
            description=tool.description,
            input_schema=tool.schema,
            annotations=types.ToolAnnotations(
                read_only_hint=not tool.changes, destructive_hint=False, open_world_hint=False
            ),
        )
        for tool in toolbox.listed()
    ]


def _answer(toolbox: Toolbox, name: str, arguments: dict[str, Any]) -> types.CallToolResult:
    try:
        return _result(toolbox.call(name, arguments), is_error=False)
    except CallboardError as error:
        return _result(refusal(error), is_error=True)
    # The outermost frame of a call: the client gets an answer, and never what was submitted.
    except Exception as error:  # noqa: BLE001 - a fault of any kind is answered, told by its type
        if os.environ.get("CALLBOARD_DEBUG"):
            traceback.print_exception(error, file=sys.stderr)
        fault = CallboardError(
            "internal_fault",
            f"a fault of Callboard itself: {type(error).__name__}",
            "report it; CALLBOARD_DEBUG=1 shows more on standard error",
        )
        return _result(refusal(fault), is_error=True)


def _result(document: Document, *, is_error: bool) -> types.CallToolResult:
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=text_of(document))],
        structured_content=document,
        is_error=is_error,
    )
