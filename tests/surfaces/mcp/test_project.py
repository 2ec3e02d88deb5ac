"""`callboard mcp project`: closed tools, bounded answers, and an agent that declares who it is."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp.client.session import ClientSession
from mcp.client.stdio import StdioServerParameters, stdio_client

from callboard.project.operations_table import OPERATIONS
from callboard.surfaces.mcp.answers import MAX_ANSWER_BYTES, size_of
from callboard.surfaces.mcp.cutting import cut
from callboard.surfaces.mcp.project import INSTRUCTIONS
from tests.ambient import ROOT
from tests.surfaces.mcp.agents import Agent, talk
from tests.surfaces.project.shared import Shared


class ProjectAgent(Agent):
    """A connected client of a project."""

    async def ask(self, tool: str, /, **arguments: Any) -> Any:
        """The document of a call that is answered."""
        is_error, document = await self._call(f"project_{tool}", arguments)
        assert not is_error, document
        return document

    async def refused(self, tool: str, /, **arguments: Any) -> str:
        """The code of a call that is refused."""
        return await super().refused(f"project_{tool}", **arguments)


@asynccontextmanager
async def connected(folder: Path, *words: str, **env: str) -> AsyncIterator[ProjectAgent]:
    parameters = StdioServerParameters(
        command=sys.executable,
        args=["-m", "callboard", "mcp", "project", *words],
        env={"PYTHONPATH": str(ROOT / "src"), **env},
        cwd=folder,
    )
    async with (
        stdio_client(parameters) as (reading, writing),
        ClientSession(reading, writing) as session,
    ):
        await session.initialize()
        yield ProjectAgent(session)


@pytest.fixture
def shared(tmp_path: Path) -> Shared:
    return Shared(tmp_path / "demo").begin()


def test_each_operation_is_a_tool_with_a_closed_plain_schema(shared: Shared) -> None:
    async def play() -> list[Any]:
        async with connected(shared.folder) as agent:
            return list((await agent.session.list_tools()).tools)

    tools = talk(play)
    assert [tool.name for tool in tools] == [one.tool for one in OPERATIONS]
    for tool, operation in zip(tools, OPERATIONS, strict=True):
        schema = tool.input_schema
        assert schema["type"] == "object"
        assert schema["additionalProperties"] is False
        assert set(schema["properties"]) == {one.name for one in operation.parameters}
        assert schema["required"] == [one.name for one in operation.parameters if one.required]
        assert "$ref" not in json.dumps(schema)
        assert all(field["type"] for field in schema["properties"].values())
        assert all(field["description"] for field in schema["properties"].values())
        assert tool.annotations.read_only_hint is not operation.changes


def test_what_an_agent_is_told_names_real_tools() -> None:
    told = set(re.findall(r"project_[a-z_]+", INSTRUCTIONS))
    assert len(told) >= 8
    assert told <= {one.tool for one in OPERATIONS}


def test_other_arguments_are_refused_with_their_place(shared: Shared) -> None:
    async def play() -> None:
        async with connected(shared.folder) as agent:
            for arguments in (
                {},
                {"work": "A", "agent": None},
                {"work": ["A"], "agent": "a"},
                {"work": "A", "agent": "a", "sql": "x"},
                {"work": "A", "agent": "a", "claim": "yes"},
            ):
                assert await agent.refused("session_start", **arguments) == "arguments_invalid"
            for ttl in (0, -1, 1.5, 2**53, "60"):
                timed = {"work": "A", "agent": "a", "claim": True, "ttl_ms": ttl}
                assert await agent.refused("session_start", **timed) == "ttl_invalid"
            assert await agent.refused("session_begin") == "tool_unknown"
            found = await agent.ask("session_list")
            assert found["sessions"] == []

    talk(play)


def test_null_stands_for_no_field_of_any_tool(shared: Shared) -> None:
    """Left out is left out; `null` is refused for needed fields and for others alike."""
    given = {
        "text": "x",
        "texts": ["x"],
        "count": 1,
        "flag": True,
        "off": False,
        "object": {},
        "artifacts": [],
        "changes": [],
    }

    async def play() -> None:
        async with connected(shared.folder, "--agent", "a") as agent:
            for operation in OPERATIONS:
                needed = {one.name: given[one.kind] for one in operation.parameters if one.required}
                for one in operation.parameters:
                    tool = operation.tool.removeprefix("project_")
                    code = await agent.refused(tool, **(needed | {one.name: None}))
                    assert code == "arguments_invalid", (tool, one.name)

    talk(play)
    assert shared.ask("status")["project_revision"] == 2
    for words in (
        ("event", "append", "--type", "note.taken", "--body", "null"),
        ("source", "patch", "--changes", "-"),
    ):
        assert shared.refused(*words, stdin="null") == "arguments_invalid"


def test_the_agent_is_who_the_server_was_started_for(shared: Shared) -> None:
    async def play() -> None:
        async with connected(shared.folder, "--agent", "codex", CALLBOARD_AGENT="env") as agent:
            tools = (await agent.session.list_tools()).tools
            start = next(tool for tool in tools if tool.name == "project_session_start")
            assert start.input_schema["required"] == ["work"]
            started = await agent.ask("session_start", work="A", request_id="r")
            assert started["session"]["agent"] == "codex"
            own = await agent.ask("session_next", agent="other")
            assert own["session"]["agent"] == "other"
            await agent.ask("session_start", work="B", agent="other", request_id="o")
        # A request is kept in the name of who made it, wherever that was declared.
        async with connected(shared.folder, CALLBOARD_AGENT="env") as agent:
            again = await agent.ask("session_start", work="A", agent="codex", request_id="r")
            assert again == started
            code = await agent.refused("session_start", work="A", request_id="r")
            assert code == "request_conflict"
            assert await agent.refused("receipt_show", request_id="o") == "not_found"
            shown = await agent.ask("receipt_show", request_id="o", agent="other")
            assert shown["receipt"]["actor"] == "other"

    talk(play)


def test_who_may_only_look_has_no_tool_that_changes(shared: Shared) -> None:
    async def play() -> None:
        async with connected(shared.folder, "--read-only") as agent:
            assert await agent.tools() == [one.tool for one in OPERATIONS if not one.changes]
            assert await agent.refused("branch_create", name="x") == "tool_unknown"
            assert (await agent.ask("status"))["branch"] == "main"

    talk(play)


def test_a_server_may_be_there_before_the_project(tmp_path: Path) -> None:
    async def play() -> None:
        async with connected(tmp_path) as agent:
            assert await agent.refused("status") == "project_missing"
            await agent.ask("init", accept=True)
            assert (await agent.ask("session_next", agent="a"))["work"]["key"] == "W-1"

    talk(play)


def test_pages_are_as_long_as_an_answer_may_be_and_lead_on(shared: Shared) -> None:
    bodies = [{"text": f"{number} " + "é" * 2_000} for number in range(40)]
    for body in bodies:
        shared.ask("event", "append", "--type", "note.taken", "--body", json.dumps(body))

    async def play() -> list[Any]:
        found: list[Any] = []
        async with connected(shared.folder) as agent:
            cursor: dict[str, str] = {}
            while True:
                page = await agent.ask("event_list", type="note.taken", **cursor)
                assert "left_out" not in page
                found += page["events"]
                if page["next"] is None:
                    return found
                cursor = {"after": page["next"]}

    assert [one["body"] for one in talk(play)] == bodies


def test_what_is_longer_than_an_answer_is_cut_and_said_so(shared: Shared) -> None:
    session = shared.session("A")
    words = ["session", "checkpoint", "--session", session, "--digest", "d" * 16_000]
    loops = [word for number in range(20) for word in ("--open-loop", f"{number} " + "l" * 10_000)]
    shared.ask(*words, "--next-action", "n", *loops)
    text = json.dumps({"text": "x" * 60_000})
    shared.ask("event", "append", "--type", "note.taken", "--body", text)

    async def play() -> None:
        async with connected(shared.folder) as agent:
            shown = await agent.ask("session_show", session=session)
            assert "/checkpoint/open_loops" in shown["left_out"]
            assert shown["session"]["id"] == session
            assert shown["checkpoint"]["next_action"] == "n"
            page = await agent.ask("event_list", type="note.taken")
            assert page["left_out"] == ["/events", "/events/0/body/text"]
            assert page["events"][0]["body"]["text"].startswith("xxx")

    talk(play)


@pytest.mark.parametrize(
    "document",
    [
        {"a": "\u202e" * 50_000},
        {"a": ["x" * 40] * 5_000, "b": 1},
        {"a": {f"k{number}": "v" * 30 for number in range(5_000)}},
        {"a": [[["x" * 9_000] * 9] * 9]},
        {"a": {"k" * 40_000: 1}, "b": {"~/": "x" * 40_000}},
        {"a": {f"/{number}" * 100: "v" * 900 for number in range(80)}},
        {"a": "😀" * 30_000, "b": '"\\' * 30_000, "c": list(range(50_000))},
    ],
)
def test_any_document_is_cut_to_its_bound(document: dict[str, Any]) -> None:
    found = cut(document)
    assert size_of(found) <= MAX_ANSWER_BYTES
    assert found["left_out"]
    assert {name: type(value) for name, value in found.items() if name != "left_out"} == {
        name: type(value) for name, value in document.items()
    }
    assert cut({"a": 1}) == {"a": 1}
