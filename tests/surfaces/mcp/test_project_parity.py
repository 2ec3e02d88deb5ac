"""The command line, the agents' tools and the façade itself: one answer, one refusal."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from mcp.client.session import ClientSession
from mcp.client.stdio import StdioServerParameters, stdio_client

from callboard.errors import CallboardError
from callboard.project.asking import Caller, ask
from callboard.project.operation import Operation
from callboard.project.operations_table import OPERATIONS, named
from tests.ambient import ROOT
from tests.surfaces.mcp.agents import talk
from tests.surfaces.project.script import SCRIPT, Memory, Step
from tests.surfaces.project.shared import WORK, Plain, Shared, words_of

Ask = Callable[[Operation, dict[str, Any]], Any]
AskLater = Callable[[Operation, dict[str, Any]], Awaitable[Any]]


def facade(folder: Path) -> Ask:
    """The façade, by the one way that surfaces take."""

    def asked(operation: Operation, arguments: dict[str, Any]) -> Any:
        try:
            return ask(Caller(folder), operation, arguments)
        except CallboardError as error:
            return {"error": error.document()}

    return asked


def typed(folder: Path) -> Ask:
    """The command line."""
    shared = Shared(folder)

    def asked(operation: Operation, arguments: dict[str, Any]) -> Any:
        words, stdin = words_of(operation, arguments)
        answer = shared.call(*words, "--json", stdin=stdin)
        assert answer.stderr == ""
        document = answer.json
        if answer.status == 1:
            assert list(document) == ["error"]
        else:
            assert answer.status == (0 if operation.found(document) else 3)
        return document

    return asked


def play(ask_for: Ask, folder: Path) -> list[Any]:
    """The whole script, each answer made comparable."""
    memory, plain, found = Memory(folder), Plain(folder), []
    for step in SCRIPT:
        document = ask_for(named(*step.words.split()), memory.arguments(step))
        found.append(_checked(step, document, memory, plain))
    return found


def _checked(step: Step, document: Any, memory: Memory, plain: Plain) -> Any:
    code = document["error"]["code"] if "error" in document else None
    assert code == step.code, (step, document)
    if code is None:
        memory.keep(step, document)
    return _hinted(plain.of(document))


def _hinted(value: Any, name: str = "") -> Any:
    """The document; what hints and remarks quote is the one thing that tools spell differently."""
    if isinstance(value, dict):
        return {key: _hinted(one, key) for key, one in value.items()}
    if isinstance(value, list):
        return [_hinted(one, name) for one in value]
    if name in ("hint", "remarks"):
        return re.sub("`(callboard project|project_)[^`]*`", "COMMAND", value)
    return value


async def play_as_agent(folder: Path) -> list[Any]:
    """The same through the tools."""
    memory, plain, found = Memory(folder), Plain(folder), []
    parameters = StdioServerParameters(
        command=sys.executable,
        args=["-m", "callboard", "mcp", "project", "--repo", str(folder)],
        env={"PYTHONPATH": str(ROOT / "src")},
    )
    async with (
        stdio_client(parameters) as (reading, writing),
        ClientSession(reading, writing) as session,
    ):
        await session.initialize()
        for step in SCRIPT:
            tool = named(*step.words.split()).tool
            answer = await session.call_tool(tool, memory.arguments(step))
            assert bool(answer.is_error) == (step.code is not None), (step, answer)
            document = answer.structured_content
            assert "callboard project" not in json.dumps(document.get("error")), step
            found.append(_checked(step, document, memory, plain))
    return found


@pytest.fixture
def folders(tmp_path: Path) -> list[Path]:
    """Three folders of the same name with the same work."""
    found = [tmp_path / name / "demo" for name in ("one", "two", "three")]
    for folder in found:
        folder.mkdir(parents=True)
        (folder / "work.yaml").write_text(WORK)
    return found


def test_all_surfaces_answer_alike(folders: list[Path]) -> None:
    """One script, played three times; step by step the same is answered and refused."""
    direct = play(facade(folders[0]), folders[0])
    on_the_line = play(typed(folders[1]), folders[1])
    by_tools = talk(lambda: play_as_agent(folders[2]))
    for step, *answers in zip(SCRIPT, direct, on_the_line, by_tools, strict=True):
        assert answers[1] == answers[0], step
        assert answers[2] == answers[0], step


def test_the_script_has_every_operation_done_and_refused() -> None:
    done = {step.words for step in SCRIPT if step.code is None}
    refused = {step.words for step in SCRIPT if step.code is not None}
    everything = {" ".join(one.words) for one in OPERATIONS}
    assert done == everything
    # These take nothing that could be wrong.
    assert everything - refused == {"status", "branch list", "source scan", "doctor"}


def _some(operation: Operation) -> dict[str, Any]:
    values = {"count": 5, "object": {}, "changes": [{"work": "A", "values": {"title": "t"}}]}
    return {
        one.name: values.get(one.kind, "some.name")
        for one in operation.parameters
        if one.required or one.is_caller
    }


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda one: one.tool)
def test_without_a_project_all_are_refused_alike(operation: Operation, tmp_path: Path) -> None:
    if operation.call == "init":
        return
    direct = facade(tmp_path)(operation, _some(operation))
    assert direct["error"]["code"] == "project_missing"
    assert typed(tmp_path)(operation, _some(operation)) == direct
    assert list(tmp_path.iterdir()) == []
