"""Calls the board's tools from inside an agent, as its client would, and prints the answers.

Started with a JSON list of `[tool, arguments]` and two files: it makes the first before its last
call and waits for the second, where they are given.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import anyio
from mcp.client.session import ClientSession
from mcp.client.stdio import StdioServerParameters, stdio_client


async def main(calls: list[tuple[str, dict[str, Any]]], files: list[str]) -> None:
    """Make every call in turn; one JSON document with the tools there are, and each answer."""
    found = json.loads(Path(os.environ["CALLBOARD_MCP_CONFIG"]).read_text())
    server = found["mcpServers"]["callboard"]
    parameters = StdioServerParameters(command=server["command"], args=server["args"])
    async with (
        stdio_client(parameters, errlog=sys.stderr) as (reading, writing),
        ClientSession(reading, writing) as session,
    ):
        await session.initialize()
        listed = [tool.name for tool in (await session.list_tools()).tools]
        answers = []
        for number, (name, arguments) in enumerate(calls, start=1):
            if files and number == len(calls):
                Path(files[0]).touch()
                while not Path(files[1]).exists():
                    await anyio.sleep(0.01)
            answers.append((await session.call_tool(name, arguments)).structured_content)
    sys.stdout.write(json.dumps({"tools": listed, "answers": answers}) + "\n")


if __name__ == "__main__":
    anyio.run(main, [(name, given) for name, given in json.loads(sys.argv[1])], sys.argv[2:])
