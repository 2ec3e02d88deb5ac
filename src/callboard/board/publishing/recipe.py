"""Worker recipes: `.callboard/workers/<name>.toml`, read into a typed value or refused by fault.

Source: wire-v3 §10. A recipe says what a worker runs, what it may see and what it may deliver; it
holds names of variables, never values, and nothing here runs anything or reads a file.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from callboard import canonical
from callboard.board.protocol.memory_rules import (
    MemoryRules,
    base_fault,
    branch_fault,
    path_fault,
)
from callboard.board.protocol.memory_schema import schema_faults
from callboard.board.protocol.output_types import BUILT_IN, most_of
from callboard.board.publishing.toml_fields import MAX_SECONDS, Fields, is_file_stem, variable_fault
from callboard.board.publishing.toml_text import read_toml
from callboard.errors import CallboardError
from callboard.validate import MAX_FAULTS, near, pointer_step, show

MAX_RECIPE_BYTES = 64 * 1024
MAX_RECIPES = 256
FOLDER = ".callboard/workers/"
SUFFIX = ".toml"

_LABEL = re.compile(r"[^\x00-\x1f\x7f]{1,128}")
_TIMEOUT_S = 3_600
_SETUP_TIMEOUT_S = 900
_MAX_CLAIMS = 16
_MAX_BUDGET = 256
_MEMORY = "memory"

# Names of faulty recipes in a message; the details hold all of them.
_MAX_NAMED = 8


@dataclass(frozen=True, slots=True)
class OutputRule:
    """How many outputs of one type a claim delivers, at least and at most (0..128)."""

    type: str
    min: int
    max: int


@dataclass(frozen=True, slots=True)
class Recipe:
    """A worker as its file describes it. Times in seconds; names sorted, each once.

    `command` and `setup` are argument lists; `env` names variables of the dispatcher that pass to
    the worker. `max_dispatches` is what all requests of one run for further launches may ask for
    together. `mcp`: its run finds the board's tools ready to be started. `memory` goes with the
    output type of that name and says what of it is kept where.
    """

    command: tuple[str, ...]
    timeout_s: int = _TIMEOUT_S
    setup: tuple[str, ...] | None = None
    setup_timeout_s: int = _SETUP_TIMEOUT_S
    env: tuple[str, ...] = ()
    max_claims: int = 1
    share_keys: bool = False
    outputs: tuple[OutputRule, ...] = ()
    max_dispatches: int = 1
    mcp: bool = False
    memory: MemoryRules | None = None
    inputs: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()


def recipe_path(name: str) -> str:
    """The path of the recipe `name` in its repository. Raises `recipe_invalid` for a bad name."""
    if not is_file_stem(name):
        raise CallboardError(
            "recipe_invalid",
            f"{name[:80]!r} cannot name a worker",
            "use 1 to 64 letters, digits, '_', '-' and '.', starting with a letter or digit",
        )
    return FOLDER + name + SUFFIX


def recipe_name(path: str) -> str | None:
    """The name of the recipe at `path`; None where no recipe can lie there."""
    if not path.startswith(FOLDER) or not path.endswith(SUFFIX):
        return None
    name = path[len(FOLDER) : -len(SUFFIX)]
    return name if is_file_stem(name) else None


def parse_recipe(data: bytes, *, name: str) -> Recipe:
    """The recipe in `data`, the file of the worker `name`.

    Raises `CallboardError` `recipe_invalid` with every fault in `details.faults`, each
    `{pointer, message}`, or `resource_limit` for more than 64 KiB.
    """
    path = recipe_path(name)
    table = read_toml(data, path=path, code="recipe_invalid", limit_bytes=MAX_RECIPE_BYTES)
    reader = _Reader(table)
    recipe = reader.recipe()
    if recipe is None:
        raise reader.refusal("recipe_invalid", path)
    return recipe


def read_recipes(paths: Iterable[str], read: Callable[[str], bytes | None]) -> dict[str, Recipe]:
    """Every recipe among the files `paths` of `FOLDER`, by worker name.

    Nothing is left out: a board keeps the workers it began with, so a typo would be for good.
    Raises `CallboardError`: `config_invalid` for more than `MAX_RECIPES`, before any is read, and
    `recipe_invalid` with the faults of every faulty one.
    """
    names = [
        path[len(FOLDER) : -len(SUFFIX)]
        for path in paths
        if path.startswith(FOLDER) and path.endswith(SUFFIX)
    ]
    if len(names) > MAX_RECIPES:
        raise CallboardError(
            "config_invalid",
            f"{FOLDER} holds {len(names)} recipes, a board takes at most {MAX_RECIPES}",
            "keep the recipes that this board needs, and commit",
            {"count": len(names), "limit": MAX_RECIPES},
        )
    found: dict[str, Recipe] = {}
    faulty: dict[str, CallboardError] = {}
    for name in names:
        try:
            data = read(recipe_path(name))
            if data is not None:
                found[name] = parse_recipe(data, name=name)
        except CallboardError as error:
            if error.code not in ("recipe_invalid", "resource_limit"):
                raise
            faulty[name] = error
    if faulty:
        raise _faulty(faulty)
    return found


def _faulty(refusals: Mapping[str, CallboardError]) -> CallboardError:
    """One refusal for all faulty recipes; of several, each place begins with the worker."""
    names = list(refusals)
    first = refusals[names[0]]
    share = max(1, MAX_FAULTS // len(names))
    faults = [
        {
            **fault,
            "pointer": pointer_step(name) + fault["pointer"]
            if len(names) > 1
            else fault["pointer"],
        }
        for name, error in refusals.items()
        for fault in _faults_in(error)[:share]
    ]
    message = first.message
    if len(names) > 1:
        more = f" and {len(names) - _MAX_NAMED} more" if len(names) > _MAX_NAMED else ""
        named = ", ".join(map(show, names[:_MAX_NAMED]))
        message = f"{len(names)} worker recipes are faulty: {named}{more}; {message}"
    return CallboardError(
        "recipe_invalid", message, first.hint, {"workers": names, "faults": faults}
    )


def _faults_in(error: CallboardError) -> list[dict[str, str]]:
    faults = error.details.get("faults")
    return faults if isinstance(faults, list) else [{"pointer": "", "message": error.message}]


def logical_contract(recipe: Recipe) -> str:
    """What Work may rely on, as a digest: all but command, set-up and time limits (wire-v3 §10)."""
    return canonical.digest(
        {
            "inputs": sorted(recipe.inputs),
            "env": sorted(recipe.env),
            "outputs": [
                {"type": rule.type, "min": rule.min, "max": rule.max}
                for rule in sorted(recipe.outputs, key=lambda rule: rule.type)
            ],
            "tools": sorted(recipe.tools),
            "max_claims": recipe.max_claims,
            "share_keys": recipe.share_keys,
        }
    )


class _Reader(Fields):
    """Takes the fields of a recipe's table and gathers what is wrong with them."""

    def recipe(self) -> Recipe | None:
        """The recipe, or None when there are faults."""
        self.unknown(self.table, tuple(Recipe.__slots__), "")
        outputs = self._outputs()
        recipe = Recipe(
            command=self.required_argv("command"),
            timeout_s=self.integer("timeout_s", _TIMEOUT_S, 1, MAX_SECONDS),
            setup=self.argv("setup"),
            setup_timeout_s=self.integer("setup_timeout_s", _SETUP_TIMEOUT_S, 1, MAX_SECONDS),
            env=self.names("env", variable_fault),
            max_claims=self.integer("max_claims", 1, 1, _MAX_CLAIMS),
            share_keys=self.flag("share_keys"),
            outputs=outputs,
            max_dispatches=self.integer("max_dispatches", 1, 0, _MAX_BUDGET),
            mcp=self.flag("mcp"),
            memory=self._memory(outputs),
            inputs=self.names("inputs", _label_fault),
            tools=self.names("tools", _label_fault),
        )
        asked = next((rule.min for rule in outputs if rule.type == "dispatch_next"), 0)
        if asked > recipe.max_dispatches:
            self.fault(
                "/outputs/dispatch_next/min",
                f"is {asked}, more launches than max_dispatches, {recipe.max_dispatches}",
            )
        return None if self.faults else recipe

    def _outputs(self) -> tuple[OutputRule, ...]:
        value = self.table.get("outputs", [])
        if isinstance(value, dict):
            rules = [self._rule(kind, value[kind]) for kind in sorted(value)]
            return tuple(rule for rule in rules if rule is not None)
        kinds = self.names("outputs", _output_fault)
        return tuple(OutputRule(kind, 0, most_of(kind) or 0) for kind in kinds)

    def _rule(self, kind: str, value: object) -> OutputRule | None:
        place = "/outputs" + pointer_step(kind)
        most = most_of(kind)
        if most is None:
            self.fault(place, _output_fault(kind))
            return None
        if not isinstance(value, dict):
            self.fault(place, f"is {show(value)}, not a table with min and max")
            return None
        self.unknown(value, ("min", "max"), place)
        at_most = self.integer_at(value, "max", most, (0, most), place)
        at_least = self.integer_at(value, "min", 0, (0, most), place)
        if at_least > at_most:
            self.fault(f"{place}/min", f"is {at_least}, more than max, {at_most}")
        return OutputRule(kind, at_least, at_most)

    def _memory(self, outputs: Iterable[OutputRule]) -> MemoryRules | None:
        """The rules of the worker's memory, there exactly where it may deliver one."""
        declared = any(rule.type == _MEMORY for rule in outputs)
        if _MEMORY not in self.table:
            if declared:
                self.fault("/memory", "is missing: a table with path, branch and schema")
            return None
        table = self.table[_MEMORY]
        if not isinstance(table, dict):
            self.fault("/memory", f"is {show(table)}, not a table with path, branch and schema")
            return None
        if not declared:
            self.fault("/memory", "goes with the output type memory, which outputs does not have")
        self.unknown(table, tuple(MemoryRules.__slots__), "/memory")
        for key, judge in (("path", path_fault), ("branch", branch_fault), ("base", base_fault)):
            wrong = judge(table.get(key))
            if key not in table and key != "base":
                self.fault(f"/memory/{key}", "is missing")
            elif wrong:
                self.fault(f"/memory/{key}", f"{show(table[key])} {wrong}")
        if "schema" in table:
            self.faults.extend(schema_faults(table["schema"], "/memory/schema"))
        else:
            self.fault("/memory/schema", "is missing: what a memory has to look like")
        if self.faults:
            return None
        return MemoryRules(table["path"], table["branch"], table["schema"], table.get("base"))


def _label_fault(name: str) -> str:
    return "" if _LABEL.fullmatch(name) else "is not a name of 1 to 128 printable characters"


def _output_fault(name: str) -> str:
    if most_of(name) is not None:
        return ""
    known = list(BUILT_IN)
    return "is no output type" + (
        near(name, known)
        or f"; known are {', '.join(known)}, and own ones have a dot, such as acme.ticket"
    )
