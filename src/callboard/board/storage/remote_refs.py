"""Refs of our own on a remote: each made once for exactly one object, and brought from there.

Nothing that stands is ever moved or removed, there or here; no ref is touched that is not named.
"""

from __future__ import annotations

from collections.abc import Mapping

from callboard.board.storage.git_child import Ended
from callboard.board.storage.refs import check_name
from callboard.board.storage.remote_refusals import (
    push_refused,
    ref_taken,
    remote_timeout,
)
from callboard.board.storage.repository import Repository
from callboard.board.storage.transport import Transport, Update
from callboard.errors import CallboardError

_TRIES = 2
_FETCHES = 3


class RemoteRefs:
    """The refs on one remote of one repository."""

    def __init__(self, repository: Repository, transport: Transport) -> None:
        self._repository = repository
        self._transport = transport

    def create(self, refs: Mapping[str, str]) -> None:
        """Make the full names `refs` on the remote, each for its object here.

        One that is there for the same object already is as good. Raises `remote_ref_conflict` for
        one that holds another, `push_refused`, `remote_unreachable` or `remote_timeout`; then some
        of them may have been made.
        """
        missing, ended = dict(refs), Ended(0, b"", "")
        for _ in range(_TRIES):
            if not missing:
                return
            ended = self._transport.push([Update(ref, None, oid) for ref, oid in missing.items()])
            if ended.status == 0:
                return
            missing = self._lacking(refs)
        if missing:
            raise self._refused(ended, missing)

    def bring(self, refs: Mapping[str, str]) -> None:
        """Fetch refs of the remote to names here, `{there: here}`; what it lacks is passed over.

        A name here that already leads elsewhere stays. Raises `remote_unreachable` or
        `remote_timeout`.
        """
        for there, here in refs.items():
            check_name(there)
            check_name(here)
        found = self._transport.patiently(lambda: self._transport.look(*refs))
        for _ in range(_FETCHES):
            wanted = {
                there: refs[there]
                for there, oid in found.items()
                if self._repository.read_ref(refs[there]) is None or not self._repository.holds(oid)
            }
            # Of two that bring the same at once, git fails one.
            if not wanted or self._fetch([f"{one}:{here}" for one, here in wanted.items()]):
                return

    def bring_commit(self, commit: str, here: str) -> bool:
        """Fetch one commit by its id and keep it by the ref `here`; whether it is here now."""
        check_name(here)
        if not self._repository.holds(commit):
            self._fetch([f"{commit}:{here}"])
        return self._repository.holds(commit)

    def _fetch(self, refspecs: list[str]) -> bool:
        return self._transport.patiently(lambda: self._transport.fetch(*refspecs))

    def _lacking(self, refs: Mapping[str, str]) -> dict[str, str]:
        found = self._transport.patiently(lambda: self._transport.look(*refs))
        for ref, oid in found.items():
            if oid != refs[ref]:
                raise ref_taken(self._transport.remote, ref, oid, refs[ref])
        return {ref: oid for ref, oid in refs.items() if ref not in found}

    def _refused(self, ended: Ended, missing: Mapping[str, str]) -> CallboardError:
        remote, ref = self._transport.remote, min(missing)
        if ended.status is None:
            return remote_timeout(remote, "pushed to", self._transport.timeout_s)
        # Only commits have a history that can be cut.
        shallow = self._repository.is_shallow and any(
            one.startswith("refs/heads/") for one in missing
        )
        return push_refused(remote, ref, ended.status, ended.said, shallow=shallow)
