"""Every command that README.md or a page under docs/ shows does what the page says.

Each page starts in a repository of its own that has one commit, as a reader's would. Where words
are not enough, ledger and workers' journal must tell the story that `stories.py` has of a page.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.ambient import ROOT
from tests.docs import console
from tests.docs.played import Played
from tests.docs.stories import BEGUN, STORIES

PAGES = [
    path for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))] if path.is_file()
]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_do_what_the_page_says(page: Path, tmp_path: Path) -> None:
    name = str(page.relative_to(ROOT))
    session = console.steps(page.read_text(encoding="utf-8"), name)
    if not session:
        return
    env = console.reader_environment(tmp_path / "home")
    repository = tmp_path / "repository"
    for argv in (
        ["git", "init", "--quiet", str(repository)],
        ["git", "-C", str(repository), "commit", "--quiet", "--allow-empty", "-m", "Begin"],
    ):
        subprocess.run(argv, env=env, check=True, stdin=subprocess.DEVNULL)
    outcomes = console.run(session, repository, env)
    played = Played(tmp_path / "home", repository)
    try:
        assert "\n".join(filter(None, (outcome.fault() for outcome in outcomes))) == ""
        assert len(outcomes) == len(session)
        if name in STORIES:
            assert played.stories() == STORIES[name]
            assert played.begun() == BEGUN.get(name, {})
            played.check_laws()
    finally:
        played.end()
