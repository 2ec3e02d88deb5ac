"""The benchmark of the layers runs and gives the figures it promises; their size says nothing."""

from __future__ import annotations

import json
import subprocess
import sys

from tests.ambient import ROOT


def test_the_benchmark_of_the_layers_gives_its_figures() -> None:
    done = subprocess.run(
        [sys.executable, "benchmarks/layers.py", "--small", "--runs", "1"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert (done.returncode, done.stderr) == (0, "")
    figures = [json.loads(line) for line in done.stdout.splitlines()]
    assert [one["name"] for one in figures] == [
        "layers_status", "layers_next", "layers_begin", "layers_finish"
    ]  # fmt: skip
