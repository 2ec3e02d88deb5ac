"""Each guard is needed: without it, the test of its condition fails.

The table is `tests.project.isolation.guards`.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.ambient import DEEP, ROOT
from tests.project.isolation.guards import ALWAYS, GUARDS
from tests.project.patched import patched

FOLDER = Path(__file__).resolve().parent


def test_every_condition_has_a_guard_and_a_module() -> None:
    numbers = {f"{number:02}" for number in range(1, 21)}
    assert {guard.condition for guard in GUARDS.values()} == numbers
    modules = sorted(path.name for path in FOLDER.glob("test_[0-9][0-9]_*.py"))
    assert [name[5:7] for name in modules] == sorted(numbers)
    assert GUARDS.keys() >= ALWAYS


@pytest.mark.parametrize("name", sorted(GUARDS if DEEP else ALWAYS))
def test_without_the_guard_its_test_fails(name: str, tmp_path: Path) -> None:
    guard = GUARDS[name]
    (module,) = FOLDER.glob(f"test_{guard.condition}_*.py")
    package = patched(tmp_path / "package", guard.changes)
    words = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-o", "addopts="]
    words += ["--import-mode=importlib", "--basetemp", str(tmp_path / "tests")]
    # The name of the test, and an error in setting it up would be no failure of it.
    done = subprocess.run(
        [*words, f"{module}::{guard.test}"],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(package)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert "1 failed" in done.stdout
    assert "error" not in done.stdout.splitlines()[-1]


def test_the_copy_itself_is_sound(tmp_path: Path) -> None:
    """Nothing changed, nothing fails: what fails above is the change's doing."""
    package = patched(tmp_path / "package", [])
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-o", "addopts="]
    words += ["--import-mode=importlib", "--basetemp", str(tmp_path / "tests")]
    (where,) = subprocess.run(
        [sys.executable, "-c", "import callboard; print(callboard.__file__)"],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(package)},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    assert Path(where).is_relative_to(package)
    modules = sorted(str(path) for path in FOLDER.glob("test_[0-9][0-9]_*.py"))
    done = subprocess.run(
        [*words, *(modules if DEEP else [modules[12], modules[13]])],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(package)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
