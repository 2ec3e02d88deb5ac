"""One bounded call of a program: no terminal, and no wait for what stays behind."""

from __future__ import annotations

import os
import pty
import sys
from pathlib import Path

import pytest

from callboard.board.storage.git_child import Ended, run_child
from callboard.board.storage.remote_refusals import without_secrets
from tests.ambient import ROOT
from tests.waiting import until


def run(*command: str, timeout_s: float = 30.0, limit_bytes: int = 1000) -> Ended:
    return run_child(
        command,
        cwd=Path("/"),
        environment=os.environ,
        timeout_s=timeout_s,
        limit_bytes=limit_bytes,
    )


def test_it_tells_how_it_ended_and_what_was_said() -> None:
    ended = run("sh", "-c", "echo answer; echo words >&2; exit 3")
    assert ended == Ended(3, b"answer\n", "words")


def test_an_answer_is_bounded_and_only_the_last_words_are_kept() -> None:
    ended = run("sh", "-c", "seq 100000; seq 100000 >&2", limit_bytes=10)
    assert ended.output == b"1\n2\n3\n4\n5\n"
    assert (ended.status, ended.is_cut) == (0, True)
    assert len(ended.said) <= 1000
    assert ended.said.endswith("99999\n100000")
    # No word is halved, not even the first that is left.
    assert ended.said.split()[0] == str(100001 - len(ended.said.split()))


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("'https://user:p@ss@host/x.git': no", "'https://host/x.git': no"),
        ("https://user@host/a@b", "https://host/a@b"),
        ("ssh://git@host:22/x", "ssh://host:22/x"),
        ("https://u:a?b#c@host/x", "https://host/x"),
        ("https://host/x?access_token=abc&b=c denied", "https://host/x?*** denied"),
        ("https://u:p@host?t=a@b/c", "https://b/c"),
        ("https://host/x#token", "https://host/x#***"),
        ("https://a:b@one/ https://c:d@two/?e", "https://one/ https://two/?***"),
        ("why? a=b @ all", "why? a=b @ all"),
        ("unable to look up user:pw@127.0.0.1 (port 1)", "unable to look up 127.0.0.1 (port 1)"),
        ("connect to host git@host port 22", "connect to host git@host port 22"),
    ],
)
def test_what_is_secret_in_an_address_is_not_told(said: str, shown: str) -> None:
    assert without_secrets(said) == shown


@pytest.mark.parametrize("space", [" ", "\n"])
def test_no_cut_lets_a_secret_pass(space: str) -> None:
    address = f"at{space}https://user:secret@host/x.git?token=secret{space}"
    for behind in range(1000 - len(address), 1001):
        ended = run("sh", "-c", f"printf '%s' '{address}{'.' * behind}' >&2")
        assert "secret" not in without_secrets(ended.said)


@pytest.mark.parametrize("stream", ["1", "2"])
def test_a_flood_is_stopped_long_before_its_time(stream: str) -> None:
    ended = run("sh", "-c", f"exec yes >&{stream}", timeout_s=600.0)
    assert (ended.status, ended.is_cut) == (None, True)
    assert len(ended.output) <= 1000


@pytest.mark.parametrize("has_pidfd", [True, False])
def test_a_call_whose_time_is_up_leaves_nobody(
    has_pidfd: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not has_pidfd:
        monkeypatch.delattr(os, "pidfd_open", raising=False)
    deaf = "trap '' TERM; echo $$; while :; do sleep 0.1; done"
    ended = run("sh", "-c", f'sh -c "{deaf.replace("$", chr(92) + "$")}" & wait', timeout_s=1.0)
    assert ended.status is None
    pid = int(ended.output)
    until(lambda: not is_running(pid))


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state not in "ZX"


@pytest.mark.parametrize("has_pidfd", [True, False])
def test_a_status_is_told_without_pidfd_too(
    has_pidfd: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not has_pidfd:
        monkeypatch.delattr(os, "pidfd_open", raising=False)
    assert run("sh", "-c", "sleep 0.6; exit 3").status == 3


def test_there_is_nothing_to_read_from() -> None:
    assert run("cat").output == b""


def test_what_stays_behind_keeps_nobody_waiting() -> None:
    ended = run("sh", "-c", "sleep 600 & echo $!", timeout_s=20.0)
    assert ended.status == 0
    os.kill(int(ended.output), 9)


def test_a_program_that_is_not_there() -> None:
    with pytest.raises(OSError, match="nowhere"):
        run("/nowhere")


def test_a_child_cannot_ask_at_our_terminal() -> None:
    script = (
        "from tests.board.storage.test_git_child import run\n"
        "open('/dev/tty').close()\n"
        "ended = run('sh', '-c', 'exec 3< /dev/tty')\n"
        "print('status', ended.status != 0)\n"
    )
    pid, terminal = pty.fork()
    if pid == 0:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT / "src"), str(ROOT)))}
        os.execve(sys.executable, [sys.executable, "-c", script], environment)
    said = b""
    with os.fdopen(terminal, "rb", buffering=0) as stream:
        try:
            while data := stream.read(1000):
                said += data
        except OSError:
            # The terminal is gone with its last process.
            pass
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0, said
    assert b"status True" in said
