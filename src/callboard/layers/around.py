"""What surrounds the machine of the layers, handed in: files, time, chance, Git, environment.

Every process of the wing gets all of it from here, so that a test can start one with a disk that
counts its effects. It decides nothing.
"""

from __future__ import annotations

import secrets
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from callboard.clock import Clock, SystemClock
from callboard.errors import CallboardError
from callboard.git import Git
from callboard.layers.disk import Disk, Effect, unobserved

Chance = Callable[[int], str]
"""So many random hex digits."""

RUNNER = (sys.executable, "-m", "callboard.layers.running")
"""What carries out one attempt; repository and attempt's place are added."""


@dataclass(frozen=True, slots=True)
class Around:
    """The surroundings of one process. `disk.root` is the repository's root."""

    disk: Disk
    clock: Clock
    random: Chance
    git: Git | None
    """None: no `git` is installed here."""
    environment: Mapping[str, str]
    runner: tuple[str, ...] = RUNNER


def of_machine(
    repository: Path,
    environment: Mapping[str, str],
    *,
    effect: Effect = unobserved,
    runner: tuple[str, ...] = RUNNER,
) -> Around:
    """What this machine offers to work on the repository at the absolute path `repository`."""
    return Around(
        disk=Disk(repository, effect),
        clock=SystemClock(),
        random=hex_digits,
        git=_git(environment.get("PATH", "")),
        environment=dict(environment),
        runner=runner,
    )


def hex_digits(count: int) -> str:
    """`count` random digits of 0-9 and a-f."""
    return secrets.token_hex((count + 1) // 2)[:count]


def _git(search_path: str) -> Git | None:
    try:
        return Git(search_path)
    except CallboardError as error:
        if error.code == "git_missing":
            return None
        raise
