"""Contract and recipe together: what may be delivered, and what must."""

from __future__ import annotations

from typing import Any

import pytest

from callboard.board.outputs.bounds import Bounds
from callboard.errors import CallboardError
from tests.board.outputs.scene import NO_WRITES, outputs


def bounds(contract: dict[str, Any] | None, recipe: Any = None) -> Bounds:
    return Bounds({} if contract is None else {"effect_contract": contract}, recipe)


def refusal(found: Bounds, output_type: str, count: int = 1) -> str:
    with pytest.raises(CallboardError) as refused:
        found.check(output_type, count)
    return refused.value.code


def test_both_must_declare_a_type() -> None:
    bounds(outputs(artifact=(0, 2)), {"artifact": (0, 5)}).check("artifact", 2)
    assert refusal(bounds(outputs(patch=(0, 1))), "artifact") == "output_not_declared"
    assert refusal(bounds(outputs(artifact=(0, 1)), {}), "artifact") == "output_not_declared"
    assert refusal(bounds(NO_WRITES, {"artifact": (0, 5)}), "artifact") == "output_not_declared"
    assert refusal(bounds(None, {"artifact": (0, 5)}), "artifact") == "output_not_declared"


def test_the_stricter_maximum_holds() -> None:
    assert refusal(bounds(outputs(artifact=(0, 2)), {"artifact": (0, 5)}), "artifact", 3) == (
        "output_limit"
    )
    assert refusal(bounds(outputs(artifact=(0, 5)), {"artifact": (0, 1)}), "artifact", 2) == (
        "output_limit"
    )
    assert refusal(bounds(outputs(patch=(0, 9))), "patch", 2) == "output_limit"


def test_a_type_without_a_handler_cannot_be_delivered() -> None:
    found = bounds(outputs(create_issue=(1, 1)))
    assert refusal(found, "create_issue") == "output_not_declared"
    assert [item.code for item in found.unmet({})] == ["output_missing"]


def test_contract_and_recipe_each_have_their_minimum() -> None:
    found = bounds(outputs(artifact=(3, 5)), {"artifact": (2, 5), "patch": (1, 1)})
    recipe = "that the worker's recipe asks for"
    assert [item.message for item in found.unmet({"artifact": 1})] == [
        "1 of 3 artifact outputs are there",
        f"1 of 2 artifact outputs {recipe} are there",
        f"0 of 1 patch outputs {recipe} are there",
    ]
    assert [item.message for item in found.unmet({"artifact": 2, "patch": 1})] == [
        "2 of 3 artifact outputs are there"
    ]
    assert found.unmet({"artifact": 3, "patch": 1}) == []


def test_a_no_op_needs_no_declaration() -> None:
    bounds(NO_WRITES, {}).check("noop", 1)
    assert refusal(bounds(NO_WRITES, {}), "noop", 2) == "output_limit"
    declared = bounds(outputs(noop=(1, 1)), {"noop": (0, 1)})
    declared.check("noop", 1)
    assert [item.code for item in declared.unmet({})] == ["output_missing"]
    assert refusal(bounds(outputs(noop=(0, 1)), {}), "noop") == "output_not_declared"


def test_without_a_contract_nothing_can_be_verified() -> None:
    assert [item.code for item in bounds(None).unmet({})] == ["delivery_contract_required"]
    assert bounds(NO_WRITES).unmet({}) == []
    assert bounds(NO_WRITES).writes_nothing
    assert not bounds(None).writes_nothing


def test_an_unknown_verifier_is_not_passed_over() -> None:
    rule = {
        "type": "artifact", "min": 0, "max": 1,
        "verification": {"verifier_id": "Checks.v1", "expected": {}},
    }  # fmt: skip
    found = bounds({"version": 1, "outputs": [rule]})
    assert [item.code for item in found.unmet({"artifact": 1})] == ["verifier_unknown"]


def test_a_malformed_contract_is_refused() -> None:
    with pytest.raises(CallboardError, match="contract_invalid"):
        bounds({"version": 1, "outputs": []})
