"""The fields of a TOML table that a person wrote, taken one by one, with all faults gathered.

Source: wire-v3 §10. Files that name a program to run are read by the same rules: argument lists,
never shell lines, and names of variables, never values. Nothing here reads a file.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping

from callboard.errors import CallboardError
from callboard.validate import Fault, near, pointer_step, refuse, show

MAX_SECONDS = 86_400
_MAX_NAMES = 256
_FILE_STEM = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_SET_BY_HOST_PREFIXES = ("GIT_", "CALLBOARD_")
_SET_BY_HOST = frozenset({"HOME", "TMPDIR"})
# With one of these a command could write to the repository past the board.
_REPOSITORY_CREDENTIALS = frozenset(
    {
        "GH_ENTERPRISE_TOKEN", "GH_TOKEN", "GITHUB_ENTERPRISE_TOKEN", "GITHUB_TOKEN",
        "GITLAB_TOKEN", "SSH_AGENT_PID", "SSH_ASKPASS", "SSH_AUTH_SOCK",
    }
)  # fmt: skip


def is_file_stem(name: str) -> bool:
    """Whether a file of that name, without its suffix, may describe a program of ours."""
    return _FILE_STEM.fullmatch(name) is not None and ".." not in name


class Fields:
    """Takes fields of `table`; what is wrong with them is gathered in `faults`."""

    def __init__(self, table: Mapping[str, object]) -> None:
        self.table = table
        self.faults: list[Fault] = []

    def refusal(self, code: str, path: str) -> CallboardError:
        """One refusal with every fault."""
        return refuse(code, path, self.faults, "correct the named fields and commit the file")

    def fault(self, pointer: str, message: str) -> None:
        """Note a fault of the field at `pointer`."""
        self.faults.append(Fault(pointer, message))

    def unknown(self, table: Mapping[str, object], known: Iterable[str], place: str) -> None:
        """Note every field of `table` that is not `known`."""
        names = list(known)
        for key in table:
            if key not in names:
                hint = near(key, names) or f"; known are {', '.join(names)}"
                self.fault(place + pointer_step(key), f"is not known here{hint}")

    def integer(self, key: str, default: int, least: int, most: int) -> int:
        """An integer within bounds."""
        return self.integer_at(self.table, key, default, (least, most), "")

    def integer_at(
        self,
        table: Mapping[str, object],
        key: str,
        default: int,
        bounds: tuple[int, int],
        place: str,
    ) -> int:
        """An integer within bounds, of the table at `place`."""
        value = table.get(key, default)
        least, most = bounds
        if type(value) is int and least <= value <= most:
            return value
        self.fault(f"{place}/{key}", f"is {show(value)}, not an integer {least}..{most}")
        return default

    def flag(self, key: str) -> bool:
        """A boolean, false where it is not given."""
        value = self.table.get(key, False)
        if isinstance(value, bool):
            return value
        self.fault(f"/{key}", f"is {show(value)}, neither true nor false")
        return False

    def required_argv(self, key: str) -> tuple[str, ...]:
        """An argument list that has to be there."""
        if key not in self.table:
            self.fault(f"/{key}", "is missing: the program to run and its arguments")
        return self.argv(key) or ()

    def argv(self, key: str) -> tuple[str, ...] | None:
        """An argument list; None where it is not given."""
        if key not in self.table:
            return None
        words = self.table[key]
        if not isinstance(words, list) or not words:
            self.fault(f"/{key}", f"is {show(words)}, not a list of a program and its arguments")
            return None
        for at, word in enumerate(words):
            if not isinstance(word, str):
                self.fault(f"/{key}/{at}", f"is {show(word)}, not a string")
            elif not word or "\0" in word:
                self.fault(f"/{key}/{at}", "is empty or holds a NUL character")
        return tuple(str(word) for word in words)

    def names(self, key: str, judge: Callable[[str], str]) -> tuple[str, ...]:
        """Names, sorted, each once; `judge` says what is wrong with one, or nothing."""
        names = self.table.get(key, [])
        if not isinstance(names, list) or len(names) > _MAX_NAMES:
            self.fault(f"/{key}", f"is {show(names)}, not a list of at most {_MAX_NAMES} names")
            return ()
        seen: set[str] = set()
        for at, name in enumerate(names):
            if not isinstance(name, str):
                self.fault(f"/{key}/{at}", f"is {show(name)}, not a string")
            elif wrong := ("stands twice" if name in seen else judge(name)):
                self.fault(f"/{key}/{at}", f"{show(name)} {wrong}")
            else:
                seen.add(name)
        return tuple(sorted(seen))


def variable_fault(name: str) -> str:
    """What is wrong with the name of a variable that is to pass to a command; "" if nothing."""
    if not _VARIABLE.fullmatch(name):
        return "is not the name of a variable"
    if name.startswith(_SET_BY_HOST_PREFIXES) or name in _SET_BY_HOST:
        return "is set by the host for each run"
    if name in _REPOSITORY_CREDENTIALS:
        return "would let a worker write past the board; its outputs are delivered for it"
    return ""
