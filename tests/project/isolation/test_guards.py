"""Each test of the folder can fail: without a guard that `guards` names for it, it does.

The short run tries one for each condition, the deep run all.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.ambient import DEEP, ROOT
from tests.project.isolation.guards import GUARDS
from tests.project.patched import patched
from tests.project.peers import ENDED

FOLDER = Path(__file__).resolve().parent


def _functions() -> Iterator[tuple[str, Path]]:
    """The tests of the folder by their names, with their modules."""
    for path in sorted(FOLDER.glob("test_[0-9][0-9]_*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test"):
                yield node.name, path


MODULES = dict(_functions())


def module_of(test: str) -> Path:
    """Where a test is, which may be named with a case."""
    return MODULES[test.partition("[")[0]]


def sample() -> dict[str, list[str]]:
    """Guards in the order of the table with one test for each condition that none before it has."""
    found: dict[str, list[str]] = {}
    seen: set[Path] = set()
    for name, guard in GUARDS.items():
        for test in guard.tests:
            if module_of(test) not in seen:
                found.setdefault(name, []).append(test)
                seen.add(module_of(test))
    return found


TRIED = {name: list(guard.tests) for name, guard in GUARDS.items()} if DEEP else sample()


def test_every_test_is_named_by_a_guard() -> None:
    found = [name for name, _path in _functions()]
    assert len(found) == len(MODULES), "names of tests are unique in the folder"
    named = {test.partition("[")[0] for guard in GUARDS.values() for test in guard.tests}
    assert named == MODULES.keys()


def test_every_condition_has_a_module_and_is_sampled() -> None:
    numbers = [f"{number:02}" for number in range(1, 21)]
    assert sorted({path.name[5:7] for path in MODULES.values()}) == numbers
    assert len(set(MODULES.values())) == len(numbers)
    tried = {module_of(test) for tests in TRIED.values() for test in tests}
    assert tried == set(MODULES.values())


@pytest.mark.parametrize("name", TRIED)
def test_without_the_guard_its_tests_fail(name: str, tmp_path: Path) -> None:
    package = patched(tmp_path / "package", GUARDS[name].changes)
    outcome = run(package, tmp_path, [f"{module_of(test)}::{test}" for test in TRIED[name]])
    assert outcome.errors == [], outcome.output
    for test in TRIED[name]:
        told = [
            text
            for case, text in outcome.failed.items()
            if case == test or case.startswith(f"{test}[")
        ]
        assert told, f"{test}\n{outcome.output}"
        # Whoever fell over something else on the way shows nothing of the guard.
        proof = [text for text in told if ENDED not in text and GUARDS[name].says in text]
        assert proof, f"{test}\n{outcome.output}"


def test_the_copy_itself_is_sound(tmp_path: Path) -> None:
    """Nothing changed, nothing fails: what fails above is the change's doing."""
    package = patched(tmp_path / "package", [])
    (where,) = subprocess.run(
        [sys.executable, "-c", "import callboard; print(callboard.__file__)"],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(package)},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    assert Path(where).is_relative_to(package)
    modules = sorted({str(path) for path in MODULES.values()})
    outcome = run(package, tmp_path, modules if DEEP else modules[17:18])
    assert (outcome.status, outcome.failed, outcome.errors) == (0, {}, []), outcome.output


class Outcome:
    """What came of some tests: cases that failed, with what they told, and those with errors."""

    def __init__(self, status: int, output: str, report: Path) -> None:
        self.status = status
        self.output = output
        self.failed: dict[str, str] = {}
        self.errors: list[str] = []
        for case in ElementTree.parse(report).iter("testcase"):
            if case.find("error") is not None:
                self.errors.append(case.attrib["name"])
            failure = case.find("failure")
            if failure is not None:
                self.failed[case.attrib["name"]] = failure.text or ""


def run(package: Path, folder: Path, tests: Sequence[str]) -> Outcome:
    """Run tests on another version of the package, in their short form."""
    report = folder / "report.xml"
    # Without plugins and their options a run begins in half the time.
    words = ["-c", os.devnull, "--rootdir", str(ROOT), "-o", "consider_namespace_packages=true"]
    words += ["--import-mode=importlib", "-p", "no:cacheprovider", "-W", "error", "-q"]
    words += ["--tb=short", f"--junitxml={report}", "--basetemp", str(folder / "tests")]
    more = {"PYTHONPATH": str(package), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "CALLBOARD_DEEP": ""}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *words, *tests],
        cwd=ROOT,
        env=os.environ | more,
        capture_output=True,
        text=True,
        check=False,
    )
    assert report.exists(), done.stdout + done.stderr
    return Outcome(done.returncode, done.stdout + done.stderr, report)
