"""Packages with output types of a project's own, installed for a test without any network.

A folder with the modules and a `.dist-info` is what an installer leaves behind, and all that
`importlib.metadata` looks for.
"""

from __future__ import annotations

import shutil
import tomllib
from collections.abc import Mapping
from pathlib import Path

from tests.ambient import ROOT

EXAMPLE = ROOT / "examples" / "own-output"


def install_example(site: Path) -> Path:
    """Put the example into the folder `site`, under the names that its pyproject.toml says."""
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]
    site.mkdir(parents=True, exist_ok=True)
    for module in (EXAMPLE / "src").glob("*.py"):
        shutil.copy(module, site)
    _describe(site, project["name"], project["version"], project["entry-points"])
    return site


def install(site: Path, name: str, text: str, points: Mapping[str, Mapping[str, str]]) -> Path:
    """Put a module of that name and text into `site`, with entry points {group: {name: what}}."""
    site.mkdir(parents=True, exist_ok=True)
    (site / f"{name}.py").write_text(text)
    _describe(site, name, "1.0", points)
    return site


def _describe(site: Path, name: str, version: str, points: Mapping[str, Mapping[str, str]]) -> None:
    folder = site / f"{name.replace('-', '_')}-{version}.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    (folder / "entry_points.txt").write_text(
        "".join(
            f"[{group}]\n" + "".join(f"{one} = {what}\n" for one, what in members.items())
            for group, members in points.items()
        )
    )
