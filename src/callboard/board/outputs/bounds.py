"""How many outputs of which type one Claim may and must deliver.

Source: specification 1, §§7.14, 7.15; wire-v3 §9. The worker's recipe and the Work's effect
contract are asked one after the other, and neither stands in for the other: a type stands only
where both declare it, the smaller maximum holds, and each minimum has to be met.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from callboard.board.outputs.installed import has_verifier
from callboard.board.protocol.contract import EffectContract, OutputRule, Verification, contract_of
from callboard.board.protocol.operations import Payload
from callboard.board.protocol.output_types import BUILT_IN, most_of
from callboard.errors import CallboardError
from callboard.validate import near

NOOP = "noop"
"""The type that everybody may deliver, declared or not: it has no effect."""


class Unmet(NamedTuple):
    """Why a Claim cannot be delivered: a reason code and what is lacking."""

    code: str
    message: str


class Bounds:
    """One Claim's bounds. `recipe` is `{type: (min, max)}`, None where it is not known.

    Raises `contract_invalid`.
    """

    def __init__(self, payload: Payload, recipe: Mapping[str, tuple[int, int]] | None) -> None:
        self._contract: EffectContract | None = contract_of(payload)
        self._recipe = recipe

    @property
    def writes_nothing(self) -> bool:
        """Whether the Work declares that it has no outputs."""
        return self._contract is not None and not self._contract.outputs

    def declares(self, output_type: str) -> bool:
        """Whether the Work's contract has the type, so that its outputs are described."""
        return self._contract is not None and self._contract.rule(output_type) is not None

    def verification(self, output_type: str) -> Verification | None:
        """What the contract wants each output of a type to be judged by, if anything."""
        rule = None if self._contract is None else self._contract.rule(output_type)
        asked = None if rule is None else rule.verification
        return asked if isinstance(asked, Verification) else None

    def check(self, output_type: str, count: int) -> None:
        """Judge the `count`-th output of a type: `output_not_declared` or `output_limit`."""
        most = self._most(output_type)
        if count > most:
            raise CallboardError(
                "output_limit",
                f"one more {output_type} makes {count}, at most {most} may be delivered",
                "what was staged stays as it is; leave this one out",
                {"type": output_type, "limit": most},
            )

    def unmet(self, counts: Mapping[str, int]) -> list[Unmet]:
        """What stands against completing with these counts of accepted outputs, by type."""
        if self._contract is None:
            return [
                Unmet(
                    "delivery_contract_required",
                    "the Work states no effect contract, so no delivery could be verified",
                )
            ]
        return [*self._unmet_contract(self._contract, counts), *self._unmet_recipe(counts)]

    def _unmet_contract(self, contract: EffectContract, counts: Mapping[str, int]) -> list[Unmet]:
        found: list[Unmet] = []
        for rule in contract.outputs:
            asked = rule.verification
            if isinstance(asked, Verification) and not has_verifier(asked.verifier_id):
                found.append(
                    Unmet(
                        "verifier_unknown",
                        f"no verifier {asked.verifier_id} is registered here to judge {rule.type}",
                    )
                )
            count = counts.get(rule.type, 0)
            if count < rule.min:
                found.append(_missing(count, rule.min, rule.type))
        return found

    def _unmet_recipe(self, counts: Mapping[str, int]) -> list[Unmet]:
        """What the worker itself promised of each Claim, whatever its Work asks for."""
        rules = sorted((self._recipe or {}).items())
        return [
            _missing(counts.get(name, 0), least, name, " that the worker's recipe asks for")
            for name, (least, _most) in rules
            if counts.get(name, 0) < least
        ]

    def _rule(self, output_type: str) -> OutputRule:
        declared = [] if self._contract is None else [rule.type for rule in self._contract.outputs]
        rule = None if self._contract is None else self._contract.rule(output_type)
        if rule is None:
            said = ", ".join(declared) or "no output at all"
            raise _undeclared(output_type, f"the Work declares {said}{near(output_type, declared)}")
        if self._recipe is not None and output_type not in self._recipe:
            said = ", ".join(sorted(self._recipe)) or "no output at all"
            raise _undeclared(output_type, f"the worker's recipe declares {said}")
        return rule

    def _most(self, output_type: str) -> int:
        if output_type == NOOP and not self.declares(NOOP):
            return BUILT_IN[NOOP]
        rule = self._rule(output_type)
        possible = most_of(output_type)
        if possible is None:
            raise _undeclared(output_type, f"only {', '.join(BUILT_IN)} can be delivered here")
        most = min(rule.max, possible)
        return most if self._recipe is None else min(most, self._recipe[output_type][1])


def _missing(count: int, least: int, output_type: str, asked: str = "") -> Unmet:
    return Unmet("output_missing", f"{count} of {least} {output_type} outputs{asked} are there")


def _undeclared(output_type: str, found: str) -> CallboardError:
    return CallboardError(
        "output_not_declared",
        f"no {output_type} may be delivered: {found}",
        "outputs are declared in the plan's contract and the recipe's outputs",
        {"type": output_type},
    )
