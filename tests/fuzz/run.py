"""`make fuzz`: every target for its share of the time, and one line that says what came of it.

Settings are read from the environment: `FUZZ_SECONDS` for all targets together, and `FUZZ_SEED`.
Findings are files under `build/fuzz`; the status is 1 where there is one.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys

from tests.ambient import ROOT
from tests.fuzz.driver import REPORT
from tests.fuzz.targets import TARGETS

FOLDER = ROOT / "build" / "fuzz"
DEFAULT_SECONDS = 600
STARTING_SECONDS = 120


def main() -> int:
    """Fuzz every target; returns the exit status."""
    seconds = float(os.environ.get("FUZZ_SECONDS", DEFAULT_SECONDS)) / len(TARGETS)
    seed = int(os.environ.get("FUZZ_SEED", "1"))
    tried, found = 0, list[str]()
    for target in TARGETS:
        count, files = fuzz(target, seconds, seed)
        tried += count
        found += files
    for path in found:
        sys.stdout.write(f"finding: {path}\n")
    sys.stdout.write(
        f"fuzz: {tried} inputs over {len(TARGETS)} targets in {seconds * len(TARGETS):.0f} s, "
        f"seed {seed}: {len(found)} findings\n"
    )
    return 1 if found else 0


def fuzz(target: str, seconds: float, seed: int) -> tuple[int, list[str]]:
    """One target in a process of its own: the inputs tried, and the files of what was found."""
    folder = FOLDER / target
    folder.mkdir(parents=True, exist_ok=True)
    known = set(folder.iterdir())
    report = folder / REPORT
    report.unlink(missing_ok=True)
    log = folder / "log.txt"
    command = [
        sys.executable,
        "-m",
        "tests.fuzz.driver",
        target,
        str(seconds),
        str(seed),
        str(folder),
    ]
    with log.open("wb") as output:
        ended = subprocess.run(
            command,
            cwd=ROOT,
            stdout=output,
            stderr=subprocess.STDOUT,
            timeout=seconds + STARTING_SECONDS,
            check=False,
        )
    if report.is_file():
        said = json.loads(report.read_text())
        return said["tried"], said["found"]
    # libFuzzer ended the process: too slow, too much memory, or a crash below Python.
    files = [str(path) for path in sorted(set(folder.iterdir()) - known - {log})]
    sys.stdout.write(f"{target} ended with {ended.returncode}: see {log}\n")
    return 0, files or [str(log)]


if __name__ == "__main__":
    sys.exit(main())
