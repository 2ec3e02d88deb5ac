"""A process that dispatches: its registered run, and the launch of one granted group.

Source: specification 1, §7.8; wire-v3 §10. Exactly one sender launches a group: the one whose actor
stands in the start marker and whose row the registry took. Nothing is launched twice or blindly.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import IO, Literal

from callboard.board.execution.hosts.local.identity import current
from callboard.board.execution.hosts.local.registry import new_run_id
from callboard.board.execution.hosts.local.run_folder import RunFolder
from callboard.board.execution.site import DISPATCH_WORKFLOW, Site
from callboard.board.protocol.operations import Actor
from callboard.board.publishing import lifecycle
from callboard.board.publishing.intents import Nothing
from callboard.board.storage.transport import connection_variables
from callboard.errors import CallboardError

LaunchStatus = Literal["launched", "not_sender", "not_reserved", "nothing_open", "run_exists"]

SUPERVISOR_MODULE = "callboard.board.execution.hosts.local.supervisor"


@dataclass(frozen=True, slots=True)
class Launch:
    """What became of the attempt to launch a group; `run_id` is set once a run is prepared."""

    dispatch_id: str
    status: LaunchStatus
    run_id: str | None = None


# They outlive the dispatcher that started them, and must be collected all the same.
_launched: list[subprocess.Popen[bytes]] = []


class Dispatcher:
    """One dispatching process. `environment` is what its supervisors inherit."""

    def __init__(self, site: Site, environment: Mapping[str, str]) -> None:
        self.site = site
        self.run_id = site.registry.register_dispatcher(current(), now_ms=site.clock.now_ms())
        self._environment = {
            name: value for name, value in environment.items() if not name.startswith("GIT_")
        }
        if site.remote is not None:
            # The supervisor reaches the remote as this process does.
            self._environment |= connection_variables(environment)

    @property
    def actor(self) -> Actor:
        """The sender that stands in this process's start markers."""
        return self.site.run_actor("dispatcher", workflow=DISPATCH_WORKFLOW, run_id=self.run_id)

    def launch(self, dispatch_id: str) -> Launch:
        """Record the start marker and launch the group's one run, if this process may.

        Raises `grants_paused` while grants are paused, and what publishing raises; then the group
        is as it was, and whoever comes next goes on. Raises `launch_failed` where this host cannot
        start a run; then it is ruled out that this one ever will be.
        """
        actor = self.actor
        answer = self.site.publisher.publish(
            lifecycle.start(dispatch_id, actor, self.site.principal)
        )
        if isinstance(answer, Nothing):
            status: LaunchStatus = (
                "nothing_open" if answer.reason == "nothing_open" else "not_reserved"
            )
            return Launch(dispatch_id, status)
        if answer.request.actor != actor:
            return Launch(dispatch_id, "not_sender")
        return self._send(dispatch_id)

    def _send(self, dispatch_id: str) -> Launch:
        run_id = new_run_id()
        folder = RunFolder.of(self.site.folders.state, run_id)
        try:
            with folder.launching() as log:
                self._prepare(dispatch_id, run_id, folder)
                self._spawn(dispatch_id, run_id, folder, log)
        except OSError as error:
            self._rule_out(dispatch_id)
            raise CallboardError(
                "launch_failed",
                f"no run can be started in {str(folder.root)!r}: {error.strerror}",
                "check free space, permissions and the limit of processes, then: callboard run",
                {"dispatch_id": dispatch_id, "run_id": run_id, "errno": error.errno},
            ) from error
        except CallboardError as error:
            if error.code == "run_exists":
                return Launch(dispatch_id, "run_exists")
            self._rule_out(dispatch_id)
            raise
        return Launch(dispatch_id, "launched", run_id)

    def _rule_out(self, dispatch_id: str) -> None:
        """Put up the fence behind a launch that failed, so that others need not wait for us."""
        site = self.site
        site.registry.void(site.key, dispatch_id, self.run_id, now_ms=site.clock.now_ms())

    def _prepare(self, dispatch_id: str, run_id: str, folder: RunFolder) -> None:
        site = self.site
        profile = site.publisher.refresh().projection.dispatches[dispatch_id].profile
        site.registry.prepare(
            repository=site.key,
            dispatch_id=dispatch_id,
            sender_run_id=self.run_id,
            workflow=profile.workflow,
            ref=profile.ref,
            workspace=folder.work,
            now_ms=site.clock.now_ms(),
            run_id=run_id,
        )

    def _spawn(self, dispatch_id: str, run_id: str, folder: RunFolder, log: IO[bytes]) -> None:
        """Start the supervisor in a session of its own: it outlives this process."""
        site = self.site
        argv = [
            sys.executable,
            "-m",
            SUPERVISOR_MODULE,
            "--repository",
            str(site.repository.git_dir),
            "--branch",
            site.branch,
            "--config",
            str(site.folders.config),
            "--state",
            str(site.folders.state),
            "--dispatch",
            dispatch_id,
            "--run",
            run_id,
        ]
        if site.remote is not None:
            argv += ["--remote", site.remote.name, "--remote-timeout", f"{site.remote.timeout_s:g}"]
        process = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=folder.root,
            env=self._environment,
            start_new_session=True,
        )
        _launched.append(process)

    @staticmethod
    def reap() -> None:
        """Collect the supervisors of this process that have ended."""
        _launched[:] = [one for one in _launched if one.poll() is None]
