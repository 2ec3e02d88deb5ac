"""What surrounds the machine is handed in whole."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from callboard.clock import SystemClock
from callboard.layers.around import hex_digits, of_machine


def test_the_surroundings_of_a_process(tmp_path: Path) -> None:
    steps: list[str] = []
    around = of_machine(tmp_path, {"PATH": "", "A": "b"}, effect=lambda step, _: steps.append(step))
    assert around.disk.root == tmp_path
    assert around.git is None
    assert around.environment == {"PATH": "", "A": "b"}
    assert around.runner == (sys.executable, "-m", "callboard.layers.running")
    assert isinstance(around.clock, SystemClock)
    around.disk.make_folder("a")
    assert steps == ["make"]


def test_git_is_found_on_the_search_path_that_is_given(tmp_path: Path) -> None:
    fake = tmp_path / "git"
    fake.write_text("#!/bin/sh\n")
    fake.chmod(0o755)
    assert of_machine(tmp_path, {"PATH": str(tmp_path)}).git is not None
    assert of_machine(tmp_path, {}).git is None


def test_chance_has_as_many_digits_as_are_asked_for() -> None:
    for count in (1, 7, 8, 32):
        assert re.fullmatch(r"[0-9a-f]+", hex_digits(count))
        assert len(hex_digits(count)) == count
    assert len({hex_digits(16) for _ in range(100)}) == 100
