"""Worker recipes: `.callboard/workers/<name>.toml`, read into a typed value or refused by fault.

Source: wire-v3 §10. A recipe says what a worker runs, what it may see and what it may deliver; it
holds names of variables, never values, and nothing here runs anything or reads a file.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from callboard import canonical
from callboard.board.protocol.validate import MAX_FAULTS, Fault, near, pointer_step, refuse, show
from callboard.board.publishing.toml_text import read_toml
from callboard.errors import CallboardError

MAX_RECIPE_BYTES = 64 * 1024
MAX_RECIPES = 256
FOLDER = ".callboard/workers/"
SUFFIX = ".toml"
OUTPUT_TYPES = ("artifact", "patch")

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_LABEL = re.compile(r"[^\x00-\x1f\x7f]{1,128}")
_MAX_NAMES = 256
_MAX_SECONDS = 86_400
_TIMEOUT_S = 3_600
_SETUP_TIMEOUT_S = 900
_MAX_CLAIMS = 16
_MAX_OUTPUTS = 128
# What one claim can deliver at most: a patch is the claim's one branch.
_MOST_BY_TYPE = {"artifact": _MAX_OUTPUTS, "patch": 1}

# Names of faulty recipes in a message; the details hold all of them.
_MAX_NAMED = 8

_SET_BY_HOST_PREFIXES = ("GIT_", "CALLBOARD_")
_SET_BY_HOST = frozenset({"HOME", "TMPDIR"})
# With one of these a worker could write to the repository past the board.
_REPOSITORY_CREDENTIALS = frozenset(
    {
        "GH_ENTERPRISE_TOKEN", "GH_TOKEN", "GITHUB_ENTERPRISE_TOKEN", "GITHUB_TOKEN",
        "GITLAB_TOKEN", "SSH_AGENT_PID", "SSH_ASKPASS", "SSH_AUTH_SOCK",
    }
)  # fmt: skip


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
    the worker.
    """

    command: tuple[str, ...]
    timeout_s: int = _TIMEOUT_S
    setup: tuple[str, ...] | None = None
    setup_timeout_s: int = _SETUP_TIMEOUT_S
    env: tuple[str, ...] = ()
    max_claims: int = 1
    share_keys: bool = False
    outputs: tuple[OutputRule, ...] = ()
    inputs: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()


def recipe_path(name: str) -> str:
    """The path of the recipe `name` in its repository. Raises `recipe_invalid` for a bad name."""
    if not _NAME.fullmatch(name) or ".." in name:
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
    return name if _NAME.fullmatch(name) and ".." not in name else None


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
        raise reader.refusal(path)
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


class _Reader:
    """Takes the fields of a recipe's table and gathers what is wrong with them."""

    def __init__(self, table: Mapping[str, object]) -> None:
        self._table = table
        self._faults: list[Fault] = []

    def recipe(self) -> Recipe | None:
        """The recipe, or None when there are faults."""
        self._unknown(self._table, tuple(Recipe.__slots__), "")
        command = self._argv("command")
        if "command" not in self._table:
            self._fault("/command", "is missing: the program to run and its arguments")
        recipe = Recipe(
            command=command or (),
            timeout_s=self._integer("timeout_s", _TIMEOUT_S, 1, _MAX_SECONDS),
            setup=self._argv("setup"),
            setup_timeout_s=self._integer("setup_timeout_s", _SETUP_TIMEOUT_S, 1, _MAX_SECONDS),
            env=self._names("env", _variable_fault),
            max_claims=self._integer("max_claims", 1, 1, _MAX_CLAIMS),
            share_keys=self._flag("share_keys"),
            outputs=self._outputs(),
            inputs=self._names("inputs", _label_fault),
            tools=self._names("tools", _label_fault),
        )
        return None if self._faults else recipe

    def refusal(self, path: str) -> CallboardError:
        return refuse(
            "recipe_invalid", path, self._faults, "correct the named fields and commit the file"
        )

    def _fault(self, pointer: str, message: str) -> None:
        self._faults.append(Fault(pointer, message))

    def _unknown(self, table: Mapping[str, object], known: Iterable[str], place: str) -> None:
        names = list(known)
        for key in table:
            if key not in names:
                hint = near(key, names) or f"; known are {', '.join(names)}"
                self._fault(place + pointer_step(key), f"is not known here{hint}")

    def _integer(self, key: str, default: int, least: int, most: int) -> int:
        return self._integer_at(self._table, key, default, (least, most), "")

    def _integer_at(
        self,
        table: Mapping[str, object],
        key: str,
        default: int,
        bounds: tuple[int, int],
        place: str,
    ) -> int:
        value = table.get(key, default)
        least, most = bounds
        if type(value) is int and least <= value <= most:
            return value
        self._fault(f"{place}/{key}", f"is {show(value)}, not an integer {least}..{most}")
        return default

    def _flag(self, key: str) -> bool:
        value = self._table.get(key, False)
        if isinstance(value, bool):
            return value
        self._fault(f"/{key}", f"is {show(value)}, neither true nor false")
        return False

    def _argv(self, key: str) -> tuple[str, ...] | None:
        if key not in self._table:
            return None
        words = self._table[key]
        if not isinstance(words, list) or not words:
            self._fault(f"/{key}", f"is {show(words)}, not a list of a program and its arguments")
            return None
        for at, word in enumerate(words):
            if not isinstance(word, str):
                self._fault(f"/{key}/{at}", f"is {show(word)}, not a string")
            elif not word or "\0" in word:
                self._fault(f"/{key}/{at}", "is empty or holds a NUL character")
        return tuple(str(word) for word in words)

    def _names(self, key: str, judge: Callable[[str], str]) -> tuple[str, ...]:
        names = self._table.get(key, [])
        if not isinstance(names, list) or len(names) > _MAX_NAMES:
            self._fault(f"/{key}", f"is {show(names)}, not a list of at most {_MAX_NAMES} names")
            return ()
        seen: set[str] = set()
        for at, name in enumerate(names):
            if not isinstance(name, str):
                self._fault(f"/{key}/{at}", f"is {show(name)}, not a string")
            elif wrong := ("stands twice" if name in seen else judge(name)):
                self._fault(f"/{key}/{at}", f"{show(name)} {wrong}")
            else:
                seen.add(name)
        return tuple(sorted(seen))

    def _outputs(self) -> tuple[OutputRule, ...]:
        value = self._table.get("outputs", [])
        if isinstance(value, dict):
            self._unknown(value, OUTPUT_TYPES, "/outputs")
            rules = [self._rule(kind, value[kind]) for kind in OUTPUT_TYPES if kind in value]
            return tuple(rules)
        kinds = self._names("outputs", _output_fault)
        return tuple(OutputRule(kind, 0, _MOST_BY_TYPE[kind]) for kind in kinds)

    def _rule(self, kind: str, value: object) -> OutputRule:
        place = f"/outputs/{kind}"
        most = _MOST_BY_TYPE[kind]
        if not isinstance(value, dict):
            self._fault(place, f"is {show(value)}, not a table with min and max")
            return OutputRule(kind, 0, most)
        self._unknown(value, ("min", "max"), place)
        at_most = self._integer_at(value, "max", most, (0, most), place)
        at_least = self._integer_at(value, "min", 0, (0, most), place)
        if at_least > at_most:
            self._fault(f"{place}/min", f"is {at_least}, more than max, {at_most}")
        return OutputRule(kind, at_least, at_most)


def _variable_fault(name: str) -> str:
    if not _VARIABLE.fullmatch(name):
        return "is not the name of a variable"
    if name.startswith(_SET_BY_HOST_PREFIXES) or name in _SET_BY_HOST:
        return "is set by the host for each run"
    if name in _REPOSITORY_CREDENTIALS:
        return "would let a worker write past the board; its outputs are delivered for it"
    return ""


def _label_fault(name: str) -> str:
    return "" if _LABEL.fullmatch(name) else "is not a name of 1 to 128 printable characters"


def _output_fault(name: str) -> str:
    if name in OUTPUT_TYPES:
        return ""
    known = list(OUTPUT_TYPES)
    return "is no output type" + (near(name, known) or f"; known are {', '.join(known)}")
