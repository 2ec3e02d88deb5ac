"""Which process a record speaks of, told apart from a later one with the same number.

A process is its pid, its start time, the boot it lives in, its host and its pid namespace
(wire-v3 §10). Nothing here sends a signal; where a record comes from elsewhere the answer is
`unknown`, never a guess.
"""

from __future__ import annotations

import os
import re
import socket
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import psutil

from callboard.errors import CallboardError

Liveness = Literal["alive", "dead", "unknown"]

MACHINE_ID_FILE = Path("/etc/machine-id")
_KERNEL_BOOT_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_MAX_PID = 2**31 - 1
_MAX_TEXT = 256
# A process in one of these states has ended; only its parent has not asked for the outcome yet.
_ENDED_STATES = frozenset("ZXx")


@dataclass(frozen=True, slots=True)
class ProcessFacts:
    """What the kernel says about a process at one moment.

    `started` counts the kernel's clock ticks from boot to the start of the process; systems
    without /proc give the microseconds of the start time instead. Either is exact for as long as
    the machine is up, and both are compared for equality only.
    """

    pid: int
    started: int
    parent: int
    group: int
    session: int
    ended: bool

    @property
    def key(self) -> tuple[int, int]:
        """What tells this process from all others of the same boot."""
        return self.pid, self.started


@dataclass(frozen=True, slots=True)
class ProcessIdentity:
    """One process, never to be taken for another. Equal identities are the same process."""

    pid: int
    started: int
    boot_id: str
    host: str
    pid_namespace: str

    def document(self) -> dict[str, object]:
        """The JSON form, read back by `from_document`."""
        return {
            "pid": self.pid,
            "started": self.started,
            "boot_id": self.boot_id,
            "host": self.host,
            "pid_namespace": self.pid_namespace,
        }

    @classmethod
    def from_document(cls, value: object) -> ProcessIdentity:
        """Read the JSON form. Raises `CallboardError` `identity_invalid` naming the field."""
        if not isinstance(value, Mapping) or set(value) != set(cls.__slots__):
            raise _invalid("", "is not an object with exactly the five fields of an identity")
        return cls(
            pid=_number(value, "pid", least=1, most=_MAX_PID),
            started=_number(value, "started", least=0, most=2**53 - 1),
            boot_id=_text(value, "boot_id"),
            host=_text(value, "host"),
            pid_namespace=_text(value, "pid_namespace"),
        )


def of(pid: int) -> ProcessIdentity | None:
    """The identity of the process `pid` of this host and namespace; None when there is none."""
    facts = look(pid)
    if facts is None:
        return None
    return ProcessIdentity(pid, facts.started, _boot_id(), _host(), _pid_namespace())


def current() -> ProcessIdentity:
    """The identity of the calling process."""
    identity = of(os.getpid())
    if identity is None:
        raise CallboardError(
            "process_view_foreign",
            f"the process table does not show this process, {os.getpid()}",
            "mount /proc for this PID namespace",
        )
    return identity


def state(identity: ProcessIdentity) -> Liveness:
    """Whether the process still runs, as far as this process can know.

    A record of another host or pid namespace is `unknown`; so is one of another boot, unless it is
    proven that this very machine was started anew since: then it is `dead`. A number that was given
    to a later process, and a zombie, are `dead`.
    """
    if identity.host != _host():
        return "unknown"
    if identity.boot_id != _boot_id():
        return "dead" if _was_rebooted(identity) else "unknown"
    if identity.pid_namespace != _pid_namespace():
        return "unknown"
    facts = look(identity.pid)
    if facts is None:
        return "unknown" if _hidden(identity.pid) else "dead"
    if facts.started != identity.started or facts.ended:
        return "dead"
    return "alive"


def why_unknown(identity: ProcessIdentity) -> str:
    """Words for a person on why `state` says `unknown`; empty where it does not."""
    if state(identity) != "unknown":
        return ""
    if identity.host != _host():
        return f"process {identity.pid} was recorded on host {identity.host!r}, this is {_host()!r}"
    if identity.boot_id != _boot_id():
        return (
            f"process {identity.pid} was recorded before a start of {identity.host!r}, and nothing "
            "proves that it was this machine: that takes a machine id and the kernel's boot ids"
        )
    if identity.pid_namespace != _pid_namespace():
        return (
            f"process {identity.pid} was recorded in pid namespace {identity.pid_namespace!r}, "
            f"this is {_pid_namespace()!r}"
        )
    return f"the system hides process {identity.pid} from this user"


def look(pid: int) -> ProcessFacts | None:
    """The facts of the process `pid`, from one reading; None when there is none to be seen."""
    if not 1 <= pid <= _MAX_PID:
        return None
    if sys.platform == "linux":
        return _look_linux(pid)
    return _look_portable(pid)


def _look_linux(pid: int) -> ProcessFacts | None:
    # psutil adds the boot time to the start time, and the boot time moves when the clock is set.
    try:
        line = Path(f"/proc/{pid}/stat").read_bytes()
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return None
    # The command name stands in parentheses and may hold spaces and parentheses itself.
    fields = line[line.rindex(b")") + 2 :].split()
    ended = chr(fields[0][0]) in _ENDED_STATES and not _has_living_thread(pid)
    parent, group, session = (int(field) for field in fields[1:4])
    return ProcessFacts(pid, int(fields[19]), parent, group, session, ended)


def _has_living_thread(pid: int) -> bool:
    """Whether a process whose first thread has ended goes on in another one."""
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return False
    for thread in threads:
        try:
            line = Path(f"/proc/{pid}/task/{thread}/stat").read_bytes()
        except OSError:
            continue
        if chr(line[line.rindex(b")") + 2]) not in _ENDED_STATES:
            return True
    return False


def _look_portable(pid: int) -> ProcessFacts | None:
    try:
        process = psutil.Process(pid)
        with process.oneshot():
            ended = process.status() in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
            started = round(process.create_time() * 1_000_000)
            parent = process.ppid()
        return ProcessFacts(pid, started, parent, os.getpgid(pid), os.getsid(pid), ended)
    except (psutil.Error, ProcessLookupError, PermissionError):
        return None


def _hidden(pid: int) -> bool:
    """Whether a process exists that /proc does not show, as under the mount option hidepid."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return look(pid) is None


def _boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    except OSError:
        return f"boot-{int(psutil.boot_time())}"


def _was_rebooted(identity: ProcessIdentity) -> bool:
    """Whether a record of another boot is of this machine's past. Names are shared and cloned, and
    a boot that is known by its time moves with the clock, so that neither proves anything."""
    boots = (identity.boot_id, _boot_id())
    return bool(_machine()) and all(_KERNEL_BOOT_ID.fullmatch(boot) for boot in boots)


def _machine() -> str:
    try:
        return MACHINE_ID_FILE.read_text("ascii").strip()[:64]
    except (OSError, UnicodeDecodeError):
        return ""


def _host() -> str:
    """The host's name, with the machine id where there is one: names alone are often shared."""
    machine = _machine()
    name = socket.gethostname()[:128] or "localhost"
    return f"{name}/{machine}" if machine else name


def _pid_namespace() -> str:
    try:
        shown = os.readlink("/proc/self")
        namespace = os.readlink("/proc/self/ns/pid")
    except OSError:
        return "none"
    if shown != str(os.getpid()):
        raise CallboardError(
            "process_view_foreign",
            f"/proc shows this process as {shown}, but it is {os.getpid()}",
            "mount /proc for this PID namespace",
        )
    return namespace


def _number(value: Mapping[str, object], name: str, *, least: int, most: int) -> int:
    found = value[name]
    if type(found) is not int or not least <= found <= most:
        raise _invalid(f"/{name}", f"is {str(found)[:40]!r}, not an integer {least}..{most}")
    return found


def _text(value: Mapping[str, object], name: str) -> str:
    found = value[name]
    if not isinstance(found, str) or not 1 <= len(found) <= _MAX_TEXT:
        raise _invalid(f"/{name}", f"is not a text of 1..{_MAX_TEXT} characters")
    return found


def _invalid(pointer: str, what: str) -> CallboardError:
    return CallboardError(
        "identity_invalid",
        f"a process identity's {pointer or 'record'} {what}",
        "the record was not written by this program; look at the run registry",
        {"pointer": pointer},
    )
