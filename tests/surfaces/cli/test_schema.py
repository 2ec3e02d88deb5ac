"""`callboard ledger schema`: one document, the same every time, of all records or of one."""

from __future__ import annotations

import json

import pytest
from jsonschema import Draft202012Validator

from callboard import canonical
from callboard.board.projection.state import Projection
from callboard.board.protocol.schema import schema_of
from callboard.surfaces.cli.schema import KINDS
from tests.board.ledger.comparison import engine_apply, plain
from tests.model.history import random_history
from tests.surfaces.cli.conftest import Person


def test_it_describes_all_kinds_in_one_document(person: Person) -> None:
    answer = person.done("ledger", "schema")
    assert person.done("ledger", "schema", "--json").stdout == answer.stdout
    made = answer.json
    Draft202012Validator.check_schema(made)
    assert answer.stdout.encode() == canonical.encode(made) + b"\n"
    assert len(made["anyOf"]) == len(KINDS)
    validator = Draft202012Validator(made)
    person.submit()
    for row in person.ledger.splitlines():
        assert validator.is_valid(json.loads(row))
    state = person.ask("ledger", "replay")
    assert validator.is_valid(state)
    assert not validator.is_valid({})
    assert not validator.is_valid({**state, "note": 1})


@pytest.mark.parametrize("kind", KINDS)
def test_it_describes_one_kind(person: Person, kind: str) -> None:
    made = person.done("ledger", "schema", "--kind", kind).json
    Draft202012Validator.check_schema(made)
    assert made["$ref"] == f"#/$defs/{KINDS[kind].__name__}"
    assert KINDS[kind].__name__ in made["$defs"]


@pytest.mark.parametrize("seed", range(3))
def test_the_state_of_any_board_fits(seed: int) -> None:
    validator = Draft202012Validator(schema_of({"state": KINDS["state"]}))
    projection = Projection()
    for number, commit in enumerate(random_history(seed, 40)):
        assert engine_apply(projection, commit) is None
        if number % 13 == 12:
            state = plain(projection)
            assert list(validator.iter_errors(state)) == []
            requests = state.pop("requests")
            assert validator.is_valid({**state, "requests_compressed": "eA=="})
            assert not validator.is_valid({**state, "requests": [requests[0] | {"x": 1}]})


def test_an_unknown_kind_is_refused_with_those_there_are(person: Person) -> None:
    answer = person.call("ledger", "schema", "--kind", "commits")
    assert answer.status == 2
    assert all(kind in answer.stderr for kind in KINDS)


def test_it_needs_no_board(person: Person) -> None:
    assert person.call("ledger", "schema", CALLBOARD_REPO="/nowhere").status == 0
