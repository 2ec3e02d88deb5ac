"""Where a repository's board is: on a branch of its own, or on one of a remote.

What a person asks for goes before the settings in HEAD's commit. An absent branch is only taken for
a new board where no remote that answers has it.
"""

from __future__ import annotations

from collections.abc import Mapping

from callboard.board.publishing.config import BoardSettings
from callboard.board.publishing.proposal import Proposal
from callboard.board.storage.remote_refusals import queue_not_fetched
from callboard.board.storage.repository import Repository
from callboard.board.storage.transport import RemoteAccess, Transport
from callboard.errors import CallboardError

_LOOK_S = 5.0
_MAX_REMOTES = 4


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


def refuse_elsewhere(repository: Repository, branch: str, environment: Mapping[str, str]) -> None:
    """Refuse with `queue_not_fetched` where a remote has the branch that this repository lacks.

    A clone may have been told to know one branch only. A remote that does not answer soon is
    passed over: on this machine, there is no such board.
    """
    ref = f"refs/heads/{branch}"
    for name in repository.remotes[:_MAX_REMOTES]:
        try:
            access = RemoteAccess(name, environment, _LOOK_S)
            found = Transport(repository, access).look(ref)
        except CallboardError:
            continue
        if found:
            raise queue_not_fetched(name, branch)
