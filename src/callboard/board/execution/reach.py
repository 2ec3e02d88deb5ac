"""Which workers of a pool this machine cannot run, so that nothing is granted to them from here.

Source: specification 1, §7.8 (unsupported hosts); wire-v3 §5. What is granted stays granted: a
place given to a worker that nobody here can launch would be taken until somebody elsewhere comes.
"""

from __future__ import annotations

from callboard.board.execution.carriage import Carriage
from callboard.board.execution.hosts.choice import HostOf, hosts_of
from callboard.board.execution.site import Site
from callboard.errors import CallboardError

UNSUPPORTED = "host_unsupported"
NOT_HERE = "worker_unavailable_here"


class Reach:
    """What one process can launch on its site's board."""

    def __init__(self, site: Site, host_of: HostOf | None = None) -> None:
        self._site = site
        self._host_of = host_of or hosts_of(site)
        self._carriage = Carriage(site)
        self._commits: dict[str, dict[str, str]] = {}

    def lacking(self, pool: str) -> dict[str, str]:
        """The pool's workers that cannot run here: name -> `host_unsupported` or
        `worker_unavailable_here`. The former are named whether or not they have Work now."""
        commits = self._commits[pool] = self._carriage.lacking(pool)
        found = dict.fromkeys(commits, NOT_HERE)
        for name in self._routes(pool):
            if self._unsupported(pool, name) is not None:
                found[name] = UNSUPPORTED
        return found

    def refusal(self, pool: str, name: str) -> CallboardError:
        """Why nothing is granted to a worker that `lacking` has just named."""
        unsupported = self._unsupported(pool, name)
        if unsupported is not None:
            return unsupported
        return self._carriage.unavailable(pool, name, self._commits[pool][name])

    def _routes(self, pool: str) -> list[str]:
        return sorted(self._site.publisher.known().projection.pool_state(pool).routes)

    def _unsupported(self, pool: str, name: str) -> CallboardError | None:
        """The refusal of the worker's host. No deployment moves a worker to another host, so that
        one revision speaks for all at which its Work may run."""
        route = self._site.publisher.known().projection.pool_state(pool).routes[name]
        try:
            self._host_of(route.head.profile)
        except CallboardError as error:
            if error.code != UNSUPPORTED:
                raise
            return error
        return None
