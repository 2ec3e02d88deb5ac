"""The demo, made small: it ends well on its own repository and says so when something is wrong."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

from tests.ambient import ROOT

DEMO = ROOT / "examples" / "demo"
SMALL = ("--checks", "6", "--security", "2")


def run_demo(script: Path, temporary: Path) -> subprocess.CompletedProcess[str]:
    temporary.mkdir()
    home = temporary.with_name("home")
    user = {f"XDG_{name}_HOME": str(home / name) for name in ("CACHE", "CONFIG", "DATA", "STATE")}
    return subprocess.run(
        [sys.executable, str(script), *SMALL],
        env=os.environ | user | {"HOME": str(home), "TMPDIR": str(temporary)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )


def rows(printed: str) -> dict[str, list[str]]:
    """The lines of the two tables, by their first word."""
    words = [line.split() for line in printed.splitlines() if line.startswith("  ")]
    return {line[0]: line[1:] for line in words}


def test_the_demo_is_verified_and_fair(tmp_path: Path) -> None:
    done = run_demo(DEMO / "run.py", tmp_path / "made")
    assert done.returncode == 0, done.stdout
    table = rows(done.stdout)
    nodes = {name: row for name, row in table.items() if "verified" in row}
    assert list(nodes) == ["inspect", "code", "docs", "review", "6", "2"]
    assert nodes["6"] == ["checks", "platform", "6", "verified"]
    assert nodes["2"] == ["checks", "security", "2", "verified"]
    assert nodes["inspect"][2:4] == ["artifact", "usages.json,"]
    assert nodes["code"][2] == nodes["docs"][2] == "commit"
    assert nodes["review"][2:4] == ["artifact", "review.md,"]
    assert table["platform"] == ["1", "2.0", "2", "10"]
    assert table["security"] == ["1", "2.0", "2", "2"]

    lines = done.stdout.splitlines()
    further = lines[lines.index("To look further:") + 1 :]
    assert len(further) == 3
    for command in further:
        looked = subprocess.run(shlex.split(command), stdout=subprocess.PIPE, text=True, check=True)
        assert looked.stdout
    assert '+    return {row["id"]: row["name"]' in looked.stdout
    assert 'sdk.get("customers", timeout_s=5)' in looked.stdout

    (folder,) = (tmp_path / "made").iterdir()
    assert {path.name for path in folder.iterdir()} == {
        "config",
        "migration.yaml",
        "platform.yaml",
        "security.yaml",
        "shop",
        "state",
    }
    # Neither an identity nor a run of the user's own was made.
    assert not (tmp_path / "home").exists()


def test_a_check_that_fails_ends_the_demo_with_1(tmp_path: Path) -> None:
    copy = tmp_path / "demo"
    shutil.copytree(DEMO, copy)
    (copy / "repository" / "shop" / "catalog.py").write_text("from shop import sdk\n")
    config = copy / "repository" / ".callboard" / "config.toml"
    config.write_text(config.read_text() + "retry = { max_attempts = 1 }\n")
    done = run_demo(copy / "run.py", tmp_path / "made")
    assert done.returncode == 1, done.stdout
    assert "NO: every node is verified" in done.stdout
    assert "yes: your checkout is as it was" in done.stdout
    assert rows(done.stdout)["catalog-docstrings"][1] == "cancelled"
