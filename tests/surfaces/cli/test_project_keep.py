"""`callboard project claim keep`: a claim outlives its time while a command runs, and not a loss.

Each keeper is a process of its own, as is whoever wants the same work.
"""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import psutil
import pytest

from callboard.project.project import Project
from callboard.project.records import Claim
from tests.surfaces.project.shared import Shared

Keep = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def shared(tmp_path: Path) -> Shared:
    return Shared(tmp_path / "demo").begin()


@pytest.fixture
def keep(shared: Shared) -> Iterator[Keep]:
    """Starts keepers, and ends those that a test leaves."""
    running: list[subprocess.Popen[str]] = []

    def start(
        session: str, ttl_ms: int, *command: str, options: tuple[str, ...] = ()
    ) -> subprocess.Popen[str]:
        words = ("claim", "keep", "--session", session, "--ttl-ms", str(ttl_ms), *options)
        running.append(shared.start(*words, "--", *command))
        return running[-1]

    yield start
    for one in running:
        one.kill()
        one.communicate()


def line(process: subprocess.Popen[str]) -> str:
    """The next line that the command prints."""
    assert process.stdout is not None
    return process.stdout.readline().strip()


def end(process: subprocess.Popen[str]) -> tuple[int, str]:
    """How it ended, and what it said on standard error."""
    _out, err = process.communicate(timeout=60)
    return process.returncode, err


def held(shared: Shared, work: str = "A") -> Claim:
    """The claim on the work as it is now."""
    with Project.open(shared.folder) as project:
        found = project.claims.show(work).claim
    assert found is not None
    return found


SLEEP = (sys.executable, "-c", "import sys, time; print('up', flush=True); time.sleep(60)")


# --- while it lasts --------------------------------------------------------------------------


def test_a_blocking_command_keeps_its_lease(shared: Shared, keep: Keep) -> None:
    """C-04: two seconds of lease, eight of work; others are refused until the end."""
    session = shared.session("B", ttl_ms=2_000)
    begun = time.monotonic()
    process = keep(session, 2_000, "sh", "-c", "echo up; sleep 8; exit 7")
    assert line(process) == "up"
    shared.ask("evidence", "add", "--kind", "test", "--summary", "green", "--session", session)
    for moment in (3, 5, 7):
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(begun + moment - time.monotonic())
        other = ("session", "start", "--work", "B", "--agent", "other", "--claim")
        assert shared.refused(*other) == "claim_held"
    assert end(process) == (7, "")
    assert held(shared, "B").session == session
    # Only who holds it still is taken at their word.
    shared.ask("work", "complete", "B", "--session", session)
    shared.ask("session", "end", "--session", session, "--outcome", "accepted")
    assert "claim.expired" not in [one["type"] for one in shared.events()]


def test_it_never_ends_a_claim_earlier_than_it_would_have(shared: Shared, keep: Keep) -> None:
    long, endless = shared.session("A", ttl_ms=600_000), shared.session("B")
    before = held(shared).expires_at_ms
    assert end(keep(long, 1_000, "true")) == (0, "")
    assert held(shared).expires_at_ms == before
    assert end(keep(endless, 1_000, "true")) == (0, "")
    assert held(shared, "B").expires_at_ms is None


def test_without_renewals_it_is_shown_as_lapsed(shared: Shared) -> None:
    """C-04, the other way round: whoever looks sees that nobody holds it any more."""
    shared.session("A", ttl_ms=1)
    assert held(shared).state == "expired"
    assert "lapsed at" in shared.call("claim", "show", "--work", "A").stdout
    assert shared.ask("status")["counts"]["claims"] == {"expired": 1}


RENEWER = """
import sys, time
from callboard.project.project import Project
with Project.open(sys.argv[1]) as project:
    sessions = [project.sessions.start(f"W{number}", "many", claim=True, ttl_ms=3000).session.id
                for number in range(20)]
    print("up", flush=True)
    end = time.monotonic() + 7
    while time.monotonic() < end:
        for session in sessions:
            project.claims.renew(session, 3000)
"""


def test_renewals_come_in_time_whatever_else_is_renewed(tmp_path: Path, keep: Keep) -> None:
    """C-05: a lease of 3 s beside one of 300 s, and 20 others renewed without a pause."""
    items = "".join(f"  - id: W{number}\n    title: w\n" for number in range(20))
    shared = Shared(tmp_path / "demo").begin(
        f"work_items:\n  - id: A\n    title: a\n  - id: B\n    title: b\n{items}"
    )
    two = shared.session("B", ttl_ms=300_000)
    with subprocess.Popen(
        [sys.executable, "-c", RENEWER, str(shared.folder)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parent,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    ) as others:
        assert others.stdout is not None
        assert others.stdout.readline() == "up\n"
        far = keep(two, 300_000, *SLEEP)
        # Its three seconds begin here, when all others are there.
        one = shared.session("A", ttl_ms=3_000)
        near = keep(one, 3_000, "sh", "-c", "sleep 6")
        assert end(near) == (0, "")
    far.terminate()
    assert end(far)[0] == -signal.SIGTERM
    renewed = shared.events("--work", "A", "--type", "claim.renewed")
    moments = [event["at_ms"] for event in renewed]
    gaps = [after - before for before, after in pairwise(moments)]
    assert len(gaps) >= 4
    assert max(gaps) < 1_500, gaps
    assert len(shared.events("--work", "A", "--type", "claim.acquired")) == 1
    assert len(shared.events("--work", "B", "--type", "claim.renewed")) == 1


def test_it_stands_in_the_place_of_its_command(shared: Shared, keep: Keep) -> None:
    session = shared.session("A")
    assert end(keep(session, 60_000, "sh", "-c", "kill -USR1 $$"))[0] == -signal.SIGUSR1
    program = (
        "import signal, sys\n"
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(5))\n"
        "print('up', flush=True)\n"
        "signal.pause()\n"
    )
    process = keep(session, 60_000, sys.executable, "-c", program)
    assert line(process) == "up"
    process.terminate()
    assert end(process) == (5, "")
    assert held(shared).state == "active"


def test_json_tells_how_it_went(shared: Shared, keep: Keep) -> None:
    session = shared.session("A")
    process = keep(session, 60_000, "sh", "-c", "echo said; exit 3", options=("--json",))
    out, err = process.communicate(timeout=60)
    found = json.loads(out)
    assert (process.returncode, err) == (3, "said\n")
    assert (found["state"], found["exit_status"], found["renewals"]) == ("kept", 3, 1)
    assert found["claim"]["session"] == session
    assert found["project_revision"] == shared.ask("status")["project_revision"]


def test_the_first_renewal_takes_a_revision_and_a_request(shared: Shared, keep: Keep) -> None:
    session = shared.session("A", ttl_ms=60_000)
    revision = shared.ask("status")["project_revision"]
    stale = ("--expected-revision", str(revision - 1))
    status, said = end(keep(session, 60_000, "touch", "begun", options=stale))
    assert status == 1
    assert f"the project is at revision {revision}, not at {revision - 1}" in said
    assert "code: revision_conflict" in said
    assert not (shared.folder / "begun").exists()
    named = ("--expected-revision", str(revision), "--request-id", "k1")
    for count in (1, 2):
        assert end(keep(session, 60_000, "sh", "-c", "echo x >> ran", options=named)) == (0, "")
        assert (shared.folder / "ran").read_text() == "x\n" * count
    receipt = shared.ask("receipt", "show", "k1")["receipt"]
    assert (receipt["operation"], receipt["revision"]) == ("claim renew", revision + 1)
    # Once under its name, and each time for the command.
    assert len(shared.events("--type", "claim.renewed")) == 3
    other = shared.session("B", ttl_ms=60_000)
    process = keep(other, 60_000, "true", options=("--request-id", "k1"))
    assert "code: request_conflict" in end(process)[1]


def test_who_holds_nothing_starts_nothing(shared: Shared, tmp_path: Path) -> None:
    started = tmp_path / "started"
    session = shared.session("A")
    shared.ask("claim", "release", "--session", session)
    words = ("claim", "keep", "--json", "--session", session, "--ttl-ms")
    for ttl, code in (
        ("5000", "claim_not_holder"),
        *((wrong, "ttl_invalid") for wrong in ("0", "-1", "249", "1.5", str(2**53))),
    ):
        answer = shared.call(*words, ttl, "--", "touch", str(started))
        assert answer.error["code"] == code
    assert not started.exists()


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("no-such-command", "command_not_found"),
        ("./no-such-command", "command_not_found"),
        ("./plain", "command_not_executable"),
        (".", "command_not_executable"),
    ],
)
def test_a_command_that_cannot_be_run_leaves_the_claim_as_it_is(
    shared: Shared, keep: Keep, command: str, code: str
) -> None:
    (shared.folder / "plain").write_text("no program")
    session = shared.session("A", ttl_ms=600_000)
    before, revision = held(shared), shared.ask("status")["project_revision"]
    process = keep(session, 5_000, command, options=("--json", "--request-id", "k1"))
    out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (1, "")
    assert json.loads(out)["error"]["code"] == code
    assert held(shared) == before
    assert shared.ask("status")["project_revision"] == revision


def test_what_the_system_takes_for_no_program_is_refused(shared: Shared, keep: Keep) -> None:
    """Only trying tells that; the claim was renewed by then."""
    program = shared.folder / "odd"
    program.write_bytes(b"\x00\x01")
    program.chmod(0o700)
    process = keep(shared.session("A"), 5_000, "./odd", options=("--json",))
    out, _err = process.communicate(timeout=60)
    assert process.returncode == 1
    assert json.loads(out)["error"]["code"] == "command_not_executable"


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nothing ends a command so")
def test_a_killed_keeper_takes_its_command_along(shared: Shared, keep: Keep) -> None:
    process = keep(shared.session("A"), 600_000, *SLEEP)
    assert line(process) == "up"
    (program,) = psutil.Process(process.pid).children()
    process.kill()
    assert psutil.wait_procs([program], timeout=10)[1] == []


def test_a_command_that_may_go_on_outlives_its_keeper(shared: Shared, keep: Keep) -> None:
    words = ("import sys; print('up', flush=True); print(sys.stdin.readline(), flush=True)",)
    process = keep(
        shared.session("A"), 600_000, sys.executable, "-c", *words, options=("--let-run",)
    )
    assert line(process) == "up"
    process.kill()
    process.wait()
    assert process.stdin is not None
    process.stdin.write("on\n")
    process.stdin.flush()
    assert line(process) == "on"


def test_a_command_gets_the_signals_as_they_are(shared: Shared, keep: Keep) -> None:
    program = (
        "import re, signal, sys\n"
        "found = dict(re.findall(r'(Sig\\w+):\\s+(\\w+)', open('/proc/self/status').read()))\n"
        "bits = int(found['SigIgn'], 16)\n"
        "print([n for n in (1, 2, 15) if bits >> (n - 1) & 1], flush=True)\n"
    )
    if sys.platform == "linux":
        process = keep(shared.session("A"), 60_000, sys.executable, "-c", program)
        assert line(process) == "[]"
        assert end(process) == (0, "")
    assert end(keep(shared.session("B"), 60_000, "sh", "-c", "kill -PIPE $$"))[0] == -signal.SIGPIPE


# --- when it is lost -------------------------------------------------------------------------


def test_a_command_is_stopped_at_once_when_its_claim_is_released(
    shared: Shared, keep: Keep
) -> None:
    session = shared.session("A")
    process = keep(session, 600_000, *SLEEP)
    assert line(process) == "up"
    begun = time.monotonic()
    shared.ask("claim", "release", "--session", session)
    status, err = end(process)
    assert time.monotonic() - begun < 10
    assert status == 1
    assert "the claim is lost" in err
    assert "code: claim_lost" in err


def test_a_takeover_is_told_with_the_new_holder(shared: Shared, keep: Keep) -> None:
    session = shared.session("A")
    process = keep(session, 600_000, *SLEEP, options=("--json",))
    # With --json what the command says goes to standard error.
    assert process.stderr is not None
    assert process.stderr.readline() == "up\n"
    shared.ask("session", "handoff", "--session", session, "--agent", "claude")
    out, err = process.communicate(timeout=60)
    error = json.loads(out)["error"]
    assert process.returncode == 1
    assert (error["code"], error["details"]["state"]) == ("claim_lost", "lost")
    assert "'claude' holds the work now" in err


def test_what_the_command_started_is_stopped_too(shared: Shared, keep: Keep) -> None:
    session = shared.session("A")
    stubborn = "import signal, time; signal.signal(15, 1); print('up', flush=True); time.sleep(60)"
    process = keep(
        session,
        600_000,
        "sh",
        "-c",
        f'{sys.executable} -c "{stubborn}"; echo over',
        options=("--grace-ms", "100"),
    )
    assert line(process) == "up"
    (shell,) = psutil.Process(process.pid).children()
    (program,) = shell.children()
    shared.ask("claim", "release", "--session", session)
    assert end(process)[0] == 1
    assert psutil.wait_procs([program], timeout=10)[1] == []


def test_let_run_only_says_so(shared: Shared, keep: Keep) -> None:
    session = shared.session("A")
    process = keep(session, 600_000, "sh", "-c", "echo up; read x; exit 4", options=("--let-run",))
    assert line(process) == "up"
    shared.ask("claim", "release", "--session", session)
    assert process.stderr is not None
    assert process.stderr.readline().startswith("the claim is lost")
    assert process.stdin is not None
    process.stdin.write("go\n")
    assert end(process)[0] == 4


def test_a_lease_that_cannot_be_renewed_is_told_as_lapsed(shared: Shared, keep: Keep) -> None:
    """Whoever has the database does not let go of it: the timer waits for nobody."""
    session = shared.session("A", ttl_ms=6_000)
    process = keep(session, 1_500, *SLEEP)
    assert line(process) == "up"
    holder = sqlite3.connect(shared.folder / ".callboard" / "project.db", isolation_level=None)
    holder.execute("PRAGMA busy_timeout = 10000")
    holder.execute("BEGIN IMMEDIATE")
    try:
        begun = time.monotonic()
        status, err = end(process)
    finally:
        holder.close()
    assert time.monotonic() - begun < 15
    assert status == 1
    assert "trying again: busy" in err
    assert "the claim is lost: lapsed" in err


def test_a_short_lock_costs_no_claim(shared: Shared, keep: Keep) -> None:
    session = shared.session("A", ttl_ms=8_000)
    process = keep(session, 4_000, "sh", "-c", "echo up; read x; exit 0")
    assert line(process) == "up"
    holder = sqlite3.connect(shared.folder / ".callboard" / "project.db", isolation_level=None)
    holder.execute("PRAGMA busy_timeout = 10000")
    holder.execute("BEGIN IMMEDIATE")
    # Longer than the first renewal waits, and shorter than the lease.
    assert process.stderr is not None
    assert "busy" in process.stderr.readline()
    holder.close()
    before = held(shared).expires_at_ms
    deadline = time.monotonic() + 30
    while held(shared).expires_at_ms == before:
        assert time.monotonic() < deadline
    assert process.stdin is not None
    process.stdin.write("go\n")
    assert end(process) == (0, "")
    assert held(shared).fence == 1


def test_a_claim_that_was_lost_is_answered_as_it_is_now(shared: Shared, keep: Keep) -> None:
    session = shared.session("A")
    options = ("--let-run", "--json")
    process = keep(session, 600_000, "sh", "-c", "echo up >&2; read x; exit 0", options=options)
    assert process.stderr is not None
    assert process.stderr.readline() == "up\n"
    shared.ask("claim", "release", "--session", session)
    assert process.stderr.readline().startswith("the claim is lost")
    out, _err = process.communicate("go\n", timeout=60)
    document = json.loads(out)
    assert (document["state"], document["claim"]["state"]) == ("lost", "released")
