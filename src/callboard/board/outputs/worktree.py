"""Whether a run's work tree is still as it was, where that is cheap to see from inside the run.

A courtesy to whoever stages a patch; the trusted side makes and judges the patch itself. Where
anything is unclear it says that something may have changed.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

# Set by the host in each run's private clone.
BASE_REF = "refs/callboard/base"
_TIMEOUT_S = 10.0


def lies_in_a_run(folder: Path) -> bool:
    """Whether `folder` lies in the private clone of a run."""
    for place in (folder, *folder.parents):
        git_folder = place / ".git"
        if git_folder.is_dir():
            return (git_folder / BASE_REF).exists()
    return False


def looks_unchanged(
    folder: Path, environment: Mapping[str, str], paths: Sequence[str] = ()
) -> bool:
    """Whether `folder` lies in a run's clone whose files, or those of them at or below `paths`,
    are exactly those it began with."""
    places = [f":(top,literal){path}" for path in paths] or [":/"]
    difference = ["diff", "--quiet", "--no-ext-diff", "--no-textconv", BASE_REF, "--", *places]
    compared = _run(folder, environment, difference)
    if compared is None or compared.returncode != 0:
        return False
    # `:/` looks at the whole tree, also from a subfolder; any line of output is a new file.
    added = ["ls-files", "--others", "--exclude-standard", "--directory", "--no-empty-directory"]
    found = _run(folder, environment, [*added, "--", *places])
    return found is not None and found.returncode == 0 and not found.stdout


def _run(
    folder: Path, environment: Mapping[str, str], arguments: list[str]
) -> subprocess.CompletedProcess[bytes] | None:
    try:
        return subprocess.run(
            ["git", "-c", "core.fsmonitor=false", *arguments],
            cwd=folder,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
