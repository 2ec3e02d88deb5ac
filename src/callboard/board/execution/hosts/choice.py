"""Which host runs which profile: the one place that knows them all.

Source: wire-v3 §5 (Profile.workflow). A profile of a host that is not supported is never guessed to
be another's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from callboard.board.execution.host import Host
from callboard.board.execution.hosts.local.host import LocalHost
from callboard.board.execution.site import Site
from callboard.board.protocol.policy import Profile
from callboard.board.protocol.scalars import is_github
from callboard.errors import CallboardError

HostOf = Callable[[Profile], Host]
"""The host of a profile; raises `host_unsupported`."""


def hosts_of(site: Site, environment: Mapping[str, str] | None = None) -> HostOf:
    """The hosts of one site. Runs inherit `environment`; without it nothing can be launched."""
    local = LocalHost(site, environment)

    def host_of(profile: Profile) -> Host:
        if is_github(profile.workflow):
            raise CallboardError(
                "host_unsupported",
                f"{profile.workflow} runs on a host that this version cannot ask",
                "run the board there; from here its launches are only shown",
                {"workflow": profile.workflow},
            )
        return local

    return host_of
