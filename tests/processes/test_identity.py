"""Which process a record means."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from callboard.errors import CallboardError
from callboard.processes import identity as identity_module
from callboard.processes.identity import (
    ProcessIdentity,
    current,
    look,
    of,
    state,
    why_unknown,
)
from tests.waiting import until

EARLIER_BOOT = "0123abcd-0000-4000-8000-0123456789ab"


@pytest.fixture(autouse=True)
def machine_id(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that has an id of its own, as not every container does."""
    path = tmp_path / "machine-id"
    path.write_text("0123456789abcdef0123456789abcdef\n")
    monkeypatch.setattr(identity_module, "MACHINE_ID_FILE", path)


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "600"]) as process:
        yield process
        process.kill()


def identity_of(pid: int) -> ProcessIdentity:
    identity = of(pid)
    assert identity is not None
    return identity


def test_this_process_is_alive_and_equal_to_itself() -> None:
    assert state(current()) == "alive"
    assert current() == of(os.getpid())
    assert current().pid == os.getpid()


def test_the_start_agrees_with_what_psutil_says(sleeper: subprocess.Popen[bytes]) -> None:
    facts = look(sleeper.pid)
    assert facts is not None
    ticks = os.sysconf("SC_CLK_TCK")
    since_boot = psutil.Process(sleeper.pid).create_time() - psutil.boot_time()
    assert facts.started == pytest.approx(since_boot * ticks, abs=1)
    assert facts.parent == os.getpid()
    assert (facts.group, facts.session) == (os.getpgid(0), os.getsid(0))


def test_an_identity_survives_json() -> None:
    identity = current()
    text = json.dumps(identity.document())
    assert ProcessIdentity.from_document(json.loads(text)) == identity


def test_a_process_that_ended_is_dead_also_while_nobody_asked_for_its_outcome() -> None:
    process = subprocess.Popen(["sleep", "600"])
    identity = identity_of(process.pid)
    assert state(identity) == "alive"
    process.kill()
    until(lambda: state(identity) == "dead")
    facts = look(process.pid)
    assert facts is not None
    assert facts.ended
    process.wait()
    assert look(process.pid) is None
    assert state(identity) == "dead"


def test_a_process_whose_first_thread_ended_is_alive(tmp_path: Path) -> None:
    # The first thread leaves by itself; the other one waits until its input closes.
    program = (
        "import ctypes, os, threading\n"
        "threading.Thread(target=lambda: (os.read(0, 1), os._exit(0))).start()\n"
        "ctypes.CDLL(None).pthread_exit(None)\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE) as process:
        identity = identity_of(process.pid)
        stat = Path(f"/proc/{process.pid}/task/{process.pid}/stat")
        until(lambda: b") Z" in stat.read_bytes())
        assert state(identity) == "alive"
        assert process.stdin is not None
        process.stdin.close()
        until(lambda: state(identity) == "dead")


@pytest.mark.parametrize("pid", ["sleeper", "1"])
def test_a_number_given_to_a_later_process_is_dead(
    sleeper: subprocess.Popen[bytes], pid: str
) -> None:
    # The record of a process whose number a live, unrelated one bears now (also pid 1).
    identity = identity_of(sleeper.pid if pid == "sleeper" else int(pid))
    earlier = dataclasses.replace(identity, started=identity.started + 1)
    assert state(earlier) == "dead"
    assert state(dataclasses.replace(earlier, boot_id=EARLIER_BOOT)) == "dead"
    assert state(identity) == "alive"
    assert sleeper.poll() is None


def test_an_earlier_boot_of_this_machine_is_dead() -> None:
    assert state(dataclasses.replace(current(), boot_id=EARLIER_BOOT)) == "dead"


@pytest.mark.parametrize("boot_id", ["another", "boot-1700000000", EARLIER_BOOT.upper()])
def test_another_boot_that_no_kernel_names_is_unknown_and_says_why(boot_id: str) -> None:
    foreign = dataclasses.replace(current(), boot_id=boot_id)
    assert state(foreign) == "unknown"
    assert "nothing proves that it was this machine" in why_unknown(foreign)


def test_another_boot_of_a_host_that_only_its_name_tells_is_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for path in (tmp_path / "none", tmp_path / "empty"):
        monkeypatch.setattr(identity_module, "MACHINE_ID_FILE", path)
        foreign = dataclasses.replace(current(), boot_id=EARLIER_BOOT)
        assert state(foreign) == "unknown"
        assert state(current()) == "alive"
        (tmp_path / "empty").write_text("\n")


@pytest.mark.parametrize("field", ["host", "pid_namespace"])
def test_another_host_or_namespace_is_unknown_and_says_why(field: str) -> None:
    foreign = ProcessIdentity.from_document({**current().document(), field: "other"})
    assert state(foreign) == "unknown"
    assert "'other'" in why_unknown(foreign)
    assert why_unknown(current()) == ""


def test_another_boot_elsewhere_is_unknown() -> None:
    foreign = dataclasses.replace(current(), host="other", boot_id="another")
    assert state(foreign) == "unknown"


@pytest.mark.parametrize("pid", [0, -1, 2**31, 2**70])
def test_numbers_that_no_process_has(pid: int) -> None:
    assert of(pid) is None


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("pid", 0),
        ("pid", -1),
        ("pid", True),
        ("pid", "1"),
        ("started", -1),
        ("started", 1.5),
        ("host", ""),
        ("boot_id", 7),
        ("pid_namespace", "x" * 257),
    ],
)
def test_a_faulty_record_is_refused_by_field(field: str, value: object) -> None:
    with pytest.raises(CallboardError) as refused:
        ProcessIdentity.from_document({**current().document(), field: value})
    assert refused.value.code == "identity_invalid"
    assert refused.value.details == {"pointer": f"/{field}"}


@pytest.mark.parametrize("value", [None, [], {}, {"pid": 1}, "1"])
def test_a_record_of_another_shape_is_refused(value: object) -> None:
    with pytest.raises(CallboardError, match="identity_invalid"):
        ProcessIdentity.from_document(value)
