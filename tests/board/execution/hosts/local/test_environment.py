"""What a run may see of the environment outside."""

from __future__ import annotations

from pathlib import Path

from callboard.board.execution.hosts.local.environment import run_environment

OUTER = {
    "PATH": "/bin:/usr/bin",
    "HOME": "/home/ada",
    "TMPDIR": "/home/ada/tmp",
    "LANG": "de_DE.UTF-8",
    "LC_TIME": "C",
    "TERM": "xterm",
    "TZ": "Europe/Berlin",
    "GIT_DIR": "/elsewhere/.git",
    "GIT_ASKPASS": "/usr/bin/askpass",
    "CALLBOARD_RUN_ID": "7",
    "SSH_AUTH_SOCK": "/run/agent",
    "AWS_SECRET_ACCESS_KEY": "s3cret",
    "MODEL_KEY": "for the worker",
}


def test_plain_names_and_the_allowed_pass_and_nothing_else() -> None:
    seen = run_environment(
        ["MODEL_KEY", "NOT_SET"],
        OUTER,
        {"CALLBOARD_ASSIGNMENT": "/run/7/assignment.json"},
        home=Path("/run/7/home"),
        temporary=Path("/run/7/tmp"),
    )
    assert seen == {
        "PATH": "/bin:/usr/bin",
        "HOME": "/run/7/home",
        "TMPDIR": "/run/7/tmp",
        "LANG": "de_DE.UTF-8",
        "LC_TIME": "C",
        "TERM": "xterm",
        "TZ": "Europe/Berlin",
        "MODEL_KEY": "for the worker",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "CALLBOARD_ASSIGNMENT": "/run/7/assignment.json",
    }


def test_what_the_host_sets_cannot_be_allowed_from_outside() -> None:
    allowed = ["HOME", "TMPDIR", "GIT_DIR", "GIT_ASKPASS", "CALLBOARD_RUN_ID"]
    seen = run_environment(allowed, OUTER, {}, home=Path("/h"), temporary=Path("/t"))
    assert (seen["HOME"], seen["TMPDIR"]) == ("/h", "/t")
    assert not {"GIT_DIR", "GIT_ASKPASS", "CALLBOARD_RUN_ID"} & set(seen)


def test_without_a_path_the_usual_one_is_given() -> None:
    seen = run_environment([], {}, {}, home=Path("/h"), temporary=Path("/t"))
    assert seen["PATH"] == "/usr/local/bin:/usr/bin:/bin"
