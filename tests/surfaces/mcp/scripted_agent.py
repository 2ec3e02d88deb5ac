"""A scripted agent: does the honest part of its role, then tries what no role may do.

Started by a recipe or by `callboard agent run`, it finds the board's tools as any agent would. What
it was answered goes, line by line, into the file that CAMPAIGN_JOURNAL names.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
from mcp.client.session import ClientSession
from mcp.client.stdio import StdioServerParameters, stdio_client

FORBIDDEN: tuple[tuple[str, dict[str, Any]], ...] = (
    ("work_queue_claim", {"work_id": "0" * 64}),
    ("work_queue_read", {"tenant": "other"}),
    ("work_queue_explain", {"work_id": "f" * 64}),
    ("work_queue_dispatch_next", {"work_id": "0" * 64}),
    ("work_queue_dispatch_next", {"max_dispatches": 256}),
    ("work_queue_dispatch_next", {"pool": "somebody-elses"}),
    ("work_queue_submit", {"plan": {"nodes": []}}),
    ("work_queue_submit", {"plan": {"nodes": [{"payload": {}}]}, "claim_handle": "h9"}),
    ("work_queue_claim_finish", {"outcome": "completed", "claim_handle": None}),
    ("work_queue_output", {"type": "artifact", "path": "../../../etc/passwd"}),
    ("work_queue_output", {"type": "acme.root", "value": {}}),
    ("work_queue_output", {"type": "note", "text": "x", "claim_handle": ""}),
)


class Script:
    """One agent's session, and its journal."""

    def __init__(self, session: ClientSession) -> None:
        self._session = session
        self._journal = Path(os.environ["CAMPAIGN_JOURNAL"])

    async def call(self, tool: str, /, **arguments: Any) -> Any:
        """The answer's document, whatever it is."""
        answer = await self._session.call_tool(tool, arguments)
        document = answer.structured_content
        self.note(tool=tool, error=document.get("error", {}).get("code"))
        return document

    def note(self, **facts: Any) -> None:
        """Add a line to the journal."""
        with self._journal.open("a") as stream:
            stream.write(json.dumps({"role": sys.argv[1], "pid": os.getpid(), **facts}) + "\n")

    async def misbehave(self) -> None:
        """Try everything that is forbidden, and note whether anything is otherwise than before."""
        before = standing()
        for tool, arguments in FORBIDDEN:
            answer = await self._session.call_tool(tool, arguments)
            code = answer.structured_content.get("error", {}).get("code")
            self.note(forbidden=tool, error=code)
        self.note(unchanged=standing() == before)

    async def producer(self) -> None:
        """Post a chain of two and one beside it."""
        nodes = [
            {"key": "draft", "payload": {"task": "draft"}, "contract": {"artifact": 1, "note": 1}},
            {"key": "review", "payload": {"task": "review"}, "after": ["draft"]},
        ]
        await self.call("work_queue_submit", plan={"graph": "campaign", "nodes": nodes})

    async def dispatcher(self) -> None:
        """Look what is there, post one more, and ask for a batch."""
        page = await self.call("work_queue_read", column="ready")
        self.note(ready=[one.get("node_key") for one in page["nodes"]])
        extra = {"key": "extra", "payload": {"task": "extra"}}
        await self.call("work_queue_submit", plan={"graph": "campaign", "nodes": [extra]})
        await self.call("work_queue_dispatch_next", max_claims=1, max_dispatches=1)
        again = await self.call("work_queue_read")
        self.note(staged=again["staged"]["count"], provenance=again["staged"]["provenance"])

    async def worker(self) -> None:
        """Do the task of the sole Claim, and finish it."""
        why = await self.call("work_queue_explain", bodies=True)
        task = why["node"]["payload"]["task"]
        self.note(task=task)
        if task == "draft":
            Path("report.txt").write_text("drafted\n")
            await self.call("work_queue_output", type="artifact", path="report.txt")
            await self.call("work_queue_output", type="note", text="a draft")
            Path("report.txt").unlink()
        await self.call("work_queue_claim_finish", outcome="completed")


def standing() -> tuple[str, list[str]]:
    """Every ref of the repository, and every file in the agent's staging folder."""
    refs = subprocess.run(
        ["git", "-C", os.environ["CAMPAIGN_REPOSITORY"], "show-ref", "--head"],
        check=True, capture_output=True, text=True,
    ).stdout  # fmt: skip
    context = json.loads(Path(os.environ["CALLBOARD_CONTEXT"]).read_text())
    return refs, sorted(path.name for path in Path(context["staging"]).iterdir())


async def main() -> None:
    """Connect as the configuration says, and play the role."""
    found = json.loads(Path(os.environ["CALLBOARD_MCP_CONFIG"]).read_text())
    server = found["mcpServers"]["callboard"]
    parameters = StdioServerParameters(command=server["command"], args=server["args"])
    async with (
        stdio_client(parameters, errlog=sys.stderr) as (reading, writing),
        ClientSession(reading, writing) as session,
    ):
        await session.initialize()
        script = Script(session)
        listed = [tool.name for tool in (await session.list_tools()).tools]
        script.note(tools=listed)
        await script.misbehave()
        await getattr(script, sys.argv[1])()


if __name__ == "__main__":
    anyio.run(main)
