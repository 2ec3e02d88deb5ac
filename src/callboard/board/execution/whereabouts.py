"""Where a repository's board is: on a branch of its own, or on one of a remote.

What a person asks for goes before the settings in HEAD's commit. Nothing is looked at but those.
"""

from __future__ import annotations

from collections.abc import Mapping

from callboard.board.publishing.config import BoardSettings
from callboard.board.publishing.proposal import Proposal
from callboard.board.storage.repository import Repository
from callboard.board.storage.transport import RemoteAccess


def whereabouts(
    repository: Repository,
    branch: str | None,
    remote: str | None,
    environment: Mapping[str, str],
    *,
    offline: bool,
) -> tuple[RemoteAccess | None, str]:
    """How the remote is reached, None for a board of this repository, and the board's branch.

    Raises `config_invalid` where the settings have to be asked and cannot be read.
    """
    commit = repository.head_commit()
    settings = BoardSettings()
    if commit is not None and (branch is None or remote is None):
        settings = Proposal(repository, commit).board
    branch = settings.branch if branch is None else branch
    if remote is None and isinstance(settings.remote, str):
        remote = settings.remote
    if remote is None:
        return None, branch
    timeout_s = float(settings.remote_timeout_seconds)
    return RemoteAccess(remote, environment, timeout_s, offline), branch
