"""The environment a run sees: a few plain names, those its recipe asks for, and what the host says.

Takes the outer environment as a value. Must never let through what steers Git or Callboard from
outside, nor the person's home folder.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

# Names that say how text and time look, and where programs are found.
_KEPT = ("PATH", "LANG", "LANGUAGE", "TERM", "TZ")
_KEPT_PREFIX = "LC_"
# Whoever sets these would point Git, or the worker's own commands, at another repository or run.
_OUTSIDE_PREFIXES = ("GIT_", "CALLBOARD_")
_SET_BY_HOST = frozenset({"HOME", "TMPDIR"})
_DEFAULT_PATH = "/usr/local/bin:/usr/bin:/bin"


def run_environment(
    allow: Iterable[str],
    base: Mapping[str, str],
    extra: Mapping[str, str],
    *,
    home: Path,
    temporary: Path,
) -> dict[str, str]:
    """The variables of a run.

    `allow` names variables of `base` (the outer environment) that pass as they are, save `GIT_*`,
    `CALLBOARD_*`, `HOME` and `TMPDIR`, which never do; `home` and `temporary` are private folders
    of the run; `extra`, the host's own words (such as `CALLBOARD_ASSIGNMENT`), goes over all else.
    """
    wanted = {name for name in allow if not name.startswith(_OUTSIDE_PREFIXES)} - _SET_BY_HOST
    kept = {
        name: value
        for name, value in base.items()
        if name in wanted or name in _KEPT or name.startswith(_KEPT_PREFIX)
    }
    kept.setdefault("PATH", _DEFAULT_PATH)
    return (
        kept
        | {
            "HOME": str(home),
            "TMPDIR": str(temporary),
            # The machine's Git configuration may name credential helpers; a prompt would hang.
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_TERMINAL_PROMPT": "0",
        }
        | dict(extra)
    )
