"""The server as its client meets it: roles, tools, wishes, refusals, bounds; all of it real."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from callboard.board.board import Board, Folders
from callboard.board.execution.principal import make_principal
from callboard.board.outputs.claims import ArtifactOutput
from callboard.board.outputs.context import AgentTerms
from callboard.board.outputs.intake import take
from callboard.board.outputs.messages import Terms
from callboard.board.protocol.commit import Assignment
from callboard.board.publishing.plan import parse_plan
from callboard.board.reading.view import View
from tests.board.outputs import scene
from tests.repositories import worker_repository
from tests.surfaces.cli.conftest import RECIPE, Person
from tests.surfaces.mcp.agents import READERS, Agent, Desk, connected, talk

HOSTILE = "\x9b31m\u202eevil\u200b <img src=x onerror=alert(1)> ]](javascript:x)\u2028."
# One attempt each, so that two thousand open nodes find room on the board.
KEYS = """[work_queue]
accounting_weights = {"" = 1, "secret-team" = 1}
retry = {max_attempts = 1}
"""
ALL = [
    *READERS,
    "work_queue_submit",
    "work_queue_dispatch_next",
    "work_queue_claim_finish",
    "work_queue_output",
]


class Place:
    """A repository with a board of two principals, Ada and Bob."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.folder = worker_repository(root / "repository", RECIPE)
        self.ada = Person(self.folder, root / "ada", root / "state")
        self.bob = Person(self.folder, root / "bob", root / "state")
        for person in (self.ada, self.bob):
            make_principal(person.config)
        self.ada.configure(KEYS)

    def open(self, person: Person) -> Board:
        return Board.open(self.folder, Folders(person.config, person.state))

    def post(self, person: Person, *nodes: dict[str, Any], graph: str = "g") -> None:
        with self.open(person) as board:
            board.submit(parse_plan({"graph": graph, "nodes": list(nodes)}))

    def view(self) -> View:
        with self.open(self.ada) as board:
            return board.view()

    def assignment(self, *keys: str, contract: dict[str, Any] | None = scene.BOTH) -> Assignment:
        """An assignment of Work that is on the board."""
        works = {one.work.node_key: one.work for one in self.view().projection.works.values()}
        made = scene.assignment(*[contract] * len(keys))
        claims = [
            structs.replace(one, work_id=works[key].work_id)
            for one, key in zip(made.claims, keys, strict=True)
        ]
        return structs.replace(made, claims=claims)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    found = Place(tmp_path)
    found.post(found.ada, {"key": "one", "payload": {"task": "first"}})
    found.post(found.ada, {"key": "two", "payload": {"task": "second"}, "after": ["one"]})
    found.post(
        found.bob,
        {"key": "secret-node", "payload": {"task": "secret-task"}, "fairness_key": "secret-team"},
        graph="secret-graph",
    )
    return found


def test_an_observer_reads_and_explains_and_does_nothing_else(place: Place) -> None:
    environment = place.ada.environment

    async def play() -> None:
        async with connected(env=environment) as agent:
            assert await agent.tools() == READERS
            page = await agent.ask("work_queue_read")
            assert page["role"] == "observer"
            assert page["count"] == 3
            assert "staged" not in page
            first = page["nodes"][0]
            assert "payload" not in first
            why = await agent.ask("work_queue_explain", work_id=first["work_id"][:8], bodies=True)
            assert why["node"]["payload"]["task"] == "first"
            assert why["pool"]["prediction"]["label"].startswith("a prediction")
            for name in ALL[2:]:
                assert await agent.refused(name) == "role_forbidden"
            assert await agent.refused("work_queue_claim") == "tool_unknown"
            assert await agent.refused("work_queue_explain", work_id="ffffff") == "work_unknown"
            assert await agent.refused("work_queue_explain", work_id="zz") == "work_unknown"
            assert await agent.refused("work_queue_explain") == "arguments_invalid"
            for handle in (None, "", "h1"):
                code = await agent.refused("work_queue_explain", claim_handle=handle)
                assert code == "claim_scope_invalid"
            both = {"work_id": first["work_id"], "claim_handle": "h1"}
            assert await agent.refused("work_queue_explain", **both) == "arguments_invalid"

    talk(play)


def test_nothing_of_another_principal_is_in_any_answer(place: Place) -> None:
    desk = Desk(place.root / "desk")
    desk.worker(place.view(), place.assignment("one"))
    assert b"secret" not in desk.files.snapshot.read_bytes()

    async def play() -> None:
        for words, environment in (([], place.ada.environment), (desk.words, {})):
            async with connected(*words, env=environment) as agent:
                page = await agent.ask("work_queue_read", bodies=True)
                assert page["count"] == 3
                hidden = page["nodes"][-1]
                assert set(hidden) == {
                    "work_id", "pool", "priority", "column", "stage", "reason",
                }  # fmt: skip
                why = await agent.ask("work_queue_explain", work_id=hidden["work_id"], bodies=True)
                assert why["node"] == hidden
                pool = await agent.ask("work_queue_read", pool="default")
                for document in (page, why, pool):
                    assert "secret" not in str(document)
                assert why["pool"]["other_keys"]["count"] == 1

    talk(play)


def test_a_worker_stages_for_its_sole_claim(place: Place) -> None:
    desk = Desk(place.root / "desk").worker(place.view(), place.assignment("one"))
    (desk.work_tree / "report.txt").write_text("all is well")

    async def play() -> None:
        async with connected(*desk.words) as agent:
            assert await agent.tools() == ALL
            why = await agent.ask("work_queue_explain")
            assert why["node"]["claim_handle"] == "h1"
            by_path = {"type": "artifact", "path": "report.txt"}
            first = await agent.stage("work_queue_output", **by_path)
            assert await agent.stage("work_queue_output", **by_path, claim_handle="h1") == first
            text = {"type": "artifact", "text": "déjà", "name": "b.txt"}
            await agent.stage("work_queue_output", **text)
            await agent.stage("work_queue_output", type="patch")
            done = await agent.stage("work_queue_claim_finish", outcome="completed")
            again = {"outcome": "completed", "claim_handle": "h1"}
            assert await agent.stage("work_queue_claim_finish", **again) == done
            other = {"outcome": "cancelled"}
            assert await agent.refused("work_queue_claim_finish", **other) == "finish_conflict"
            page = await agent.ask("work_queue_read")
            assert page["staged"]["provenance"] == "staged_preview"
            assert page["staged"]["claims"] == [
                {
                    "claim_handle": "h1",
                    "outcome": "completed",
                    "staged": {"artifact": 2, "patch": 1},
                }
            ]
            assert [one["status"] for one in page["staged"]["intents"]] == ["staged"] * 4

    talk(play)
    (claim,) = take(desk.staging, place.assignment("one"), scene.TERMS).claims
    found = {one.name: one.data for one in claim.suppressed if isinstance(one, ArtifactOutput)}
    assert found == {"report.txt": b"all is well", "b.txt": "déjà".encode()}


@pytest.mark.parametrize("count", [1, 2])
def test_a_handle_is_judged_exactly_as_it_was_given(place: Place, count: int) -> None:
    assignment = place.assignment(*("one", "two")[:count])
    desk = Desk(place.root / "desk").worker(place.view(), assignment)

    async def play() -> None:
        async with connected(*desk.words) as agent:
            for tool, arguments in (
                ("work_queue_claim_finish", {"outcome": "completed"}),
                ("work_queue_output", {"type": "artifact", "name": "x", "text": "x"}),
                ("work_queue_output", {"type": "nonsense"}),
                ("work_queue_submit", {"plan": {"nodes": [{"payload": {}}]}}),
                ("work_queue_dispatch_next", {}),
                ("work_queue_explain", {}),
            ):
                for handle in (None, "", "h9", "H1", " h1", 1, ["h1"], {"h": 1}, True):
                    code = await agent.refused(tool, **arguments, claim_handle=handle)
                    assert code == "claim_scope_invalid", (tool, handle)
                if count == 2:
                    assert await agent.refused(tool, **arguments) == "claim_scope_required"
            await agent.stage("work_queue_claim_finish", outcome="completed", claim_handle="h1")
            if count == 2:
                # What was ambiguous stays so, whatever has finished.
                finish = {"outcome": "completed"}
                assert await agent.refused("work_queue_claim_finish", **finish) == (
                    "claim_scope_required"
                )

    talk(play)
    found = take(desk.staging, assignment, scene.TERMS)
    assert [one.outcome for one in found.claims] == ["completed", "cancelled"][:count]
    assert found.unattributed == ()


def test_producers_and_dispatchers_ask_within_their_terms(place: Place) -> None:
    principal = str(place.open(place.ada).site.principal)
    plan = {"graph": "more", "nodes": [{"key": "m", "payload": {}}]}

    async def play() -> None:
        for role, count in (("producer", 3), ("dispatcher", 4)):
            terms = AgentTerms(max_dispatches=2, max_claims=3, pool="default")
            desk = Desk(place.root / role).dispatcher(place.view(), role, principal, terms)
            async with connected(*desk.words) as agent:
                listed = (await agent.session.list_tools()).tools
                assert [tool.name for tool in listed] == ALL[:count]
                for tool in listed:
                    assert tool.input_schema["type"] == "object"
                    assert tool.input_schema["additionalProperties"] is False
                    has_handle = "claim_handle" in tool.input_schema["properties"]
                    assert not has_handle
                first = await agent.stage("work_queue_submit", plan=plan)
                assert await agent.stage("work_queue_submit", plan=plan) == first
                for handle in (None, "", "h1"):
                    code = await agent.refused("work_queue_submit", plan=plan, claim_handle=handle)
                    assert code == "claim_scope_invalid"
                assert await agent.refused("work_queue_claim_finish") == "role_forbidden"
                if role == "dispatcher":
                    await agent.stage("work_queue_dispatch_next", max_claims=2)
                    over = await agent.refused("work_queue_dispatch_next", max_claims=2)
                    assert over == "dispatch_budget_exceeded"
                    code = await agent.refused("work_queue_dispatch_next", pool="x")
                    assert code == "pool_forbidden"
                page = await agent.ask("work_queue_read")
                assert page["staged"]["count"] == count - 2
                assert page["nodes"][0]["node_key"] == "one"

    talk(play)


def test_outputs_of_every_type_are_staged_and_strange_ones_refused(place: Place) -> None:
    bounds = dict.fromkeys(("artifact", "note", "memory", "submit", "dispatch_next"), (0, 2))
    contract = scene.outputs(**bounds, **{"acme.ticket": (0, 1)})
    terms = Terms.of({**bounds, "acme.ticket": (0, 1)}, max_dispatches=3)
    assignment = place.assignment("one", contract=contract)
    desk = Desk(place.root / "desk").worker(place.view(), assignment, terms)
    (desk.root / "secret").write_text("secret")
    (desk.work_tree / "link").symlink_to(desk.root / "secret")

    async def play() -> None:
        async with connected(*desk.words) as agent:
            output = "work_queue_output"
            await agent.stage(output, type="note", text="a remark")
            await agent.stage(output, type="acme.ticket", value={"title": "x"})
            await agent.stage(output, type="noop", reason="nothing to do")
            await agent.stage(
                "work_queue_submit", plan={"graph": "child", "nodes": [{"key": "c", "payload": {}}]}
            )
            await agent.stage("work_queue_dispatch_next", max_claims=2, max_dispatches=2)
            for code, arguments in (
                ("path_invalid", {"type": "artifact", "path": "../secret"}),
                ("path_invalid", {"type": "artifact", "path": str(desk.root / "secret")}),
                ("file_not_regular", {"type": "artifact", "path": "link"}),
                ("file_missing", {"type": "artifact", "path": "none"}),
                ("artifact_name_invalid", {"type": "artifact", "text": "x", "name": "../x"}),
                ("arguments_invalid", {"type": "artifact"}),
                ("arguments_invalid", {"type": "artifact", "text": "x"}),
                ("arguments_invalid", {"type": "artifact", "text": "x", "path": "y"}),
                ("arguments_invalid", {"type": "note"}),
                ("arguments_invalid", {"type": "note", "text": "x", "value": {}}),
                ("arguments_invalid", {"type": "note", "text": None}),
                ("arguments_invalid", {"type": "note", "text": "x", "claim": "h1"}),
                ("arguments_invalid", {}),
                ("note_invalid", {"type": "note", "text": " "}),
                ("note_invalid", {"type": "note", "text": "\x1b[2J"}),
                ("output_not_declared", {"type": "patch"}),
                ("output_not_declared", {"type": "artefact", "text": "x"}),
                ("output_not_declared", {"type": "finish"}),
                ("output_limit", {"type": "acme.ticket", "value": {"title": "y"}}),
                ("noncanonical_number", {"type": "memory", "value": {"n": 0.5}}),
            ):
                assert await agent.refused(output, **arguments) == code, arguments
            nodes = [{"key": "c", "payload": {}, "after": ["c"]}]
            plan = {"graph": "child", "nodes": nodes}
            assert await agent.refused("work_queue_submit", plan=plan) == "dependency_self"
            assert await agent.refused("work_queue_submit", plan=[]) == "arguments_invalid"
            asked = {"max_claims": 1, "work_id": "x"}
            assert await agent.refused("work_queue_dispatch_next", **asked) == "arguments_invalid"
            for pool in ("other", ""):
                code = await agent.refused("work_queue_dispatch_next", pool=pool)
                assert code in ("pool_forbidden", "message_invalid")
            over = await agent.refused("work_queue_dispatch_next", max_dispatches=2)
            assert over == "dispatch_budget_exceeded"
            page = await agent.ask("work_queue_read")
            assert page["staged"]["count"] == 5
            assert page["staged"]["refused"] == 0

    talk(play)
    assert b"secret" not in b"".join(
        path.read_bytes() for path in desk.staging.iterdir() if path.is_file()
    )


def test_hostile_text_is_told_without_acting(place: Place) -> None:
    place.post(
        place.ada,
        {"key": HOSTILE.replace("\x9b31m", "x"), "payload": {"task": HOSTILE}},
        graph="hostile",
    )
    environment = place.ada.environment

    async def play() -> None:
        async with connected(env=environment) as agent:
            call = agent.session.call_tool("work_queue_read", {"bodies": True, "column": "ready"})
            answer = await call
            (content,) = answer.content
            assert content.type == "text"
            assert not {"\x9b", "\u202e", "\u200b", "\u2028"} & set(content.text)
            bodies = [one.get("payload", {}) for one in answer.structured_content["nodes"]]
            assert HOSTILE in [one.get("task") for one in bodies]
            for tool in (HOSTILE, "work_queue_read\n"):
                assert await agent.refused(tool) == "tool_unknown"
            for arguments in (
                {HOSTILE: 1}, {"pool": HOSTILE}, {"cursor": HOSTILE}, {"column": HOSTILE},
                {"limit": 10**30}, {"limit": 0}, {"limit": True}, {"bodies": "yes"},
                {"x" * 100_000: 1}, {"cursor": "A" * 100_000}, {"pool": None},
            ):  # fmt: skip
                code = await agent.refused("work_queue_read", **arguments)
                assert code in ("arguments_invalid", "pool_unknown", "cursor_invalid")

    talk(play)


async def _walk(agent: Agent, between: Any = None, **filters: Any) -> list[dict[str, Any]]:
    """All pages of a listing."""
    found: list[dict[str, Any]] = []
    cursor: dict[str, Any] = {}
    for _page in range(5_000):
        page = await agent.ask("work_queue_read", **filters, **cursor)
        found += page["nodes"]
        if page["next_cursor"] is None:
            assert len(found) == page["count"]
            return found
        cursor = {"cursor": page["next_cursor"]}
        if between is not None:
            between()
    raise AssertionError("the pages do not end")


def test_two_thousand_nodes_are_walked_whole_while_the_board_goes_on(place: Place) -> None:
    many = [
        {"key": f"n{number:04}", "payload": {"text": f"{number:04}" + "x" * 4_096}}
        for number in range(2_000)
    ]
    for start in range(0, len(many), 200):
        place.post(place.ada, *many[start : start + 200], graph="many")
    before = {one.work.node_key for one in place.view().projection.works.values()} - {"secret-node"}
    added: list[int] = []

    def add() -> None:
        if len(added) < 5:
            added.append(len(added))
            place.post(place.ada, {"key": f"late{len(added)}", "payload": {}}, graph="late")

    async def play() -> None:
        async with connected(env=place.ada.environment) as agent:
            rows = await _walk(agent, add, limit=200)
            assert [row for row in rows if "payload" in row] == []
            keys = [row["node_key"] for row in rows if "node_key" in row]
            assert len(keys) == len(set(keys))
            assert set(keys) == before
            again = await _walk(agent, limit=37)
            assert [row["work_id"] for row in again] == [row["work_id"] for row in rows]
            whole = await _walk(agent, bodies=True, limit=200, column="ready")
            texts = [
                row["payload"]["text"][:4] for row in whole if "text" in row.get("payload", {})
            ]
            assert sorted(texts) == [f"{number:04}" for number in range(2_000)]
            page = await agent.ask("work_queue_read", limit=1)
            moved = {"cursor": page["next_cursor"], "column": "ready"}
            assert await agent.refused("work_queue_read", **moved) == "cursor_invalid"

    talk(play)
    assert len(added) == 5


def test_a_node_larger_than_a_page_has_one_of_its_own(place: Place) -> None:
    place.post(
        place.ada,
        *({"key": f"big{number}", "payload": {"text": "é" * 8_000}} for number in range(4)),
        {"key": "wide", "payload": {"text": "\u202e" * 5_440}},
        graph="big",
    )

    async def play() -> None:
        async with connected(env=place.ada.environment) as agent:
            rows = {row["work_id"]: row for row in await _walk(agent, bodies=True)}
            named = {row.get("node_key"): row for row in rows.values()}
            assert [len(named[f"big{number}"]["payload"]["text"]) for number in range(4)] == (
                [8_000] * 4
            )
            assert named["wide"]["body_left_out"] is True
            why = await agent.ask(
                "work_queue_explain", work_id=named["wide"]["work_id"], bodies=True
            )
            assert why["left_out"] == ["payload"]
            assert why["node"]["obstacles"] == []

    talk(play)
