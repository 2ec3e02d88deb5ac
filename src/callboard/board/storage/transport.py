"""Git's own way to a remote: look, fetch and push through the user's `git`, as it is configured.

Connections, credentials and proxies are the user's; nobody is ever asked for anything. Decisions
rest on exit statuses, on the two machine-readable outputs and on refs, never on Git's words. It
runs no hook, forces nothing, and writes no ref but the one it is told.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TypeVar

from callboard.board.storage.git_child import Ended, run_child
from callboard.board.storage.remote_refusals import (
    OUTAGES,
    cannot_run,
    remote_invalid,
    remote_timeout,
    remote_unknown,
    remote_unreachable,
    too_much_said,
)
from callboard.board.storage.repository import Repository
from callboard.errors import CallboardError

DEFAULT_TIMEOUT_S = 60.0
MAX_NAME_CHARACTERS = 100
_NAME = re.compile(rf"[A-Za-z0-9_][A-Za-z0-9_.-]{{0,{MAX_NAME_CHARACTERS - 1}}}")
_ANSWER_BYTES = 4 * 1024 * 1024
_NO_REF = 2
_MAX_TIPS = 1_000
_MOST_REASONS = 8
_LONGEST_REASON = 500
_FIRST_PAUSE_S = 0.2
_NO_MATCH = 1
"""How `git config` ends where nothing stands under the names it was asked for."""
_LONGEST_PAUSE_S = 10.0
T = TypeVar("T")

# Settings of a command line win over those of any file, whoever wrote it.
_SETTINGS = (
    f"core.hooksPath={os.devnull}",
    "core.askPass=",
    "core.fsmonitor=false",
    "core.logAllRefUpdates=false",
    "credential.interactive=false",
    "fetch.prune=false",
    "fetch.pruneTags=false",
    "fetch.recurseSubmodules=false",
    "fetch.writeCommitGraph=false",
    "gc.auto=0",
    "maintenance.auto=false",
    "push.followTags=false",
    "push.gpgSign=false",
    "push.negotiate=false",
    "submodule.recurse=false",
)
# What a user says to Git about connections. All other variables of Git's name another repository,
# or another way to work, and are those of whoever called us.
_KEPT = re.compile(
    r"GIT_(?:SSH|SSH_COMMAND|SSH_VARIANT|PROXY_COMMAND|PROXY_SSL_\w+|SSL_\w+|HTTP_\w+"
    r"|ALLOW_PROTOCOL|PROTOCOL_FROM_USER|CONFIG_GLOBAL|CONFIG_SYSTEM|CONFIG_NOSYSTEM)"
)
_ASKING = ("SSH_ASKPASS", "DISPLAY", "WAYLAND_DISPLAY")
_QUIET_SSH = "ssh -o BatchMode=yes"


@dataclass(frozen=True, slots=True)
class RemoteAccess:
    """How a board on a remote is reached.

    `name` is that of a remote which the repository has configured, `environment` what the user's
    `git` is run in, `timeout_s` the most one call may take. `offline`: only what was fetched
    before is read, and nothing is written. `outage_s`: how long a remote out of reach is waited for
    before that is an error.
    """

    name: str
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    timeout_s: float = DEFAULT_TIMEOUT_S
    offline: bool = False
    outage_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Update:
    """One ref that a push is to move from `old` (None: it must not exist) to the object `new`."""

    ref: str
    old: str | None
    new: str


def check_remote_name(name: str) -> str:
    """Answer `name`, or refuse with `remote_invalid` what is no plain name of a remote."""
    plain = _NAME.fullmatch(name) is not None
    if not plain or ".." in name or name.endswith((".", ".lock")):
        raise remote_invalid(name)
    return name


def connection_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables of `environment` that say something to Git about connections."""
    return {name: value for name, value in environment.items() if _KEPT.fullmatch(name)}


class Transport:
    """One remote of one repository, thread-safe.

    Raises `git_missing` or `remote_invalid`; every call also `remote_unknown` where the repository
    has no remote of that name, and `remote_unreachable` where git cannot be run.
    """

    def __init__(self, repository: Repository, access: RemoteAccess) -> None:
        self.remote = check_remote_name(access.name)
        self.timeout_s = access.timeout_s
        variables = access.environment
        search_path = variables.get("PATH") or os.defpath
        found = shutil.which("git", path=search_path)
        if found is None:
            raise CallboardError(
                "git_missing", "there is no `git` on the search path", "install Git 2.31 or newer"
            )
        self._outage_s = access.outage_s
        self._repository = repository
        self._git_dir = repository.git_dir
        # A remote that is a relative path is meant from here.
        self._cwd = repository.work_tree or repository.git_dir
        self._command = [found, "--git-dir", str(repository.git_dir)]
        for setting in (*_SETTINGS, f"remote.{self.remote}.mirror=false"):
            self._command += ["-c", setting]
        self._environment = {
            name: value
            for name, value in variables.items()
            if name not in _ASKING and not name.startswith("GIT_")
        }
        self._environment |= connection_variables(variables)
        self._environment |= {
            "PATH": search_path,
            "GIT_ASKPASS": "",
            "GIT_NO_REPLACE_OBJECTS": "1",
            "GIT_TERMINAL_PROMPT": "0",
            "SSH_ASKPASS_REQUIRE": "never",
        }

    def look(self, *refs: str) -> dict[str, str]:
        """What the remote's refs of exactly these names hold; those it lacks are left out.

        Raises `remote_unreachable` or `remote_timeout`.
        """
        ended = self._connect("ls-remote", ["--quiet", "--exit-code", self.remote, *refs])
        if ended.status == _NO_REF:
            return {}
        self._require(ended, "asked what it holds")
        return {ref: oid for oid, ref in _pairs(ended.output) if ref in refs}

    def default_branch(self) -> str | None:
        """The short name of the remote's default branch; None where it does not tell."""
        arguments = ["--quiet", "--symref", self.remote, "HEAD"]
        ended = self._connect("ls-remote", arguments)
        self._require(ended, "asked for its default branch")
        prefix = "ref: refs/heads/"
        for target, ref in _pairs(ended.output):
            if ref == "HEAD" and target.startswith(prefix):
                return target.removeprefix(prefix)
        return None

    def fetch(self, *refspecs: str) -> bool:
        """Fetch exactly `refspecs`; whether all of them came.

        No tag, no FETCH_HEAD, no remote-tracking ref. Raises `remote_timeout`.
        """
        ended = self._connect(
            "fetch",
            [
                "--quiet", "--no-write-fetch-head", "--no-tags", "--no-prune",
                "--no-recurse-submodules", "--no-auto-maintenance", "--refmap=",
                self.remote, *refspecs,
            ],
        )  # fmt: skip
        if ended.status is None:
            raise remote_timeout(self.remote, "fetched from", self.timeout_s)
        return ended.status == 0

    def tidy(self) -> None:
        """Pack the loose objects that refs of this clone lead to; no pack is touched.

        It is housekeeping: where it fails, or takes too long, nothing is lost but room.
        """
        with contextlib.suppress(CallboardError):
            self._run("repack", ["-d", "-l", "-n", "-q"])

    def push(self, updates: Sequence[Update]) -> Ended:
        """Push `updates`, each of which the remote takes only where the ref still is at `old`.

        Every `new` of a ref that exists must be made upon its `old`, so that nothing is ever
        forced: the lease narrows an ordinary push, which would also revive a ref that was set
        back or removed. The status is 0 only if all were taken, None where the time was up; then,
        and for any other status, only the remote's refs tell what happened. So too much of an
        answer is no refusal here.
        """
        arguments = [
            "--porcelain", "--no-verify", "--no-signed", "--no-follow-tags",
            "--recurse-submodules=no", "--thin",
            *(f"--force-with-lease={one.ref}:{one.old or ''}" for one in updates),
            self.remote,
            *(f"{one.new}:{one.ref}" for one in updates),
        ]  # fmt: skip
        ended = self._call("push", arguments, self._ready)
        # The remote's reasons are in the answer, not among what is said. They are for people.
        answers = ended.output.decode("utf-8", "replace").split("\n")
        reasons = [one for one in answers if one.startswith("!") and len(one) <= _LONGEST_REASON]
        reasons = reasons[:_MOST_REASONS]
        return replace(ended, said="\n".join([ended.said, *reasons]).strip())

    def is_pushed(self, commit: str) -> bool:
        """Whether `commit` is on a branch of the remote, as far as that can be told from here.

        A branch that has moved on to commits which this clone lacks does not count.
        """
        tracking = f"refs/remotes/{self.remote}/"
        ended = self._run("for-each-ref", ["--count=1", f"--contains={commit}", tracking])
        if ended.output:
            return True
        ended = self._connect("ls-remote", ["--quiet", "--heads", self.remote])
        self._require(ended, "asked for its branches")
        tips = [oid for oid, _ref in _pairs(ended.output)]
        known = [oid for oid in tips[:_MAX_TIPS] if self._repository.holds(oid)]
        if not known:
            return False
        ended = self._run("rev-list", ["--max-count=1", commit, "--not", *known])
        return ended.status == 0 and not ended.output

    def patiently(self, ask: Callable[[], T]) -> T:
        """What `ask` answers, asked again after growing pauses while the remote is out of reach.

        For `outage_s` of the access, which is no time at all unless it says otherwise.
        """
        deadline = time.monotonic() + self._outage_s
        pause_s = _FIRST_PAUSE_S
        while True:
            try:
                return ask()
            except CallboardError as error:
                if error.code not in OUTAGES or time.monotonic() + pause_s >= deadline:
                    raise
            threading.Event().wait(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    @cached_property
    def _ready(self) -> dict[str, str]:
        """The environment of a call, once it is known that git has this remote.

        Asked of git, as the remote may stand in any file it reads, and so may the user's `ssh`.
        """
        name = re.escape(self.remote)
        pattern = rf"^(remote\.{name}\.url|core\.sshcommand)$"
        ended = self._run("config", ["--null", "--get-regexp", pattern])
        if ended.status != _NO_MATCH:
            self._require(ended, "asked for its address")
        keys = {one.split(b"\n", 1)[0] for one in ended.output.split(b"\0")}
        if f"remote.{self.remote}.url".encode() not in keys:
            raise remote_unknown(self.remote, str(self._git_dir))
        environment = dict(self._environment)
        if b"core.sshcommand" not in keys and not {"GIT_SSH", "GIT_SSH_COMMAND"} & set(environment):
            environment["GIT_SSH_COMMAND"] = _QUIET_SSH
        return environment

    def _connect(self, name: str, arguments: Sequence[str]) -> Ended:
        return self._run(name, arguments, self._ready)

    def _run(
        self, name: str, arguments: Sequence[str], environment: Mapping[str, str] | None = None
    ) -> Ended:
        """Half an answer is none: what is missing from it would read as absent."""
        ended = self._call(name, arguments, environment)
        if ended.is_cut:
            raise too_much_said(self.remote, name, _ANSWER_BYTES)
        return ended

    def _call(
        self, name: str, arguments: Sequence[str], environment: Mapping[str, str] | None
    ) -> Ended:
        try:
            return run_child(
                [*self._command, name, *arguments],
                cwd=self._cwd,
                environment=self._environment if environment is None else environment,
                timeout_s=self.timeout_s,
                limit_bytes=_ANSWER_BYTES,
            )
        except OSError as error:
            raise cannot_run(self.remote, name, error) from error

    def _require(self, ended: Ended, what: str) -> None:
        if ended.status is None:
            raise remote_timeout(self.remote, what, self.timeout_s)
        if ended.status != 0:
            raise remote_unreachable(self.remote, ended.status, ended.said)


def _pairs(output: bytes) -> list[tuple[str, str]]:
    """The lines `value TAB name` of an answer."""
    lines = output.decode("utf-8", "surrogateescape").split("\n")
    parted = (line.partition("\t") for line in lines)
    return [(value, name) for value, tab, name in parted if tab]
