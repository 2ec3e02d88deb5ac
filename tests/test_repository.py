"""What holds for every file that is committed.

Reads the files as they lie in the checkout, new ones included; knows nothing of what they do.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.ambient import ROOT

LONGEST_MODULE_LINES = 800
NOT_OURS = {".git", ".venv", "build", "dist"}

# Where packages come from is each machine's configuration.
REGISTRY = re.compile(
    r"\b(?:py(?:pi|thonhosted)|npm[j]s|yarn[p]kg|deb\.[d]ebian)\.(?:org|com)\b"
    r"|--(?:extra-)?index-url\b"
)
# Paths and ticket numbers that say something only where a line was written.
ELSEWHERE = re.compile(
    r"\.\./shared\b|\bshared/(?:cases|design|hooks|spec|vectors)\b|(?<![\w.])/work/"
    r"|\bissue #\d|\bissues show\b",
    re.IGNORECASE,
)


def committed_files() -> list[Path]:
    """Tracked files and new ones that are not ignored; outside a checkout, all files."""
    # The checkout may belong to another user than the one who runs the tests.
    listing = subprocess.run(
        ["git", "-c", "safe.directory=*", "ls-files", "-z", "-co", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if listing.returncode == 0:
        names = [Path(name) for name in listing.stdout.split("\0") if name]
    else:
        names = [path.relative_to(ROOT) for path in ROOT.rglob("*")]
        names = [name for name in names if not NOT_OURS.intersection(name.parts)]
    return sorted(name for name in names if (ROOT / name).is_file())


def text_lines() -> list[tuple[Path, int, str]]:
    """Every line of every committed text file but this one, which holds the patterns."""
    found: list[tuple[Path, int, str]] = []
    for name in committed_files():
        data = (ROOT / name).read_bytes()
        if b"\0" in data[:8192] or ROOT / name == Path(__file__).resolve():
            continue
        lines = data.decode("utf-8", errors="replace").splitlines()
        found += [(name, number, line) for number, line in enumerate(lines, start=1)]
    return found


def matches(pattern: re.Pattern[str], *, tests: bool) -> list[str]:
    return [
        f"{name}:{number}: {line.strip()[:120]}"
        for name, number, line in text_lines()
        if pattern.search(line) and (tests or name.parts[0] != "tests")
    ]


def test_no_file_names_a_package_registry() -> None:
    assert matches(REGISTRY, tests=True) == []


def test_no_file_speaks_of_the_place_it_was_written_at() -> None:
    assert matches(ELSEWHERE, tests=False) == []


def test_no_module_is_too_long() -> None:
    lengths = {
        str(name): len((ROOT / name).read_bytes().splitlines())
        for name in committed_files()
        if name.suffix == ".py"
    }
    assert {name: lines for name, lines in lengths.items() if lines > LONGEST_MODULE_LINES} == {}


@pytest.mark.parametrize("name", ["bootstrap", "dev", "fuzz", "runtime"])
def test_every_locked_requirement_is_pinned_by_hash_and_names_no_address(name: str) -> None:
    text = (ROOT / "requirements" / f"{name}.txt").read_text()
    requirements = re.sub(r"\\\n", " ", text).splitlines()
    pinned = [line for line in requirements if line.strip() and not line.lstrip().startswith("#")]
    assert pinned
    assert [line for line in pinned if "==" not in line or "--hash=sha256:" not in line] == []
    assert "://" not in text
