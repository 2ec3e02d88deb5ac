"""How many outputs of which type one Claim may and must deliver.

Source: specification 1, §§7.14, 7.15; wire-v3 §9. The Work's effect contract and the worker's
recipe both count: a type stands only where both declare it, and the stricter number holds.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from callboard.board.protocol.contract import EffectContract, OutputRule, Verification, contract_of
from callboard.board.protocol.operations import Payload
from callboard.board.protocol.validate import near
from callboard.errors import CallboardError

MOST_BY_TYPE = {"artifact": 128, "patch": 1}
"""The types that can be delivered here; a patch is its Claim's one branch."""


class Unmet(NamedTuple):
    """Why a Claim cannot be delivered: a reason code and what is lacking."""

    code: str
    message: str


class Bounds:
    """One Claim's bounds. `recipe` is `{type: (min, max)}`, None where it is not known.

    A recipe's minimum binds only for types that the Work declares: a worker that usually makes
    patches may also serve Work that wants none. Raises `contract_invalid`.
    """

    def __init__(self, payload: Payload, recipe: Mapping[str, tuple[int, int]] | None) -> None:
        self._contract: EffectContract | None = contract_of(payload)
        self._recipe = recipe

    @property
    def writes_nothing(self) -> bool:
        """Whether the Work declares that it has no outputs."""
        return self._contract is not None and not self._contract.outputs

    def check(self, output_type: str, count: int) -> None:
        """Judge the `count`-th output of a type: `output_not_declared` or `output_limit`."""
        rule = self._rule(output_type)
        most = self._most(rule)
        if count > most:
            raise CallboardError(
                "output_limit",
                f"one more {output_type} makes {count}, at most {most} may be delivered",
                f"put it together with another {output_type}, or leave it out",
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
        found: list[Unmet] = []
        for rule in self._contract.outputs:
            if isinstance(rule.verification, Verification):
                found.append(
                    Unmet(
                        "verifier_unknown",
                        f"no verifier {rule.verification.verifier_id} is registered here to judge "
                        f"{rule.type}",
                    )
                )
            least = max(rule.min, (self._recipe or {}).get(rule.type, (0, 0))[0])
            count = counts.get(rule.type, 0)
            if count < least:
                found.append(
                    Unmet("output_missing", f"{count} of {least} {rule.type} outputs are there")
                )
        return found

    def _rule(self, output_type: str) -> OutputRule:
        declared = [] if self._contract is None else [rule.type for rule in self._contract.outputs]
        rule = None if self._contract is None else self._contract.rule(output_type)
        if rule is None:
            said = ", ".join(declared) or "no output at all"
            raise _undeclared(output_type, f"the Work declares {said}{near(output_type, declared)}")
        if self._recipe is not None and output_type not in self._recipe:
            said = ", ".join(sorted(self._recipe)) or "no output at all"
            raise _undeclared(output_type, f"the worker's recipe declares {said}")
        if output_type not in MOST_BY_TYPE:
            raise _undeclared(output_type, f"only {', '.join(MOST_BY_TYPE)} can be delivered here")
        return rule

    def _most(self, rule: OutputRule) -> int:
        most = min(rule.max, MOST_BY_TYPE[rule.type])
        return most if self._recipe is None else min(most, self._recipe[rule.type][1])


def _undeclared(output_type: str, found: str) -> CallboardError:
    return CallboardError(
        "output_not_declared",
        f"no {output_type} may be delivered: {found}",
        "outputs are declared in the plan's contract and the recipe's outputs",
        {"type": output_type},
    )
