"""The harness itself: what it runs, what it compares, what it refuses."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs import console

FENCE = "```"


def page(*lines: str) -> str:
    return "\n".join(lines).replace("'''", FENCE) + "\n"


def faults(text: str, folder: Path) -> list[str]:
    env = console.reader_environment(folder / "home")
    work = folder / "work"
    work.mkdir()
    outcomes = console.run(console.steps(text, "page.md"), work, env)
    return [fault for outcome in outcomes if (fault := outcome.fault())]


def test_a_page_is_one_session(tmp_path: Path) -> None:
    text = page(
        "<!-- file: sub/greeting.txt -->",
        "'''text",
        "hello $USER",
        "'''",
        "'''console",
        "$ cd sub && export NAME=Ada",
        "$ cat greeting.txt",
        "hello $USER",
        "'''",
        "Between them.",
        "",
        "'''console",
        "$ cat greeting.txt - <<END",
        "> and $NAME",
        "> END",
        "hello ...",
        "and Ada",
        "'''",
    )
    assert faults(text, tmp_path) == []


def test_output_is_compared_where_the_page_shows_some(tmp_path: Path) -> None:
    text = page("'''console", "$ echo silent", "$ echo one; echo two; echo three", "one", "...")
    assert faults(text + FENCE, tmp_path) == []


def test_other_output_is_a_fault_with_a_difference(tmp_path: Path) -> None:
    found = faults(page("'''console", "$ echo two", "one", "'''"), tmp_path)
    assert len(found) == 1
    assert "line 2: $ echo two" in found[0]
    assert "one" in found[0]


def test_standard_error_counts_as_output(tmp_path: Path) -> None:
    assert faults(page("'''console", "$ echo oops >&2", "oops", "'''"), tmp_path) == []


def test_the_session_stops_at_the_first_command_that_fails(tmp_path: Path) -> None:
    found = faults(
        page("'''console", "$ exit_3() { return 3; }; exit_3", "$ touch later", "'''"), tmp_path
    )
    assert len(found) == 1
    assert "ended with 3, not 0" in found[0]
    assert not (tmp_path / "work" / "later").exists()


def test_an_announced_exit_status_is_required(tmp_path: Path) -> None:
    text = page("<!-- exit: 3 -->", "'''console", "$ true", "$ (exit 3)", "'''")
    assert faults(text, tmp_path) == []


def test_an_announced_exit_status_that_does_not_come_is_a_fault(tmp_path: Path) -> None:
    found = faults(page("<!-- exit: 3 -->", "'''console", "$ true", "'''"), tmp_path)
    assert len(found) == 1
    assert "ended with 0, not 3" in found[0]


def test_a_command_that_ends_the_shell_is_a_fault(tmp_path: Path) -> None:
    found = faults(page("'''console", "$ exit 0", "$ echo more", "'''"), tmp_path)
    assert len(found) == 1
    assert "did not end" in found[0]


def test_a_page_that_hangs_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(console, "PAGE_TIMEOUT_S", 0.2)
    found = faults(
        page("'''console", "$ echo first", "first", "$ tail -f /dev/null", "'''"), tmp_path
    )
    assert len(found) == 1
    assert "line 4: $ tail -f /dev/null\ndid not end" in found[0]


def test_blocks_that_are_not_run_are_left_out() -> None:
    text = page(
        "<!-- not-run: needs a second machine -->",
        "",
        "'''bash",
        "reboot",
        "'''",
        "'''python",
        "print(1)",
        "'''",
    )
    assert console.steps(text, "page.md") == []


@pytest.mark.parametrize(
    ("lines", "fault"),
    [
        (["<!-- not-run: -->", "'''console", "$ true", "'''"], "needs its value"),
        (["'''bash", "true", "'''"], "make it `console`"),
        (["'''console", "true", "'''"], "page.md:2: expected `$ `"),
        (["'''console", "'''"], "has no command"),
        (["'''console", "$ true"], "never closed"),
        (["<!-- exit: three -->", "'''console", "$ true", "'''"], "not a number"),
        (["<!-- exit: 1 -->", "'''toml", "a = 1", "'''"], "without commands"),
        (["<!-- file: ../a -->", "'''toml", "a = 1", "'''"], "not a plain path"),
    ],
)
def test_a_page_that_cannot_be_run_as_written_is_refused(lines: list[str], fault: str) -> None:
    with pytest.raises(console.PageError, match=r"page\.md:\d") as caught:
        console.steps(page(*lines), "page.md")
    assert fault in str(caught.value)
