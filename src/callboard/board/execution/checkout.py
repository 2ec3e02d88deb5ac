"""What a repository still needs before a first plan can be posted: recipes, in HEAD's commit.

It reads the work tree to advise a person, and only for that: what counts is always a commit.
"""

from __future__ import annotations

from callboard.board.publishing.recipe import FOLDER, recipe_name
from callboard.board.storage.repository import Repository

COMMIT_FILES = "git add .callboard && git commit -m 'Set up the board'"
MAKE_FILES = "callboard init"
POST = "callboard submit PLAN"


def next_step(repository: Repository) -> str:
    """The command that leads on to a board: make the files, commit them, or post a plan."""
    commit = repository.head_commit()
    if commit is not None:
        paths = repository.list_files(commit, FOLDER.rstrip("/"))
        if any(recipe_name(path) is not None for path in paths):
            return POST
    root = repository.work_tree
    if root is not None and any((root / FOLDER).glob("*.toml")):
        return COMMIT_FILES
    return MAKE_FILES
