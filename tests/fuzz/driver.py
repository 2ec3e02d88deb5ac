"""One target under libFuzzer, by way of Atheris: `python -m tests.fuzz.driver TARGET SECONDS …`.

A process of its own, since libFuzzer ends the process it runs in. It writes what it did into a
file, because nothing that it prints after its time is certain to arrive.
"""

from __future__ import annotations

import importlib
import json
import os
import random
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

MAX_BYTES = 400_000
TIMEOUT_SECONDS = 60
MEMORY_MEBIBYTES = 3072
REPORT = "report.json"


def main(target: str, seconds: float, seed: int, folder: Path) -> None:
    """Fuzz until the time is over; never returns."""
    atheris: Any = importlib.import_module("atheris")
    with atheris.instrument_imports(include=["callboard"]):
        from tests.fuzz import mutators, seeds
        from tests.fuzz.session import Session
    folder.mkdir(parents=True, exist_ok=True)
    session = Session(target, folder)
    begun = time.monotonic()
    known = seeds.seeds(target)

    corpus = tempfile.mkdtemp(prefix="callboard-fuzz-")

    def once(data: bytes) -> None:
        session.run(data)
        if time.monotonic() - begun >= seconds:
            report = {"tried": session.tried, "found": sorted(map(str, session.found.values()))}
            (folder / REPORT).write_text(json.dumps(report))
            shutil.rmtree(corpus, ignore_errors=True)
            os._exit(0)

    def change(data: bytes, size: int, chance: int) -> bytes:
        rng = random.Random(chance)
        if rng.random() < 0.15:
            return bytes(atheris.Mutate(data, size))
        return mutators.mutate(data, rng, list(known))[:size]

    for number, data in enumerate(known):
        Path(corpus, f"{number:04}").write_bytes(data)
    options = [
        "fuzz",
        corpus,
        f"-seed={seed}",
        f"-max_len={MAX_BYTES}",
        f"-timeout={TIMEOUT_SECONDS}",
        f"-rss_limit_mb={MEMORY_MEBIBYTES}",
        f"-artifact_prefix={folder}/{target}-",
        "-len_control=0",
        "-verbosity=0",
    ]
    atheris.Setup(options, once, custom_mutator=change)
    atheris.Fuzz()


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]))
